package relock

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/relock-go/relock/internal/claim"
	"github.com/relock-go/relock/internal/clock"
	"github.com/relock-go/relock/internal/hub"
	"github.com/relock-go/relock/internal/wire"
)

// hold is one ownership in Redis, under one acquisition, as it passes from lease to lease inside
// this process.
type hold struct {
	k     *keeper
	tally *tally
	claim claim.Claim
	entry *wire.Entry
	trip  time.Duration // for how long the answer was on its way by which the lock was granted, or longer

	watcher hub.Watcher // itself, as the hub knows it

	// mu guards what follows. Invariant: shares are exactly those given out and not yet given back,
	// and none of them is trusted past deadline(). Once state is not live it never is again.
	mu      sync.Mutex
	ops     ops // held by the goroutine that tells Redis a new hold count or ends the hold
	state   holdState
	cause   error // why it was lost
	cfg     *config
	shares  []*share
	room    [1]*share   // of shares, as long as none re-enters
	token   int64       // next fencing token of the block
	left    int         // tokens left to use
	since   clock.Stamp // when this process got the lock
	began   clock.Stamp // when the lease in force began
	until   clock.Stamp // Redis keeps the lock up to here at least
	cap     clock.Stamp // the lease in force ends here whatever is renewed
	renewAt clock.Stamp
	lookAt  clock.Stamp // the watchdog looks by then; zero before it knows the hold
	asking  bool        // a renewal is under way
	failing bool        // the last renewal was not answered
	askSoon bool        // a message said that the lock may be lost: ask at renewAt, whatever else
	kept    clock.Stamp // Redis may keep the lock up to here, if no renewal went unheard

	countUnsure      bool        // the count in Redis may be wrong: renewals write it
	countUnsureUntil clock.Stamp // up to here a count that was sent and not answered may still come

	atGate bool   // others of this process wait behind it
	used   int    // leases it was given to, one after the other
	last   uint64 // number of the latest of them that was observed; of who has the hold
	more   refill
	lingering

	index  int         // in the watchdog's heap, -1 outside; guarded by the watchdog's mutex
	due    clock.Stamp // likewise
	renews bool        // likewise: to be renewed then
}

// share is what one caller has of a hold: a mutex's lease. The hold's mutex guards it, but for token
// and of, which never change once it was given out.
type share struct {
	token int64
	over  bool          // given back
	since time.Duration // it began, on the monotonic clock; once it is over, how long it was
	of    bearer
}

// bearer is what a share is of. It hears what becomes of it.
type bearer interface {
	// end ends trust in the share, by cause, unless that has ended. The hold's mutex is free.
	end(cause error)
	// losing is called under the hold's mutex once the hold is lost, and lost after it was freed.
	losing()
	lost(cause error)
}

type holdState int

const (
	holdLive holdState = iota
	holdEnded
	holdLost
)

// tryLock takes h.ops if nobody has it.
func (h *hold) tryLock() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.ops.take()
}

// lock takes h.ops. It fails when ctx ends first.
func (h *hold) lock(ctx context.Context) error {
	h.mu.Lock()
	if h.ops.take() {
		h.mu.Unlock()
		return nil
	}
	turn := make(chan struct{})
	h.ops.line = append(h.ops.line, turn)
	h.mu.Unlock()
	select {
	case <-turn:
		return nil
	case <-ctx.Done():
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if i := slices.Index(h.ops.line, turn); i >= 0 {
		h.ops.line = slices.Delete(h.ops.line, i, i+1)
	} else {
		h.ops.leave() // its turn came in that moment
	}
	return context.Cause(ctx)
}

func (h *hold) unlock() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ops.leave()
}

// ops is a mutex whose waiters may give up, first come first served. It is guarded by a hold's
// mutex.
type ops struct {
	taken bool
	line  []chan struct{} // of those who wait; closed when it is their turn
}

func (o *ops) take() bool {
	free := !o.taken
	o.taken = true
	return free
}

func (o *ops) leave() {
	if len(o.line) == 0 {
		o.taken = false
		return
	}
	close(o.line[0])
	o.line = slices.Delete(o.line, 0, 1)
}

// drop takes a share back: the count falls, the hold passes on, or the lock is released.
func (h *hold) drop(ctx context.Context, s *share) error {
	if ctx != context.Background() {
		ctx = context.WithoutCancel(ctx)
	}
	if !h.tryLock() {
		if h.gaveBack(s) {
			return ErrNotHeld // at once: ops may be busy for a stranger
		}
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, unlockTimeout(h.entry)) // for the wait and what follows
		defer cancel()
		if h.lock(ctx) != nil {
			return h.cut(s)
		}
	}
	now := clock.Now()
	h.expireBy(now)
	count, lease, err := h.take(s, now)
	if err != nil {
		h.unlock()
		return err
	}
	s.of.end(ErrNotHeld)
	if count == 0 {
		h.unlock()
		return h.finish(ctx, now)
	}
	defer h.unlock()
	return h.leave(ctx, count, lease)
}

