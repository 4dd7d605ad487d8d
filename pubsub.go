package relock

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
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

	// skipped counts messages that nobody of ours or Redisson's can have sent.
	skipped atomic.Int64

	// mu guards what follows and the hub's fields in every acquisition. Invariant: acqs holds exactly the acquisitions
	// that are not over; a room holds exactly those of them that want to hear of its lock's unlock channel.
	mu    sync.Mutex
	acqs  map[string]*acquisition // by id
	rooms map[string]*room        // by unlock channel
	inbox bool                    // somebody has waited or held: the inbox is wanted
}

// room is a lock's unlock channel and who listens to it here.
type room struct {
	names   names
	members []*acquisition
	turns   turns
	ready   bool      // the subscription is confirmed
	empty   time.Time // when the last member left
	stop    context.CancelFunc
}

// feed subscribes for a hub: all locks over one connection, or a subscription for each lock's Cluster slot.
type feed interface {
	// All are called with the hub's mutex held.
	open(r *room)  // a room wants its channels
	close(r *room) // it no longer does
	listen()       // the inbox is wanted
}

func newHub(rdb rueidis.Client, client string, log *slog.Logger, orphan func(grantMessage)) *hub {
	h := &hub{
		rdb: rdb, client: client, log: log, orphan: orphan,
		done: make(chan struct{}), acqs: make(map[string]*acquisition), rooms: make(map[string]*room),
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
		r.join(a)
	}
}

// contend is enter for a node of a quorum, where whoever enters may have to wait without hearing the unlock channel.
func (h *hub) contend(a *acquisition) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.acqs[a.id] = a
	h.expect()
}

// expect subscribes the inbox, on which a waiter is told of its grant and a holder that it was deposed. The caller holds
// the hub's mutex.
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
	r.join(a)
}

// hold notes that a was granted its lock, and how often it may pass it on.
func (h *hub) hold(a *acquisition) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.expect()
	a.phase, a.passes = held, a.block
	if r := a.room; r != nil {
		now := time.Now()
		r.turns.granted(now)
		if r.turns.near(now) {
			a.passes = min(a.block, turnPasses)
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
			r.empty = time.Now()
		}
	}
}

// take returns the first token of the last grant that came for a, 0 when there is none, and the hints.
func (h *hub) take(a *acquisition) (int64, hints) {
	h.mu.Lock()
	defer h.mu.Unlock()
	token, told := a.grant, a.hints
	a.grant, a.hints = 0, hints{}
	return token, told
}

func (r *room) join(a *acquisition) {
	r.members = append(r.members, a)
	a.room = r
}

// receive handles one message. It runs in the connection's reader and never blocks.
func (h *hub) receive(channel, message string) {
	var err error
	if strings.HasPrefix(channel, inboxPrefix) {
		err = h.receiveGrant(message)
	} else if tag, found := strings.CutPrefix(channel, listenPrefix); found {
		err = h.receiveTurn(unlockPrefix+tag, message)
	} else {
		err = h.receiveUnlock(channel, message)
	}
	if err != nil {
		h.skip(channel, message, err)
	}
}

// skip counts a message that means nothing, and logs the first and every hundredth.
func (h *hub) skip(channel, message string, why error) {
	if n := h.skipped.Add(1); n%100 == 1 {
		h.log.Warn("relock: skipped a message", "channel", channel, "message", message[:min(len(message), 64)],
			"reason", why, "skipped", n)
	}
}

func (h *hub) receiveUnlock(channel, message string) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	r := h.rooms[channel]
	if r == nil {
		return nil
	}
	if message != "0" {
		return fmt.Errorf("no unlock, which is 0") // other locks of Redisson use other numbers on other channels
	}
	r.turns.unlocked()
	for _, a := range r.members {
		a.news()
	}
	return nil
}

func (h *hub) receiveTurn(channel, message string) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	r := h.rooms[channel]
	if r == nil {
		return nil
	}
	if _, err := strconv.ParseUint(message, 10, 64); err != nil {
		return fmt.Errorf("no turn, which is a number of microseconds")
	}
	r.turns.opened(message, time.Now())
	return nil
}

func (h *hub) receiveGrant(message string) error {
	g, err := parseGrant(message)
	if err != nil {
		return err
	}
	h.mu.Lock()
	a := h.acqs[g.id]
	var deposed *hold
	switch {
	case a == nil:
	case g.token == 0 && a.phase == waiting:
		a.hints.nudged = true
		a.poke()
	case g.token == 0 && g.lease == 0:
		deposed = a.hold
	case g.token == 0:
	case a.phase == waiting:
		a.grant = max(a.grant, g.token)
		a.poke()
	case a.phase == releasing:
		// It may have been granted after the release ran: the release is not the last word.
		a.regranted.Store(true)
	}
	h.mu.Unlock()
	if deposed != nil {
		deposed.doubt()
	} else if a == nil && g.token > 0 && strings.HasPrefix(g.id, h.client) {
		h.orphan(g)
	}
	return nil
}

// subscribed is called for each confirmed subscription, the first and those after a lost connection. Whoever waits may
// have missed a message and looks for itself; whoever holds may have missed that it was deposed.
func (h *hub) subscribed(channel string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if r := h.rooms[channel]; r != nil {
		r.ready = true
		for _, a := range r.members {
			a.news()
		}
	} else if channel == inboxPrefix+h.client {
		for _, a := range h.acqs {
			if a.hold != nil || a.room == nil { // who is in a room hears of that
				a.news()
			}
		}
	}
}

// idle removes and returns the rooms that nobody has listened in for a while.
func (h *hub) idle(now time.Time) []*room {
	h.mu.Lock()
	defer h.mu.Unlock()
	var out []*room
	for channel, r := range h.rooms {
		if len(r.members) == 0 && now.Sub(r.empty) > linger {
			delete(h.rooms, channel)
			h.feed.close(r)
			out = append(out, r)
		}
	}
	return out
}

// stop turns contenders away. Messages are still received: grants that come now are ended.
func (h *hub) stop() { close(h.done) }

// close ends all subscriptions and returns when no goroutine is left.
func (h *hub) close() {
	h.cancel()
	h.wg.Wait()
}

// grantMessage tells a client that one of its acquisitions owns the lock; with token 0 that it no longer does, or with
// token 0 and lease 1, on a node of a quorum, that somebody with a lower ticket asks for it.
type grantMessage struct {
	token int64
	lease int64 // milliseconds
	id    string
	owner string
	name  string
}

// parseGrant reads "<token> <lease> <id> <length of owner> <owner><name>".
func parseGrant(s string) (g grantMessage, err error) {
	parts := strings.SplitN(s, " ", 5)
	if len(parts) != 5 {
		return g, fmt.Errorf("grant of %d parts", len(parts))
	}
	if g.token, err = strconv.ParseInt(parts[0], 10, 64); err != nil {
		return g, err
	}
	if g.lease, err = strconv.ParseInt(parts[1], 10, 64); err != nil {
		return g, err
	}
	length, err := strconv.Atoi(parts[3])
	if err != nil {
		return g, err
	}
	rest := parts[4]
	if length < 0 || length >= len(rest) || g.token < 0 || g.lease < 0 || g.lease > MaxLease.Milliseconds() {
		return g, fmt.Errorf("grant out of range")
	}
	g.id, g.owner, g.name = parts[2], rest[:length], rest[length:]
	return g, nil
}
