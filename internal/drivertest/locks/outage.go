package locks

import (
	"sync"
	"testing"
	"time"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/driver"
	"github.com/relock-go/relock/internal/opening"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/relock-go/relock/internal/wire"
	"github.com/stretchr/testify/require"
)

// onOutage stops the Redis of a client that wants no lock, and starts it again. The client tells of
// each once, whatever its library does meanwhile, and of nothing else: no node counts as impaired
// for being down.
func onOutage(t *testing.T, open Opener) {
	for name, n := range map[string]int{"one Redis": 1, "quorum": 3} {
		t.Run(name, func(t *testing.T) {
			var servers []*redistest.Server
			var rdbs []driver.Redis
			for range n {
				s := redistest.Start(t)
				servers, rdbs = append(servers, s), append(rdbs, open(t, s.Target())())
			}
			told := &news{}
			opts := []relock.ClientOption{relock.WithObserver(told)}
			open := func() (any, error) { return opening.New(rdbs[0], opts) }
			if n > 1 {
				open = func() (any, error) { return opening.NewRedlock(rdbs, opts) }
			}
			made, err := open()
			c := opened(t, made, err)
			lease, err := c.Mutex(prefix + "before").Lock(t.Context())
			require.NoError(t, err)
			require.NoError(t, lease.Unlock(t.Context()))
			hears := func() bool {
				for _, s := range servers {
					if s.Do("PUBSUB", "CHANNELS", wire.InboxPrefix+"*") == "" {
						return false
					}
				}
				return true
			}
			require.Eventually(t, hears, patience, time.Millisecond)
			for _, s := range servers {
				s.Kill()
			}
			require.Eventually(t, func() bool { return told.count(relock.EventNodeDown) == n }, patience, 10*time.Millisecond)
			require.Len(t, c.Stats().Down, n)
			for _, s := range servers {
				s.Restart()
			}
			require.Eventually(t, func() bool { return told.count(relock.EventNodeUp) == n }, patience, 10*time.Millisecond)
			require.Eventually(t, hears, patience, 10*time.Millisecond)
			require.Empty(t, c.Stats().Down)
			require.Equal(t, n, told.count(relock.EventNodeDown))
			require.Zero(t, told.count(relock.EventNodeImpaired))
			require.Zero(t, told.count(relock.EventNodeMended))
		})
	}
}

// news is an observer that counts events.
type news struct {
	mu  sync.Mutex
	all map[relock.EventKind]int
}

func (o *news) Observe(e relock.Event) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.all == nil {
		o.all = make(map[relock.EventKind]int)
	}
	o.all[e.Kind]++
}

func (o *news) count(kind relock.EventKind) int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.all[kind]
}
