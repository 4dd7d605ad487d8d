// Package api guards the exported surface of the modules that are released: its test compares their
// packages with the texts in the repository's api directory.
package api

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"regexp"
	"strconv"
	"strings"

	"golang.org/x/exp/apidiff"
	"golang.org/x/tools/go/packages"
)

// needed is what packages.Load is asked for.
const needed = packages.NeedName | packages.NeedTypes | packages.NeedImports | packages.NeedDeps | packages.NeedExportFile

// Read type-checks the text that Write wrote of the package at path. imported has the packages that
// it imports.
func Read(path string, text []byte, imported map[string]*types.Package) (*types.Package, error) {
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, "api", text, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	var failure error
	config := types.Config{Importer: known(imported), IgnoreFuncBodies: true, Error: func(err error) {
		if failure == nil && !strings.HasSuffix(err.Error(), "generic function is missing function body") {
			failure = err
		}
	}}
	pkg, _ := config.Check(path, files, []*ast.File{file}, nil)
	return pkg, failure
}

// Imports returns the paths that a text imports.
func Imports(text []byte) (paths []string, err error) {
	file, err := parser.ParseFile(token.NewFileSet(), "api", text, parser.ImportsOnly)
	if err != nil {
		return nil, err
	}
	for _, spec := range file.Imports {
		path, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			return nil, err
		}
		paths = append(paths, path)
	}
	return paths, nil
}

// Imported loads what texts import, as the workspace in dir has it.
func Imported(dir string, texts ...[]byte) (map[string]*types.Package, error) {
	var patterns []string
	for _, text := range texts {
		paths, err := Imports(text)
		if err != nil {
			return nil, err
		}
		patterns = append(patterns, paths...)
	}
	if patterns == nil { // Load would take that for dir itself
		return nil, nil
	}
	loaded, err := packages.Load(&packages.Config{Mode: needed, Dir: dir}, patterns...)
	if err != nil {
		return nil, err
	}
	imported := make(map[string]*types.Package)
	for pkg := range packages.Postorder(loaded) {
		if len(pkg.Errors) == 0 {
			imported[pkg.PkgPath] = pkg.Types
		}
	}
	return imported, nil
}

// known is an importer of the packages in it.
type known map[string]*types.Package

func (k known) Import(path string) (*types.Package, error) {
	if pkg := k[path]; pkg != nil {
		return pkg, nil
	}
	return nil, fmt.Errorf("no package %s", path)
}

// Change is how a package differs from the text that was recorded of it.
type Change struct {
	Breaks []string // what no longer compiles, or means something else, in a program that uses the package
	Adds   []string
	Text   []byte // what it exports now, nil where that is what was recorded
}

// Judge compares a package with the text recorded of it. recorded is nil for a new package, pkg is
// nil for a package that is gone.
func Judge(path string, recorded []byte, pkg *types.Package, imported map[string]*types.Package) (c Change, err error) {
	if pkg == nil {
		return Change{Breaks: []string{"the package is gone"}}, nil
	}
	text, err := Write(pkg)
	if err != nil {
		return c, err
	}
	written, err := Read(path, text, imported)
	if err != nil {
		return c, fmt.Errorf("what was written of %s cannot be read: %w\n%s", path, err, text)
	}
	if breaks, adds := compare(written, pkg); breaks != nil || adds != nil {
		return c, fmt.Errorf("what was written of %s is not what it exports: %q, %q", path, breaks, adds)
	}
	if bytes.Equal(text, recorded) {
		return c, nil
	}
	c.Text = text
	if recorded == nil {
		c.Adds = []string{"the package is new"}
		return c, nil
	}
	before, err := Read(path, recorded, imported)
	if err != nil {
		c.Breaks = []string{"what it exported cannot be: " + err.Error()}
		return c, nil
	}
	c.Breaks, c.Adds = compare(before, pkg)
	return c, nil
}

// Compare compares two texts of a package. after is nil for a package that is gone.
func Compare(path string, before, after []byte, imported map[string]*types.Package) (Change, error) {
	var pkg *types.Package
	if after != nil {
		var err error
		if pkg, err = Read(path, after, imported); err != nil {
			return Change{}, err
		}
	}
	return Judge(path, before, pkg, imported)
}

func compare(before, after *types.Package) (breaks, adds []string) {
	for _, change := range apidiff.Changes(before, after).Changes {
		if change.Compatible {
			adds = append(adds, change.Message)
		} else {
			breaks = append(breaks, change.Message)
		}
	}
	return breaks, adds
}

var requires = regexp.MustCompile(`(?m)^\s*(?:require )?github\.com/relock-go/relock v(\d+)\.`)

// Final reports whether a go.mod requires release v1.0 of the library or later.
func Final(mod []byte) bool {
	match := requires.FindSubmatch(mod)
	return match != nil && string(match[1]) != "0"
}
