package main

import (
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

var day = time.Date(2026, 12, 1, 23, 0, 0, 0, time.UTC)

// asTool is set where the test's program is to be the tool itself.
const asTool = "RELOCK_RELEASE_TOOL"

// Commits of tests have a made-up author, and no signature. With -trimpath what is compiled here once serves for all copies of the tree.
func TestMain(m *testing.M) {
	flags, err := exec.Command("go", "env", "GOFLAGS").Output()
	if err != nil {
		panic(err)
	}
	for name, value := range map[string]string{
		"GOFLAGS": strings.TrimSpace(string(flags)) + " -trimpath", "MAKEFLAGS": "", "MAKELEVEL": "",
		"GIT_AUTHOR_NAME": "test", "GIT_AUTHOR_EMAIL": "test@example.org",
		"GIT_COMMITTER_NAME": "test", "GIT_COMMITTER_EMAIL": "test@example.org",
		"GIT_CONFIG_COUNT": "2", "GIT_CONFIG_KEY_0": "commit.gpgsign", "GIT_CONFIG_VALUE_0": "false",
		"GIT_CONFIG_KEY_1": "tag.gpgsign", "GIT_CONFIG_VALUE_1": "false",
	} {
		if err := os.Setenv(name, value); err != nil {
			panic(err)
		}
	}
	if os.Getenv(asTool) != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

// small is a repository of few modules, before its release v0.2.0.
var small = map[string]string{
	"go.mod":                          "module github.com/relock-go/relock\n\ngo 1.26.0\n",
	"cmd/relock/go.mod":               "module github.com/relock-go/relock/cmd/relock\n\ngo 1.26.0\n\nrequire github.com/relock-go/relock v0.1.0 // the library\n",
	"contrib/relocktest/go.mod":       "module github.com/relock-go/relock/contrib/relocktest\n\ngo 1.26.0\n\nrequire (\n\tgithub.com/relock-go/relock v0.1.0\n\tgithub.com/relock-go/relock/internal/sim v0.0.9\n)\n",
	"internal/sim/go.mod":             "module github.com/relock-go/relock/internal/sim\n\ngo 1.26.0\n\nrequire github.com/relock-go/relock v0.1.0\n",
	"internal/tools/api/go.mod":       "module github.com/relock-go/relock/internal/tools/api\n\ngo 1.26.0\n",
	"internal/tools/api/api_test.go":  "package api\n\nimport \"testing\"\n\nfunc TestAPIStays(t *testing.T) {}\n",
	"interop/go.mod":                  "module github.com/relock-go/relock/interop\n\ngo 1.26.0\n\nrequire github.com/relock-go/relock v0.0.0-00010101000000-000000000000\n\nreplace github.com/relock-go/relock => ../\n",
	"internal/sim/testdata/it/go.mod": "module it\n",
	"go.work":                         "go 1.26.0\n\nuse (\n\t.\n\t./cmd/relock\n\t./contrib/relocktest\n\t./internal/sim\n\t./internal/tools/api\n\t./interop\n)\n\n// The tree.\nreplace (\n\tgithub.com/relock-go/relock/contrib/relocktest v0.1.0 => ./contrib/relocktest\n\tgithub.com/relock-go/relock/internal/sim v0.1.0 => ./internal/sim\n)\n",
	"CHANGELOG.md":                    "# Changelog\n\n## Unreleased (v0.2.0)\n\nNews. `Lease.Drop` is gone: use `Unlock`.\n\n## v0.1.0 (2026-11-30)\n\nThe first. `Most` and `Few`.\n",
	"docs/api/relock.txt":             "// What github.com/relock-go/relock exports.\n\npackage relock\n\nconst Most = 3\n\ntype Lease struct {\n}\n\nfunc (*Lease) Drop()\n",
}

// smallTree has the small repository as v0.1.0, and on top of that the files of later, of which "" deletes.
func smallTree(t *testing.T, later map[string]string) tree {
	t.Helper()
	tr := tree{t.Context(), t.TempDir()}
	git(t, tr, "init", "--quiet", "--initial-branch", "main")
	for _, files := range []map[string]string{small, later} {
		for _, name := range slices.Sorted(maps.Keys(files)) {
			require.NoError(t, os.MkdirAll(filepath.Dir(tr.at(name)), 0o755))
			if files[name] == "" {
				require.NoError(t, os.Remove(tr.at(name)))
				continue
			}
			require.NoError(t, os.WriteFile(tr.at(name), []byte(files[name]), 0o644))
		}
		git(t, tr, "add", "--all")
		git(t, tr, "commit", "--quiet", "--allow-empty", "--message", "It")
		if files["go.mod"] != "" {
			git(t, tr, "tag", "v0.1.0")
		}
	}
	return tr
}

func git(t *testing.T, tr tree, args ...string) string {
	t.Helper()
	out, err := tr.git(args...)
	require.NoError(t, err)
	return out
}

// changed is a file of the small repository with old replaced by new.
func changed(name, old, new string) map[string]string {
	if !strings.Contains(small[name], old) {
		panic(name + " has no " + old)
	}
	return map[string]string{name: strings.ReplaceAll(small[name], old, new)}
}

func TestARelease(t *testing.T) {
	t.Parallel()
	tr := smallTree(t, nil)
	git(t, tr, "tag", "v0.2.0-rc.1") // by hand, and no release
	push, err := release(t.Context(), tr.dir, "v0.2.0", day)
	require.NoError(t, err)
	tags := []string{"cmd/relock/v0.2.0", "contrib/relocktest/v0.2.0", "v0.2.0", "internal/sim/v0.2.0"}
	require.Equal(t, "git push --atomic origin main", push[:len("git push --atomic origin main")])
	require.ElementsMatch(t, tags, strings.Fields(push)[5:])
	require.ElementsMatch(t, append(tags, "v0.1.0", "v0.2.0-rc.1"), strings.Fields(git(t, tr, "tag", "--list")))
	for _, tag := range tags {
		require.Equal(t, git(t, tr, "rev-parse", "HEAD"), git(t, tr, "rev-parse", tag+"^{commit}"), tag)
	}
	require.Empty(t, git(t, tr, "status", "--porcelain"))
	require.Equal(t, "Release v0.2.0", git(t, tr, "log", "-1", "--format=%s"))

	for name, now := range map[string]string{
		"cmd/relock/go.mod":         strings.ReplaceAll(small["cmd/relock/go.mod"], "v0.1.0", "v0.2.0"),
		"internal/sim/go.mod":       strings.ReplaceAll(small["internal/sim/go.mod"], "v0.1.0", "v0.2.0"),
		"contrib/relocktest/go.mod": strings.NewReplacer("v0.1.0", "v0.2.0", "v0.0.9", "v0.2.0").Replace(small["contrib/relocktest/go.mod"]),
		"go.work":                   strings.ReplaceAll(small["go.work"], "v0.1.0", "v0.2.0"),
		"CHANGELOG.md":              strings.Replace(small["CHANGELOG.md"], "Unreleased (v0.2.0)", "v0.2.0 (2026-12-01)", 1),
		"interop/go.mod":            small["interop/go.mod"],
		"go.mod":                    small["go.mod"],
	} {
		require.Equal(t, now, string(tr.read(name)), name)
	}
	_, err = release(t.Context(), tr.dir, "v0.2.0", day)
	require.ErrorContains(t, err, "tags are taken: cmd/relock/v0.2.0")
}

// What is wrong is told, and nothing has changed then.
func TestWhatIsNotReleased(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		later   map[string]string
		version string // v0.2.0 if it is ""
		told    string
	}{
		"no version":                {version: "0.2.0", told: `"0.2.0" is no version`},
		"half a version":            {version: "v0.2", told: "is no version"},
		"v2":                        {version: "v2.0.0", told: "/v2"},
		"v2 to come":                {version: "v2.0.0-rc.1", told: "/v2"},
		"a pre-release":             {version: "v0.2.0-rc.1", told: "there are no pre-releases"},
		"a version too far":         {version: "v0.20.0", told: "cannot follow v0.1.0: the next is v0.1.1, v0.2.0, v1.0.0"},
		"an older version":          {version: "v0.0.9", told: "cannot follow"},
		"a tag too few":             {changed("CHANGELOG.md", "## v0.1.0", "## v0.1.1 (2026-12-01)\n\nA fix.\n\n## v0.1.0"), "", `the last release is "v0.1.1" in CHANGELOG.md, and "v0.1.0" by the tags`},
		"no section":                {changed("CHANGELOG.md", "## Unreleased (v0.2.0)\n\nNews", "News"), "", "does not begin with a section ## Unreleased (v0.2.0)"},
		"another version's section": {changed("CHANGELOG.md", "(v0.2.0)", "(v0.3.0)"), "", "does not begin with a section"},
		"an empty section":          {changed("CHANGELOG.md", "News. `Lease.Drop` is gone: use `Unlock`.", ""), "", "says nothing of v0.2.0"},
		"no changelog":              {map[string]string{"CHANGELOG.md": ""}, "", "does not begin with a section"},
		"a replace":                 {changed("internal/sim/go.mod", "\n\nrequire", "\n\nreplace github.com/relock-go/relock => ../..\n\nrequire"), "", "internal/sim/go.mod replaces github.com/relock-go/relock"},
		"an exclude":                {changed("cmd/relock/go.mod", "\n\nrequire", "\n\nexclude example.org/m v1.0.0\n\nrequire"), "", "excludes example.org/m"},
		"outside of the workspace":  {changed("go.work", "\t./contrib/relocktest\n", ""), "", "contrib/relocktest is not in go.work"},
		"a wrong path":              {changed("cmd/relock/go.mod", "relock/cmd/relock", "relock/cmd/lock"), "", "not github.com/relock-go/relock/cmd/relock"},
		"what is not recorded":      {changed("internal/tools/api/api_test.go", "{}", "{ t.Fatal(\"New: changed\") }"), "", "New: changed"},
		"a break that is not named": {changed("docs/api/relock.txt", "Most = 3", "Most = 4"), "", "relock.Most: value changed from 3 to 4, since v0.1.0: CHANGELOG.md does not say"},
		"a package less":            {map[string]string{"docs/api/relock.txt": ""}, "", "relock.the package is gone"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tr := smallTree(t, test.later)
			head := git(t, tr, "rev-parse", "HEAD")
			if test.version == "" {
				test.version = "v0.2.0"
			}
			_, err := release(t.Context(), tr.dir, test.version, day)
			require.ErrorContains(t, err, test.told)
			require.Equal(t, head, git(t, tr, "rev-parse", "HEAD"))
			require.Equal(t, "v0.1.0", git(t, tr, "tag", "--list"))
			require.Empty(t, git(t, tr, "status", "--porcelain"))
		})
	}
}

