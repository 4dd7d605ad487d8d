package hub

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/relock-go/relock/internal/driver"
	"github.com/relock-go/relock/internal/faults"
	"github.com/stretchr/testify/require"
)

// dropping confirms the first subscription, ends it when told to, and has no other.
type dropping struct {
	faults.Stub
	drop  chan struct{}
	calls atomic.Int32
}

func (d *dropping) Follow(ctx context.Context, h driver.Handler, channels ...string) error {
	if d.calls.Add(1) > 1 {
		<-ctx.Done()
		return ctx.Err()
	}
	for _, channel := range channels {
		h.Subscribed(channel)
	}
	select {
	case <-d.drop:
		return errors.New("the master is down")
	case <-ctx.Done():
		return ctx.Err()
	}
}

// A holder of a lock whose subscription is gone is not told that it hears of others that want the lock.
func TestSubscriptionIsReadyWhileItStands(t *testing.T) {
	d := &dropping{drop: make(chan struct{})}
	h := New(d, "c", quiet{}, noOrphan(t))
	defer h.Close()
	h.StartSharded()
	e := listens(t, h, "k", 1)
	require.Eventually(t, e.Attend, patience, time.Millisecond)
	e.wanted.Store(notWanted)
	told := &watching{}
	var w Watcher = told
	e.Watch(&w)
	close(d.drop)
	require.Eventually(t, func() bool { return d.calls.Load() == 2 }, patience, time.Millisecond)
	require.False(t, e.Attend())
	require.EqualValues(t, 1, told.wanted.Load(), "it may have missed something")
}
