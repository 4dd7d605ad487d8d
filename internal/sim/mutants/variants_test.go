package mutants

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const model = root + "/internal/model"

// row is what variants.tsv says of a broken variant of the model: names of mutants and tests, or why there are none.
type row struct {
	variant, why   string
	mutants, tests []string
}

// rows are those of variants.tsv.
func rows(t *testing.T) (rows []row) {
	t.Helper()
	for _, cells := range table(t, model+"/variants.tsv", "variant", "mutants", "tests", "none, because") {
		rows = append(rows, row{cells[0], cells[3], strings.Fields(cells[1]), strings.Fields(cells[2])})
	}
	return rows
}

// table reads a table below its head. Lines that begin with # say what it is.
func table(t *testing.T, file string, head ...string) (rows [][]string) {
	t.Helper()
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	for line := range strings.Lines(string(text)) {
		if !strings.HasPrefix(line, "#") {
			rows = append(rows, strings.Split(strings.TrimSuffix(line, "\n"), "\t"))
			require.Len(t, rows[len(rows)-1], len(head), line)
		}
	}
	require.NotEmpty(t, rows)
	require.Equal(t, head, rows[0])
	return rows[1:]
}

// Each mutant has a row in table.tsv, which says what finds it, and none that was dropped is there.
func TestTableHasEachMutant(t *testing.T) {
	var kept, there []string
	for _, cells := range table(t, "table.tsv", "mutant", "takes back", "in", "seeds", "seconds", "found by the simulation", "by what else", "touched", "kept, or dropped because") {
		if cells[8] == "kept" || strings.HasPrefix(cells[8], "kept: ") {
			kept = append(kept, cells[0]+".mutant")
		} else {
			require.NotEmpty(t, cells[8], cells[0])
		}
	}
	there, err := filepath.Glob("*.mutant")
	require.NoError(t, err)
	slices.Sort(kept)
	require.Equal(t, kept, there)
}

// Each test fails with the mutants in its row. That takes half an hour on two cores: with RELOCK_LONG=1 only.
func TestTestsSeeTheirMutants(t *testing.T) {
	if os.Getenv("RELOCK_LONG") != "1" {
		t.Skip("with RELOCK_LONG=1 only")
	}
	tests, seen := testsOf(t), map[string]bool{}
	for _, r := range rows(t) {
		for _, mutant := range r.mutants {
			for _, test := range r.tests {
				if key := mutant + "/" + test; !seen[key] {
					seen[key] = true
					t.Run(key, func(t *testing.T) { require.Error(t, with(t, mutant, tests[test], test), "it passes") })
				}
			}
		}
	}
}

// with runs a test of the package in dir with a mutant. One that hangs, as its lock does, fails too.
func with(t *testing.T, mutant, dir, test string) error {
	t.Helper()
	text, err := os.ReadFile(mutant + ".mutant")
	require.NoError(t, err)
	changed, err := Apply(os.DirFS(root), string(text))
	require.NoError(t, err)
	scratch, replaced := t.TempDir(), map[string]string{}
	for path, is := range changed {
		abs, err := filepath.Abs(filepath.Join(root, path))
		require.NoError(t, err)
		replaced[abs] = filepath.Join(scratch, strings.ReplaceAll(path, "/", "_"))
		require.NoError(t, os.WriteFile(replaced[abs], is, 0o600))
	}
	text, err = json.Marshal(map[string]any{"Replace": replaced})
	require.NoError(t, err)
	overlay, binary := filepath.Join(scratch, "overlay.json"), filepath.Join(scratch, "mutant.test")
	require.NoError(t, os.WriteFile(overlay, text, 0o600))
	build := exec.Command("go", "test", "-c", "-vet=off", "-overlay", overlay, "-o", binary, ".")
	build.Dir = dir
	said, err := build.CombinedOutput()
	require.NoError(t, err, "%s", said)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	run := exec.CommandContext(ctx, binary, "-test.run", "^"+test+"$")
	run.Dir, run.WaitDelay = dir, time.Second
	_, err = run.CombinedOutput()
	return err
}

// testsOf returns the directories of the tests in the library's module, by name.
func testsOf(t *testing.T) map[string]string {
	t.Helper()
	tests := map[string]string{}
	declared := regexp.MustCompile(`(?m)^func (Test\w+)\(`)
	for _, pattern := range []string{"", "lua", "internal/*"} {
		files, err := filepath.Glob(filepath.Join(root, pattern, "*_test.go"))
		require.NoError(t, err)
		for _, path := range files {
			text, err := os.ReadFile(path)
			require.NoError(t, err)
			for _, m := range declared.FindAllStringSubmatch(string(text), -1) {
				if dir := filepath.Dir(path); dir != filepath.Clean(model) && m[1] != "TestMain" && !strings.HasPrefix(dir, filepath.Join(root, "internal/sim")) {
					tests[m[1]] = dir
				}
			}
		}
	}
	return tests
}
