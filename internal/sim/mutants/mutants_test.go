// Package mutants keeps patches that each take one mend of the library back: run.sh looks whether the simulation finds that.
package mutants

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/yuin/gopher-lua/parse"
)

// root is the library's.
const root = "../../.."

// Every patch applies to the tree as it is, and what comes of that compiles: the reworded comment that a patch has among its lines, and
// the field that went, are seen here, and not when all of them are next run for hours.
func TestPatchesApplyAndCompile(t *testing.T) {
	patches, err := filepath.Glob("*.patch")
	require.NoError(t, err)
	require.NotEmpty(t, patches)
	tree := listed(t)
	for _, patch := range patches {
		t.Run(strings.TrimSuffix(patch, ".patch"), func(t *testing.T) {
			changed, err := applied(patch, t.TempDir())
			require.NoError(t, err)
			require.NoError(t, tree.compiles(changed))
		})
	}
}

// What the test demands of a patch it misses where that is not so.
func TestPatchesThatRotAreFound(t *testing.T) {
	patch := filepath.Join(t.TempDir(), "reworded.patch")
	text := "--- a/lua/news.lua\n+++ b/lua/news.lua\n@@ -1,2 +1,2 @@\n--- news: as it was worded once.\n+-- news: mutated.\n --\n"
	require.NoError(t, os.WriteFile(patch, []byte(text), 0o600))
	_, err := applied(patch, t.TempDir())
	require.ErrorContains(t, err, "does not apply")

	tree := listed(t)
	for name, c := range map[string]struct{ file, was, is, want string }{
		"nothing":                       {"lease.go", "package relock", "package relock", ""},
		"a field that is no more":       {"lease.go", "type Lease struct", "var _ = hold{}.none\n\ntype Lease struct", "none undefined"},
		"a method that the root needs":  {"internal/tenure/rest.go", ") LookAt(", ") LooksAt(", "LookAt undefined"},
		"an import that is not used":    {"hold.go", "import (", "import (\n\t\"unsafe\"", `"unsafe" imported and not used`},
		"Lua that cannot be parsed":     {"lua/news.lua", "local function", "local functoin", "syntax error"},
		"what the simulation never has": {"internal/suite/bench_test.go", "package", "package", "in no package"},
	} {
		t.Run(name, func(t *testing.T) {
			was, err := os.ReadFile(filepath.Join(root, c.file))
			require.NoError(t, err)
			require.Contains(t, string(was), c.was)
			is := filepath.Join(t.TempDir(), "changed"+filepath.Ext(c.file))
			require.NoError(t, os.WriteFile(is, []byte(strings.Replace(string(was), c.was, c.is, 1)), 0o600))
			err = tree.compiles(map[string]string{c.file: is})
			if c.want == "" {
				require.NoError(t, err)
			} else {
				require.ErrorContains(t, err, c.want)
			}
		})
	}
}

var touches = regexp.MustCompile(`(?m)^\+\+\+ b/(\S+)`)

// applied applies a patch to copies of its files in dir, and returns those by their paths in the tree.
func applied(patch, dir string) (changed map[string]string, err error) {
	text, err := os.ReadFile(patch)
	if err != nil {
		return nil, err
	}
	changed = map[string]string{}
	for _, m := range touches.FindAllStringSubmatch(string(text), -1) {
		copied := filepath.Join(dir, m[1])
		was, err := os.ReadFile(filepath.Join(root, m[1]))
		if err == nil {
			err = os.MkdirAll(filepath.Dir(copied), 0o700)
		}
		if err == nil {
			err = os.WriteFile(copied, was, 0o600)
		}
		if err != nil {
			return nil, err
		}
		changed[m[1]] = copied
	}
	if len(changed) == 0 {
		return nil, errors.New("it changes no file")
	}
	patch, err = filepath.Abs(patch)
	if err != nil {
		return nil, err
	}
	git := exec.Command("git", "apply", patch)
	git.Dir = dir
	git.Env = append(os.Environ(), "GIT_CEILING_DIRECTORIES="+filepath.Dir(dir)) // it is no part of a repository
	if said, err := git.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("does not apply: %s", said)
	}
	return changed, nil
}

