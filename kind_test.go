package relock

import (
	"context"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/relock-go/relock/internal/redistest"
	"github.com/relock-go/relock/internal/tools/floors"
	"github.com/relock-go/relock/internal/wire"
	"github.com/stretchr/testify/require"
)

// TestASecondKind: the library names the mutex's kind where that is defined and in the constructor, and nowhere else: what is
// written for all kinds must not hold for the mutex alone.
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

// TestHoldsAskTheirKindOnce: what a kind decides of its holds is their manner. One function chooses it, and one more asks what else
// a kind can do, when a lock is made. Nothing else asks a kind for more than its name, nor a manner which one it is, and only the
// manners' own files make one. So too, one place writes what became of a hold.
func TestHoldsAskTheirKindOnce(t *testing.T) {
	paths, err := filepath.Glob("*.go")
	require.NoError(t, err)
	asked := map[string]bool{"Shared": true}
	for field := range reflect.TypeFor[wire.Kind]().Fields() {
		asked[field.Name] = field.Name != "Name" && field.Name != "Nr"
	}
	files := token.NewFileSet()
	var asks, made []string
	var askedBack, fates []token.Position
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
		in := ""
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.FuncDecl:
				in = n.Name.Name
			case *ast.SelectorExpr:
				if asked[n.Sel.Name] && strings.EqualFold(nameOf(n.X), "kind") {
					asks = append(asks, in+" "+n.Sel.Name)
				}
			case *ast.CompositeLit:
				switch of := nameOf(n.Type); of {
				case "exclusively", "severally", "jointly", "singly":
					made = append(made, in+" "+of)
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
	require.ElementsMatch(t, []string{"mannerOf Joint", "mannerOf Permits", "newLock Quorum", "HandOver Moves"}, asks)
	require.ElementsMatch(t, []string{"mannerOf jointly", "mannerOf severally", "mannerOf exclusively", "runs singly"}, made)
	require.Empty(t, askedBack)
	require.Len(t, fates, 1)
}

// nameOf is the name, or the last part of it, that an expression is.
func nameOf(of ast.Expr) string {
	switch of := of.(type) {
	case *ast.Ident:
		return of.Name
	case *ast.SelectorExpr:
		return of.Sel.Name
	}
	return ""
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

// A name has one kind of lock.
func TestKindsDoNotMix(t *testing.T) {
	s := redistest.Start(t)
	c := hearing(t, s)
	rw, m := c.RWMutex("k"), c.Mutex("k")
	requireWrong := func(lock func(context.Context) (*Lease, error), says string) {
		t.Helper()
		_, err := lock(t.Context())
		require.ErrorIs(t, err, ErrWrongKind)
		require.ErrorContains(t, err, says)
	}
	l := taken(t, m.Lock)
	for _, lock := range []func(context.Context) (*Lease, error){rw.Lock, rw.TryLock, rw.RLock, rw.TryRLock} {
		requireWrong(lock, "what is held by that name is no read-write lock")
	}
	unlocked(t, l)
	for _, lock := range []func(context.Context) (*Lease, error){rw.RLock, rw.Lock} {
		l := taken(t, lock)
		requireWrong(m.Lock, "a read-write lock is held by that name")
		requireWrong(m.TryLock, "one name has one kind of lock")
		unlocked(t, l)
	}
	s.Do("SET", "k", "1")
	requireWrong(rw.Lock, "WRONGTYPE")
	requireWrong(m.Lock, "WRONGTYPE")
	s.Do("DEL", "k")
	requireNothingLeft(t, s)
}

// A mutex is refused where a writer of the same name holds, also by a client that has made many entries: the field of its writer
// is longer than 64 bytes, and Redis does not keep such a hash in the order in which it was written.
func TestKindsDoNotMixInAnyOrder(t *testing.T) {
	c := hearing(t, redistest.Start(t))
	c.core.count.Store(100_000)
	for i := range 20 {
		name := "k" + strconv.Itoa(i)
		w := taken(t, c.RWMutex(name).Lock)
		_, err := c.Mutex(name).TryLock(t.Context())
		require.ErrorIs(t, err, ErrWrongKind)
		unlocked(t, w)
	}
}

// A Mutex neither frees a read-write lock of its name, whose writer would not be told, nor says that it is free.
func TestAMutexRefusesToForceAReadWriteLock(t *testing.T) {
	s := redistest.Start(t)
	w := taken(t, hearing(t, s).RWMutex("k").Lock)
	m := newClient(t, s.Client()).Mutex("k")
	_, err := m.State(t.Context())
	require.ErrorIs(t, err, ErrWrongKind)
	_, err = m.ForceUnlock(t.Context())
	require.ErrorIs(t, err, ErrWrongKind)
	require.NoError(t, w.Context().Err())
	unlocked(t, w)
}

// No owner is called mode, but an older client may have let one be: that mutex is no read-write lock.
func TestAFieldNamedModeIsNoMode(t *testing.T) {
	s := redistest.Start(t)
	c := hearing(t, s)
	s.Do("HSET", "k", "mode", "1")
	_, err := c.RWMutex("k").TryRLock(t.Context())
	require.ErrorIs(t, err, ErrWrongKind)
	_, err = c.RWMutex("k").TryLock(t.Context())
	require.ErrorIs(t, err, ErrWrongKind)
}
