package relock

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/relock-go/relock/internal/faults"
	"github.com/stretchr/testify/require"
)

// A lock that is forced open is freed node by node, and its holder is told by the first of them and asks at once. Were it
// to take that one back while the next is not reached yet, and so on, the lock would stay held.
func TestForcedLockIsNotTakenBack(t *testing.T) {
	for _, n := range []int{3, 5} {
		t.Run(fmt.Sprint(n, " nodes"), func(t *testing.T) {
			nodes := masters(t, n)
			patient := WithCommandTimeout(9 * time.Second) // all that follows fits into one
			holder, asks := tapped(t, nodes, patient)
			other, forces := tapped(t, nodes, patient)
			ctx := context.Background()
			l, err := holder.Mutex("k").Lock(ctx)
			require.NoError(t, err)
			for _, s := range nodes {
				require.Eventually(t, func() bool { return s.Do("EXISTS", "k") == "1" }, patience, time.Millisecond)
				listening(t, s, holder)
			}
			for i := range nodes {
				asks[i].Filter(faults.All(faults.Script("renew", "vote"), faults.Tell))
				forces[i].Filter(faults.All(faults.Script("force"), faults.Stall.Held()))
			}
			type forced struct {
				freed bool
				err   error
			}
			done := make(chan forced, 1)
			go func() {
				freed, err := other.Mutex("k").ForceUnlock(ctx)
				done <- forced{freed, err}
			}()
			for _, w := range forces {
				within(t, w.Told()) // it is on its way
			}
			for i, w := range forces {
				w.Release()
				within(t, w.Told()) // it has run there
				calm(asks[i])
			}
			require.Equal(t, forced{freed: true}, within(t, done))
			within(t, l.Context().Done())
			require.ErrorIs(t, context.Cause(l.Context()), ErrLost)
			for _, s := range nodes {
				require.Eventually(t, func() bool { return s.Do("EXISTS", "k") == "0" }, patience, time.Millisecond)
			}
			second, err := other.Mutex("k").TryLock(ctx)
			require.NoError(t, err)
			require.Greater(t, second.Token(), l.Token())
			require.NoError(t, second.Unlock(ctx))
		})
	}
}

// calm gives a client the time to do what it does at once, which is told.
func calm(w *faults.Client) {
	for {
		select {
		case <-w.Told():
		case <-time.After(100 * time.Millisecond):
			return
		}
	}
}
