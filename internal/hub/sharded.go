package hub

import (
	"context"
	"time"

	"github.com/relock-go/relock/internal/clock"
	"github.com/relock-go/relock/internal/wire"
)

// shardedFeed subscribes for each lock at the node that owns its slot: the lock's inbox and its two
// channels at once.
type shardedFeed struct{ h *Hub }

// StartSharded subscribes lock by lock, at the Cluster node of the lock's slot.
func (h *Hub) StartSharded() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.vet() // a lock's inbox comes with its room
	h.feed = &shardedFeed{h: h}
	h.Go(h.tidy)
}

func (f *shardedFeed) open(r *room) {
	ctx, cancel := context.WithCancel(f.h.ctx)
	r.stop = cancel
	names := r.names
	f.h.Go(func() { f.run(ctx, names) })
}

func (f *shardedFeed) close(r *room) { r.stop() }

func (f *shardedFeed) listen() {}

// run receives until ctx ends. A subscription ends without error too, when its slot moves to
// another node.
func (f *shardedFeed) run(ctx context.Context, n *wire.Names) {
	inbox := wire.InboxPrefix + n.Tag + ":" + f.h.client
	pause := clock.Backoff{Least: 2 * time.Millisecond, Most: 250 * time.Millisecond}
	for ctx.Err() == nil {
		began := time.Now()
		err := f.h.rdb.Follow(ctx, f.h, n.Unlock, n.Listen, inbox)
		f.unheard(ctx, n.Unlock)
		if wire.OfChannel(err) {
			clock.Sleep(ctx, f.h.deny(n.Unlock, err))
			continue
		}
		if time.Since(began) > time.Second {
			pause.Reset()
		}
		clock.Sleep(ctx, pause.Next())
	}
}

// unheard notes that a room's subscription has ended. A room that was closed meanwhile may stand open
// anew: its ctx ends with the hub's mutex held.
func (f *shardedFeed) unheard(ctx context.Context, unlock string) {
	f.h.mu.Lock()
	defer f.h.mu.Unlock()
	if r := f.h.rooms[unlock]; r != nil && ctx.Err() == nil {
		r.ready = false
	}
}
