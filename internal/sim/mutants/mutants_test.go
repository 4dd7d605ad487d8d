package mutants

import (
	"bytes"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"
	"github.com/yuin/gopher-lua/parse"
)

// root is the library's.
const root = "../../.."

// Every mutant applies to the tree as it is, and what comes of that compiles: the field that went, and the function that is called
// otherwise, are seen here, and not when all of them are next run for hours.
func TestMutantsApplyAndCompile(t *testing.T) {
	listed(t).hasAll(t, os.DirFS(root))
}

// No mutant depends on the name of a local variable, a parameter, a receiver or a named result: all of the library have others here.
func TestRenamedLocalsBreakNoMutant(t *testing.T) {
	tree := listed(t)
	renamed, names := tree.renamed(t)
	t.Logf("%d names", names)
	require.Greater(t, names, 10000)
	_, err := Apply(renamed, "@ internal/tenure Rest.Overtaken\n-r.free\n+r.stale\n")
	require.ErrorAs(t, err, new(*PlaceError), "an edit that names a local has no place any more")
	tree.hasAll(t, renamed)
}

// hasAll applies each mutant to a version of the tree, and compiles it.
func (tree *units) hasAll(t *testing.T, version fs.FS) {
	all, err := filepath.Glob("*.mutant")
	require.NoError(t, err)
	require.NotEmpty(t, all)
	for _, name := range all {
		t.Run(strings.TrimSuffix(name, ".mutant"), func(t *testing.T) {
			text, err := os.ReadFile(name)
			require.NoError(t, err)
			changed, err := Apply(version, string(text))
			require.NoError(t, err)
			require.NoError(t, tree.compiles(version, changed))
		})
	}
}

// Each scene has a mutant that is looked for there, and no mutant is looked
// for in a scene that is no more.
func TestEachSceneHasAMutant(t *testing.T) {
	scenes, looked := named(t, "../world/*.go", `\{"(\w+)", shape`), named(t, "*.mutant", `(?m)^# scene: (\w+)$`)
	require.Equal(t, scenes, looked)
}

// named returns what a pattern names in some files.
func named(t *testing.T, files, pattern string) map[string]bool {
	all, names := regexp.MustCompile(pattern), map[string]bool{}
	paths, err := filepath.Glob(files)
	require.NoError(t, err)
	for _, path := range paths {
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		for _, m := range all.FindAllSubmatch(text, -1) {
			names[string(m[1])] = true
		}
	}
	return names
}

