package relock

import (
	"container/list"
	"context"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"
)

// inboxPrefix starts the name of the channel on which a client is told "you own it now".
const inboxPrefix = "relock_inbox:"

// linger is how long the channels of a lock stay subscribed after its last waiter here has left, so that steady
// contention subscribes once.
const linger = 30 * time.Second

const (
	maxChannels      = 500                    // in one command, and rooms ended in one go
	subscribeTimeout = 2 * time.Second        // of each command that subscribes
	leaveTimeout     = 300 * time.Millisecond // how long close waits for connections that do not answer
)

// hub receives the messages of one Redis and tells acquisitions of them. A message is a hint at what to do at once; one
// that is lost costs time, never a lock, because waiters poll.
type hub struct {
	rdb    rueidis.Client
	client string // uuid, the inbox's name
	orphan func(grantMessage)
	log    *slog.Logger

	ctx    context.Context
	cancel context.CancelFunc
	done   chan struct{} // closed by stop: contenders leave
	wg     sync.WaitGroup
	feed   feed
	vetted chan struct{} // closed once it is known whether the inbox may be subscribed, or that nobody can tell

	// skipped counts messages that nobody of ours or Redisson's can have sent.
	skipped atomic.Int64

	// mu guards what follows and the hub's fields in every acquisition. Invariant: acqs holds exactly the acquisitions
	// that are not over; a room holds exactly those of them that want to hear of its lock's unlock channel; vacant holds
	// exactly the rooms that hold nobody; and only channels that are wanted are denied.
	mu      sync.Mutex
	acqs    map[string]*acquisition // by id
	rooms   map[string]*room        // by unlock channel
	vacant  *list.List              // of *room, the longest empty one first
	denied  map[string]*denial      // by channel
	denials int                     // so far
	inbox   bool                    // somebody has waited or held: the inbox is wanted
	closed  bool                    // no goroutine is started any more
}

// room is a lock's unlock channel and who listens to it here.
type room struct {
	names   names
	members []*acquisition
	turns   turns
	ready   bool          // the subscription is confirmed
	empty   time.Time     // when the last member left
	vacancy *list.Element // its place in the hub's vacant, nil while it has members
	stop    context.CancelFunc
}

func newHub(rdb rueidis.Client, client string, log *slog.Logger, orphan func(grantMessage)) *hub {
	h := &hub{
		rdb: rdb, client: client, log: log, orphan: orphan,
		done: make(chan struct{}), vetted: make(chan struct{}), acqs: make(map[string]*acquisition),
		rooms: make(map[string]*room), vacant: list.New(), denied: make(map[string]*denial),
	}
	h.ctx, h.cancel = context.WithCancel(context.Background())
	return h
}

// enter makes a known before its first command is sent, so that no grant comes for a stranger. If the lock's channel is
// subscribed already a hears it from now on, and its first answer needs no second look.
func (h *hub) enter(a *acquisition) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.acqs[a.id] = a
	if r := h.rooms[a.names.unlock]; r != nil && a.room == nil {
		h.join(r, a)
	}
}

// contend is enter for a node of a quorum, where whoever enters may have to wait without hearing the unlock channel.
func (h *hub) contend(a *acquisition) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.acqs[a.id] = a
	h.expect()
}

// expect subscribes the inbox, on which a waiter is told of its grant and a holder that it was deposed. The caller
// holds the hub's mutex.
func (h *hub) expect() {
	if !h.inbox && h.feed != nil {
		h.inbox = true
		h.feed.listen()
	}
}

// listen makes a hear its client's inbox and the lock's unlock channel. It is woken once the subscription is confirmed,
// for what it may have missed before.
func (h *hub) listen(a *acquisition) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if a.room != nil || h.feed == nil {
		return
	}
	h.expect()
	r := h.rooms[a.names.unlock]
	if r == nil {
		r = &room{names: a.names}
		h.rooms[a.names.unlock] = r
		h.feed.open(r)
	} else if r.ready {
		a.poke() // what was published since a's last poll went unheard
	}
	h.join(r, a)
}

// hold notes that a was granted its lock, and how often it may pass it on.
func (h *hub) hold(a *acquisition, given tokens) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.expect()
	a.unvetted = h.inbox && !h.isVetted()
	a.phase, a.passes = held, given.among(a.block)
	if r := a.room; r != nil {
		now := time.Now()
		r.turns.granted(now)
		if r.turns.near(now) {
			a.passes = min(a.passes, turnPasses)
		}
	}
}

