package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func reported(t *testing.T, dir string, verbose bool) []string {
	t.Helper()
	var out bytes.Buffer
	require.NoError(t, run(&out, dir, verbose))
	return strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
}

func TestTheLargestCycleIsFound(t *testing.T) {
	require.Equal(t, []string{
		"types: 4 of 7 in the largest cycle: Front Hall Keys Room",
		"files: 2 of 3 in the largest cycle: a.go b.go",
	}, reported(t, "testdata/ring", false))
}

func TestEdgesSayWhereTheyAre(t *testing.T) {
	lines := reported(t, "testdata/ring", true)
	require.Equal(t, []string{
		"\tFront -> Room (Room, a.go:5)",
		"\tHall -> Front (Front, b.go:15)",
		"\tHall -> Keys (find, b.go:20)",
		"\tHall -> Room (keys, b.go:20)",
		"\tKeys -> Hall (Hall, b.go:10)",
		"\tRoom -> Keys (Keys, b.go:4)",
	}, lines[1:7])
	require.Equal(t, []string{"\ta.go -> b.go (Room, a.go:5)", "\tb.go -> a.go (Front, b.go:15)"}, lines[8:])
}

// A method, an embedded type and a plain function tie downwards only, and what a test uses does not
// count.
func TestALineIsNoCycle(t *testing.T) {
	require.Equal(t, []string{
		"types: 0 of 2 in the largest cycle: ",
		"files: 0 of 2 in the largest cycle: ",
	}, reported(t, "testdata/line", true))
}

// A field is enough to tie types, a method to tie files, and the name of a type parameter ties
// nothing.
func TestWhatIsNamedTies(t *testing.T) {
	s, err := load("testdata/ring")
	require.NoError(t, err)
	u := usesOf(s)
	require.Contains(t, u.types["Bell"], "Porter")
	require.Empty(t, u.types["Guest"])
	require.Contains(t, u.types["Front"], "Guest")
	require.NotContains(t, u.files["c.go"], "b.go")
	require.Contains(t, u.files["b.go"], "c.go")
}

func TestAPackageThatDoesNotCompileIsAnError(t *testing.T) {
	require.Error(t, run(&bytes.Buffer{}, t.TempDir(), false))
}

func TestRingsOfAGraph(t *testing.T) {
	g := make(graph)
	for _, edge := range []string{"a>b", "b>c", "c>b", "d>e", "e>f", "f>d", "d>b", "g>g", "h>i", "i>j", "j>h"} {
		from, to, _ := strings.Cut(edge, ">")
		for _, node := range []string{from, to} {
			if g[node] == nil {
				g[node] = make(map[string]string)
			}
		}
		g.add(from, to, edge)
	}
	require.Equal(t, []string{"d", "e", "f"}, g.largest())
	delete(g["e"], "f")
	require.Equal(t, []string{"h", "i", "j"}, g.largest())
	delete(g["h"], "i")
	require.Equal(t, []string{"b", "c"}, g.largest())
	delete(g["c"], "b")
	require.Nil(t, g.largest())
}