// unit is a package of the library, or one that it needs.
type unit struct {
	ImportPath, Dir, Export string
	GoFiles, Imports        []string
	Module                  *struct{ Path string }
}

// units are all packages that the simulation is built of, each behind those that it imports.
type units struct {
	all   []*unit
	fset  *token.FileSet
	other types.Importer // of what no patch concerns
}

// listed asks go for the packages, and has it compile them: that was done before the tests of other packages were built.
func listed(t *testing.T) *units {
	t.Helper()
	var failed bytes.Buffer
	list := exec.Command("go", "list", "-export", "-deps", "-json=ImportPath,Dir,Export,GoFiles,Imports,Module", "./world")
	list.Dir, list.Stderr = "..", &failed
	out, err := list.Output()
	require.NoError(t, err, failed.String())
	tree := &units{fset: token.NewFileSet()}
	exports := map[string]string{}
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		u := new(unit)
		if err := dec.Decode(u); err == io.EOF {
			break
		} else {
			require.NoError(t, err)
		}
		tree.all = append(tree.all, u)
		exports[u.ImportPath] = u.Export
	}
	tree.other = importer.ForCompiler(tree.fset, "gc", func(path string) (io.ReadCloser, error) { return os.Open(exports[path]) })
	return tree
}

// compiles checks the types of what has changed, and of all that imports it. Of a Lua file it checks the syntax.
func (tree *units) compiles(changed map[string]string) error {
	in := map[string]string{} // by absolute path
	for path, is := range changed {
		switch filepath.Ext(path) {
		case ".lua":
			if err := parses(is); err != nil {
				return err
			}
		case ".go":
			abs, err := filepath.Abs(filepath.Join(root, path))
			if err != nil {
				return err
			}
			in[abs] = is
		default:
			return fmt.Errorf("%s is neither Go nor Lua", path)
		}
	}
	checked := imports{known: map[string]*types.Package{}, other: tree.other}
	for _, u := range tree.all {
		if u.Module == nil || !u.concerned(in, checked.known) {
			continue
		}
		if err := checked.add(tree.fset, u, in); err != nil {
			return err
		}
	}
	for _, path := range slices.Sorted(maps.Keys(in)) {
		if in[path] != "" {
			return fmt.Errorf("%s is in no package that the simulation is built of", path)
		}
	}
	return nil
}

// parses checks a Lua file.
func parses(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = parse.Parse(f, path)
	return err
}

// concerned reports whether a package has changed, or one that it imports was checked anew.
func (u *unit) concerned(in map[string]string, known map[string]*types.Package) bool {
	return slices.ContainsFunc(u.GoFiles, func(name string) bool { return in[filepath.Join(u.Dir, name)] != "" }) ||
		slices.ContainsFunc(u.Imports, func(path string) bool { return known[path] != nil })
}

// imports finds packages that were checked anew first.
type imports struct {
	known map[string]*types.Package
	other types.Importer
}

func (i imports) Import(path string) (*types.Package, error) {
	if known := i.known[path]; known != nil {
		return known, nil
	}
	return i.other.Import(path)
}

// add checks a package. Files that have changed are taken from in, and out of it.
func (i imports) add(fset *token.FileSet, u *unit, in map[string]string) error {
	var files []*ast.File
	for _, name := range u.GoFiles {
		path := filepath.Join(u.Dir, name)
		from := path
		if in[path] != "" {
			from, in[path] = in[path], ""
		}
		f, err := parser.ParseFile(fset, from, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		files = append(files, f)
	}
	config := types.Config{Importer: i, Sizes: types.SizesFor("gc", "amd64")}
	pkg, err := config.Check(u.ImportPath, fset, files, nil)
	i.known[u.ImportPath] = pkg
	return err
}
