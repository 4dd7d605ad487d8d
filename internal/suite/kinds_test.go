package suite_test

import (
	"context"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"strings"
	"testing"
	"time"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/faults"
	"github.com/relock-go/relock/internal/locktest"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

// An option that another type of lock has is refused, in words that name the type that was asked.
func TestOptionsOfOtherTypesAreRefused(t *testing.T) {
	rdb := redistest.Start(t).Client()
	c := locktest.Client(t, rdb)
	types := map[string]func(c *relock.Client, opts ...relock.Option) error{
		"a Mutex": func(c *relock.Client, opts ...relock.Option) error {
			_, err := c.Mutex("mutex", opts...).State(t.Context())
			return err
		},
		"an RWMutex": func(c *relock.Client, opts ...relock.Option) error {
			_, err := c.RWMutex("rw", opts...).State(t.Context())
			return err
		},
		"a Semaphore": func(c *relock.Client, opts ...relock.Option) error {
			_, err := c.Semaphore("permits", 3, opts...).State(t.Context())
			return err
		},
		"a Flight": func(c *relock.Client, opts ...relock.Option) error {
			return c.Flight("once", time.Minute, opts...).Forget(t.Context())
		},
	}
	for name, of := range map[string]struct {
		option relock.Option
		fits   string // the types of lock that it is for
	}{
		"WithLease":            {relock.WithLease(time.Minute), "a Mutex, an RWMutex, a Semaphore, a Flight"},
		"WithMinHold":          {relock.WithMinHold(time.Second), "a Mutex"},
		"WithLinger":           {relock.WithLinger(time.Second), "a Mutex, an RWMutex, a Semaphore"},
		"WithLocalHandoff":     {relock.WithLocalHandoff(1, 0), "a Mutex, an RWMutex, a Semaphore"},
		"WithStrictOrder":      {relock.WithStrictOrder(), "a Mutex, an RWMutex, a Semaphore"},
		"WithRedissonWatchdog": {relock.WithRedissonWatchdog(0), "an RWMutex"},
	} {
		for asked, call := range types {
			err := call(c, of.option)
			if strings.Contains(of.fits, asked) {
				require.NoError(t, err, "%s of %s", name, asked)
				continue
			}
			require.EqualError(t, err, "relock: invalid option: "+name+": not for "+asked)
			require.ErrorIs(t, err, relock.ErrInvalidOption)
		}
		// A client takes it for the locks that it is for. Those that cannot keep to WithMinHold say so.
		client := locktest.Client(t, rdb, of.option)
		for asked, call := range types {
			if err := call(client); name == "WithMinHold" && asked != "a Mutex" {
				require.EqualError(t, err, "relock: invalid option: WithMinHold: not for "+asked)
			} else {
				require.NoError(t, err, "%s of %s", name, asked)
			}
		}
	}
}

// A lock that no Client made says of which type it is, and which method makes one.
func TestZeroLocksNameTheirType(t *testing.T) {
	ctx := t.Context()
	for what, calls := range map[string][]func() error{
		"Mutex": {
			func() error { _, err := new(relock.Mutex).Lock(ctx); return err },
			func() error { _, err := (*relock.Mutex)(nil).TryLock(ctx); return err },
			func() error { _, err := new(relock.Mutex).State(ctx); return err },
			func() error { _, err := new(relock.Mutex).TakeOver(ctx, ""); return err },
			func() error { _, err := relock.All(new(relock.Mutex)).Lock(ctx); return err },
		},
		"RWMutex": {
			func() error { _, err := new(relock.RWMutex).Lock(ctx); return err },
			func() error { _, err := (*relock.RWMutex)(nil).RLock(ctx); return err },
			func() error { _, err := new(relock.RWMutex).Reader().TryLock(ctx); return err },
			func() error { _, err := (*relock.Reader)(nil).Held(ctx); return err },
			func() error { _, err := new(relock.RWMutex).Held(ctx); return err },
			func() error { _, err := new(relock.RWMutex).ForceUnlock(ctx); return err },
			func() error { _, err := relock.Any(new(relock.RWMutex)).Lock(ctx); return err },
		},
		"Semaphore": {
			func() error { _, err := new(relock.Semaphore).Acquire(ctx, 1); return err },
			func() error { _, err := (*relock.Semaphore)(nil).TryAcquire(ctx, 1); return err },
			func() error { return new(relock.Semaphore).SetPermits(ctx, 1) },
			func() error { _, err := new(relock.Semaphore).State(ctx); return err },
			func() error { return new(relock.Semaphore).Do(ctx, locktest.Nothing) },
		},
		"Flight": {
			func() error { _, _, err := new(relock.Flight[string]).Do(ctx, said); return err },
			func() error { _, _, err := (*relock.Flight[string])(nil).Do(ctx, said); return err },
			func() error { return new(relock.Flight[string]).Forget(ctx) },
		},
	} {
		for i, call := range calls {
			err := call()
			require.EqualError(t, err, "relock: misuse: "+what+" made without a Client; use Client."+what, "call %d", i)
			require.ErrorIs(t, err, relock.ErrMisuse)
		}
	}
}

func said(context.Context) (string, error) { return "", nil }

// What cannot be handed over says why: because of its kind, or of where it is.
func TestHandOverNamesWhatCannotBe(t *testing.T) {
	s := redistest.Start(t)
	c := locktest.Client(t, s.Client())
	for text, lock := range map[string]func(context.Context) (*relock.Lease, error){
		"HandOver of a write lease":                                   c.RWMutex("rw").Lock,
		"HandOver of a read lease":                                    c.RWMutex("read").RLock,
		"HandOver of a semaphore lease":                               c.Semaphore("permits", 2).Locker(2).Lock,
		"a hand-over on a quorum of nodes, or under WithRestartGuard": locktest.Redlock(t, locktest.Masters(t, 3)).Mutex("k").Lock,
	} {
		l, err := lock(t.Context())
		require.NoError(t, err)
		_, err = l.HandOver(t.Context(), time.Minute)
		require.EqualError(t, err, "relock: not supported: "+text)
		require.ErrorIs(t, err, errors.ErrUnsupported)
		require.NoError(t, l.Unlock(t.Context()), "nothing has changed")
	}
}

// An error names a command by the word under which Stats counts it.
func TestErrorsNameCommandsAsStatsDoes(t *testing.T) {
	tap := locktest.Faulty(redistest.Start(t))
	c := locktest.Client(t, tap, relock.WithLease(time.Minute), relock.WithCommandTimeout(100*time.Millisecond))
	m := c.Mutex("k")
	l, err := m.Lock(t.Context())
	require.NoError(t, err)
	inner, err := m.Lock(l.Context())
	require.NoError(t, err)
	w, err := c.RWMutex("rw").Lock(t.Context())
	require.NoError(t, err)
	handle := func() string {
		l, err := c.Mutex("moves").Lock(t.Context())
		require.NoError(t, err)
		handle, err := l.HandOver(t.Context(), time.Minute)
		require.NoError(t, err)
		return handle
	}()
	other, err := c.Mutex("other").Lock(t.Context())
	require.NoError(t, err)
	soon := func() context.Context {
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		t.Cleanup(cancel)
		return ctx
	}
	tap.Filter(faults.All(faults.AnyScript, faults.LoseCall))
	unanswered := map[relock.Command]uint64{}
	for _, s := range c.Stats().Commands {
		unanswered[s.Command] = s.Unanswered
	}
	for i, of := range []struct {
		word relock.Command
		call func() error
	}{
		{"acquire", func() error { _, err := c.Mutex("a").TryLock(t.Context()); return err }},
		{"recount", func() error { _, err := m.TryLock(inner.Context()); return err }},
		{"recount", func() error { return l.Extend(t.Context(), time.Hour) }},
		{"inspect", func() error { _, err := m.State(t.Context()); return err }},
		{"force", func() error { _, err := m.ForceUnlock(t.Context()); return err }},
		{"force", func() error { _, err := c.Semaphore("permits", 1).ForceUnlock(t.Context()); return err }},
		{"resize", func() error { return c.Semaphore("permits", 1).SetPermits(t.Context(), 2) }},
		{"move", func() error { _, err := c.Mutex("moves").TakeOver(soon(), handle); return err }},
		{"move", func() error { _, err := other.HandOver(t.Context(), time.Minute); return err }},
		{"flight", func() error { return c.Flight("once", time.Minute).Forget(t.Context()) }},
		{"acquire", func() error { _, err := w.Downgrade(t.Context()); return err }},
		{"release", func() error { return w.Unlock(t.Context()) }},
	} {
		err := of.call()
		var node *relock.NodeError
		require.ErrorAs(t, err, &node, "call %d", i)
		require.Equal(t, of.word, node.Op, "%d: %v", i, err)
		require.ErrorContains(t, err, "relock: "+string(of.word)+" ")
		require.Contains(t, unanswered, node.Op)
		require.Eventually(t, func() bool { // the Redis client has given it up, too
			for _, s := range c.Stats().Commands {
				if s.Command == of.word {
					return s.Unanswered > unanswered[of.word]
				}
			}
			return false
		}, locktest.Patience, time.Millisecond, "call %d", i)
	}
}

// The words for commands stand in the type's comment, since there are no constants for them.
func TestCommandsAreListed(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), "../../errors.go", nil, parser.ParseComments)
	require.NoError(t, err)
	var listed []relock.Command
	for _, decl := range file.Decls {
		of, is := decl.(*ast.GenDecl)
		if !is || of.Tok != token.TYPE || of.Specs[0].(*ast.TypeSpec).Name.Name != "Command" {
			continue
		}
		for line := range strings.Lines(of.Doc.Text()) {
			if word, is := strings.CutPrefix(line, "\t"); is {
				listed = append(listed, relock.Command(strings.Fields(word)[0]))
			}
		}
	}
	var counted []relock.Command
	for _, s := range locktest.Client(t, redistest.Start(t).Client()).Stats().Commands {
		counted = append(counted, s.Command)
	}
	require.ElementsMatch(t, counted, listed)
}
