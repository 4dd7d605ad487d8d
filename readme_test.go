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
			if !strings.Contains(target, "://") {
				_, err := os.Stat(filepath.Join(filepath.Dir(file), target))
				require.NoError(t, err, "%s links to it", file)
			}
		}
	}
}
