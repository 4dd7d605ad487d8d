package suite_test

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/claim"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/relock-go/relock/internal/wire"
	"github.com/stretchr/testify/require"
)

// What a lease's context says does not depend on whether anybody asked it before it ended.
func TestContextTellsTheFirstEnd(t *testing.T) {
	enough := errors.New("enough")
	ends := map[string]func(t *testing.T, l *relock.Lease, s *scripted, leave context.CancelCauseFunc) error{
		"unlocked": func(t *testing.T, l *relock.Lease, _ *scripted, leave context.CancelCauseFunc) error {
			require.NoError(t, l.Unlock(t.Context()))
			leave(enough)
			return relock.ErrNotHeld
		},
		"caller left": func(t *testing.T, l *relock.Lease, _ *scripted, leave context.CancelCauseFunc) error {
			leave(enough)
			require.NoError(t, l.Unlock(t.Context()))
			return enough
		},
		"lost": func(t *testing.T, l *relock.Lease, s *scripted, leave context.CancelCauseFunc) error {
			s.Answer = func(claim.Renewal) wire.Result { return wire.Lost }
			holdOf(l).Doubt()
			synctest.Wait()
			leave(enough)
			require.ErrorIs(t, l.Unlock(t.Context()), relock.ErrLost)
			return relock.ErrLost
		},
	}
	for name, end := range ends {
		for asked, ask := range map[string]func(context.Context){
			"never":   func(context.Context) {},
			"Done":    func(ctx context.Context) { ctx.Done() },
			"Err":     func(ctx context.Context) { _ = ctx.Err() },
			"a child": func(ctx context.Context) { context.AfterFunc(ctx, func() {}) },
		} {
			t.Run(name+", asked before: "+asked, func(t *testing.T) {
				inFakeTime(t, func(t *testing.T, c *relock.Client, s *scripted) {
					ctx, leave := context.WithCancelCause(t.Context())
					defer leave(nil)
					l, err := c.Mutex("k").Lock(ctx)
					require.NoError(t, err)
					ask(l.Context())
					cause := end(t, l, s, leave)
					require.Equal(t, context.Canceled, l.Context().Err())
					require.ErrorIs(t, context.Cause(l.Context()), cause)
					require.Equal(t, context.Canceled, l.Context().Err())
					<-l.Context().Done()
					late, cancel := context.WithCancel(l.Context())
					defer cancel()
					require.ErrorIs(t, context.Cause(late), cause)
				})
			})
		}
	}
}

// What is derived from a lease's context ends at the moment of the loss, and no goroutine watches for that.
func TestDerivedContextsEndWithTheLease(t *testing.T) {
	inFakeTime(t, func(t *testing.T, c *relock.Client, s *scripted) {
		l, err := c.Mutex("k").Lock(t.Context())
		require.NoError(t, err)
		inner, err := c.Mutex("other").Lock(l.Context())
		require.NoError(t, err)
		before := runtime.NumGoroutine()
		const children = 50
		told := make(chan time.Time, children)
		for range children {
			child, cancel := context.WithTimeout(inner.Context(), time.Hour)
			defer cancel()
			context.AfterFunc(child, func() { told <- time.Now() })
		}
		synctest.Wait()
		require.Less(t, runtime.NumGoroutine(), before+children/2)
		s.Answer = func(r claim.Renewal) wire.Result {
			if r.Claim == claimOf(l) {
				return wire.Lost
			}
			return wire.Renewed
		}
		<-inner.Context().Done()
		lost := time.Now()
		require.ErrorIs(t, context.Cause(inner.Context()), relock.ErrLost, "it derives from what was lost")
		for range children {
			require.Equal(t, lost, <-told)
		}
	})
}

// One context is made, however many ask for it at once, and while it ends.
func TestContextIsMadeOnce(t *testing.T) {
	inFakeTime(t, func(t *testing.T, c *relock.Client, s *scripted) {
		for range rounds(200, 20_000) {
			l, err := c.Mutex("k").Lock(t.Context())
			require.NoError(t, err)
			again, err := c.Mutex("k").Lock(l.Context())
			require.NoError(t, err)
			var wg sync.WaitGroup
			dones := make([]<-chan struct{}, 4)
			for i := range dones {
				wg.Go(func() { dones[i] = again.Context().Done() })
			}
			wg.Go(func() {
				if err := again.Unlock(context.Background()); err != nil {
					t.Error(err)
				}
			})
			wg.Wait()
			for _, done := range dones {
				<-done
				require.Equal(t, dones[0], done)
			}
			require.NoError(t, l.Unlock(t.Context()))
		}
	})
}

