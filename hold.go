package relock

import (
	"context"
	"sync"
	"time"

	"github.com/relock-go/relock/internal/claim"
	"github.com/relock-go/relock/internal/clock"
	"github.com/relock-go/relock/internal/ctxmutex"
	"github.com/relock-go/relock/internal/hub"
	"github.com/relock-go/relock/internal/node"
	"github.com/relock-go/relock/internal/tenure"
	"github.com/relock-go/relock/internal/watchdog"
	"github.com/relock-go/relock/internal/wire"
)

// hold is one ownership in Redis, under one acquisition, as it passes from lease to lease inside
// this process. What may be believed of it is in the four values of internal/tenure; the hold guards
// them, and acts by them.
//
// It lives once: it is granted, has shares, may lie idle between two of them, and ends or is lost
// (ending.go). What its kind decides is its manner: exclusively, or jointly.
//
// Two rules keep its mutex harmless. No command is sent under it, since Redis may not answer: ops is
// what serializes commands. And no share is told under it, since contexts that derive from one
// another call back into the hold.
type hold struct {
	*known // the lock
	claim  claim.Claim
	entry  *wire.Entry

	watcher hub.Watcher // itself, as the hub knows it

	// ops is held by the goroutine that tells Redis a new hold count, while its command is out, for as
	// long as that takes: counts must reach Redis in the order in which they are true. It is taken
	// before mu, or without it.
	ops ctxmutex.Mutex

	// mu guards what follows, but for Slot, once newHold has returned. Invariant: shares are exactly
	// those given out and not yet given back, and none of them is trusted past the term's deadline. Once
	// the hold is over it stays so, and end alone writes its fate.
	mu     sync.Mutex
	fate   fate
	cfg    *config
	shares roster

	term  tenure.Term
	block tenure.Block
	count tenure.Count
	rest  tenure.Rest

	lookAt clock.Stamp   // the watchdog looks by then; zero before it knows the hold
	atGate bool          // its holder is at the lock's gate, so that the others of this process wait behind it
	last   uint64        // number of the latest lease that was observed; the latest holder's
	notice chan struct{} // closed once another process wants the lock; nil while no caller asked

	sharing sharing // of a joint hold

	watchdog.Slot // guarded by the watchdog's mutex
}

// sharing is which goroutines may join a hold. The hold's mutex guards it.
type sharing struct {
	stays   bool // the gate is open: all that come may join
	awaited int  // goroutines that were invited and have not come yet: the hold waits for them
}

// manner is how the leases of this process use one hold: one after the other (exclusively), or side by
// side (jointly). The lock's kind decides it, once for a name. It has no state: that is the hold's.
type manner interface {
	// joins reports whether a Lock by these options, and no owner, goes through the lock's gate.
	joins(c *config) bool
	// keepsGate reports whether the gate is the holder's. Else the next goroutine asks Redis too.
	keepsGate() bool
	// lingers reports whether a hold by these options may outlast its leases.
	lingers(c *config) bool
	// begun is told that the hold has its first lease.
	begun(h *hold)
	// enter gives b a share of the hold inside outer; drop is hold.drop.
	enter(ctx context.Context, h *hold, b bearer, outer *share) error
	drop(ctx context.Context, h *hold, b bearer) error
	// observed takes the number of a lease for an observer, and returns that of the lease before it, 0
	// for none.
	observed(h *hold, number uint64) (before uint64)

	// Under the hold's mutex: the next lease's token; the hold count that Redis is to have; whether the
	// hold may lie idle; passing it on, or laying it down, once it has no share; and taking it away from
	// the gate, where it lies there or is open to all.
	nextToken(h *hold) int64
	counts(h *hold) int
	mayRest(h *hold, now clock.Stamp) bool
	passOn(h *hold, now clock.Stamp) (done bool)
	withdraw(h *hold)
}

// baton is what one goroutine hands to the next at a lock's gate: an entry that has the lock, or waits
// for it. It is one of these:
//
//	nil          nothing: the goroutine is to ask Redis
//	held         the lock
//	idle         a hold that lay at the gate, and may be over
//	joint        a hold that all may join that come, and may be over; the goroutine is not at the gate
//	invited      a hold that waits for the goroutine to join, which is not at the gate
//	claim.Claim  a place in Redis's queue
type baton interface {
	// Of is the entry.
	Of() *wire.Entry
}

