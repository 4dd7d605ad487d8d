package relock

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
)

// Operations of one hold come one at a time, in order; who gives up is passed over, at whatever moment.
func TestOpsComeInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var o ops
		enough := errors.New("enough")
		ctx, leave := context.WithCancelCause(t.Context())
		require.True(t, o.tryLock(&mu))
		var order []int
		for i := range 5 {
			go func() {
				wait := t.Context()
				if i == 0 || i == 2 {
					wait = ctx
				}
				if err := o.lock(wait, &mu); err != nil {
					if err != enough {
						t.Error(err)
					}
					return
				}
				order = append(order, i)
				o.unlock(&mu)
			}()
			synctest.Wait()
		}
		require.False(t, o.tryLock(&mu))
		leave(enough)
		synctest.Wait()
		o.unlock(&mu)
		synctest.Wait()
		require.Equal(t, []int{1, 3, 4}, order)
		require.True(t, o.tryLock(&mu))

		for range 200 { // one that gives up as its turn comes
			ctx, leave := context.WithCancel(t.Context())
			go func() {
				if o.lock(ctx, &mu) == nil {
					o.unlock(&mu)
				}
			}()
			synctest.Wait()
			go leave()
			o.unlock(&mu)
			synctest.Wait()
			require.True(t, o.tryLock(&mu))
		}
		o.unlock(&mu)
	})
}
