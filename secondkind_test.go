package relock

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/relock-go/relock/internal/tools/floors"
	"github.com/relock-go/relock/internal/wire"
	"github.com/stretchr/testify/require"
)

// TestASecondKind: the library names the mutex's kind where that is defined and in the constructor, and nowhere else: what is
// written for all kinds must not hold for the mutex alone. TestPair shows that another kind works.
func TestASecondKind(t *testing.T) {
	own := []string{wire.Mutex.Name, wire.Mutex.Queue, wire.Mutex.Line, wire.Mutex.Counter, wire.Mutex.Channel.Unlock, wire.Mutex.Channel.Listen}
	files := token.NewFileSet()
	looked := 0
	for _, dir := range floors.Order {
		paths, err := filepath.Glob(filepath.Join(dir, "*.go"))
		require.NoError(t, err)
		for _, path := range paths {
			if strings.HasSuffix(path, "_test.go") || path == "client.go" || path == "internal/wire/kind.go" {
				continue
			}
			file, err := parser.ParseFile(files, path, nil, 0)
			require.NoError(t, err)
			looked++
			for _, at := range namesOfKind(file, own) {
				t.Errorf("%s names the mutex, which holds for no other kind", files.Position(at))
			}
		}
	}
	require.Greater(t, looked, 70)

	named := regexp.MustCompile(`\b(mutex|redisson)`)
	scripts, err := filepath.Glob("lua/*.lua")
	require.NoError(t, err)
	require.Greater(t, len(scripts), 30)
	for _, path := range scripts {
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		for line := range strings.Lines(string(text)) {
			code, _, _ := strings.Cut(line, "--")
			require.NotRegexp(t, named, code, path)
		}
	}
}

// TestHoldsAskTheirKindOnce: what a kind decides of its holds is their manner. It is chosen in one place, which alone asks whether
// holds are shared, and nothing asks the manner which one it is. So too, one place writes what became of a hold.
func TestHoldsAskTheirKindOnce(t *testing.T) {
	paths, err := filepath.Glob("*.go")
	require.NoError(t, err)
	files := token.NewFileSet()
	var asks, askedBack, fates []token.Position
	for _, path := range paths {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(files, path, nil, 0)
		require.NoError(t, err)
		note := func(found *[]token.Position, field string, of ast.Expr) {
			if of, is := of.(*ast.SelectorExpr); is && of.Sel.Name == field {
				*found = append(*found, files.Position(of.Pos()))
			}
		}
		calls := make(map[ast.Expr]bool) // of methods: a gate has an Open, too
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.CallExpr:
				calls[n.Fun] = true
			case *ast.SelectorExpr:
				if !calls[n] {
					note(&asks, "Open", n)
				}
			case *ast.TypeAssertExpr:
				note(&askedBack, "manner", n.X)
			case *ast.BinaryExpr:
				note(&askedBack, "manner", n.X)
				note(&askedBack, "manner", n.Y)
			case *ast.AssignStmt:
				for _, to := range n.Lhs {
					note(&fates, "fate", to)
				}
			}
			return true
		})
	}
	require.Len(t, asks, 1)
	require.Empty(t, askedBack)
	require.Len(t, fates, 1)
}

// namesOfKind returns where a file names the mutex's kind, or what is the mutex's own.
func namesOfKind(file *ast.File, own []string) (found []token.Pos) {
	fields := make(map[*ast.Ident]bool) // of something: sync.Mutex
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.SelectorExpr:
			of, _ := n.X.(*ast.Ident)
			if fields[n.Sel] = true; of != nil && of.Name == "wire" && n.Sel.Name == "Mutex" {
				found = append(found, n.Pos())
			}
		case *ast.Ident:
			if file.Name.Name == "wire" && n.Name == "Mutex" && !fields[n] {
				found = append(found, n.Pos())
			}
		case *ast.BasicLit:
			for _, text := range own {
				if n.Kind == token.STRING && strings.HasPrefix(strings.Trim(n.Value, "\"`"), text) {
					found = append(found, n.Pos())
				}
			}
		}
		return true
	})
	return found
}
