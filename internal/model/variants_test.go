package model

import (
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// variants.tsv says of each switch what sees the same flaw in the code: a mutant of internal/sim/mutants, and a test of the library
// that fails with it. If there is no mutant, or no test, the last column says why:
//
//	sure        the flaw was made, by hand or by a mutant that is no more, and the test failed. It needs no seed.
//	seeds       only chance makes the history: the simulation finds it, and no test of the library does.
//	built out   the code has no place for the flaw.
//	model only  the flaw was made by hand, and no test was seen to fail.
func TestEachVariantHasItsRow(t *testing.T) {
	var variants, told []string
	for _, rules := range []any{TokenRules{}, FenceRules{}, LingerRules{}, RWRules{}, MoveRules{}, PermitsRules{}} {
		of := reflect.TypeOf(rules)
		for i := range of.NumField() {
			variants = append(variants, strings.TrimSuffix(of.Name(), "Rules")+"."+of.Field(i).Name)
		}
	}
	own, library := texts(t, "*_test.go"), texts(t, "../../*_test.go", "../../lua/*_test.go", "../*/*_test.go")
	table, err := os.ReadFile("variants.tsv")
	require.NoError(t, err)
	for line := range strings.Lines(string(table)) {
		cells := strings.Split(strings.TrimRight(line, "\n"), "\t")
		require.Len(t, cells, 4, line)
		if cells[0] == "variant" {
			continue
		}
		told = append(told, cells[0])
		require.True(t, cells[1] != "" && cells[2] != "" || cells[3] != "", "%s: neither a mutant and a test, nor why", cells[0])
		_, field, _ := strings.Cut(cells[0], ".")
		require.True(t, regexp.MustCompile(`\b`+field+`: `).MatchString(own), "no test of the model breaks %s", cells[0])
		for _, test := range strings.Fields(cells[2]) {
			require.True(t, strings.Contains(library, "\nfunc "+test+"("), "%s: there is no %s", cells[0], test)
		}
	}
	require.ElementsMatch(t, variants, told)
}

// texts returns what is in the files of these patterns.
func texts(t *testing.T, patterns ...string) (all string) {
	for _, pattern := range patterns {
		paths, err := filepath.Glob(pattern)
		require.NoError(t, err)
		require.NotEmpty(t, paths)
		for _, path := range paths {
			text, err := os.ReadFile(path)
			require.NoError(t, err)
			all += string(text)
		}
	}
	return all
}
