package relock

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
)

// Operations of one hold come one at a time, in order; who gives up is passed over, at whatever moment.
func TestOpsComeInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var h hold
		enough := errors.New("enough")
		ctx, leave := context.WithCancelCause(t.Context())
		require.True(t, h.tryLock())
		var order []int
		for i := range 5 {
			go func() {
				wait := t.Context()
				if i == 0 || i == 2 {
					wait = ctx
				}
				if err := h.lock(wait); err != nil {
					if err != enough {
						t.Error(err)
					}
					return
				}
				order = append(order, i)
				h.unlock()
			}()
			synctest.Wait()
		}
		require.False(t, h.tryLock())
		leave(enough)
		synctest.Wait()
		h.unlock()
		synctest.Wait()
		require.Equal(t, []int{1, 3, 4}, order)
		require.True(t, h.tryLock())

		for range 200 { // one that gives up as its turn comes
			ctx, leave := context.WithCancel(t.Context())
			go func() {
				if h.lock(ctx) == nil {
					h.unlock()
				}
			}()
			synctest.Wait()
			go leave()
			h.unlock()
			synctest.Wait()
			require.True(t, h.tryLock())
		}
		h.unlock()
	})
}
