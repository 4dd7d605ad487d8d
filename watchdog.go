package relock

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/relock-go/relock/internal/claim"
	"github.com/relock-go/relock/internal/clock"
	"github.com/relock-go/relock/internal/wire"
)

// watchdog keeps every lease of a client alive and ends trust in those it cannot. One goroutine
// waits for the earliest of all deadlines and renewals; renewals that come up close to each other
// are sent together.
type watchdog struct {
	renew renewFunc
	round roundFunc // nil for none

	ctx    context.Context
	cancel context.CancelFunc
	wg     sync.WaitGroup

	// mu guards what follows and the slot of every hold. It is taken under a hold's mutex,
	// never the other way.
	mu    sync.Mutex
	holds *clock.Schedule[watched]
	used  bool // there was a hold since the last round
}

const (
	// batchWindow is how far ahead renewals are taken along with one that is due.
	batchWindow = 250 * time.Millisecond
	// glance is how often both clocks are compared while leases are held: a timer sleeps through a
	// suspended machine.
	glance = time.Second
)

// renewFunc is arbiter's renew.
type renewFunc func(context.Context, []claim.Renewal, claim.Settle)

// roundFunc is the client's other periodic task: rounds of presence. It is called with each look at
// holds, and once after there were any. It must not block, and returns when it is due again.
type roundFunc func(now clock.Stamp) clock.Stamp

func newWatchdog(renew renewFunc, round roundFunc) *watchdog {
	d := &watchdog{renew: renew, round: round, holds: clock.NewSchedule[watched]()}
	d.ctx, d.cancel = context.WithCancel(context.Background())
	d.wg.Go(d.run)
	return d
}

// watched is what a watchdog keeps: a hold.
type watched interface {
	slotted() *slot
	Placed() *clock.Slot
	// tick is the watchdog's look. It returns a renewal to send, if one is near, and settle takes what
	// became of that.
	tick(now clock.Stamp) (r claim.Renewal, renew bool)
	settle(r claim.Renewal, got wire.Result, sent clock.Stamp, err error)
	lose(cause error)
}

// look is when the watchdog is to look at a hold.
type look struct {
	at     clock.Stamp
	renews bool // to renew it, which it does for many at a time
}

// slot is a hold's place in the watchdog's schedule.
type slot struct {
	clock.Slot
	renews bool // to be renewed when it is due
}

func (s *slot) slotted() *slot { return s }

// schedule makes the watchdog look at h at its time, or before.
func (d *watchdog) schedule(h watched, l look, now clock.Stamp) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.used = true
	if s := h.slotted(); !s.In() || l.at.Until(now) < s.Due.Until(now) {
		s.renews = l.renews
		d.holds.Put(h, l.at, now)
	}
}

// remove takes h out.
func (d *watchdog) remove(h watched) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.holds.Drop(h)
}

// run looks at the holds that are due, until the watchdog is closed. The wall clock gains on the
// monotonic one when it is set forward or the machine sleeps: then run looks at all holds.
func (d *watchdog) run() {
	skew := clock.Now().Skew()
	d.holds.Run(d.ctx, func() time.Duration {
		now := clock.Now()
		due := d.take(now, now.Skew()-skew > glance/20)
		skew = now.Skew()
		d.look(due, now)
		return d.untilNext(d.goRound(now))
	})
}

// goRound goes a round while there are holds, and once after. It returns when the next round is due:
// never, without holds.
func (d *watchdog) goRound(now clock.Stamp) clock.Stamp {
	if d.round == nil {
		return clock.Never()
	}
	d.mu.Lock()
	used := d.used || len(d.holds.All()) > 0
	d.used = false
	d.mu.Unlock()
	if !used {
		return clock.Never()
	}
	return d.round(now)
}

// take removes the holds that are due, and if one of them is to be renewed, those due soon. Others
// take none along: of thousands that linger one is due every moment. After a clock was set forward
// it takes all.
func (d *watchdog) take(now clock.Stamp, all bool) (due []watched) {
	d.mu.Lock()
	defer d.mu.Unlock()
	horizon := now
	if all {
		horizon = clock.Never()
	}
	for {
		h, is := d.holds.Next(horizon)
		if !is {
			return due
		}
		if h.slotted().renews && !all {
			horizon = now.Add(batchWindow)
		}
		due = append(due, h)
	}
}

// look ends what is past its deadline, sends what is to be renewed, and puts back all that live.
func (d *watchdog) look(due []watched, now clock.Stamp) {
	// A lock with a short lease has a short time-out, which must not cut the others' short.
	batches := make(map[time.Duration][]claim.Renewal)
	holds := make(map[time.Duration][]watched)
	for _, h := range due {
		if r, renew := h.tick(now); renew {
			batches[r.Timeout], holds[r.Timeout] = append(batches[r.Timeout], r), append(holds[r.Timeout], h)
		}
	}
	for timeout, batch := range batches {
		of := holds[timeout]
		d.wg.Go(func() {
			ctx, cancel := context.WithTimeout(d.ctx, timeout)
			defer cancel()
			d.renew(ctx, batch, func(i int, r wire.Result, sent clock.Stamp, err error) {
				of[i].settle(batch[i], r, sent, err)
			})
		})
	}
}