func TestUncommittedFilesAreNotReleased(t *testing.T) {
	t.Parallel()
	tr := smallTree(t, nil)
	require.NoError(t, os.WriteFile(tr.at("new.go"), []byte("package relock\n"), 0o644))
	_, err := release(t.Context(), tr.dir, "v0.2.0", day)
	require.ErrorContains(t, err, "new.go")
}

func TestReleasesAreMadeOnMain(t *testing.T) {
	t.Parallel()
	tr := smallTree(t, nil)
	git(t, tr, "checkout", "--quiet", "-b", "side")
	_, err := release(t.Context(), tr.dir, "v0.2.0", day)
	require.ErrorContains(t, err, `releases are made on main, not on "side"`)
	git(t, tr, "checkout", "--quiet", "--detach")
	_, err = release(t.Context(), tr.dir, "v0.2.0", day)
	require.ErrorContains(t, err, `releases are made on main, not on ""`)
}

// Without tags a clone cannot tell which versions may follow, nor what breaks programs.
func TestAReleaseNeedsTheTags(t *testing.T) {
	t.Parallel()
	tr := smallTree(t, nil)
	git(t, tr, "tag", "--delete", "v0.1.0")
	_, err := release(t.Context(), tr.dir, "v0.7.0", day)
	require.ErrorContains(t, err, `the last release is "v0.1.0" in CHANGELOG.md, and "" by the tags`)
	require.Empty(t, git(t, tr, "tag", "--list"))
}

