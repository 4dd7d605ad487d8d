// Package examples checks what the documents quote of the programs below it.
package examples

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The code that docs/fencing.md shows is compiled and run here.
func TestThePageOnFencingShowsTheExamples(t *testing.T) {
	page, err := os.ReadFile("../docs/fencing.md")
	require.NoError(t, err)
	files, err := filepath.Glob("*/*.go")
	require.NoError(t, err)
	var programs string
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		programs += flat(string(text))
	}
	quoted := 0
	for _, language := range []string{"go", "sql", "lua"} {
		for _, quote := range strings.Split(flat(string(page)), "```"+language+"\n")[1:] {
			code, _, _ := strings.Cut(quote, "```\n")
			require.NotEmpty(t, code)
			require.Contains(t, programs, code)
			quoted++
		}
	}
	require.Equal(t, strings.Count(string(page), "```")/2, quoted+1, "all but the picture")
}

// A newcomer reads a main of at most 150 lines.
func TestMainsAreShort(t *testing.T) {
	mains, err := filepath.Glob("*/main.go")
	require.NoError(t, err)
	require.GreaterOrEqual(t, len(mains), 3)
	for _, file := range mains {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		require.LessOrEqual(t, strings.Count(string(text), "\n"), 150, file)
	}
}

// Each program has a page, and the README leads to it.
func TestTheReadmeHasThemAll(t *testing.T) {
	readme, err := os.ReadFile("README.md")
	require.NoError(t, err)
	mains, err := filepath.Glob("*/main.go")
	require.NoError(t, err)
	for _, file := range mains {
		name := filepath.Dir(file)
		require.FileExists(t, filepath.Join(name, "README.md"))
		require.Contains(t, string(readme), "| `go run ./examples/"+name+"` |")
		require.Contains(t, string(readme), "]("+name+"/README.md)")
	}
}

// flat is text without its indentation and alignment, which quotes have less of.
func flat(text string) string {
	var lines strings.Builder
	for line := range strings.Lines(text) {
		lines.WriteString(strings.Join(strings.Fields(line), " ") + "\n")
	}
	return lines.String()
}
