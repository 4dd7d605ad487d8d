package relock

import (
	"context"
	"sync"
	"time"

	"github.com/relock-go/relock/internal/claim"
	"github.com/relock-go/relock/internal/clock"
	"github.com/relock-go/relock/internal/hub"
	"github.com/relock-go/relock/internal/node"
	"github.com/relock-go/relock/internal/tenure"
	"github.com/relock-go/relock/internal/turn"
	"github.com/relock-go/relock/internal/wire"
)

// hold is one ownership in Redis, under one acquisition, as it passes from lease to lease inside
// this process. What may be believed of it is in the four values of internal/tenure; the hold guards
// them, and acts by them.
//
// It lives once: it is granted, has shares, may lie idle between two of them, and ends or is lost.
// Whichever goroutine ends it first (Unlock, the watchdog, Close, a message that it was deposed)
// changes the fate under mu and does all that follows; the others find it over.
//
// Two rules keep its mutex harmless. No command is sent under it, since Redis may not answer: ops is
// what serializes commands. And no share is told under it, since contexts that derive from one
// another call back into the hold.
type hold struct {
	*known // the lock
	claim  claim.Claim
	entry  *wire.Entry

	watcher hub.Watcher // itself, as the hub knows it

	// ops is held by the goroutine that tells Redis a new hold count or ends the hold, while its command
	// is out, for as long as that takes: counts must reach Redis in the order in which they are true. It
	// is taken before mu, or without it.
	ops turn.Mutex

	// mu guards what follows, but for slot. Invariant: shares are exactly those given out and not yet
	// given back, and none of them is trusted past the term's deadline. Once the hold is not live it
	// never is again.
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

	open sharing // of a kind whose holds are shared

	slot // guarded by the watchdog's mutex
}

// newHold makes h a hold of the lock by an entry's grant.
func (n *known) newHold(h *hold, c claim.Claim, g node.Grant, cfg *config, atGate bool) *hold {
	e, now := c.Of(), clock.Now()
	if atGate {
		n.k.gates.Report(n.names.Gate(), nil)
	}
	*h = hold{
		known: n, claim: c, entry: e, cfg: cfg, atGate: atGate,
		term:  tenure.Granted(g.Sent, e.Lease, &cfg.rules),
		block: tenure.Reserved(tenure.More{Token: g.Token, Count: g.Passes, Sent: g.Sent}, now),
	}
	if atGate && g.Fresh && (cfg.lingers() || n.names.Kind.Open) && c.Attend() {
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
	h.shares.add(b, h.nextToken(), now)
	due := h.next(now)
	sooner := h.lookAt.IsZero() || due.at.Until(now) < h.lookAt.Until(now)
	if sooner {
		h.lookAt = due.at
	}
	h.mu.Unlock()
	if sooner {
		h.k.watchdog.schedule(h, due, now)
	}
	if h.k.isClosed() {
		h.lose(ErrClosed) // Close may have listed the holds to end before this one was among them
		h.claim.Abandon() // and where it did, it left the lock to a lease that no caller is given
		return ErrClosed
	}
	return nil
}

// nextToken is the token of the next lease, which is one for all that share. The caller holds h.mu.
func (h *hold) nextToken() int64 {
	if h.names.Kind.Open {
		return h.block.Next()
	}
	return h.block.Take()
}

// counts is the hold count that Redis is to have: a hold that passes on has one, and so has one that
// is shared. The caller holds h.mu.
func (h *hold) counts() int {
	if h.names.Kind.Open {
		return 1
	}
	return max(1, len(h.shares.all))
}

// share is what one caller has of a hold: a mutex's lease. The hold knows no leases, so that other
// kinds of locks can give out something else. The hold's mutex guards it, but for token, which never
// changes once it was given out.
type share struct {
	token int64
	since time.Duration // it began, on the monotonic clock; once it is over, how long it was
	at    int32         // its place in the roster
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
	state holdState
	cause error // why it was lost
}

type holdState int

const (
	holdLive holdState = iota
	holdEnded
	holdLost
)

func (f *fate) live() bool { return f.state == holdLive }

// why is the error for a hold that is not live any more.
func (f *fate) why() error {
	if f.state == holdLost {
		return f.cause
	}
	return ErrNotHeld
}

// whyGone is the error for a share that is not among the hold's.
func (f *fate) whyGone(s *share) error {
	if f.state == holdLost && !s.over {
		return f.cause
	}
	return ErrNotHeld
}

// whyNoEntry is the error for a re-entry, inside outer, that came too late.
func (f *fate) whyNoEntry(outer *share) error {
	if outer.over {
		return wire.ErrUnlocked
	}
	return f.cause
}

// drop takes b's share back: the count falls, the hold passes on, or the lock is released. The
// caller's cancellation is left out: a lock is given back whatever becomes of its caller, within a
// time of its own. Trust in the share ends before Redis is told, so no caller ever believes in what
// it gave back.
func (h *hold) drop(ctx context.Context, b bearer) error {
	if ctx != context.Background() {
		ctx = context.WithoutCancel(ctx)
	}
	if h.names.Kind.Open {
		return h.part(ctx, b)
	}
	if !h.ops.TryLock() {
		if h.gaveBack(b.shared()) {
			return ErrNotHeld // at once: ops may be busy for a stranger
		}
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, h.entry.Timeout, wire.ErrNoAnswer) // for the wait and what follows
		defer cancel()
		if h.ops.Lock(ctx) != nil {
			return h.cut(b)
		}
	}
	// One reading of the clock decides both whether the share was still good, and what is passed on.
	// With two, a lease could end between them and its Unlock succeed.
	now := clock.Now()
	h.expire(now)
	count, lease, err := h.take(b, now)
	if err != nil {
		h.ops.Unlock()
		return err
	}
	b.end(ErrNotHeld)
	if count == 0 {
		h.ops.Unlock()
		return h.finish(ctx, now)
	}
	defer h.ops.Unlock()
	return h.leave(ctx, count, lease)
}

