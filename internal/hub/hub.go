// Package hub receives the messages of one Redis and tells the entries of this process of them. A
// message is a hint at what to do at once; one that is lost costs time, never a lock, because
// waiters look for themselves.
package hub

import (
	"container/list"
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/relock-go/relock/internal/crew"
	"github.com/relock-go/relock/internal/driver"
	"github.com/relock-go/relock/internal/wire"
)

// linger is how long the channels of a lock stay subscribed after its last waiter here has left, so
// that steady contention subscribes once.
const linger = 30 * time.Second

const (
	maxChannels      = 500                    // in one command, and rooms ended in one go
	subscribeTimeout = 2 * time.Second        // of each command that subscribes
	leaveTimeout     = 300 * time.Millisecond // how long Close waits for connections that do not answer
)

// Hub is a client's ears at one Redis.
type Hub struct {
	rdb    driver.Redis
	client string // uuid, the inbox's name
	orphan func(wire.Grant)
	tell   func(cause error) // why messages are not heard as they should be

	ctx    context.Context
	cancel context.CancelFunc
	done   chan struct{} // closed by Stop: contenders leave
	crew   crew.Crew
	feed   feed
	vetted chan struct{} // closed once it is known whether the inbox may be subscribed, or that Redis cannot tell

	// settled is set once the inbox is wanted and vetted, which it then stays: a grant has nothing
	// more to ask for.
	settled atomic.Bool
	// hears is set while the inbox is subscribed for all locks at once.
	hears atomic.Bool
	// skipped counts messages that no relock and no Redisson can have sent.
	skipped atomic.Int64

	// mu guards what follows and the hub's fields in every Ear. Invariant: ears holds exactly those
	// of entries that are not over; a room holds exactly those of them that want to hear of its
	// lock's unlock channel; vacant holds exactly the rooms that are empty; and only channels
	// that are wanted are denied.
	mu      sync.Mutex
	ears    map[string]*Ear    // by the entry's id
	rooms   map[string]*room   // by unlock channel
	beside  map[string]*room   // the same by the channel of turns
	vacant  *list.List         // of *room, the longest empty one first
	denied  map[string]*denial // by channel
	denials int                // so far
	inbox   bool               // an entry has waited or held: the inbox is wanted
}

// feed subscribes for a hub: all locks over one connection, or a subscription for each lock's
// Cluster slot.
type feed interface {
	// All are called with the hub's mutex held.
	open(r *room)  // a room wants its channels
	close(r *room) // it no longer does
	listen()       // the inbox is wanted
}

// room is a lock's unlock channel and the entries that listen to it here. Locks of two kinds meet in it only where
// Redisson tells both over one channel.
type room struct {
	names   *wire.Names
	members []*Ear
	turns   turns
	ready   bool          // the subscription is confirmed
	empty   time.Time     // when the last member left
	vacancy *list.Element // its place in the hub's vacant, nil while it has members
	stop    context.CancelFunc
}

// New returns a hub that hears nothing before StartPlain or StartSharded. Grants of entries that
// are over go to orphan. tell is told, without the hub's mutex held, why messages are not heard as
// they should be.
func New(rdb driver.Redis, client string, tell func(cause error), orphan func(wire.Grant)) *Hub {
	h := &Hub{
		rdb: rdb, client: client, tell: tell, orphan: orphan,
		done: make(chan struct{}), vetted: make(chan struct{}), ears: make(map[string]*Ear),
		rooms: make(map[string]*room), beside: make(map[string]*room), vacant: list.New(), denied: make(map[string]*denial),
	}
	h.ctx, h.cancel = context.WithCancel(context.Background())
	return h
}

// Impaired tells why messages are not heard as they should be.
func (h *Hub) Impaired(cause error) { h.tell(cause) }

// Context ends when the hub is closed.
func (h *Hub) Context() context.Context { return h.ctx }

// Done is closed when contenders are to leave.
func (h *Hub) Done() <-chan struct{} { return h.done }

// expect subscribes the inbox, on which a waiter is told of its grant and a holder that it was
// deposed. The caller holds the hub's mutex.
func (h *Hub) expect() {
	if !h.inbox && h.feed != nil {
		h.inbox = true
		h.feed.listen()
	}
	h.settled.Store(h.inbox && h.isVetted())
}

// Subscribed is called for each confirmed subscription, the first and those after a lost
// connection. A waiter may have missed a message and looks for itself; a holder may have missed
// that it was deposed.
func (h *Hub) Subscribed(channel string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.confirm(channel)
}

// confirm is Subscribed for callers that hold the hub's mutex.
func (h *Hub) confirm(channel string) {
	delete(h.denied, channel)
	if r := h.rooms[channel]; r != nil {
		r.ready = true
		for _, e := range r.members {
			e.news()
			e.want(false)
		}
	} else if channel == wire.InboxPrefix+h.client {
		h.vet()
		h.hears.Store(true)
		for _, e := range h.ears {
			e.want(false)
			if e.watcher.Load() != nil || e.room == nil { // a waiter in a room hears of that
				e.news()
			}
		}
	}
}

// tidy ends idle rooms until the hub is closed.
func (h *Hub) tidy() {
	tick := time.NewTicker(linger / 2)
	defer tick.Stop()
	for {
		select {
		case now := <-tick.C:
			for h.endIdle(now) {
			}
		case <-h.ctx.Done():
			return
		}
	}
}

// endIdle ends rooms that have been empty for a while, as many as may be ended in one go. It
// reports whether there may be more.
func (h *Hub) endIdle(now time.Time) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	for range maxChannels {
		first := h.vacant.Front()
		if first == nil {
			return false
		}
		r := first.Value.(*room)
		if now.Sub(r.empty) <= linger {
			return false
		}
		h.end(r)
	}
	return true
}

// end leaves the channels of a vacant room. The caller holds the hub's mutex.
func (h *Hub) end(r *room) {
	h.vacant.Remove(r.vacancy)
	delete(h.rooms, r.names.Unlock)
	delete(h.beside, r.names.Listen)
	delete(h.denied, r.names.Unlock)
	delete(h.denied, r.names.Listen)
	h.feed.close(r)
}

// Go runs f in a goroutine that Close waits for. It returns false when the hub is closed.
func (h *Hub) Go(f func()) bool { return h.crew.Start(f) }

// Stop turns contenders away. Messages are still received: grants that come now are ended.
func (h *Hub) Stop() { close(h.done) }

// Close ends all subscriptions and returns when no goroutine is left, or after a moment where a
// connection does not answer, or none was to be had yet. What is left then sends nothing but its
// good-bye and ends by itself: the client library gives up a connection after a second, and one
// that it still hands out is given back at once.
func (h *Hub) Close() {
	h.cancel()
	late, cancel := context.WithTimeout(context.Background(), leaveTimeout)
	defer cancel()
	h.crew.End(late)
	h.rdb.Close(late)
}

// Listening tells how many entries listen for a lock's unlock channel here, whether its
// subscription is confirmed, and whether all that woke them has been looked at.
func (h *Hub) Listening(unlock string) (members int, confirmed, quiet bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	r := h.rooms[unlock]
	if r == nil {
		return 0, false, true
	}
	quiet = true
	for _, e := range r.members {
		quiet = quiet && len(e.wake) == 0
	}
	return len(r.members), r.ready, quiet
}

// Skipped is how many messages came that no relock and no Redisson can have sent.
func (h *Hub) Skipped() int64 { return h.skipped.Load() }
