// Package hub receives the messages of one Redis and passes them to the entries of this process. A
// message is a hint at what to do at once. A lost message costs time, never a lock: waiters also ask
// Redis from time to time.
//
// An entry hears by an Ear. Two kinds of channels are subscribed. The client's inbox has the messages
// to one of its entries, above all grants. The channels of each lock that an entry waits for tell
// when the lock may be free.
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

// keepIdle is how long the channels of a lock stay subscribed after the last ear has left them, so
// that steady contention subscribes once.
const keepIdle = 30 * time.Second

const (
	maxChannels      = 500                    // in one command, and subscriptions ended in one go
	subscribeTimeout = 2 * time.Second        // of each command that subscribes
	leaveTimeout     = 300 * time.Millisecond // how long Close waits for connections that do not answer
)

// Owner is the node whose messages a hub receives. The hub calls its methods without its mutex held.
type Owner interface {
	// Impaired is told why messages are not heard as they should be, and Mended once that is over.
	Impaired(cause error)
	Mended(cause error)
	// Fails is told of each failure to subscribe, and of each connection that was lost.
	Fails(err error)
	// Answers asks the Redis whether it answers at all, and returns why it does not.
	Answers(ctx context.Context) error
}

// Hub has a client's ears at one Redis.
type Hub struct {
	rdb    driver.Redis
	client string // uuid, the inbox's name
	orphan func(wire.Grant)
	owner  Owner

	ctx    context.Context
	cancel context.CancelFunc
	crew   crew.Crew
	feed   feed

	// vetted is closed once it is known whether the inbox may be subscribed, or that this cannot be
	// known because Redis does not answer.
	vetted chan struct{}
	// settled is set for good once the inbox is wanted and vetted: Granted has nothing left to do
	// then, unless its ear hears a lock's channels.
	settled atomic.Bool
	// hears is set while the inbox is subscribed. With sharded channels it never is: each lock has an
	// inbox of its own there.
	hears atomic.Bool
	// skipped counts messages that no relock and no Redisson can have sent.
	skipped atomic.Int64

	// mu guards what follows and the hub's fields in every Ear. Invariants:
	//
	//   - ears holds exactly the ears of entries that are not over.
	//   - A subscription holds exactly those ears that want to hear its lock's channels.
	//   - idle holds exactly the subscriptions that have no ears.
	//   - Only channels that are wanted are denied.
	mu          sync.Mutex
	ears        map[string]*Ear          // by the entry's id
	subs        map[string]*subscription // by each of its two channels
	idle        *list.List               // of *subscription, the one that has been idle for longest first
	denied      map[string]*denial       // by channel
	denials     int                      // how many channels were denied since the last all-clear
	denialTold  error                    // the denial that the user was told of; nil for none
	deniedTold  string                   // its channel
	inboxWanted bool                     // an entry has waited or held
}

// feed subscribes what a hub wants. A plainFeed has one connection for all channels; a shardedFeed
// subscribes lock by lock, at the Cluster node of the lock's slot. All methods are called with the
// hub's mutex held.
type feed interface {
	open(sub *subscription)  // its channels are wanted
	close(sub *subscription) // its channels are not wanted any more
	listen()                 // the inbox is wanted
}

// subscription is that of one lock's two channels, and the ears that hear them. On Unlock a message
// tells that the lock may be free, on Listen that a turn of Redisson's waiters begins. Locks of two
// kinds share a subscription only if Redisson uses one channel for both.
type subscription struct {
	names     *wire.Names
	ears      []*Ear
	turns     turns
	ready     bool               // Redis has confirmed Unlock
	idle      *list.Element      // its place in the hub's idle; nil while it has ears
	idleSince time.Time          // when the last ear left
	stop      context.CancelFunc // of a shardedFeed
}

// New returns a hub that hears nothing before StartPlain or StartSharded. orphan takes grants of
// entries that are over. The hub calls it without its mutex held.
func New(rdb driver.Redis, client string, owner Owner, orphan func(wire.Grant)) *Hub {
	h := &Hub{
		rdb: rdb, client: client, owner: owner, orphan: orphan,
		vetted: make(chan struct{}), ears: make(map[string]*Ear),
		subs: make(map[string]*subscription), idle: list.New(), denied: make(map[string]*denial),
	}
	h.ctx, h.cancel = context.WithCancel(context.Background())
	return h
}