// What an edit finds, and what it makes of that.
func TestEdits(t *testing.T) {
	const goText = "package p\n\nvar a, b = f(1), 2\n\nfunc (x *T[K]) do(y int) (z error) {\n\tif y > 0 && x.ok {\n\t\treturn f(\n\t\t\ty,\n\t\t)\n\t}\n" +
		"\ty = f(g(y), 3)\n\tswitch {\n\tcase y == 1:\n\t\tx.on() // why\n\t\tx.off()\n\t}\n\treturn z\n}\n"
	const luaText = "local function a(x)\n  if x then -- why\n    return f(x, 'a b')\n  end\n  return x\nend\nlocal function b(x)\n  return x\nend\nreturn b(a)\n"
	tree := fstest.MapFS{"p/a.go": {Data: []byte(goText)}, "a.lua": {Data: []byte(luaText)}, "p/a_test.go": {Data: []byte("package p\n")}}
	for name, c := range map[string]struct{ mutant, was, is, err string }{
		"an expression":             {"@ p T.do\n-_y > 0\n+_y < 0\n", "y > 0", "y < 0", ""},
		"no whole":                  {"@ p T.do\n-0 && _x.ok\n", "", "", "has 0 places"},
		"statements":                {"@ p T.do\n-_x.on()\n-_x.off()\n+_x.off()\n", "x.on() // why\n\t\t", "", ""},
		"other lines":               {"@ p T.do\n-return f(_y)\n+return nil\n", "return f(\n\t\t\ty,\n\t\t)", "return nil", ""},
		"a case":                    {"@ p T.do\n case _y == 1:\n-\t_x.on()\n \t_x.off()\n", "x.on() // why\n\t\t", "", ""},
		"dots":                      {"@ p T.do\n-f(..., 3)\n+f(h(...))\n", "f(g(y), 3)", "f(h(g(y)))", ""},
		"dots between":              {"@ p T.do\n if _y > 0 && _x.ok {\n \t...\n }\n+_x.on()\n ...\n return _z\n", "\ty = f(", "\tx.on()\n\ty = f(", ""},
		"dots that are not closed":  {"@ p T.do\n-f(g(..., 3)\n", "", "", "has 0 places"},
		"the same name":             {"@ p T.do\n-_y = f(g(_y), 3)\n", "\ty = f(g(y), 3)\n", "\n", ""},
		"another name":              {"@ p T.do\n-_y = f(_y(_x), 3)\n", "", "", "has 0 places"},
		"two places":                {"@ p T.do\n-f(...)\n", "", "", "has 2 places"},
		"a variable":                {"@ p b\n-2\n+\"\n", "", "", "not terminated"},
		"a variable of two":         {"@ p a\n-f(1)\n+g(1)\n", "f(1)", "g(1)", ""},
		"no such function":          {"@ p do\n-_y\n", "", "", "has 0 places"},
		"no such directory":         {"@ q do\n-_y\n", "", "", "has 0 places"},
		"a name that it was not":    {"@ p T.do\n-_y > 0\n+_y < _q\n", "", "", "has no _q"},
		"nothing":                   {"# only a head\n", "", "", "changes nothing"},
		"a line of no edit":         {"@ p T.do\nreturn\n", "", "", "neither"},
		"Lua":                       {"@ a.lua\n-f(_x, 'a b')\n+g(_x)\n", "f(x, 'a b')", "g(x)", ""},
		"Lua of a function":         {"@ a.lua b\n-return _x\n+return 1\n", "b(x)\n  return x", "b(x)\n  return 1", ""},
		"Lua with two places":       {"@ a.lua\n-return _x\n", "", "", "has 4 places"},
		"Lua beyond a function":     {"@ a.lua b\n-f(_x, 'a b')\n", "", "", "has 0 places"},
		"Lua without that function": {"@ a.lua c\n-x\n", "", "", "has 0 places"},
		"no such file":              {"@ b.lua\n-x\n", "", "", "not exist"},
	} {
		t.Run(name, func(t *testing.T) {
			changed, err := Apply(tree, c.mutant)
			if c.err != "" {
				require.ErrorContains(t, err, c.err)
				return
			}
			require.NoError(t, err)
			require.Len(t, changed, 1)
			for path, is := range changed {
				was := string(tree[path].Data)
				require.Contains(t, was, c.was)
				require.Equal(t, strings.Fields(strings.Replace(was, c.was, c.is, 1)), strings.Fields(string(is)))
			}
		})
	}
	changed, err := Apply(tree, "@ a.lua\n-return f(_x, 'a b')\n+if _x then\n+  return 1\n+end\n")
	require.NoError(t, err)
	require.Contains(t, string(changed["a.lua"]), "\n    if x then\n      return 1\n    end\n", "an end without an indent would end the function")
	_, err = Apply(tree, "@ p T.do\n-f(...)\n")
	var place *PlaceError
	require.ErrorAs(t, err, &place)
	require.Equal(t, PlaceError{"p T.do", "f(...)\n", 2}, *place)
}

// What compiles demands.
func TestMutantsThatDoNotCompileAreFound(t *testing.T) {
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
			is := []byte(strings.Replace(string(was), c.was, c.is, 1))
			err = tree.compiles(os.DirFS(root), map[string][]byte{c.file: is})
			if c.want == "" {
				require.NoError(t, err)
			} else {
				require.ErrorContains(t, err, c.want)
			}
		})
	}
}

// unit is a package of the library, or one that it needs.
type unit struct {
	ImportPath, Dir, Export string
	GoFiles, Imports        []string
	Module                  *struct{ Path string }
}

// ours reports whether mutants concern the package.
func (u *unit) ours() bool { return u.Module != nil && u.Module.Path == "github.com/relock-go/relock" }

// units are all packages that the simulation is built of, each behind those that it imports.
type units struct {
	all   []*unit
	fset  *token.FileSet
	other types.Importer // of what no mutant concerns
}

// listed asks go for the packages, and has it compile them: that was done before the tests of other packages were built.
func listed(t *testing.T) *units {
	t.Helper()
	top, err := filepath.Abs(root)
	require.NoError(t, err)
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
		if exports[u.ImportPath] = u.Export; u.ours() {
			u.Dir, err = filepath.Rel(top, u.Dir)
			require.NoError(t, err)
			u.Dir = filepath.ToSlash(u.Dir)
		}
		tree.all = append(tree.all, u)
	}
	tree.other = importer.ForCompiler(tree.fset, "gc", func(path string) (io.ReadCloser, error) { return os.Open(exports[path]) })
	return tree
}

