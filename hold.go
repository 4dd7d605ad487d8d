package relock

import (
	"cmp"
	"context"
	"sync"
	"time"

	"github.com/relock-go/relock/internal/claim"
	"github.com/relock-go/relock/internal/clock"
	"github.com/relock-go/relock/internal/ctxmutex"
	"github.com/relock-go/relock/internal/hub"
	"github.com/relock-go/relock/internal/link"
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
// (ending.go). Its kind decides its manner: exclusively, severally or jointly.
//
// Two rules keep its mutex harmless. No command is sent under it, since Redis may not answer: ops
// serializes commands. No share's context is ended under it, since contexts that derive from one
// another call back into the hold.
type hold struct {
	*known // the lock
	claim  claim.Claim
	entry  *wire.Entry

	watcher hub.Watcher // itself, as the hub knows it

	// ops serializes the commands that write the hold count: counts must reach Redis in the order in
	// which they became true. A goroutine holds it until its command is answered or given up. It is
	// locked before mu, or without mu.
	ops ctxmutex.Mutex

	// mu guards the fields below except Slot, once newHold has returned. Invariant: shares has exactly
	// the shares that were given out and not yet given back, and none of them is trusted past the term's
	// deadline. A hold that is over stays over, and only end writes its fate.
	mu     sync.Mutex
	fate   fate
	cfg    *config
	shares roster

	term  tenure.Term
	block tenure.Block
	count tenure.Count
	rest  tenure.Rest

	lookAt clock.Stamp // when the watchdog looks at the latest; zero before it knows the hold
	gate   string      // the name of the lock's gate here, for as much as the hold has of the lock
	atGate bool        // the holder is at that gate, and other goroutines wait behind it
	last   uint64      // number of the latest observed lease, re-entries left out
	notice *notice     // of another process that wants the lock; nil until a caller asks for it

	sharing sharing // of a joint hold

	watchdog.Slot // guarded by the watchdog's mutex
}

// sharing says which goroutines may join a hold. The hold's mutex guards it.
type sharing struct {
	stays   bool // the gate is open: every goroutine that comes may join
	awaited int  // goroutines that were invited and have not come yet: the hold waits for them
}

// notice is a context that ends once another process wants a lock.
type notice struct {
	context.Context
	end context.CancelFunc
}

func newNotice() *notice {
	ctx, end := context.WithCancel(context.Background())
	return &notice{ctx, end}
}

// manner is how the leases of this process use one hold: one after the other (exclusively), or side by
// side (jointly). The lock's kind decides it, once for a name. A manner has no state of its own.
type manner interface {
	// usesGate reports whether a Lock with these options goes through the lock's gate, unless it has an
	// owner of WithOwner.
	usesGate(c *config) bool
	// keepsGate reports whether the holder stays at the gate. If not, the next goroutine asks Redis too.
	keepsGate() bool
	// lingers reports whether a hold with these options may outlast its leases.
	lingers(c *config) bool
	// nests reports whether a Lock under the context of a lease re-enters it. If not, the context shows the
	// lease to Held only, and to FromContext if Any took it.
	nests() bool
	// asks is how many tokens an entry asks for, and reserved how many leases the hold may serve that begins
	// with a grant of so many.
	asks(c *config) int
	reserved(c *config, tokens int) int
	// atHand returns an idle hold that the caller takes up without the gate, nil if there is none.
	atHand(n *known, amount int) *hold
	// spare picks up the idle holds that may keep a caller of another amount out. The caller finishes them.
	spare(n *known) []*hold
	// begun is told that the hold has its first lease.
	begun(h *hold)
	// admit gives b a share of the hold inside outer; drop is hold.drop.
	admit(ctx context.Context, h *hold, b bearer, outer *share) error
	drop(ctx context.Context, h *hold, b bearer) error
	// observed notes the number of a new observed lease. It returns the number of the lease before, 0
	// for none.
	observed(h *hold, number uint64) (before uint64)

	// The methods below are called under the hold's mutex.

	nextToken(h *hold) int64                // of the next lease
	counts(h *hold) int                     // the hold count that Redis is to have
	mayRest(h *hold, now clock.Stamp) bool  // whether the hold may lie idle
	joinable(h *hold, now clock.Stamp) bool // whether a goroutine that comes now may have a share beside others
	// passOn passes the hold on, or lays it down, once it has no share. If it can do neither it returns
	// false, and the hold has to end.
	passOn(h *hold, now clock.Stamp) (done bool)
	// withdraw takes the hold away from the gate or the pool, if it lies there or the gate is open for it.
	withdraw(h *hold)
}

// newHold fills h with the hold that the grant g of c's entry begins now. It keeps h.last.
func (n *known) newHold(h *hold, c claim.Claim, g node.Grant, cfg *config, atGate bool, now clock.Stamp) *hold {
	e := c.Of()
	*h = hold{
		known: n, claim: c, entry: e, cfg: cfg, gate: e.Gate(), atGate: atGate, last: h.last,
		term:  tenure.Granted(g.Sent, e.Lease, &cfg.rules),
		block: tenure.Reserved(tenure.More{Token: g.Token, Count: n.manner.reserved(cfg, g.Passes), Sent: g.Sent}, now),
	}
	if atGate {
		n.k.gates.Report(h.gate, nil)
	}
	if (atGate || !n.manner.keepsGate()) && g.Fresh && n.manner.lingers(cfg) && c.Attend() {
		h.rest = tenure.Free(g.Sent)
	}
	h.watcher, h.shares.all = h, h.shares.room[:0]
	n.lasts.ours.Store(h)
	c.Watch(&h.watcher)
	return h
}

// start gives b the hold's only share, with the hold's next token, from now on and by cfg. It fails if
// the hold was lost before.
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
	// After Schedule, since Close marks the client closed before it ends the holds that the watchdog
	// knows. So either Close finds this hold, or isClosed is seen here. No caller has a share yet.
	if h.k.isClosed() {
		_ = h.end(context.Background(), ErrClosed, toSweeper)
		return ErrClosed
	}
	h.shares.add(b, h.manner.nextToken(h), now)
	b.shared().short = h.term.Short(now)
	h.mu.Unlock()
	return nil
}