type (
	held    struct{ *hold }
	idle    struct{ *hold }
	joint   struct{ *hold }
	invited struct{ *hold }
)

// Of is the entry that has the lock.
func (h *hold) Of() *wire.Entry { return h.entry }

// newHold makes h a hold of the lock by an entry's grant, which came now. It keeps h.last.
func (n *known) newHold(h *hold, c claim.Claim, g node.Grant, cfg *config, atGate bool, now clock.Stamp) *hold {
	e := c.Of()
	if atGate {
		n.k.gates.Report(n.names.Gate(), nil)
	}
	*h = hold{
		known: n, claim: c, entry: e, cfg: cfg, atGate: atGate, last: h.last,
		term:  tenure.Granted(g.Sent, e.Lease, &cfg.rules),
		block: tenure.Reserved(tenure.More{Token: g.Token, Count: g.Passes, Sent: g.Sent}, now),
	}
	if atGate && g.Fresh && n.manner.lingers(cfg) && c.Attend() {
		h.rest = tenure.Free(g.Sent)
	}
	h.watcher, h.shares.all = h, h.shares.room[:0]
	c.Watch(&h.watcher)
	return h
}

// start gives out the hold's only share, to b, with its next token, from now on and by cfg. It fails
// when the hold was lost on its way here.
func (h *hold) start(b bearer, cfg *config, now clock.Stamp) error {
	h.mu.Lock()
	if !h.fate.live() {
		defer h.mu.Unlock()
		return h.fate.why()
	}
	h.cfg = cfg
	h.term.Begin(&cfg.rules, now)
	if due := h.next(now); h.lookAt.IsZero() || due.At.Until(now) < h.lookAt.Until(now) {
		h.lookAt = due.At
		h.k.watchdog.Schedule(h, due, now)
	}
	// Only now, since Close ends the holds that the watchdog knows once the client is closed: it finds
	// this one, or this one finds that. Whichever it is, no caller has a share yet.
	if h.k.isClosed() {
		_ = h.end(context.Background(), ErrClosed, toSweeper)
		return ErrClosed
	}
	h.shares.add(b, h.manner.nextToken(h), now)
	b.shared().owed = h.term.Short(now)
	h.mu.Unlock()
	return nil
}

// share is what one caller has of a hold: a mutex's lease. The hold knows no leases, so that other
// kinds of locks can give out something else. The hold's mutex guards it. Without that it is read by the
// goroutine that wrote last: owed by the one that takes the lock, since by the one that ended the share.
// The token never changes.
type share struct {
	token int64
	since time.Duration // it began, on the monotonic clock; once it is over, how long it was
	at    int32         // its place in the roster
	owed  bool          // no caller has it before its fixed lease is lengthened
	over  bool          // given back
}

// bearer has a share of a hold. It hears what becomes of it.
type bearer interface {
	shared() *share
	// end tells the bearer that the share can no longer be trusted, and why. It acts once. The caller
	// does not hold the hold's mutex.
	end(cause error)
	// losing is called under the hold's mutex once the hold is lost, and lost after it was freed.
	losing()
	lost(cause error)
}

// roster is the shares that are given out and not yet given back.
type roster struct {
	all  []bearer
	room [1]bearer // the backing array of all, as long as no caller re-enters
}

// add gives b a share from now on.
func (r *roster) add(b bearer, token int64, now clock.Stamp) {
	*b.shared() = share{token: token, since: now.Mono(), at: int32(len(r.all))}
	r.all = append(r.all, b)
}

// remove ends b's share. It returns false where b has none. The last one takes its place: of
// thousands of readers none is searched for.
func (r *roster) remove(b bearer, now clock.Stamp) bool {
	s, last := b.shared(), int32(len(r.all)-1)
	if s.at > last || r.all[s.at] != b {
		return false
	}
	r.all[s.at] = r.all[last]
	r.all[s.at].shared().at = s.at
	r.all[last] = nil
	r.all = r.all[:last]
	s.over, s.since = true, now.Mono()-s.since
	return true
}