func (h *hub) releasing(a *acquisition) {
	h.mu.Lock()
	defer h.mu.Unlock()
	a.phase = releasing
}

// turnDue reports whether a's release may leave the lock to Redisson's waiters.
func (h *hub) turnDue(a *acquisition) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return a.room == nil || a.room.turns.due(time.Now())
}

// turnOver names the last turn of Redisson's waiters at a's lock if it was used, "" otherwise.
func (h *hub) turnOver(a *acquisition) string {
	h.mu.Lock()
	defer h.mu.Unlock()
	if a.room == nil {
		return ""
	}
	return a.room.turns.over()
}

// attach makes news about a go to its hold.
func (h *hub) attach(a *acquisition, to *hold) {
	h.mu.Lock()
	defer h.mu.Unlock()
	a.hold = to
}

// forget ends a: a grant that still comes for it is an orphan.
func (h *hub) forget(a *acquisition) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.acqs, a.id)
	if r := a.room; r != nil {
		r.members = slices.DeleteFunc(r.members, func(m *acquisition) bool { return m == a })
		a.room = nil
		if len(r.members) == 0 {
			r.empty, r.vacancy = time.Now(), h.vacant.PushBack(r)
		}
	}
}

// take returns the tokens of the last grant that came for a, none when there is none, and the hints.
func (h *hub) take(a *acquisition) (tokens, hints) {
	h.mu.Lock()
	defer h.mu.Unlock()
	given, told := a.grant, a.hints
	a.grant, a.hints = tokens{}, hints{}
	return given, told
}

func (h *hub) join(r *room, a *acquisition) {
	if r.vacancy != nil {
		h.vacant.Remove(r.vacancy)
		r.vacancy = nil
	}
	r.members = append(r.members, a)
	a.room = r
}

// subscribed is called for each confirmed subscription, the first and those after a lost connection. Whoever waits may
// have missed a message and looks for itself; whoever holds may have missed that it was deposed.
func (h *hub) subscribed(channel string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.confirm(channel)
}

// confirm is subscribed for those who hold the hub's mutex.
func (h *hub) confirm(channel string) {
	delete(h.denied, channel)
	if r := h.rooms[channel]; r != nil {
		r.ready = true
		for _, a := range r.members {
			a.news()
		}
	} else if channel == inboxPrefix+h.client {
		h.vet()
		for _, a := range h.acqs {
			if a.hold != nil || a.room == nil { // who is in a room hears of that
				a.news()
			}
		}
	}
}

// tidy ends idle rooms until the hub is closed.
func (h *hub) tidy() {
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

// endIdle ends rooms that nobody has listened in for a while, as many as may be ended in one go. It reports whether
// there may be more.
func (h *hub) endIdle(now time.Time) bool {
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
func (h *hub) end(r *room) {
	h.vacant.Remove(r.vacancy)
	delete(h.rooms, r.names.unlock)
	delete(h.denied, r.names.unlock)
	delete(h.denied, r.names.listen)
	h.feed.close(r)
}

// start is spawn for those who do not hold the hub's mutex.
func (h *hub) start(f func()) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.spawn(f)
}

// spawn runs f in a goroutine that close waits for. It returns false when the hub is closed. The caller holds the hub's
// mutex.
func (h *hub) spawn(f func()) bool {
	if h.closed {
		return false
	}
	h.wg.Go(f)
	return true
}

// stop turns contenders away. Messages are still received: grants that come now are ended.
func (h *hub) stop() { close(h.done) }

// close ends all subscriptions and returns when no goroutine is left, or after a moment where a connection does not
// answer, or none was to be had yet. What is left then sends nothing but its good-bye and ends by itself: the client
// library gives up a connection after a second, and one that it still hands out is given back at once.
func (h *hub) close() {
	h.mu.Lock()
	h.closed = true
	h.mu.Unlock()
	h.cancel()
	gone := make(chan struct{})
	go func() {
		h.wg.Wait()
		close(gone)
	}()
	late := time.NewTimer(leaveTimeout)
	defer late.Stop()
	select {
	case <-gone:
	case <-late.C:
	}
}
