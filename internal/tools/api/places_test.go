package api

import (
	"go/ast"
	"go/types"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/tools/go/packages"
)

// called are methods that fmt, errors and encoding/json call, so that programs need not.
var called = []string{"Error", "Is", "As", "Unwrap", "String", "MarshalJSON", "UnmarshalJSON"}

// An exported name is used in an Example, or docs/api.md says when to use it. What it says of a name that an Example uses,
// or that is gone, is to go.
func TestEveryNameHasAPlace(t *testing.T) {
	now, _ := load(t, nil)
	used := usedInExamples(t, append(slices.Sorted(maps.Keys(now)), module+"/contrib/relocktest/example"))
	var missing, stale []string
	said := saidInTables(t)
	for _, path := range slices.Sorted(maps.Keys(now)) {
		for _, name := range namesOf(now[path]) {
			switch {
			case used[name] && said[name]:
				stale = append(stale, name)
			case !used[name] && !said[name]:
				missing = append(missing, name)
			}
			delete(said, name)
		}
	}
	assert.Empty(t, missing, "no Example uses these, and docs/api.md does not say when to")
	assert.Empty(t, stale, "docs/api.md has what an Example uses")
	assert.Empty(t, slices.Sorted(maps.Keys(said)), "docs/api.md has what is not exported")
}

// namesOf are a package's exported names, and its types' methods as Mutex.Lock.
func namesOf(pkg *types.Package) (names []string) {
	for _, name := range pkg.Scope().Names() {
		o := pkg.Scope().Lookup(name)
		if !o.Exported() {
			continue
		}
		names = append(names, nameIn(pkg, name))
		tn, ok := o.(*types.TypeName)
		if !ok {
			continue
		}
		all := types.NewMethodSet(types.NewPointer(tn.Type()))
		if types.IsInterface(tn.Type()) {
			all = types.NewMethodSet(tn.Type())
		}
		for sel := range all.Methods() {
			if method := sel.Obj(); method.Exported() && !slices.Contains(called, method.Name()) {
				names = append(names, nameIn(pkg, name+"."+method.Name()))
			}
		}
	}
	return names
}

// nameIn is how docs/api.md calls a name: the library's as it is, with the package before it elsewhere.
func nameIn(pkg *types.Package, name string) string {
	if pkg.Path() == module {
		return name
	}
	return pkg.Name() + "." + name
}

// usedInExamples returns the names that files of examples use. A type is used where a value of it is.
func usedInExamples(t *testing.T, paths []string) map[string]bool {
	loaded, err := packages.Load(&packages.Config{Mode: packages.LoadSyntax | packages.NeedExportFile, Dir: root, Tests: true}, paths...)
	require.NoError(t, err)
	used, files := make(map[string]bool), 0
	for _, pkg := range loaded {
		for _, file := range pkg.Syntax {
			dir, name := filepath.Split(pkg.Fset.Position(file.Pos()).Filename)
			if strings.HasPrefix(name, "example") || filepath.Base(dir) == "example" {
				require.Empty(t, pkg.Errors)
				usedIn(file, pkg.TypesInfo, used)
				files++
			}
		}
	}
	require.GreaterOrEqual(t, files, 6)
	return used
}

func usedIn(file *ast.File, info *types.Info, used map[string]bool) {
	typed := func(t types.Type) (named *types.Named, ok bool) {
		if p, ok := t.(*types.Pointer); ok {
			t = p.Elem()
		}
		if named, ok = t.(*types.Named); ok && named.Obj().Pkg() != nil {
			used[nameIn(named.Obj().Pkg(), named.Obj().Name())] = true
		}
		return named, ok
	}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.SelectorExpr:
			if sel := info.Selections[n]; sel != nil {
				if named, ok := typed(sel.Recv()); ok && named.Obj().Pkg() != nil {
					used[nameIn(named.Obj().Pkg(), named.Obj().Name()+"."+n.Sel.Name)] = true
				}
			}
		case *ast.Ident:
			if o := info.Uses[n]; o != nil && o.Pkg() != nil && o.Parent() == o.Pkg().Scope() {
				used[nameIn(o.Pkg(), o.Name())] = true
			}
		}
		if e, ok := n.(ast.Expr); ok && info.Types[e].Type != nil {
			typed(info.Types[e].Type)
		}
		return true
	})
}

// saidInTables returns the names in the first column of the tables of docs/api.md.
func saidInTables(t *testing.T) map[string]bool {
	text, err := os.ReadFile(filepath.Join(root, "docs", "api.md"))
	require.NoError(t, err)
	said := make(map[string]bool)
	code := regexp.MustCompile("`([^`]+)`")
	for line := range strings.Lines(string(text)) {
		if !strings.HasPrefix(line, "|") {
			continue
		}
		first, _, _ := strings.Cut(line[1:], "|")
		for _, match := range code.FindAllStringSubmatch(first, -1) {
			require.False(t, said[match[1]], "docs/api.md has %s twice", match[1])
			said[match[1]] = true
		}
	}
	return said
}
