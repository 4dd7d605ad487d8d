package overrueidis

import (
	"context"
	"sync"
	"testing"

	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

// Where the user's pool hands no connection out Listen waits as long as its context lives, and Close likewise. The
// connection that comes later is given back unused.
func TestListenWithoutAConnection(t *testing.T) {
	s := redistest.Start(t)
	opt := s.Option()
	opt.BlockingPoolSize = 1
	rdb := open(t, opt)
	d := over(t, rdb)
	_, release := rdb.Dedicate()
	give := sync.OnceFunc(release)
	t.Cleanup(give)
	ctx, cancel := context.WithCancel(t.Context())
	failed := make(chan error, 1)
	go func() {
		_, err := d.Listen(ctx, newEar())
		failed <- err
	}()
	require.Eventually(t, func() bool { return running(d) == 1 }, patience, tick)
	cancel()
	require.ErrorIs(t, within(t, failed), context.Canceled)
	d.Close(ctx)
	require.Equal(t, 1, running(d))
	give()
	d.Close(t.Context())
	require.Zero(t, running(d))

	conn, release := rdb.Dedicate()
	defer release()
	require.NoError(t, conn.Do(t.Context(), conn.B().Ping().Build()).Error())
}

// A listener gives its connection back in the end, one that was lost as well.
func TestListenersGiveTheirConnectionBack(t *testing.T) {
	s := redistest.Start(t)
	for _, old := range []bool{true, false} {
		opt := s.Option()
		opt.BlockingPoolSize, opt.AlwaysRESP2 = 1, old
		d := over(t, open(t, opt))
		for i := range 4 {
			e := newEar()
			l, err := d.Listen(t.Context(), e)
			require.NoError(t, err)
			require.NoError(t, l.Subscribe(t.Context(), "c"))
			if i%2 == 0 {
				s.Do("CLIENT", "KILL", "TYPE", "pubsub")
				require.Error(t, within(t, l.Dropped()))
			}
			l.Close()
		}
	}
}