// Impaired tells why messages are not heard as they should be.
func (h *Hub) Impaired(cause error) { h.owner.Impaired(cause) }

// Context ends when the hub is closed.
func (h *Hub) Context() context.Context { return h.ctx }

// wantInbox subscribes the inbox unless that was done before. A waiter is told there of its grant,
// a holder that it was deposed. The caller holds the hub's mutex.
func (h *Hub) wantInbox() {
	if !h.inboxWanted && h.feed != nil {
		h.inboxWanted = true
		h.feed.listen()
	}
	h.settled.Store(h.inboxWanted && h.isVetted())
}

// Subscribed notes that Redis has confirmed a subscription: the first one, or one after a lost
// connection. Messages may have been missed before. So waiters ask Redis, and holders ask whether
// they were deposed.
func (h *Hub) Subscribed(channel string) {
	h.mu.Lock()
	mended := h.confirm(channel)
	h.mu.Unlock()
	if mended != nil {
		h.owner.Mended(mended)
	}
}

// confirm is Subscribed for callers that hold the hub's mutex. If now no channel is denied any more,
// it returns the denial that the user was told of.
func (h *Hub) confirm(channel string) (mended error) {
	if h.denialTold != nil {
		lifted := h.denied[channel] != nil || channel == h.deniedTold
		if delete(h.denied, channel); lifted && len(h.denied) == 0 {
			mended, h.denialTold, h.denials = h.denialTold, nil, 0
		}
	}
	if sub := h.subs[channel]; sub != nil && channel == sub.names.Unlock {
		sub.ready = true
		for _, e := range sub.ears {
			e.news()
			e.want(false)
		}
	} else if channel == wire.InboxPrefix+h.client {
		h.vet()
		h.hears.Store(true)
		for _, e := range h.ears {
			e.want(false)
			if e.watcher.Load() != nil || e.sub == nil { // another waiter is woken by its lock's channel
				e.news()
			}
		}
	}
	return mended
}

// tidy ends idle subscriptions until the hub is closed.
func (h *Hub) tidy() {
	tick := time.NewTicker(keepIdle / 2)
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

// endIdle ends subscriptions that have been idle for longer than keepIdle, maxChannels of them at
// most. It reports whether there may be more.
func (h *Hub) endIdle(now time.Time) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	for range maxChannels {
		first := h.idle.Front()
		if first == nil {
			return false
		}
		sub := first.Value.(*subscription)
		if now.Sub(sub.idleSince) <= keepIdle {
			return false
		}
		h.end(sub)
	}
	return true
}

// end ends an idle subscription. The caller holds the hub's mutex.
func (h *Hub) end(sub *subscription) {
	h.idle.Remove(sub.idle)
	for _, channel := range [...]string{sub.names.Unlock, sub.names.Listen} {
		delete(h.subs, channel)
		delete(h.denied, channel)
	}
	h.feed.close(sub)
}

// Go runs f in a goroutine that Close waits for. It returns false when the hub is closed.
func (h *Hub) Go(f func()) bool { return h.crew.Start(f) }

// Close ends all subscriptions and returns when no goroutine is left. If a connection does not
// answer, or the client library still waits for one, Close returns after leaveTimeout. Goroutines
// that are left then end by themselves, and send nothing but the end of their subscriptions: the
// client library gives up a connection after a second, and a connection that it still hands out is
// given back at once.
func (h *Hub) Close() {
	h.cancel()
	late, cancel := context.WithTimeout(context.Background(), leaveTimeout)
	defer cancel()
	h.crew.End(late)
	h.rdb.Close(late)
}

// Listening returns how many ears hear a lock's unlock channel, whether its subscription is
// confirmed, and whether each ear's goroutine has taken its last signal. It is for tests.
func (h *Hub) Listening(unlock string) (ears int, confirmed, quiet bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	sub := h.subs[unlock]
	if sub == nil {
		return 0, false, true
	}
	quiet = true
	for _, e := range sub.ears {
		quiet = quiet && len(e.wake) == 0
	}
	return len(sub.ears), sub.ready, quiet
}

// Skipped returns how many messages came that no relock and no Redisson can have sent. It is for
// tests.
func (h *Hub) Skipped() int64 { return h.skipped.Load() }
