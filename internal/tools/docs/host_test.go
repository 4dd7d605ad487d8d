package docs

import (
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Each workflow calls only targets and programs that are there, so that all it does can be run here too. It pins its actions,
// ends in time, and has no right that it does not name.
func TestWorkflowsCallWhatExists(t *testing.T) {
	files, err := filepath.Glob(".github/workflows/*.yml")
	require.NoError(t, err)
	require.GreaterOrEqual(t, len(files), 3)
	for _, file := range files {
		text := textOf(t, file)
		require.Contains(t, text, "\npermissions: {}\n", "%s: each job names its rights", file)
		require.Contains(t, text, "\nconcurrency:\n", file)
		jobs := regexp.MustCompile(`(?m)^    runs-on:`).FindAllString(text, -1)
		require.NotEmpty(t, jobs, file)
		for _, each := range []string{`(?m)^    timeout-minutes: \d+$`, `(?m)^    permissions:\n      contents: read$`, `persist-credentials: false`} {
			require.Len(t, regexp.MustCompile(each).FindAllString(text, -1), len(jobs), "%s: %s for each job", file, each)
		}
		for _, action := range regexp.MustCompile(`uses: (.+)`).FindAllStringSubmatch(text, -1) {
			require.Regexp(t, `^[\w-]+/[\w-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+$`, action[1], file)
		}
		for _, run := range regexp.MustCompile(`run: (.*)`).FindAllStringSubmatch(text, -1) {
			for command := range strings.SplitSeq(run[1], "|") {
				requireCallable(t, file, strings.Fields(command))
			}
		}
		for _, with := range regexp.MustCompile(`go-version: (1.+?)( #.*)?\n`).FindAllStringSubmatch(text, -1) {
			require.Contains(t, textOf(t, "go.mod"), "\ngo "+strings.TrimSuffix(with[1], "x"), file)
		}
	}
}

// requireCallable fails for a command that is neither make with its targets, nor a script or a program of the tree.
func requireCallable(t *testing.T, file string, words []string) {
	t.Helper()
	require.NotEmpty(t, words, "%s: a step is one line", file)
	switch {
	case words[0] == "make":
		for _, word := range words[1:] {
			if !strings.ContainsAny(word, "=>&") {
				require.Contains(t, targets(t), word, file)
			}
		}
	case words[0] == "tee":
	case len(words) > 2 && words[0] == "go" && words[1] == "run":
		require.FileExists(t, filepath.Join(words[2], "main.go"), file)
	default:
		info, err := os.Stat(words[0])
		require.NoError(t, err, file)
		require.NotZero(t, info.Mode()&0o100, "%s: %s is no program", file, words[0])
	}
}

// Documents and .ci/run name only targets that the Makefile has.
func TestDocumentsNameTargetsThatExist(t *testing.T) {
	named := regexp.MustCompile("(?:`|\n)make ([a-z][a-z-]*)|\nbegin \\w+ (.+)")
	count := 0
	for _, file := range append(documents(t), ".ci/run", ".github/pull_request_template.md") {
		for _, names := range named.FindAllStringSubmatch(textOf(t, file), -1) {
			for _, target := range strings.Fields(names[1] + names[2]) {
				count++
				require.Contains(t, targets(t), target, file)
			}
		}
	}
	require.Greater(t, count, 50)
}

// targets are those of the Makefile.
func targets(t *testing.T) (list []string) {
	t.Helper()
	for _, line := range regexp.MustCompile(`(?m)^([a-z][a-z -]*):.* ## `).FindAllStringSubmatch(textOf(t, "Makefile"), -1) {
		list = append(list, strings.Fields(line[1])...)
	}
	require.Contains(t, list, "test")
	return list
}

// Dependencies of every module are watched.
func TestDependabotWatchesEveryModule(t *testing.T) {
	var watched []string
	gomod, actions, found := strings.Cut(textOf(t, ".github/dependabot.yml"), "- package-ecosystem: github-actions")
	require.True(t, found)
	require.Contains(t, actions, "directory: /\n")
	for _, folder := range regexp.MustCompile(`(?m)^(?:      - |    directory: )/(.*)$`).FindAllStringSubmatch(gomod, -1) {
		watched = append(watched, path.Clean(folder[1]))
	}
	require.ElementsMatch(t, modules(t), watched)
}

// make lint and make vuln go through the Makefile's MODULES, and make contrib and others through what lies below contrib.
func TestMakefileHasEveryModule(t *testing.T) {
	list := regexp.MustCompile(`(?m)^MODULES := (.+)$`).FindStringSubmatch(textOf(t, "Makefile"))
	require.NotNil(t, list)
	contrib, err := filepath.Glob("contrib/*")
	require.NoError(t, err)
	require.ElementsMatch(t, modules(t), strings.Fields(strings.ReplaceAll(list[1], "$(CONTRIB)", filepath.ToSlash(strings.Join(contrib, " ")))))
}

// modules are the directories that go.work joins: those of all modules in the tree.
func modules(t *testing.T) (dirs []string) {
	t.Helper()
	for _, use := range regexp.MustCompile(`(?m)^\t(\..*)$`).FindAllStringSubmatch(textOf(t, "go.work"), -1) {
		dirs = append(dirs, path.Clean(use[1]))
	}
	var there []string
	require.NoError(t, filepath.WalkDir(".", func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && name != "." && (strings.HasPrefix(entry.Name(), ".") || entry.Name() == "testdata" || entry.Name() == "target"):
			return fs.SkipDir
		case entry.Name() == "go.mod":
			there = append(there, path.Dir(filepath.ToSlash(name)))
		}
		return nil
	}))
	require.ElementsMatch(t, there, dirs, "go.work")
	return dirs
}

// Forms and templates link to pages of the tree, and to forms, that are there. A form has no field of the same name twice.
func TestFormsLinkToWhatExists(t *testing.T) {
	files, err := filepath.Glob(".github/ISSUE_TEMPLATE/*.yml")
	require.NoError(t, err)
	require.Len(t, files, 4)
	const host = "https://github.com/relock-go/relock/"
	for _, file := range append(files, ".github/pull_request_template.md", "SECURITY.md") {
		text := textOf(t, file)
		for _, link := range regexp.MustCompile(`https://github\.com/[^\s)]*`).FindAllString(text, -1) {
			page, ours := strings.CutPrefix(link, host)
			require.True(t, ours, "%s: %s", file, link)
			if form, is := strings.CutPrefix(page, "issues/new?template="); is {
				require.FileExists(t, ".github/ISSUE_TEMPLATE/"+form, file)
			} else if page, is := strings.CutPrefix(page, "blob/main/"); is {
				name, anchor, _ := strings.Cut(page, "#")
				require.FileExists(t, name, file)
				if anchor != "" {
					require.Contains(t, anchorsOf(textOf(t, name)), anchor, file)
				}
			} else {
				require.Contains(t, []string{"security/advisories/new", "security/policy"}, page, file)
			}
		}
		seen := make(map[string]bool)
		for _, id := range regexp.MustCompile(`(?m)^    id: (.+)$`).FindAllStringSubmatch(text, -1) {
			require.False(t, seen[id[1]], "%s: %s", file, id[1])
			seen[id[1]] = true
		}
		for _, option := range regexp.MustCompile(`relock\.(With\w+)`).FindAllStringSubmatch(text, -1) {
			require.Contains(t, textOf(t, "docs/api/relock.txt"), option[1], file)
		}
	}
}

func textOf(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	return string(text)
}
