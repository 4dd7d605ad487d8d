package ctxmutex_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/ctxmutex"
)

// Goroutines get the mutex one at a time, in order. One that gives up is passed over, at whatever moment.
func TestInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var m ctxmutex.Mutex
		enough := errors.New("enough")
		ctx, leave := context.WithCancelCause(t.Context())
		require.True(t, m.TryLock())
		var order []int
		for i := range 5 {
			go func() {
				wait := t.Context()
				if i == 0 || i == 2 {
					wait = ctx
				}
				if err := m.Lock(wait); err != nil {
					if err != enough {
						t.Error(err)
					}
					return
				}
				order = append(order, i)
				m.Unlock()
			}()
			synctest.Wait()
		}
		require.False(t, m.TryLock())
		leave(enough)
		synctest.Wait()
		m.Unlock()
		synctest.Wait()
		require.Equal(t, []int{1, 3, 4}, order)
		require.True(t, m.TryLock())

		for range 200 { // one that gives up as its turn comes
			ctx, leave := context.WithCancel(t.Context())
			go func() {
				if m.Lock(ctx) == nil {
					m.Unlock()
				}
			}()
			synctest.Wait()
			go leave()
			m.Unlock()
			synctest.Wait()
			require.True(t, m.TryLock())
		}
		m.Unlock()
	})
}
