package lookup

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/relock-go/relock/internal/driver"
	"github.com/relock-go/relock/internal/wire"
	"github.com/stretchr/testify/require"
)

// node is a Redis that answers, unless it is down.
type node struct {
	over chan struct{}
	down bool
}

func (n node) Done() <-chan struct{} { return n.over }
func (n node) Down() bool            { return n.down }

func named(name string) *wire.Names {
	n, err := wire.Mutex.Names("", name)
	if err != nil {
		panic(err)
	}
	return n
}

// lead joins a lookup that the caller leads.
func lead(t *testing.T, ls *Lookups) *Lookup {
	l, err := ls.Join(t.Context(), named("k"), node{})
	require.NoError(t, err)
	require.False(t, l.Found)
	return l
}

// hears asks, and is answered, "" for nothing found, after what happens meanwhile.
func (l *Lookup) hears(result string, meanwhile ...func()) {
	_ = l.Ask(context.Background(), func() (string, bool, error) {
		for _, happens := range meanwhile {
			happens()
		}
		return result, result != "", nil
	})
}

// Those that came before the latest question take its answer. Those that came later share the next question, also the ones that
// wake up after that has ended.
func TestAnAnswerIsForThoseThatCameBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ls Lookups
		var wg sync.WaitGroup
		var led, got atomic.Int32
		join := func(want string) func() {
			return func() {
				for range 10 {
					wg.Go(func() {
						l, err := ls.Join(t.Context(), named("k"), node{})
						if err != nil {
							t.Error(err)
						} else if !l.Found {
							led.Add(1)
							l.hears("second")
							l.End()
						} else if got.Add(1); l.Result != want {
							t.Errorf("%q", l.Result)
						}
					})
				}
				synctest.Wait()
			}
		}
		l := lead(t, &ls)
		l.hears("", join("first"))
		l.hears("first", join("second"))
		l.End()
		wg.Wait()
		require.EqualValues(t, 1, led.Load())
		require.EqualValues(t, 19, got.Load())
		require.Empty(t, ls.all)
	})
}

// A lookup that finds nothing has one of those that wait begin the next.
func TestTheNextOneLeads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ls Lookups
		leads := make(chan *Lookup)
		for range 3 {
			go func() {
				l, _ := ls.Join(t.Context(), named("k"), node{})
				leads <- l
			}()
		}
		l := nextOf(t, leads)
		for range 2 {
			synctest.Wait()
			l.hears("")
			l.End()
			next := nextOf(t, leads)
			l.End() // again, which is nothing
			l = next
		}
		l.End()
		require.Empty(t, ls.all)
	})
}

func nextOf(t *testing.T, leads <-chan *Lookup) *Lookup {
	synctest.Wait()
	l := <-leads
	require.False(t, l.Found)
	return l
}

// A caller leaves with its context, or when all are to leave. Names do not wait for one another.
func TestCallersLeave(t *testing.T) {
	var ls Lookups
	l := lead(t, &ls)
	defer l.End()
	gone := errors.New("gone")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(gone)
	l.hears("")
	for down, want := range map[bool]error{
		false: &wire.HeldError{Name: "k", Local: true, Cause: gone},
		true:  &wire.NodeError{Op: driver.Acquire, Name: "k", Err: wire.ErrNoAnswer, Cause: gone},
	} {
		l.node = node{down: down}
		_, err := ls.Join(ctx, named("k"), node{})
		require.Equal(t, want, err)
	}
	over := make(chan struct{})
	close(over)
	_, err := ls.Join(t.Context(), named("k"), node{over: over})
	require.Equal(t, wire.ErrClosed, err)
	other, err := ls.Join(ctx, named("other"), node{})
	require.NoError(t, err, "who leads asks, and hears then")
	require.False(t, other.Found)
	other.End()
}

// A goroutine that gives up hears whether Redis was silent all the time: a question was out when it came, and no answer has come
// since. A question that is cut short has none, also for the one that leads next.
func TestSilence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ls Lookups
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		fails := func(silent bool, err error) {
			t.Helper()
			_, held := err.(*wire.HeldError)
			require.Equal(t, !silent, held, err)
		}
		leaves := func(silent bool) {
			t.Helper()
			_, err := ls.Join(ended, named("k"), node{})
			fails(silent, err)
		}
		leads := make(chan *Lookup)
		follow := func() {
			go func() {
				l, _ := ls.Join(t.Context(), named("k"), node{})
				leads <- l
			}()
			synctest.Wait()
		}
		cut := func(l *Lookup, silent bool, meanwhile func()) {
			t.Helper()
			fails(silent, l.Ask(ended, func() (string, bool, error) {
				meanwhile()
				return "", false, &wire.NodeError{Err: ended.Err()}
			}))
		}

		l := lead(t, &ls)
		leaves(true) // no question is out yet, but will be
		l.hears("", func() { leaves(true) })
		leaves(false) // a function runs, say
		follow()
		cut(l, true, func() { leaves(true) }) // its own lock is not in its way
		l.End()

		l = nextOf(t, leads) // which came before that question
		follow()
		cut(l, false, func() {})
		l.End()
		l = nextOf(t, leads) // which came when it was out
		cut(l, true, follow)
		l.End()
		l = nextOf(t, leads)
		cut(l, true, func() {})
		l.End()
		require.Empty(t, ls.all)
	})
}

// A goroutine that would lead, and whose context has ended meanwhile, leaves.
func TestNobodyLeadsThatHasLeft(t *testing.T) {
	for range 50 { // as chance has it that it hears of both
		synctest.Test(t, func(t *testing.T) {
			var ls Lookups
			l := lead(t, &ls)
			l.hears("")
			ctx, cancel := context.WithCancel(t.Context())
			failed := make(chan error)
			go func() {
				_, err := ls.Join(ctx, named("k"), node{})
				failed <- err
			}()
			synctest.Wait()
			cancel()
			l.End()
			require.Equal(t, &wire.HeldError{Name: "k", Local: true, Cause: context.Canceled}, <-failed)
			require.Empty(t, ls.all)
		})
	}
}