// compiles checks the types of what has changed in a version of the tree, and of all that imports it. Of a Lua file it checks the
// syntax.
func (tree *units) compiles(version fs.FS, changed map[string][]byte) error {
	left := maps.Clone(changed)
	for name, text := range changed {
		if path.Ext(name) == ".lua" {
			if _, err := parse.Parse(bytes.NewReader(text), name); err != nil {
				return err
			}
			delete(left, name)
		}
	}
	checked := imports{known: map[string]*types.Package{}, other: tree.other}
	for _, u := range tree.all {
		if !u.ours() || !u.concerned(left, checked.known) {
			continue
		}
		if _, err := checked.add(tree.fset, u, nil, func(name string) ([]byte, error) {
			if text, is := left[name]; is {
				delete(left, name)
				return text, nil
			}
			return fs.ReadFile(version, name)
		}); err != nil {
			return err
		}
	}
	for name := range left {
		return fmt.Errorf("%s is in no package that the simulation is built of", name)
	}
	return nil
}

// concerned reports whether a package has changed, or one that it imports was checked again.
func (u *unit) concerned(in map[string][]byte, known map[string]*types.Package) bool {
	return slices.ContainsFunc(u.GoFiles, func(name string) bool { return in[path.Join(u.Dir, name)] != nil }) ||
		slices.ContainsFunc(u.Imports, func(path string) bool { return known[path] != nil })
}

// imports finds packages that were checked again first.
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

// add checks a package, and notes in info what its names are.
func (i imports) add(fset *token.FileSet, u *unit, info *types.Info, read func(string) ([]byte, error)) (files []*ast.File, err error) {
	for _, name := range u.GoFiles {
		text, err := read(path.Join(u.Dir, name))
		if err != nil {
			return nil, err
		}
		f, err := parser.ParseFile(fset, path.Join(u.Dir, name), text, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		files = append(files, f)
	}
	config := types.Config{Importer: i, Sizes: types.SizesFor("gc", "amd64")}
	i.known[u.ImportPath], err = config.Check(u.ImportPath, fset, files, info)
	return files, err
}

// renamed returns the tree with other names for all variables in functions, and how many places that concerns.
func (tree *units) renamed(t *testing.T) (version fstest.MapFS, names int) {
	t.Helper()
	version = fstest.MapFS{}
	scripts, err := filepath.Glob(root + "/lua/*.lua")
	require.NoError(t, err)
	for _, script := range scripts {
		text, err := os.ReadFile(script)
		require.NoError(t, err)
		version["lua/"+filepath.Base(script)] = &fstest.MapFile{Data: text}
	}
	checked := imports{known: map[string]*types.Package{}, other: tree.other}
	for _, u := range tree.all {
		if !u.ours() {
			continue
		}
		info := &types.Info{Defs: map[*ast.Ident]types.Object{}, Uses: map[*ast.Ident]types.Object{}}
		texts := map[string][]byte{}
		files, err := checked.add(tree.fset, u, info, func(name string) (text []byte, err error) {
			texts[name], err = os.ReadFile(filepath.Join(root, name))
			return texts[name], err
		})
		require.NoError(t, err)
		for _, f := range files {
			var ends []int // of names
			ast.Inspect(f, func(n ast.Node) bool {
				id, _ := n.(*ast.Ident)
				if id == nil || id.Name == "_" {
					return true
				}
				is, defined := info.Defs[id]
				if !defined {
					is = info.Uses[id]
				}
				v, _ := is.(*types.Var)
				if v != nil && !v.IsField() && v.Parent() != v.Pkg().Scope() || defined && is == nil && id != f.Name {
					ends = append(ends, tree.fset.Position(id.End()).Offset)
				}
				return true
			})
			slices.Sort(ends)
			name := tree.fset.Position(f.Pos()).Filename
			text := texts[name]
			for _, end := range slices.Backward(ends) {
				text = slices.Concat(text[:end], []byte("Renamed"), text[end:])
			}
			names += len(ends)
			version[name] = &fstest.MapFile{Data: text}
		}
	}
	return version, names
}