// A tag that cannot be made takes the commit and the other tags with it.
func TestAReleaseThatFailsIsTakenBack(t *testing.T) {
	t.Parallel()
	tr := smallTree(t, nil)
	git(t, tr, "tag", "internal/sim") // a file where the tag needs a directory
	head := git(t, tr, "rev-parse", "HEAD")
	_, err := release(t.Context(), tr.dir, "v0.2.0", day)
	require.ErrorContains(t, err, "internal/sim/v0.2.0")
	require.Equal(t, head, git(t, tr, "rev-parse", "HEAD"))
	require.Equal(t, "internal/sim\nv0.1.0", git(t, tr, "tag", "--list"))
	require.Empty(t, git(t, tr, "status", "--porcelain"))
}

// Ctrl-C reaches the tool, git and git's hooks. One while git commits ends the release, a second does not end its undoing.
func TestCtrlCTakesTheReleaseBack(t *testing.T) {
	t.Parallel()
	tr := smallTree(t, nil)
	head := git(t, tr, "rev-parse", "HEAD")
	for name, does := range map[string]string{
		"post-commit":           "echo made >.git/pressed; kill -s INT -- -$TOOL; sleep 60",
		"reference-transaction": "if [ -e .git/pressed ]; then echo again >>.git/pressed; kill -s INT -- -$TOOL; fi",
	} {
		require.NoError(t, os.WriteFile(tr.at(".git/hooks/"+name), []byte("#!/bin/sh\n"+does+"\n"), 0o755))
	}
	began := time.Now()
	cmd := exec.CommandContext(t.Context(), "sh", "-c", `TOOL=$$ exec "$@"`, "sh", os.Args[0], "v0.2.0")
	cmd.Dir, cmd.Env, cmd.SysProcAttr = tr.dir, append(os.Environ(), asTool+"=1"), &syscall.SysProcAttr{Setpgid: true}
	out, err := cmd.CombinedOutput()
	require.ErrorContains(t, err, "exit status 1", "%s", out)
	require.Contains(t, string(out), "v0.2.0 is not released")
	require.Less(t, time.Since(began), 50*time.Second, "the hook was waited for")
	require.Contains(t, string(tr.read(".git/pressed")), "made\nagain\n")
	require.Equal(t, head, git(t, tr, "rev-parse", "HEAD"))
	require.Equal(t, "v0.1.0", git(t, tr, "tag", "--list"))
	require.Empty(t, git(t, tr, "status", "--porcelain"))
}

