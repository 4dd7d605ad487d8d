package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestMain(m *testing.M) {
	if filepath.Base(os.Args[0]) == "gh" {
		if err := playGH(os.Args[1:]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// playGH is the command gh over a file of issues. It knows what this command asks of it.
func playGH(args []string) error {
	file := os.Getenv("PLAYED_ISSUES")
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	var issues []issue
	if err := json.Unmarshal(text, &issues); err != nil {
		return err
	}
	flags := make(map[string]string)
	for i, arg := range args[:len(args)-1] {
		flags[arg] = args[i+1]
	}
	body, err := io.ReadAll(os.Stdin)
	if err != nil {
		return err
	}
	switch what := strings.Join(args[:2], " "); {
	case what == "label create" && args[2] == label && slices.Contains(args, "--force"):
		return nil
	case what == "issue list" && flags["--state"] == "open" && flags["--json"] == "number,title,body,comments" && flags["--label"] == label:
		fmt.Println(string(text))
		return nil
	case what == "issue create" && flags["--label"] == label && flags["--body-file"] == "-":
		if len(flags["--title"]) > 256 {
			return errors.New("title is too long (maximum is 256 characters)")
		}
		issues = append(issues, issue{Number: len(issues) + 1, Title: flags["--title"], Body: string(body)})
		fmt.Printf("https://github.com/relock-go/relock/issues/%d\n", len(issues))
	case what == "issue comment" && flags["--body-file"] == "-":
		for i := range issues {
			if fmt.Sprint(issues[i].Number) == args[2] {
				issues[i].Comments = append(issues[i].Comments, struct{ Body string }{string(body)})
			}
		}
	default:
		return fmt.Errorf("unknown command %q", args)
	}
	text, err = json.Marshal(issues)
	if err != nil {
		return err
	}
	return os.WriteFile(file, text, 0o600)
}

// withGH puts such a gh into the path, and returns what it then has.
func withGH(t *testing.T) (issues func() []issue) {
	t.Helper()
	dir := t.TempDir()
	self, err := os.Executable()
	require.NoError(t, err)
	require.NoError(t, os.Symlink(self, filepath.Join(dir, "gh")))
	file := filepath.Join(dir, "issues.json")
	require.NoError(t, os.WriteFile(file, []byte("[]"), 0o600))
	t.Setenv("PATH", dir)
	t.Setenv("PLAYED_ISSUES", file)
	return func() (all []issue) {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		require.NoError(t, json.Unmarshal(text, &all))
		return all
	}
}

func titles(found []finding) (list []string) {
	for _, f := range found {
		list = append(list, f.title)
	}
	return list
}

// Both workers found the same, with numbers of their own: it is one issue. The next week finds it with another seed.
func TestASeedIsFiledOnceAndItsLikesBelowIt(t *testing.T) {
	issues := withGH(t)
	t.Setenv("GITHUB_SHA", "0123abcd")
	t.Setenv("GITHUB_SERVER_URL", "https://github.com")
	t.Setenv("GITHUB_REPOSITORY", "relock-go/relock")
	t.Setenv("GITHUB_RUN_ID", "77")

	require.NoError(t, run([]string{"seeds", "testdata/seeds.log"}, true))
	require.Len(t, issues(), 1)
	filed := issues()[0]
	require.Equal(t, "Simulation: node N grants the lock to pN with ticket @N, but pN listens with @N", filed.Title)
	require.Contains(t, filed.Body, "\n    make sim SEED=1795683990000:mixed:alone FAULTS='p3 n0 acquire orders-2 #2 run twice;event 2 kill@816.040375ms' ROUNDS='p3a0r3@")
	require.Contains(t, filed.Body, "\n    make sim SEED=1795683990000:mixed:alone\n")
	require.Contains(t, filed.Body, "\n    make sim SEED=2895195617777:mixed:pair\n")
	require.Contains(t, filed.Body, "Found at 0123abcd with go")
	require.Contains(t, filed.Body, "https://github.com/relock-go/relock/actions/runs/77")

	require.NoError(t, run([]string{"seeds", "testdata/seeds.log"}, true))
	require.Equal(t, []issue{filed}, issues(), "nothing new")

	log, err := os.ReadFile("testdata/seeds.log")
	require.NoError(t, err)
	again := filepath.Join(t.TempDir(), "seeds.log")
	require.NoError(t, os.WriteFile(again, []byte(strings.ReplaceAll(string(log), "1795683990000", "1799999999999")), 0o600))
	require.NoError(t, run([]string{"seeds", again}, true))
	require.Len(t, issues(), 1)
	require.Len(t, issues()[0].Comments, 1)
	require.Contains(t, issues()[0].Comments[0].Body, "make sim SEED=1799999999999:mixed:alone\n")
}

// A process that panics does not name its seed, and one that hangs has no plan.
func TestPanicsAndHangsAreFindings(t *testing.T) {
	log, err := os.ReadFile("testdata/panic.log")
	require.NoError(t, err)
	found := merged(seeds(string(log)))
	require.Equal(t, []string{"Simulation: panic: assignment to entry in nil map [recovered, repanicked]"}, titles(found))
	require.Contains(t, found[0].text, "    github.com/relock-go/relock.(*hold).end(")
	require.Contains(t, found[0].text, " -lasting=1h -from=1795684504000\n")

	found = seeds("=== RUN   TestSimulation\nseed 7 gets nowhere: 0 entries of its trace in 30s of real time\n\ngoroutine 1\n\nagain: make sim SEED=7:net:alone\n")
	require.Equal(t, []string{"Simulation: gets nowhere"}, titles(found))
	require.True(t, strings.HasSuffix(found[0].text, "\n    make sim SEED=7:net:alone"))
}

func TestAVulnerabilityIsFiledOnceForAllModules(t *testing.T) {
	issues := withGH(t)
	for range 2 {
		require.NoError(t, run([]string{"vulnerabilities", "testdata/vulnerabilities.log"}, true))
		require.Len(t, issues(), 2)
		require.Empty(t, issues()[0].Comments)
	}
	require.Equal(t, "Vulnerability: GO-2026-9002, A trial: a handshake leaks in crypto/tls", issues()[0].Title)
	require.Contains(t, issues()[0].Body, "called in `.`, `contrib/relockgocron`.")
	require.Equal(t, "Vulnerability: GO-2026-9001, A trial: parsing a URL hangs in github.com/redis/rueidis", issues()[1].Title)
	require.Contains(t, issues()[1].Body, "called in `.`.")
	require.Contains(t, issues()[1].Body, "\n    Found in: github.com/redis/rueidis@v1.0.79\n    Fixed in: github.com/redis/rueidis@v1.0.99\n")
}

// A run that broke before it found anything is not taken for a run without findings.
func TestALogWithoutFindingsFails(t *testing.T) {
	issues := withGH(t)
	log := filepath.Join(t.TempDir(), "log")
	require.NoError(t, os.WriteFile(log, []byte("make: *** No rule to make target 'sim'.  Stop.\n"), 0o600))
	for _, sort := range []string{"seeds", "vulnerabilities"} {
		require.ErrorContains(t, run([]string{sort, log}, true), "the run itself has failed")
	}
	require.ErrorContains(t, run([]string{"bugs", log}, true), `no log is called "bugs"`)
	require.ErrorContains(t, run([]string{"seeds"}, true), "usage")
	require.ErrorIs(t, run([]string{"seeds", log + "2"}, true), os.ErrNotExist)
	require.Empty(t, issues())
}

func TestGHsRefusalIsTold(t *testing.T) {
	withGH(t)
	t.Setenv("PLAYED_ISSUES", "/nowhere")
	require.ErrorContains(t, run([]string{"seeds", "testdata/seeds.log"}, true), "gh label create: exit status 1: open /nowhere")
}

// What is too long for GitHub is cut, and the seed stays.
func TestLongFindingsFitAnIssue(t *testing.T) {
	long := strings.Repeat("é", 30_000)
	found := seeds("  world_test.go:148: seed 7: net, alone\n  " + long + "\n  again: make sim SEED=7:net\n  again: make sim SEED=7:net FAULTS='" + long + "'\n")
	require.Len(t, found, 1)
	require.Less(t, len(found[0].title), 256)
	require.True(t, strings.HasSuffix(found[0].title, "é…"))
	require.Less(t, len(found[0].text), 65_000)
	require.Contains(t, found[0].text, "\n    make sim SEED=7:net")
}
