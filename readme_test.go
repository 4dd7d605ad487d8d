package relock

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The code that the README opens with is the body of the package's Example, which is compiled and run.
func TestReadmeShowsTheExample(t *testing.T) {
	readme, err := os.ReadFile("README.md")
	require.NoError(t, err)
	example, err := os.ReadFile("example_test.go")
	require.NoError(t, err)
	_, rest, found := strings.Cut(string(readme), "```go\n")
	require.True(t, found)
	code, _, _ := strings.Cut(rest, "```")
	require.LessOrEqual(t, strings.Count(code, "\n"), 15)
	indented := "\t" + strings.TrimRight(strings.ReplaceAll(code, "\n", "\n\t"), "\t")
	require.Contains(t, string(example), strings.ReplaceAll(indented, "\t\n", "\n"))
}

// What the documents point at exists.
func TestDocumentsLinkToWhatExists(t *testing.T) {
	for _, file := range []string{"README.md", "CONTRIBUTING.md", "docs/design.md", "docs/safety.md", "docs/wire.md"} {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		for _, part := range strings.Split(string(text), "](")[1:] {
			target, _, _ := strings.Cut(part, ")")
			if strings.Contains(target, "://") {
				continue
			}
			path, anchor, _ := strings.Cut(target, "#")
			if path == "" {
				path = filepath.Base(file)
			}
			text, err := os.ReadFile(filepath.Join(filepath.Dir(file), path))
			require.NoError(t, err, "%s links to it", file)
			if anchor != "" {
				require.Contains(t, anchorsOf(string(text)), anchor, "%s links to it", file)
			}
		}
	}
}

// anchorsOf are the names by which a document's headings can be linked to.
func anchorsOf(text string) (anchors []string) {
	for _, line := range strings.Split(text, "\n") {
		if heading, ok := strings.CutPrefix(strings.TrimLeft(line, "#"), " "); ok && strings.HasPrefix(line, "#") {
			anchors = append(anchors, strings.ToLower(strings.ReplaceAll(heading, " ", "-")))
		}
	}
	return anchors
}
