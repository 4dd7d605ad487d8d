package mutants

import (
	"context"
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
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

const (
	page  = root + "/docs/testing-the-lock.md"
	model = root + "/internal/model"
)

// row is what the page says of a broken variant of the model: names of patches and tests, or why there are none.
type row struct {
	variant, why   string
	patches, tests []string
}

var name = regexp.MustCompile("`([^`]+)`")

// rows are those of the page's table.
func rows(t *testing.T) (rows []row) {
	t.Helper()
	text, err := os.ReadFile(page)
	require.NoError(t, err)
	_, table, found := strings.Cut(string(text), "\n| variant | patch | test | none, because |\n|---|---|---|---|\n")
	require.True(t, found)
	table, _, _ = strings.Cut(table, "\n\n")
	names := func(cell string) (names []string) {
		for _, m := range name.FindAllStringSubmatch(cell, -1) {
			names = append(names, m[1])
		}
		return names
	}
	for line := range strings.Lines(table) {
		cells := strings.Split(strings.TrimSpace(line), "|")
		require.Len(t, cells, 6, line)
		variant := names(cells[1])
		require.Len(t, variant, 1, line)
		rows = append(rows, row{variant[0], strings.TrimSpace(cells[4]), names(cells[2]), names(cells[3])})
	}
	return rows
}

// Each broken variant of the model has one row, with patches and tests that there are, or with what stands for them.
func TestEachVariantOfTheModelIsToldOf(t *testing.T) {
	variants, used := variantsOf(t)
	tests := testsOf(t)
	var told []string
	for _, r := range rows(t) {
		told = append(told, r.variant)
		_, field, _ := strings.Cut(r.variant, ".")
		require.True(t, strings.Contains(used, field+": "), "no test of the model breaks %s", r.variant)
		require.True(t, len(r.patches) > 0 && len(r.tests) > 0 || r.why != "", "%s: neither a patch and a test, nor why", r.variant)
		for _, patch := range r.patches {
			require.FileExists(t, patch+".patch", r.variant)
		}
		for _, test := range r.tests {
			require.NotEmpty(t, tests[test], "%s: there is no %s", r.variant, test)
		}
	}
	slices.Sort(variants)
	slices.Sort(told)
	require.Equal(t, variants, told, "the model's, and those in the table")
}

// Each test fails with the patches in its row. That takes half an hour on two cores: with RELOCK_LONG=1 only.
func TestTestsSeeTheirMutants(t *testing.T) {
	if os.Getenv("RELOCK_LONG") != "1" {
		t.Skip("with RELOCK_LONG=1 only")
	}
	tests, seen := testsOf(t), map[string]bool{}
	for _, r := range rows(t) {
		for _, patch := range r.patches {
			for _, test := range r.tests {
				if key := patch + "/" + test; !seen[key] {
					seen[key] = true
					t.Run(key, func(t *testing.T) { require.Error(t, with(t, patch, tests[test], test), "it passes") })
				}
			}
		}
	}
}

// with runs a test of the package in dir with a patch. One that hangs, as its lock does, fails too.
func with(t *testing.T, patch, dir, test string) error {
	t.Helper()
	changed, err := applied(patch+".patch", t.TempDir())
	require.NoError(t, err)
	replaced := map[string]string{}
	for path, is := range changed {
		abs, err := filepath.Abs(filepath.Join(root, path))
		require.NoError(t, err)
		replaced[abs] = is
	}
	text, err := json.Marshal(map[string]any{"Replace": replaced})
	require.NoError(t, err)
	overlay, binary := filepath.Join(t.TempDir(), "overlay.json"), filepath.Join(t.TempDir(), "mutant.test")
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

// variantsOf returns the model's broken variants: each switch of each system's rules. used is the text of its tests.
func variantsOf(t *testing.T) (variants []string, used string) {
	t.Helper()
	files, err := filepath.Glob(model + "/*.go")
	require.NoError(t, err)
	for _, path := range files {
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		if strings.HasSuffix(path, "_test.go") {
			used += string(text)
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, text, 0)
		require.NoError(t, err)
		ast.Inspect(file, func(n ast.Node) bool {
			is, _ := n.(*ast.TypeSpec)
			if is == nil || !strings.HasSuffix(is.Name.Name, "Rules") {
				return true
			}
			for _, field := range is.Type.(*ast.StructType).Fields.List {
				for _, name := range field.Names {
					variants = append(variants, strings.TrimSuffix(is.Name.Name, "Rules")+"."+name.Name)
				}
			}
			return false
		})
	}
	return variants, used
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
