// Package docs holds what the repository shows to what is there: documents, workflows and forms. It is tests alone.
package docs

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/stretchr/testify/require"
)

// Files are named by their paths from the top of the tree.
func TestMain(m *testing.M) {
	if err := os.Chdir("../../.."); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}

// The code that the README opens with is the body of the package's Example, which is compiled and run. What else it shows
// stands there too.
func TestReadmeShowsTheExample(t *testing.T) {
	readme, err := os.ReadFile("README.md")
	require.NoError(t, err)
	example, err := os.ReadFile("example_test.go")
	require.NoError(t, err)
	shown := strings.Split(string(readme), "```go\n")[1:]
	require.NotEmpty(t, shown)
	for _, code := range shown {
		code, _, _ := strings.Cut(code, "```")
		require.LessOrEqual(t, strings.Count(code, "\n"), 15)
		if !strings.HasPrefix(code, "func ") {
			code = "\t" + strings.TrimRight(strings.ReplaceAll(code, "\n", "\n\t"), "\t")
		}
		require.Contains(t, string(example), strings.ReplaceAll(code, "\t\n", "\n"))
	}
	require.LessOrEqual(t, len(strings.Fields(string(readme))), 900, "words: what is long has a page of its own")
}

// The page on errors has a row for each sentinel, and its code is an Example's.
func TestThePageOnErrorsHasThemAll(t *testing.T) {
	page, err := os.ReadFile("docs/errors.md")
	require.NoError(t, err)
	source, err := os.ReadFile("errors.go")
	require.NoError(t, err)
	names := regexp.MustCompile(`(?m)^\t(Err\w+) += `).FindAllStringSubmatch(string(source), -1)
	require.NotEmpty(t, names)
	for _, name := range names {
		require.Regexp(t, "(?m)^\\| .*`"+name[1]+"`", string(page))
	}
	_, code, _ := strings.Cut(string(page), "```go\n")
	code, _, _ = strings.Cut(code, "```")
	example, err := os.ReadFile("example_ideas_test.go")
	require.NoError(t, err)
	require.Contains(t, string(example), code)
}

// What the documents point at exists: files, and headings in them.
func TestDocumentsLinkToWhatExists(t *testing.T) {
	for _, file := range documents(t) {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		for _, part := range strings.Split(string(text), "](")[1:] {
			target, _, _ := strings.Cut(part, ")")
			if strings.Contains(target, "://") {
				continue
			}
			name, anchor, _ := strings.Cut(target, "#")
			if name == "" {
				name = filepath.Base(file)
			}
			text, err := os.ReadFile(filepath.Join(filepath.Dir(file), name))
			require.NoError(t, err, "%s links to it", file)
			if anchor != "" {
				require.Contains(t, anchorsOf(string(text)), anchor, "%s links to it", file)
			}
		}
	}
}

// A test that a document names, as what shows a promise, is there.
func TestDocumentsNameTestsThatExist(t *testing.T) {
	there := make(map[string]bool)
	declared := regexp.MustCompile(`(?m)^func (Test\w+)\(`)
	require.NoError(t, filepath.WalkDir(".", func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && name != "." && strings.HasPrefix(entry.Name(), "."):
			return fs.SkipDir
		case strings.HasSuffix(name, "_test.go"):
			text, err := os.ReadFile(name)
			require.NoError(t, err)
			for _, match := range declared.FindAllSubmatch(text, -1) {
				there[string(match[1])] = true
			}
		}
		return nil
	}))
	named := regexp.MustCompile("`(Test[A-Z]\\w*)`")
	for _, file := range documents(t) {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		for _, match := range named.FindAllSubmatch(text, -1) {
			require.True(t, there[string(match[1])], "%s names %s", file, match[1])
		}
	}
}

// Who opens the repository's page finds the README below the list of what lies at the top. Tests that need no unexported name go to
// internal/suite.
func TestTheTopIsShort(t *testing.T) {
	list, err := exec.Command("git", "ls-files").Output()
	if err != nil {
		t.Skip("this is no clone: ", err)
	}
	top := make(map[string]bool)
	for line := range strings.Lines(string(list)) {
		first, _, _ := strings.Cut(strings.TrimSpace(line), "/")
		top[first] = true
	}
	require.LessOrEqual(t, len(top), 70)
}

// All modules say the same Go, and README says it too. One that said an older Go than the library, which it requires, could
// not be built with that.
func TestModulesSayOneGo(t *testing.T) {
	goOf := func(file string) string {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		_, rest, found := strings.Cut("\n"+string(text), "\ngo ")
		require.True(t, found, file)
		version, _, _ := strings.Cut(rest, "\n")
		return version
	}
	library, modules := goOf("go.mod"), 0
	require.NoError(t, filepath.WalkDir(".", func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
		case entry.IsDir() && name != "." && strings.HasPrefix(entry.Name(), "."):
			return fs.SkipDir
		case entry.Name() == "go.mod" || entry.Name() == "go.work":
			modules++
			require.Equal(t, library, goOf(name), name)
		}
		return err
	}))
	require.GreaterOrEqual(t, modules, 12)
	readme, err := os.ReadFile("README.md")
	require.NoError(t, err)
	require.Contains(t, string(readme), "It needs Go "+strings.TrimSuffix(library, ".0")+",")
}

// documents are the tree's Markdown files, but for those in what is built, downloaded or hidden.
func documents(t *testing.T) (files []string) {
	t.Helper()
	built := []string{"bin", "target", "out", "node_modules"}
	require.NoError(t, filepath.WalkDir(".", func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && (slices.Contains(built, entry.Name()) || name != "." && strings.HasPrefix(entry.Name(), ".")):
			return fs.SkipDir
		case !entry.IsDir() && filepath.Ext(name) == ".md":
			files = append(files, filepath.ToSlash(name))
		}
		return nil
	}))
	for _, known := range []string{"README.md", "docs/design.md", "docs/redisson.md", "interop/testdata/README.md"} {
		require.Contains(t, files, known, "the walk has gone past it")
	}
	return files
}

// anchorsOf are the names by which a document's headings can be linked to: in lower case, without punctuation, with
// hyphens for spaces.
func anchorsOf(text string) (anchors []string) {
	named := func(char rune) rune {
		switch {
		case char == ' ':
			return '-'
		case char == '-' || char == '_' || unicode.IsLetter(char) || unicode.IsDigit(char):
			return unicode.ToLower(char)
		}
		return -1
	}
	for line := range strings.Lines(text) {
		heading, ok := strings.CutPrefix(strings.TrimLeft(line, "#"), " ")
		if ok && strings.HasPrefix(line, "#") {
			anchors = append(anchors, strings.Map(named, strings.TrimSpace(heading)))
		}
	}
	return anchors
}