// share is one caller's part of a hold: a mutex's lease. The hold knows no leases, so that other kinds
// of locks can give out something else. The hold's mutex guards a share. Without the mutex, only the
// goroutine that wrote a field reads it: short while it takes the lock, since once it has ended the
// share. The token never changes.
type share struct {
	token int64
	since time.Duration // when it began, by clock.Mono; once it is over, how long it lasted
	at    int32         // its place in the roster
	short bool          // its fixed lease is not lengthened yet
	owed  bool          // no caller gets it, or not yet
	over  bool          // given back
}

// given reports whether a caller has the share.
func (s *share) given() bool { return !s.short && !s.owed }

// A bearer has a share of a hold, and is told what becomes of the share.
type bearer interface {
	shared() *share
	// end tells the bearer that the share can no longer be trusted, and why. It acts once. The caller
	// does not hold the hold's mutex.
	end(cause error)
	// losing is called under the hold's mutex when the hold is lost, and lost once the mutex is free.
	losing()
	lost(cause error)
}

// roster has the shares that were given out and not yet given back.
type roster struct {
	all  []bearer
	room [1]bearer // the backing array of all, until a second share is added
}

// add gives b a share from now on.
func (r *roster) add(b bearer, token int64, now clock.Stamp) {
	*b.shared() = share{token: token, since: now.Mono(), at: int32(len(r.all)), owed: b.shared().owed}
	r.all = append(r.all, b)
}

// remove ends b's share. It returns false if b has none. The last share takes its place in the roster,
// so that nothing is searched or moved among thousands of readers.
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
	cause error // why it was lost, nil if it was given back
}

func (f *fate) live() bool { return !f.over }

// why is the error for a hold that is over, ErrNotHeld for one that was given back or is live.
func (f *fate) why() error {
	if f.cause != nil {
		return f.cause
	}
	return ErrNotHeld
}

// whyGone is the error for a share that the hold no longer has.
func (f *fate) whyGone(s *share) error {
	if s.over {
		return ErrNotHeld
	}
	return f.why()
}

