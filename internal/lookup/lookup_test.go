package lookup

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
)

// lead joins a lookup that the caller leads.
func lead(t *testing.T, ls *Lookups) *Lookup {
	l, err := ls.Join(t.Context(), "k", nil)
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
						l, err := ls.Join(t.Context(), "k", nil)
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
				l, _ := ls.Join(t.Context(), "k", nil)
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
	_, err := ls.Join(ctx, "k", nil)
	require.ErrorIs(t, err, gone)
	over := make(chan struct{})
	close(over)
	_, err = ls.Join(t.Context(), "k", over)
	require.ErrorIs(t, err, ErrOver)
	other, err := ls.Join(t.Context(), "other", nil)
	require.NoError(t, err)
	require.False(t, other.Found)
	other.End()
}

// A goroutine that leaves, or that leads after others, is told whether it heard nothing all the time: a question was out when it
// came, and no answer has come since. A question that is cut short has none, also for the one that leads next.
func TestSilence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ls Lookups
		leaves := func(silent bool) {
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			_, err := ls.Join(ctx, "k", nil)
			require.Equal(t, &Left{context.Canceled, silent}, err)
			require.ErrorIs(t, err, context.Canceled)
			require.EqualError(t, err, "context canceled")
		}
		leads := make(chan *Lookup)
		follow := func() {
			go func() {
				l, _ := ls.Join(t.Context(), "k", nil)
				leads <- l
			}()
			synctest.Wait()
		}
		cut := func(l *Lookup, meanwhile func()) {
			ctx, cancel := context.WithCancel(t.Context())
			require.ErrorIs(t, l.Ask(ctx, func() (string, bool, error) {
				meanwhile()
				cancel()
				return "", false, ctx.Err()
			}), context.Canceled)
		}

		l := lead(t, &ls)
		require.True(t, l.Silent())
		leaves(true) // no question is out yet, but will be
		l.hears("", func() { leaves(true) })
		require.False(t, l.Silent())
		leaves(false) // a function runs, say
		follow()
		cut(l, func() { leaves(true) })
		require.False(t, l.Silent(), "it has heard an earlier answer")
		l.End()

		l = nextOf(t, leads) // which came before the question that was cut short
		cut(l, func() {})
		require.False(t, l.Silent())
		cut(l, follow)
		l.End()
		l = nextOf(t, leads) // which came when that was out
		require.True(t, l.Silent())
		l.hears("")
		require.False(t, l.Silent())
		l.End()
	})
}
