package api

import (
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/tools/go/packages"
)

// compiles type-checks statements of a program that has a client c, a client rdb of Redis and a context ctx, and imports
// relock, context and time. It returns what a compiler would say.
func compiles(t *testing.T, statements string) error {
	t.Helper()
	imported, err := programsImports()
	require.NoError(t, err)
	text := `package main

import (
	"context"
	"time"

	"github.com/redis/rueidis"
	"github.com/relock-go/relock"
)

func program(ctx context.Context, c *relock.Client, rdb rueidis.Client) {
	_ = time.Second
	` + statements + `
}
`
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, "main.go", text, 0)
	require.NoError(t, err, statements)
	_, err = (&types.Config{Importer: known(imported)}).Check("main", files, []*ast.File{file}, nil)
	return err
}

var programsImports = sync.OnceValues(func() (map[string]*types.Package, error) {
	loaded, err := packages.Load(&packages.Config{Mode: needed, Dir: root}, module, "github.com/redis/rueidis", "context", "time")
	imported := make(map[string]*types.Package)
	for pkg := range packages.Postorder(loaded) {
		imported[pkg.PkgPath] = pkg.Types
	}
	return imported, err
})
