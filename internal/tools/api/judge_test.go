package api

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const before = `package p

const Most = 3

var ErrBusy error

type Lock struct{ base }

type base struct{ name string }

func (b *base) Take(name string) (int, error) { return 0, nil }

func (b *base) Drop() error { return nil }

func (l Lock) String() string { return l.name }

type Locker interface{ Take(name string) (int, error) }

type State struct {
	Held bool ` + "`json:\"held\"`" + `
	Count int
}

type Option func(*config)

type config struct{ wait int }

func WithWait(wait int) Option { return nil }

func New(opts ...Option) *Lock { return nil }

type Once[T any] struct{ fn func() T }

func (o *Once[T]) Do(fn func() T) T { return fn() }

func OnceOf[T any](l *Lock) *Once[T] { return nil }
`

func TestChangesAreJudged(t *testing.T) {
	recorded, err := Write(source(t, before))
	require.NoError(t, err)
	for name, test := range map[string]struct {
		old, new, breaks, adds string
	}{
		"a method removed":              {"func (b *base) Drop() error { return nil }", "", "(*Lock).Drop: removed", ""},
		"a signature changed":           {"Drop() error { return nil }", "Drop() bool { return false }", "(*Lock).Drop: changed from func() error to func() bool", ""},
		"a method of an interface":      {"type Locker interface{ ", "type Locker interface{ Drop() error; ", "Locker.Drop: added", ""},
		"a variadic parameter more":     {"New(opts ...Option)", "New(name string, opts ...Option)", "New: changed from", ""},
		"a field removed":               {"Count int", "", "State.Count: removed", ""},
		"values no longer compare":      {"type base struct{ ", "type base struct{ all []int; ", "Lock: old is comparable, new is not", ""},
		"a value changed":               {"Most = 3", "Most = 4", "Most: value changed from 3 to 4", ""},
		"a type renamed":                {"type Locker", "type Taker", "Locker: removed", "Taker: added"},
		"a receiver that is a pointer":  {"(l Lock) String", "(l *Lock) String", "Lock.String: removed", ""},
		"a generic method changed":      {"Do(fn func() T) T", "Do(fn func() T) (t T)", "", ""},
		"a generic method removed":      {"func (o *Once[T]) Do(fn func() T) T { return fn() }", "", "(*Once[T]).Do: removed", ""},
		"a function added":              {"func New(", "func Old() {}\n\nfunc New(", "", "Old: added"},
		"a method added":                {"func (l Lock) String", "func (l Lock) Name() string { return l.name }\n\nfunc (l Lock) String", "", "Lock.Name: added"},
		"a field added":                 {"Count int", "Count, Readers int", "", "State.Readers: added"},
		"a parameter renamed":           {"WithWait(wait int)", "WithWait(d int)", "", ""},
		"a tag changed":                 {"json:\"held\"", "json:\"is_held\"", "", ""},
		"a method that is promoted now": {"func (l Lock) String() string { return l.name }", "func (b base) String() string { return b.name }", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			after := strings.Replace(before, test.old, test.new, 1)
			require.NotEqual(t, before, after)
			c, err := Judge("p", recorded, source(t, after), nil)
			require.NoError(t, err)
			require.Equal(t, name != "a method that is promoted now", c.Text != nil, "differs")
			holds(t, c.Breaks, test.breaks)
			holds(t, c.Adds, test.adds)
		})
	}
	c, err := Judge("p", recorded, source(t, before), nil)
	require.NoError(t, err)
	require.Equal(t, Change{}, c, "nothing changed")
	c, err = Judge("p", recorded, nil, nil)
	require.NoError(t, err)
	holds(t, c.Breaks, "the package is gone")
	c, err = Judge("p", nil, source(t, before), nil)
	require.NoError(t, err)
	holds(t, c.Adds, "the package is new")
	c, err = Judge("p", []byte("package p\n\nimport \"gone\"\n\nfunc New() gone.Lock\n"), source(t, before), nil)
	require.NoError(t, err)
	holds(t, c.Breaks, "no package gone")
}

// What Write has no words for is an error, not left out.
func TestWhatCannotBeWritten(t *testing.T) {
	for _, text := range []string{"type Lock struct{ base }\n\ntype base struct{ Name string }"} {
		_, err := Write(source(t, "package p\n\n"+text))
		require.ErrorContains(t, err, "cannot be written yet")
	}
}

func TestFinal(t *testing.T) {
	for version, final := range map[string]bool{"v0.1.0": false, "v0.12.3": false, "v1.0.0": true, "v1.0.0-rc.1": true, "v10.2.0": true} {
		for _, mod := range []string{"require %s\n", "require (\n\tgithub.com/relock-go/relock/contrib/relockui v0.1.0\n\t%s\n)\n"} {
			mod = "module m\n\n" + fmt.Sprintf(mod, "github.com/relock-go/relock "+version)
			require.Equal(t, final, Final([]byte(mod)), mod)
		}
	}
}

// holds checks that one change contains want, or that there is none where want is empty.
func holds(t *testing.T, changes []string, want string) {
	t.Helper()
	if want == "" {
		require.Empty(t, changes)
		return
	}
	require.Contains(t, strings.Join(changes, "\n"), want)
}

func source(t *testing.T, text string) *types.Package {
	t.Helper()
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, "p.go", text, 0)
	require.NoError(t, err)
	pkg, err := new(types.Config).Check("p", files, []*ast.File{file}, nil)
	require.NoError(t, err)
	return pkg
}
