package hub

import (
	"context"
	"time"

	"github.com/relock-go/relock/internal/clock"
	"github.com/relock-go/relock/internal/wire"
)

// shardedFeed subscribes lock by lock, each at the Cluster node that owns the lock's slot. A lock
// has an inbox of its own there, which is subscribed together with the lock's two channels. Locks of
// two kinds share it if their names have one hash tag, as a mutex {a} and a semaphore a: two calls of
// Follow have it then. So a client has no inbox for all locks, and listen has nothing to do.
type shardedFeed struct{ h *Hub }

// StartSharded makes the hub hear over sharded channels.
func (h *Hub) StartSharded() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.vet() // there is no inbox that the first holder would have to wait for
	h.feed = &shardedFeed{h: h}
	h.Go(h.tidy)
}

// open subscribes the lock's channels in a goroutine of their own, until close.
func (f *shardedFeed) open(sub *subscription) {
	ctx, cancel := context.WithCancel(f.h.ctx)
	sub.stop = cancel
	f.h.Go(func() { f.run(ctx, sub) })
}

func (f *shardedFeed) close(sub *subscription) { sub.stop() }

// listen does nothing: open subscribes each lock's inbox.
func (f *shardedFeed) listen() {}

// run keeps one lock's channels subscribed until ctx ends: when the subscription or the hub is
// closed. Follow may return before: with an error, or without one if the slot has moved to another
// node. A denied channel is asked for again when its denial says so. After any other end of Follow
// the pause grows.
func (f *shardedFeed) run(ctx context.Context, sub *subscription) {
	n := sub.names
	inbox := wire.InboxPrefix + n.Tag + ":" + f.h.client
	pause := clock.Backoff{Least: 2 * time.Millisecond, Most: 250 * time.Millisecond}
	for ctx.Err() == nil {
		began := time.Now()
		err := f.h.rdb.Follow(ctx, f.h, n.Unlock, n.Listen, inbox)
		f.h.mu.Lock()
		if sub.ready {
			for _, e := range sub.ears {
				e.want(false) // from now on a message that says so may be missed
			}
		}
		sub.ready = false
		f.h.mu.Unlock()
		if wire.OfChannel(err) {
			clock.Sleep(ctx, f.h.deny(n.Unlock, err))
			continue
		}
		if err != nil && ctx.Err() == nil {
			f.h.owner.Fails(err)
		}
		if time.Since(began) > time.Second {
			pause.Reset()
		}
		clock.Sleep(ctx, pause.Next())
	}
}