// asked is a context that counts how often it is asked whether it has ended.
type asked struct {
	context.Context
	times *atomic.Int64
}

func (a asked) Err() error {
	a.times.Add(1)
	return a.Context.Err()
}

// Contexts of one hold hang on each other: what ends them asks each of them a few times, however deep they nest.
func TestNestedLeasesEndInLinearTime(t *testing.T) {
	const depth = 20
	for name, end := range map[string]func(c *relock.Client, s *scripted, outer *relock.Lease, leave context.CancelFunc){
		"lost": func(_ *relock.Client, s *scripted, outer *relock.Lease, _ context.CancelFunc) {
			s.Answer = func(claim.Renewal) wire.Result { return wire.Lost }
			holdOf(outer).Doubt()
			synctest.Wait()
		},
		"closed": func(c *relock.Client, _ *scripted, _ *relock.Lease, _ context.CancelFunc) { c.Close() },
		"unlocked": func(_ *relock.Client, _ *scripted, outer *relock.Lease, _ context.CancelFunc) {
			_ = outer.Unlock(context.Background())
		},
		"caller left": func(_ *relock.Client, _ *scripted, _ *relock.Lease, leave context.CancelFunc) { leave() },
	} {
		t.Run(name, func(t *testing.T) {
			inFakeTime(t, func(t *testing.T, c *relock.Client, s *scripted) {
				var times atomic.Int64
				ctx, leave := context.WithCancel(t.Context())
				defer leave()
				var leases []*relock.Lease
				for range depth {
					l, err := c.Mutex("k").Lock(asked{ctx, &times})
					require.NoError(t, err)
					leases, ctx = append(leases, l), l.Context()
				}
				times.Store(0)
				end(c, s, leases[0], leave)
				inner := leases[depth-1].Context()
				require.Equal(t, context.Canceled, inner.Err())
				<-inner.Done()
				require.Less(t, times.Load(), int64(10*depth))
				times.Store(0)
				require.Equal(t, context.Canceled, inner.Err())
				require.Zero(t, times.Load(), "how it ended is known")
			})
		})
	}
}

// A flip is a caller's context that ends right after it has said that it has not.
type flip struct {
	context.Context
	end func() // nil until it is to happen
}

func (f *flip) Err() error {
	was := f.Context.Err()
	if end := f.end; end != nil {
		f.end = nil
		end()
	}
	return was
}

// What a context has said of its end stays, also where the caller's deadline comes in the middle of an Unlock.
func TestErrOfALeaseNeverChanges(t *testing.T) {
	inFakeTime(t, func(t *testing.T, c *relock.Client, _ *scripted) {
		ctx, leave := context.WithDeadline(t.Context(), time.Now().Add(time.Minute))
		defer leave()
		f := &flip{Context: ctx}
		l, err := c.Mutex("k").Lock(f)
		require.NoError(t, err)
		var first error
		f.end = func() {
			<-ctx.Done()
			first = l.Context().Err()
		}
		require.NoError(t, l.Unlock(t.Context()))
		require.Equal(t, context.DeadlineExceeded, first)
		require.Equal(t, first, l.Context().Err())
		require.Equal(t, first, context.Cause(l.Context()))
		<-l.Context().Done()
	})
}

