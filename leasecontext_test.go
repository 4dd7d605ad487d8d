package relock

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/relock-go/relock/internal/wire"
	"github.com/stretchr/testify/require"
)

// What a lease's context says does not depend on whether anybody asked it before it ended.
func TestContextTellsTheFirstEnd(t *testing.T) {
	enough := errors.New("enough")
	ends := map[string]func(t *testing.T, l *Lease, s *scripted, leave context.CancelCauseFunc) error{
		"unlocked": func(t *testing.T, l *Lease, _ *scripted, leave context.CancelCauseFunc) error {
			require.NoError(t, l.Unlock(t.Context()))
			leave(enough)
			return ErrNotHeld
		},
		"caller left": func(t *testing.T, l *Lease, _ *scripted, leave context.CancelCauseFunc) error {
			leave(enough)
			require.NoError(t, l.Unlock(t.Context()))
			return enough
		},
		"lost": func(t *testing.T, l *Lease, s *scripted, leave context.CancelCauseFunc) error {
			s.answer = func(renewal) wire.Result { return wire.Lost }
			l.h.Doubt()
			synctest.Wait()
			leave(enough)
			require.ErrorIs(t, l.Unlock(t.Context()), ErrLost)
			return ErrLost
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
				inFakeTime(t, func(t *testing.T, c *Client, s *scripted) {
					ctx, leave := context.WithCancelCause(t.Context())
					defer leave(nil)
					l, err := c.Mutex("k").Lock(ctx)
					require.NoError(t, err)
					ask(l.Context())
					cause := end(t, l, s, leave)
					require.Equal(t, context.Canceled, l.Context().Err())
					require.Equal(t, cause, context.Cause(l.Context()))
					require.Equal(t, context.Canceled, l.Context().Err())
					<-l.Context().Done()
					late, cancel := context.WithCancel(l.Context())
					defer cancel()
					require.Equal(t, cause, context.Cause(late))
				})
			})
		}
	}
}

// What is derived from a lease's context ends at the moment of the loss, and no goroutine watches for that.
func TestDerivedContextsEndWithTheLease(t *testing.T) {
	inFakeTime(t, func(t *testing.T, c *Client, s *scripted) {
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
		s.answer = func(r renewal) wire.Result {
			if r.claim == l.h.claim {
				return wire.Lost
			}
			return wire.Renewed
		}
		<-inner.Context().Done()
		lost := time.Now()
		require.Equal(t, ErrLost, context.Cause(inner.Context()), "it derives from what was lost")
		for range children {
			require.Equal(t, lost, <-told)
		}
	})
}

// One context is made, however many ask for it at once, and while it ends.
func TestContextIsMadeOnce(t *testing.T) {
	inFakeTime(t, func(t *testing.T, c *Client, s *scripted) {
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