// What may break follows from the versions, as docs/compatibility.md says.
func TestWhatMayBreak(t *testing.T) {
	breaks := []string{"(*Lease).Drop: removed"}
	for _, test := range []struct{ last, version, section, told string }{
		{"v0.1.0", "v0.2.0", "Use `Unlock` in place of `Lease.Drop`.", ""},
		{"v0.1.0", "v0.2.0", "Dropped: some.", "does not say what programs do about Drop"},
		{"v0.2.0", "v0.2.1", "`Lease.Drop`", "a patch release may not break"},
		{"v0.9.0", "v1.0.0", "`Lease.Drop`", ""},
		{"v1.2.0", "v1.3.0", "`Lease.Drop`", "no release from v1.0 on"},
	} {
		err := broken(test.version, test.last, test.section, "relock.txt", breaks)
		if test.told == "" {
			require.NoError(t, err, test)
			continue
		}
		require.ErrorContains(t, err, "relock.(*Lease).Drop: removed, since "+test.last, test)
		require.ErrorContains(t, err, test.told, test)
	}
	for _, what := range []string{"the package is gone", "what it exported cannot be: could not import X (no package X)"} {
		require.NoError(t, broken("v0.2.0", "v0.1.0", "`relockui` takes Y in place of X.", "relockui.txt", []string{what}))
		err := broken("v0.2.0", "v0.1.0", "What is gone will be back.", "relockui.txt", []string{what})
		require.ErrorContains(t, err, "does not say what programs do about relockui")
	}
}

func TestVersionsFollowOneAnother(t *testing.T) {
	for last, next := range map[string]string{
		"":       "v0.1.0 v0.7.3",
		"v0.1.0": "v0.1.1 v0.2.0 v1.0.0",
		"v1.4.9": "v1.4.10 v1.5.0",
	} {
		for version := range strings.FieldsSeq(next) {
			require.NoError(t, follows(version, last))
		}
	}
	for last, next := range map[string]string{
		"v0.1.0": "v0.1.0 v0.1.2 v0.3.0 v0.2.1",
		"v1.4.9": "v1.4.8 v1.6.0 v0.5.0",
	} {
		for version := range strings.FieldsSeq(next) {
			require.ErrorContains(t, follows(version, last), "cannot follow", version)
		}
	}
}

// make tidy goes through the modules that are released.
func TestTheMakefileKnowsWhatIsReleased(t *testing.T) {
	tr := tree{t.Context(), "../../.."}
	mods, err := tr.modules()
	require.NoError(t, err)
	out, err := tr.run(".", "make", "--silent", "--eval", "released: ; @echo . cmd/relock $(RELEASED)", "released")
	require.NoError(t, err)
	var dirs []string
	for _, m := range mods.all {
		if m.released {
			dirs = append(dirs, m.dir)
		}
	}
	require.ElementsMatch(t, dirs, strings.Fields(out))
	require.NoError(t, mods.releasable())
}
