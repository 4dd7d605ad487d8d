package main

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
	"os"
	"os/exec"
	"path/filepath"
)

// source is one package without its tests, parsed and type-checked.
type source struct {
	fset  *token.FileSet
	files []*ast.File
	pkg   *types.Package
	info  *types.Info
}

// load reads the package in dir. What it imports is taken from the compiler's export data.
func load(dir string) (*source, error) {
	listed, err := list(dir)
	if err != nil {
		return nil, err
	}
	s := &source{
		fset: token.NewFileSet(),
		info: &types.Info{
			Defs: make(map[*ast.Ident]types.Object), Uses: make(map[*ast.Ident]types.Object),
			Selections: make(map[*ast.SelectorExpr]*types.Selection),
		},
	}
	exports := make(map[string]string)
	for _, p := range listed {
		exports[p.ImportPath] = p.Export
	}
	target := listed[len(listed)-1]
	for _, name := range target.GoFiles {
		file, err := parser.ParseFile(s.fset, filepath.Join(target.Dir, name), nil, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		s.files = append(s.files, file)
	}
	conf := types.Config{Importer: importer.ForCompiler(s.fset, "gc", func(path string) (io.ReadCloser, error) {
		return os.Open(exports[path])
	})}
	s.pkg, err = conf.Check(target.ImportPath, s.fset, s.files, s.info)
	return s, err
}

// listing is what go list says of a package.
type listing struct {
	ImportPath, Dir, Export string
	GoFiles                 []string
}

// list returns the package in dir, last, after all that it imports.
func list(dir string) (all []listing, err error) {
	cmd := exec.Command("go", "list", "-export", "-deps", "-json=ImportPath,Dir,Export,GoFiles", ".")
	cmd.Dir = dir
	var complaint bytes.Buffer
	cmd.Stderr = &complaint
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go list in %s: %w\n%s", dir, err, &complaint)
	}
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		var p listing
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			return all, nil
		} else if err != nil {
			return nil, err
		}
		all = append(all, p)
	}
}