// take removes b from the shares: from then on its caller holds nothing, whatever becomes of the
// commands that follow. It returns how many shares are left, and the lease to renew for them.
func (h *hold) take(b bearer, now clock.Stamp) (count int, lease time.Duration, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.fate.live() || !h.shares.remove(b, now) {
		return 0, 0, h.fate.whyGone(b.shared())
	}
	if len(h.shares.all) == 0 {
		h.term.Vacate()
	}
	return len(h.shares.all), h.term.RenewFor(now), nil
}

// cut takes b's share back without ops, which another call has had for a whole command timeout, since
// Redis does not answer. Renewals mend the count; the last share leaves the lock to the sweeper.
func (h *hold) cut(b bearer) error {
	now := clock.Now()
	h.expire(now)
	count, _, err := h.take(b, now)
	if err != nil {
		return err
	}
	defer b.end(ErrNotHeld)
	h.mu.Lock()
	if !h.fate.live() {
		defer h.mu.Unlock()
		return h.fate.why()
	}
	if count > 0 {
		defer h.mu.Unlock()
		h.countMissed(now)
		return nil
	}
	h.fate.state = holdEnded
	atGate := h.atGate
	h.mu.Unlock()
	h.k.watchdog.remove(h)
	h.claim.Abandon()
	if atGate {
		h.k.gates.Leave(h.names.Gate())
	}
	return &wire.NodeError{Op: "release", Name: h.names.Name, Err: wire.ErrNoAnswer}
}

// lose ends trust in the hold: every share's context is done before anyone else, here or elsewhere,
// can be granted the lock by our doing. It acts once.
func (h *hold) lose(cause error) {
	h.mu.Lock()
	if h.fate.live() {
		h.forfeit(cause)
	} else {
		h.mu.Unlock()
	}
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
	h.forfeit(cause)
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

// forfeit loses a live hold. The caller holds h.mu, which forfeit unlocks before it tells the shares.
func (h *hold) forfeit(cause error) {
	shares, atGate := h.shares.all, h.atGate
	h.fate = fate{state: holdLost, cause: cause}
	h.shares.all, h.atGate = nil, false
	for _, b := range shares {
		b.losing()
	}
	if h.rest.Idle {
		h.withdraw()
	}
	h.shut()
	h.mu.Unlock()
	for _, b := range shares {
		b.lost(cause)
	}
	h.k.watchdog.remove(h)
	// A hold that Close ends may still guard the work of its callers, which Close cannot stop. To free
	// the lock would let others in beside them. Any other loss is released, so that no one waits
	// for the end of a lease that is not trusted.
	if cause == ErrClosed && len(shares) > 0 {
		h.claim.Forget() // the code under the lock may still run: let the lease end by itself
		h.k.presence.Stays()
	} else {
		h.claim.Abandon()
	}
	if atGate {
		h.k.gates.Leave(h.names.Gate())
	}
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
	return h.term.Deadline(now), h.counts(), nil
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
