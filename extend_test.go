package relock

import (
	"context"
	"testing"
	"time"

	"github.com/relock-go/relock/internal/faults"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/relock-go/relock/internal/tenure"
	"github.com/stretchr/testify/require"
)

// An Extend that was not answered may have lengthened the lease. So the hold is neither passed on in this process nor laid down:
// if the process died, the next holder's lock would stand for as long. That goes on once the hold count, which the same command
// wrote, is sure again.
func TestUnansweredExtendLengthens(t *testing.T) {
	const lease, longer = time.Hour, 2 * time.Hour // so that the watchdog does nothing by itself, however slow the machine is
	for name, of := range map[string]func(c *Client, opts ...Option) func(context.Context) (*Lease, error){
		"mutex": func(c *Client, opts ...Option) func(context.Context) (*Lease, error) {
			return c.Mutex("k", opts...).Lock
		},
		"writer": func(c *Client, opts ...Option) func(context.Context) (*Lease, error) {
			return c.RWMutex("k", opts...).Lock
		},
		"reader": func(c *Client, opts ...Option) func(context.Context) (*Lease, error) {
			return c.RWMutex("k", opts...).RLock
		},
	} {
		for _, linger := range []time.Duration{0, time.Hour} {
			t.Run(name+"/"+linger.String(), func(t *testing.T) {
				t.Parallel()
				s := redistest.Start(t)
				rdb := faulty(s)
				c := lingeringClient(t, rdb, time.Hour, WithLease(lease), WithCommandTimeout(2*patience), WithRedissonWatchdog(0))
				lock := of(c, WithLinger(linger))
				first := taken(t, lock)
				rdb.Filter(faults.All(faults.Script("recount"), faults.LoseReply))
				require.Error(t, first.Extend(t.Context(), longer))
				rdb.Filter(nil)
				first.h.mu.Lock()
				first.h.count = tenure.Count{} // as if renewals had confirmed it meanwhile
				first.h.mu.Unlock()
				require.NoError(t, first.Context().Err())
				passedOn := make(chan *Lease, 1)
				if linger == 0 && name != "reader" { // whose hold a second one would share
					go func() { passedOn <- taken(t, lock) }()
					require.Eventually(t, func() bool { return c.core.gates.Waiting(first.h.names.Gate()) }, patience, time.Millisecond)
				}
				unlocked(t, first)
				require.Zero(t, idleAt(c), "it was laid down")
				if linger == 0 && name != "reader" {
					next := within(t, passedOn)
					require.NotSame(t, first.h, next.h, "it was passed on")
					unlocked(t, next)
				}
			})
		}
	}
}
