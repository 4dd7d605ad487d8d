package floors

import (
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
)

// Read returns the Go files of the module in root that are no tests, and their imports, whatever
// system they are built for. It leaves out modules within the module, and what the go command
// ignores.
func Read(root string) (files []string, imports []Import, err error) {
	err = filepath.WalkDir(root, func(p string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			if p != root && ignored(p, entry.Name()) {
				return fs.SkipDir
			}
			return nil
		}
		if path.Ext(p) != ".go" || strings.HasSuffix(p, "_test.go") {
			return nil
		}
		relative, err := filepath.Rel(root, p)
		if err != nil {
			return err
		}
		file := filepath.ToSlash(relative)
		files = append(files, file)
		paths, err := importsOf(p)
		for _, to := range paths {
			imports = append(imports, Import{File: file, Path: to})
		}
		return err
	})
	return files, imports, err
}

// ignored reports whether the directory at p belongs to another module, or to none.
func ignored(p, name string) bool {
	if name == "testdata" || strings.HasPrefix(name, ".") || strings.HasPrefix(name, "_") {
		return true
	}
	_, err := os.Stat(filepath.Join(p, "go.mod"))
	return err == nil
}

func importsOf(file string) (paths []string, err error) {
	parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ImportsOnly)
	if err != nil {
		return nil, err
	}
	for _, spec := range parsed.Imports {
		p, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			return nil, err
		}
		paths = append(paths, p)
	}
	return paths, nil
}