// take removes s from the shares. It returns how many are left, and what to lengthen their lease to.
func (h *hold) take(s *share, now clock.Stamp) (count int, lease time.Duration, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	i := slices.Index(h.shares, s)
	if i < 0 || h.state != holdLive {
		return 0, 0, h.whyGone(s)
	}
	h.shares = slices.Delete(h.shares, i, i+1)
	s.over, s.since = true, now.Mono()-s.since
	if len(h.shares) == 0 {
		h.cap = clock.Never() // it was the share's, not the hold's
	}
	return len(h.shares), h.renewLease(now), nil
}

// cut takes a share back without ops, which another call has had for as long as an Unlock may take,
// since Redis does not answer. Renewals mend the count; the last share leaves the lock to the sweeper.
func (h *hold) cut(s *share) error {
	now := clock.Now()
	h.expireBy(now)
	count, _, err := h.take(s, now)
	if err != nil {
		return err
	}
	defer s.of.end(ErrNotHeld)
	h.mu.Lock()
	if h.state != holdLive {
		defer h.mu.Unlock()
		return h.causeLocked()
	}
	if count > 0 {
		defer h.mu.Unlock()
		h.countMissed(now)
		h.k.dog.schedule(h, h.next(now), now)
		return nil
	}
	h.state = holdEnded
	atGate := h.atGate
	h.mu.Unlock()
	h.k.dog.remove(h)
	h.claim.Abandon()
	if atGate {
		h.k.gates.Leave(h.entry.Names.Lock)
	}
	return &wire.NodeError{Op: "release", Name: h.entry.Names.Name, Err: wire.ErrNoAnswer}
}

// lose ends trust in the hold: every share's context is done before anyone else, here or elsewhere,
// can be granted the lock by our doing. It acts once.
func (h *hold) lose(cause error) {
	h.mu.Lock()
	if h.state != holdLive {
		h.mu.Unlock()
		return
	}
	shares, atGate := h.forfeit(cause)
	h.mu.Unlock()
	h.lost(cause, shares, atGate)
}

// forfeit marks a live hold as lost. It returns the shares that were out, and whether the hold was at
// the gate, which the caller has to tell lost. The caller holds h.mu.
func (h *hold) forfeit(cause error) (shares []*share, atGate bool) {
	shares, atGate = h.shares, h.atGate
	h.state, h.cause = holdLost, cause
	h.shares, h.atGate = nil, false
	for _, s := range shares {
		s.of.losing()
	}
	if h.idle {
		h.withdraw()
	}
	return shares, atGate
}

// lost ends what a hold had that was forfeited.
func (h *hold) lost(cause error, shares []*share, atGate bool) {
	for _, s := range shares {
		s.of.lost(cause)
	}
	h.k.dog.remove(h)
	if cause == ErrClosed && len(shares) > 0 {
		h.claim.Forget() // the code under the lock may still run: let the lease end by itself
		h.k.plate.stays()
	} else {
		h.claim.Abandon()
	}
	if atGate {
		h.k.gates.Leave(h.entry.Names.Lock)
	}
}

// why is causeLocked for callers without the mutex.
func (h *hold) why() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.causeLocked()
}

func (h *hold) causeLocked() error {
	if h.state == holdLost {
		return h.cause
	}
	return ErrNotHeld
}

// whyGone is the error for a share that is not among the hold's. The caller holds h.mu.
func (h *hold) whyGone(s *share) error {
	if h.state == holdLost && !s.over {
		return h.cause
	}
	return ErrNotHeld
}

// gaveBack reports whether s was given back.
func (h *hold) gaveBack(s *share) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return s.over
}

// short reports whether a fixed lease is trusted for noticeably less than it promises: it was taken
// with the client's shorter lease, passed on in memory, or granted while nobody looked.
func (h *hold) short() bool {
	now := clock.Now()
	h.mu.Lock()
	defer h.mu.Unlock()
	most := h.cfg.maxLease
	return h.cfg.fixed > 0 && h.until.Until(now) < most-clock.Margin(most)-most/100
}

// expire loses the hold if its deadline has passed. It is called wherever trust is asked for, since
// a process that was stopped wakes up before its timers have run.
func (h *hold) expire() bool { return h.expireBy(clock.Now()) }

// expireBy looks and loses under one hold of the mutex: in between, an Unlock whose clock was read
// before the end could pass the hold on, and the next one's lease would be ended by that end.
func (h *hold) expireBy(now clock.Stamp) bool {
	h.mu.Lock()
	if h.state != holdLive || !h.deadline(now).Reached(now) {
		h.mu.Unlock()
		return false
	}
	cause := ErrLost
	if h.cappedByMaxHold(now) {
		cause = ErrMaxHold
	}
	shares, atGate := h.forfeit(cause)
	h.mu.Unlock()
	h.lost(cause, shares, atGate)
	return true
}

// cappedByMaxHold reports whether what ends the hold first is WithMaxHold. The caller holds h.mu.
func (h *hold) cappedByMaxHold(now clock.Stamp) bool {
	if h.cfg.maxHold == 0 || h.until.Until(now) < h.cap.Until(now) {
		return false
	}
	return h.began.Add(h.cfg.maxHold).Until(now) <= h.cap.Until(now)
}