// drop takes b's share back: the count falls, the hold passes on, or the lock is released. It ignores
// the cancellation of ctx: a lock is given back whatever becomes of its caller, within a time limit of
// its own. A link.Part is never cancelled: sideBySide makes it.
func (h *hold) drop(ctx context.Context, b bearer) error {
	if _, is := ctx.(*link.Part); !is && ctx != context.Background() {
		ctx = context.WithoutCancel(ctx)
	}
	return h.manner.drop(ctx, h, b)
}

// takeBack removes b's share, and ends b with cause: its caller holds nothing from then on, whatever becomes
// of the commands that follow. It returns how many shares are left, and whether the hold outlasts the
// last one (WithMinHold): then it has no share any more, and the watchdog ends it. A hold that moves to
// another process does not outlast its share here.
func (h *hold) takeBack(b bearer, now clock.Stamp, cause error) (count int, outlasts bool, err error) {
	h.mu.Lock()
	if !h.fate.live() || !h.shares.remove(b, now) {
		defer h.mu.Unlock()
		return 0, false, h.fate.whyGone(b.shared())
	}
	if count = len(h.shares.all); count == 0 {
		outlasts = cause != ErrHandedOver && b.shared().given() && h.term.Outlast(h.cfg.minHold, cmp.Or(h.cfg.longest, maxLease), now)
		if outlasts {
			h.schedule(now)
		} else {
			h.term.Vacate()
		}
	}
	h.mu.Unlock()
	b.end(cause)
	return count, outlasts, nil
}

// lose ends the hold with a cause. Every share's context ends before this process lets another owner,
// here or elsewhere, have the lock. It acts once.
func (h *hold) lose(cause error) {
	h.mu.Lock()
	if !h.fate.live() {
		h.mu.Unlock()
		return
	}
	_ = h.end(context.Background(), cause, toSweeper)
}

// expire loses the hold if its deadline has passed, and reports that. It is called wherever trust is
// asked for, since a process that was stopped wakes up before its timers have run. It checks and loses
// without unlocking the mutex in between: there, an Unlock with an earlier reading of the clock could
// pass the hold on, and expire would end the next holder's lease.
func (h *hold) expire(now clock.Stamp) bool {
	h.mu.Lock()
	if !h.fate.live() || !h.term.Deadline(now).Reached(now) {
		h.mu.Unlock()
		return false
	}
	cause, claim := ErrLost, toSweeper
	if h.term.EndsByMaxHold(now) {
		cause = ErrMaxHold
	}
	if h.term.Outlasts() {
		if cause = nil; !h.term.Capped(now) { // renewals were not answered: freed now, the lock might end too soon
			claim = toNobody
		}
	}
	_ = h.end(context.Background(), cause, claim)
	return true
}

// gone loses a hold whose lock Redis no longer has. It returns why the hold is over. That may be an
// earlier cause: its maximum, Close, or an Unlock that did not wait for an answer.
func (h *hold) gone() error {
	if !h.expire(clock.Now()) {
		h.lose(ErrLost)
	}
	return h.why()
}

// wish returns the notice of another process that wants the lock.
func (h *hold) wish() *notice {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.notice == nil {
		h.notice = newNotice()
		if h.rest.IsWanted() {
			h.notice.end()
		}
	}
	return h.notice
}

// trusted returns until when a share is trusted, and the hold count; or why it is no longer trusted.
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

// why is the error for a hold that is over.
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

// schedule tells the watchdog when to look again. The caller holds h.mu.
func (h *hold) schedule(now clock.Stamp) { h.k.watchdog.Schedule(h, h.next(now), now) }

// next is when the watchdog has to look again. The caller holds h.mu.
func (h *hold) next(now clock.Stamp) watchdog.Look {
	end := clock.Sooner(h.term.Deadline(now), h.rest.LookAt(h.cfg.linger, now), now)
	renewal := h.term.RenewalAt(now, h.count.Unsure())
	return watchdog.Look{At: clock.Sooner(renewal, end, now), Renews: renewal.Until(now) <= end.Until(now)}
}