// untilNext is how long to wait for the next look, or the next round.
func (d *watchdog) untilNext(round clock.Stamp) time.Duration {
	now := clock.Now()
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.holds.UntilNext(now, min(max(0, round.Until(now)), glance))
}

// close stops the watchdog and returns the holds that were left.
func (d *watchdog) close() []watched {
	d.cancel()
	d.wg.Wait()
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.holds.All())
}

// A renewal is sent by the watchdog, for many holds together, and settled by the goroutine that
// hears its answer. In between everything may happen to the hold: so settled looks at its fate and at
// the clock again, and the watchdog is told anew when to look.

// settle notes what became of a renewal. An unanswered one never moves the deadline and is repeated
// until then. err is why it was not answered.
func (h *hold) settle(r claim.Renewal, got wire.Result, sent clock.Stamp, err error) {
	if got == wire.Lost {
		_ = h.gone()
		return
	}
	// An answer that is looked at too late revives nothing: on a quorum another owner may have held
	// the lock since.
	if h.expire(clock.Now()) {
		return
	}
	var news EventKind // none
	now := clock.Now()
	h.mu.Lock()
	if !h.fate.live() {
		h.mu.Unlock()
		return
	}
	if got != wire.Renewed {
		// The count that it carried may be written yet, and overwrite one that is written in between.
		if r.Count > 0 {
			h.count.Missed(now, h.entry.Lease)
		}
		if h.term.Unanswered(now) {
			news = EventRenewalFailed
		}
	} else {
		if h.term.Renewed(sent, r.Lease, now) {
			news = EventRecovered
		}
		// A count is confirmed only if it is still true, and no other is on its way.
		if r.Count > 0 && !h.ops.Taken() && r.Count == h.manner.counts(h) {
			h.count.Confirmed(sent)
		}
		if h.count.Unsure() {
			h.term.AskAgain(now)
		}
	}
	h.k.watchdog.schedule(h, h.next(now), now)
	h.mu.Unlock()
	h.k.tell(h.entry, news, err)
}

// Doubt asks Redis at once whether the lock is still held: a message said it may not be.
func (h *hold) Doubt() {
	now := clock.Now()
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.fate.live() {
		h.term.Doubt(now)
		h.k.watchdog.schedule(h, h.next(now), now)
	}
}

// Wanted notes that another process wants the lock or, when not sure, that word of that may have been
// missed. An idle hold is ended by the watchdog: the caller may hold the hub's mutex, when not sure.
func (h *hold) Wanted(sure bool) {
	now := clock.Now()
	h.mu.Lock()
	news := h.rest.Wanted(sure)
	if news && h.notice != nil {
		close(h.notice)
	}
	if h.rest.Idle {
		h.k.watchdog.schedule(h, look{at: now}, now)
	}
	h.mu.Unlock()
	if news {
		h.k.tell(h.entry, EventWanted, nil)
	}
}

// next is when the watchdog has to look again. The caller holds h.mu.
func (h *hold) next(now clock.Stamp) look {
	end := clock.Sooner(h.term.Deadline(now), h.rest.LookAt(h.cfg.lingersFor(), now), now)
	renewal := h.term.RenewalAt(now, h.count.Unsure())
	return look{at: clock.Sooner(renewal, end, now), renews: renewal.Until(now) <= end.Until(now)}
}

// tick is the watchdog's look at one hold. It returns a renewal to send, if one is near.
func (h *hold) tick(now clock.Stamp) (r claim.Renewal, renew bool) {
	if h.expire(clock.Now()) {
		return r, false
	}
	h.mu.Lock()
	if h.rest.Idle && !h.manner.mayRest(h, now) {
		_ = h.end(context.Background(), nil, toSweeper)
		return r, false
	}
	defer h.mu.Unlock()
	if !h.fate.live() {
		return r, false
	}
	window := min(batchWindow, h.term.Shortest()/20)
	renew = h.term.RenewalAt(now, h.count.Unsure()).Until(now) <= window
	if renew {
		r = claim.Renewal{
			Claim: h.claim, Lease: h.term.RenewFor(now), Timeout: min(h.entry.Timeout, h.cfg.commandTimeout, 2*time.Second),
		}
		// A renewal does not compete with the goroutine that has ops, whose count is newer.
		if h.count.Unsure() && !h.ops.Taken() {
			r.Count = h.manner.counts(h)
		}
		h.term.Asks(r.Lease, now)
		h.claim.Asks(r.Lease)
		h.term.Renewing()
	}
	next := h.next(now)
	h.lookAt = next.at
	h.k.watchdog.schedule(h, next, now)
	return r, renew
}