// fate is what became of a hold.
type fate struct {
	over  bool
	cause error // why it was lost, nil where it was given back
}

func (f *fate) live() bool { return !f.over }

// why is the error for a hold that is not live any more.
func (f *fate) why() error {
	if f.cause != nil {
		return f.cause
	}
	return ErrNotHeld
}

// whyGone is the error for a share that is not among the hold's.
func (f *fate) whyGone(s *share) error {
	if s.over {
		return ErrNotHeld
	}
	return f.why()
}

// drop takes b's share back: the count falls, the hold passes on, or the lock is released. The
// caller's cancellation is left out: a lock is given back whatever becomes of its caller, within a
// time of its own.
func (h *hold) drop(ctx context.Context, b bearer) error {
	if ctx != context.Background() {
		ctx = context.WithoutCancel(ctx)
	}
	return h.manner.drop(ctx, h, b)
}

// take removes b from the shares: from then on its caller holds nothing, whatever becomes of the
// commands that follow, and b has been told. It returns how many shares are left, and the lease to
// renew for them.
func (h *hold) take(b bearer, now clock.Stamp) (count int, lease time.Duration, err error) {
	h.mu.Lock()
	if !h.fate.live() || !h.shares.remove(b, now) {
		defer h.mu.Unlock()
		return 0, 0, h.fate.whyGone(b.shared())
	}
	if count = len(h.shares.all); count == 0 {
		h.term.Vacate()
	}
	lease = h.term.RenewFor(now)
	h.mu.Unlock()
	b.end(ErrNotHeld)
	return count, lease, nil
}

// lose ends trust in the hold: every share's context is done before anyone else, here or elsewhere,
// can be granted the lock by our doing. It acts once.
func (h *hold) lose(cause error) {
	h.mu.Lock()
	if !h.fate.live() {
		h.mu.Unlock()
		return
	}
	_ = h.end(context.Background(), cause, toSweeper)
}

// expire loses the hold if its deadline has passed. It is called wherever trust is asked for, since
// a process that was stopped wakes up before its timers have run. It looks and loses under one hold
// of the mutex: in between, an Unlock whose clock was read before the end could pass the hold on, and
// the next one's lease would be ended by that end.
func (h *hold) expire(now clock.Stamp) bool {
	h.mu.Lock()
	if !h.fate.live() || !h.term.Deadline(now).Reached(now) {
		h.mu.Unlock()
		return false
	}
	cause := ErrLost
	if h.term.EndsByMaxHold(now) {
		cause = ErrMaxHold
	}
	_ = h.end(context.Background(), cause, toSweeper)
	return true
}

// gone is told that Redis no longer has the lock for the hold. It returns why the hold is over, which
// may be older than that news: its maximum, Close, or an Unlock that waited for no answer.
func (h *hold) gone() error {
	if !h.expire(clock.Now()) {
		h.lose(ErrLost)
	}
	return h.why()
}

// layDown notes that the hold lies at the gate without a lease, and that the caller has left the gate.
// From here on, whatever ends the hold looks for it there, or with the goroutine that has taken it up.
// The caller holds h.mu.
func (h *hold) layDown() {
	h.tally.Lingering.Add(1)
	h.rest.Idle, h.atGate = true, false
}

// pickUp ends the idleness of a hold. The caller holds h.mu.
func (h *hold) pickUp() {
	h.rest.Idle = false
	h.tally.Lingering.Add(-1)
}

// trusted returns until when a share is trusted, and the hold count; or why it is trusted no more.
func (h *hold) trusted(s *share) (until clock.Stamp, count int, err error) {
	now := clock.Now()
	h.expire(now)
	h.mu.Lock()
	defer h.mu.Unlock()
	if s.over || !h.fate.live() {
		return until, 0, h.fate.whyGone(s)
	}
	return h.term.Deadline(now), h.manner.counts(h), nil
}

// why is the error for a hold that is not live any more.
func (h *hold) why() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.fate.why()
}

// gaveBack reports whether s was given back.
func (h *hold) gaveBack(s *share) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return s.over
}