// FromContext finds the innermost lease of a context, and a lease of another lock never stands in for one that is over.
func TestFromContextFindsTheInnermostLease(t *testing.T) {
	inFakeTime(t, func(t *testing.T, c *relock.Client, s *scripted) {
		finds := func(ctx context.Context, want *relock.Lease, why string) {
			t.Helper()
			got, ok := relock.FromContext(ctx)
			require.Same(t, want, got, why)
			require.Equal(t, want != nil, ok, why)
			require.Equal(t, want.Token(), relock.Token(ctx), why)
		}
		lock := func(ctx context.Context, name string) *relock.Lease {
			t.Helper()
			l, err := c.Mutex(name).Lock(ctx)
			require.NoError(t, err)
			require.Positive(t, l.Token())
			return l
		}
		var none context.Context
		finds(none, nil, "no context")
		finds(t.Context(), nil, "no lease")
		finds((*relock.Lease)(nil).Context(), nil, "that was never held")

		outer := lock(t.Context(), "a")
		finds(outer.Context(), outer, "its own")
		derived, cancel := context.WithTimeout(context.WithValue(outer.Context(), t, "x"), time.Hour)
		defer cancel()
		finds(derived, outer, "derived")
		finds(context.WithoutCancel(outer.Context()), outer, "derived, without its end")
		finds(relock.Detach(derived), nil, "detached")
		finds(relock.WithOwner(derived, "o"), nil, "of another owner")

		inner := lock(derived, "b")
		again := lock(inner.Context(), "a")
		finds(inner.Context(), inner, "the innermost, of another lock")
		finds(again.Context(), again, "the innermost, a re-entry")
		anew := lock(relock.Detach(derived), "c")
		finds(anew.Context(), anew, "the one below Detach")

		require.NoError(t, again.Unlock(t.Context()))
		finds(again.Context(), outer, "an unlocked re-entry: what it re-entered, across the other lock")
		require.NoError(t, inner.Unlock(t.Context()))
		finds(inner.Context(), nil, "unlocked: a token of the lock around it would be another lock's")
		finds(outer.Context(), outer, "what was nested in it does not matter")

		s.Answer = func(claim.Renewal) wire.Result { return wire.Lost }
		holdOf(anew).Doubt()
		holdOf(outer).Doubt()
		synctest.Wait()
		require.ErrorIs(t, context.Cause(anew.Context()), relock.ErrLost)
		finds(anew.Context(), anew, "lost: its token is what the store refuses")
		require.ErrorIs(t, anew.Unlock(t.Context()), relock.ErrLost)
		finds(outer.Context(), outer, "lost, and not given back")
	})
}

// Do's function has the token at hand.
func TestTokenInDo(t *testing.T) {
	inFakeTime(t, func(t *testing.T, c *relock.Client, _ *scripted) {
		m := c.Mutex("k")
		require.Zero(t, relock.Token(t.Context()))
		require.NoError(t, m.Do(t.Context(), func(ctx context.Context) error {
			l, err := m.Held(ctx)
			require.NoError(t, err)
			require.Positive(t, relock.Token(ctx))
			require.Equal(t, l.Token(), relock.Token(ctx))
			return nil
		}))
	})
}

func TestFixedLeaseBeyondTheClients(t *testing.T) {
	s := redistest.Start(t)
	c := newClient(t, s.Client(), relock.WithLease(time.Second), relock.WithCommandTimeout(300*time.Millisecond))
	ctx := context.Background()
	l, err := c.Mutex("k", relock.WithFixedLease(time.Hour)).Lock(ctx)
	require.NoError(t, err)
	require.Greater(t, time.Until(l.Until()), 59*time.Minute)
	require.Len(t, s.Do("PTTL", "k"), len("3600000"))
	require.NoError(t, l.Unlock(ctx))
	l, err = c.Mutex("k", relock.WithFixedLease(time.Hour)).TryLock(ctx)
	require.NoError(t, err)
	require.Greater(t, time.Until(l.Until()), 59*time.Minute)
	require.NoError(t, l.Unlock(ctx))
}

// A lease that is over tells of no end to come: what the next holder of the hold may trust is not its.
func TestUntilOfAnEndedLease(t *testing.T) {
	inFakeTime(t, func(t *testing.T, c *relock.Client, _ *scripted) {
		m := c.Mutex("k", relock.WithLocalHandoff(10, time.Hour), relock.WithStrictOrder())
		l, err := m.Lock(t.Context())
		require.NoError(t, err)
		require.Greater(t, time.Until(l.Until()), 29*time.Second)
		next := waitFor(t, c, "k")
		synctest.Wait()
		require.NoError(t, l.Unlock(t.Context()))
		second := <-next
		require.Same(t, holdOf(l), holdOf(second), "it is passed on")
		require.Zero(t, l.Until())
		require.Greater(t, time.Until(second.Until()), 29*time.Second)
		lose(second)
		require.Zero(t, second.Until(), "it was forced open")
	})
}
