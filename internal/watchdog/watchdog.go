// Package watchdog keeps every lease of a client alive, and ends trust in a lease that it cannot
// keep. It knows when to look at a hold, and which renewal the hold wants; the hold does everything
// else.
package watchdog

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/relock-go/relock/internal/claim"
	"github.com/relock-go/relock/internal/clock"
	"github.com/relock-go/relock/internal/wire"
)

// Watchdog is the watchdog of a client. One goroutine waits for the earliest of all deadlines and
// renewals; renewals that are due close to each other are sent together. All methods may be called
// from any goroutine.
type Watchdog struct {
	renew Renew
	round Round // nil for none

	ctx    context.Context
	cancel context.CancelFunc
	wg     sync.WaitGroup

	// mu guards what follows and the slot of every hold. It is taken under a hold's mutex,
	// never the other way.
	mu    sync.Mutex
	holds *clock.Schedule[Watched]
	used  bool // there was a hold since round was called
}

const (
	// Window is by how much a renewal may be early, to be sent together with one that is due.
	Window = 250 * time.Millisecond
	// glance is how often both clocks are compared while leases are held: a timer sleeps through a
	// suspended machine.
	glance = time.Second
)

// Renew sends renewals to Redis, and settles each. It is the arbiter's.
type Renew func(context.Context, []claim.Renewal, claim.Settle)

// Round is another periodic task of the client. It is called with each look at holds, and once
// after there were any. It must not block, and returns when it is due again.
type Round func(now clock.Stamp) clock.Stamp

// New starts a watchdog that has no holds yet, and runs until Close. round may be nil.
func New(renew Renew, round Round) *Watchdog {
	d := &Watchdog{renew: renew, round: round, holds: clock.NewSchedule[Watched]()}
	d.ctx, d.cancel = context.WithCancel(context.Background())
	d.wg.Go(d.run)
	return d
}

// Watched is a hold that a watchdog keeps. It embeds a Slot.
type Watched interface {
	Slotted() *Slot
	Placed() *clock.Slot
	// Tick is the watchdog's look at the hold. It returns a renewal to send, if one is near; Settle
	// is called with what became of it.
	Tick(now clock.Stamp) (r claim.Renewal, renew bool)
	Settle(r claim.Renewal, got wire.Result, sent clock.Stamp, err error)
}

// Look is when the watchdog is to look at a hold.
type Look struct {
	At     clock.Stamp
	Renews bool // the look is for a renewal: many are sent together
}

// Slot is a hold's place in the watchdog's schedule.
type Slot struct {
	clock.Slot
	renews bool // it is due for a renewal
}

// Slotted returns the slot itself.
func (s *Slot) Slotted() *Slot { return s }

// Schedule makes the watchdog look at h at the time of l, or before.
func (d *Watchdog) Schedule(h Watched, l Look, now clock.Stamp) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.used = true
	if s := h.Slotted(); !s.In() || l.At.Until(now) < s.Due.Until(now) {
		s.renews = l.Renews
		d.holds.Put(h, l.At, now)
	}
}

// Remove takes h out of the schedule.
func (d *Watchdog) Remove(h Watched) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.holds.Drop(h)
}

// run looks at the holds that are due, until the watchdog is closed. The wall clock gains on the
// monotonic one when it is set forward or the machine sleeps: then run looks at all holds.
func (d *Watchdog) run() {
	skew := clock.Now().Skew()
	d.holds.Run(d.ctx, func() time.Duration {
		now := clock.Now()
		due := d.take(now, now.Skew()-skew > glance/20)
		skew = now.Skew()
		d.look(due, now)
		return d.untilNext(d.callRound(now))
	})
}

// callRound calls round while there are holds, and once after. It returns when round is due again:
// never, without holds.
func (d *Watchdog) callRound(now clock.Stamp) clock.Stamp {
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

// take removes and returns the holds that are due. If one of them is to be renewed, it also takes
// those due within Window. Other holds take none along: of thousands that linger one is due every
// moment. After a clock was set forward (all) it takes every hold.
func (d *Watchdog) take(now clock.Stamp, all bool) (due []Watched) {
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
		if h.Slotted().renews && !all {
			horizon = now.Add(Window)
		}
		due = append(due, h)
	}
}

// look has each due hold tick, which ends it at its deadline or puts it back, and sends the
// renewals.
func (d *Watchdog) look(due []Watched, now clock.Stamp) {
	// Only renewals with the same time-out are sent together: a short one must not end the others
	// early.
	batches := make(map[time.Duration][]claim.Renewal)
	holds := make(map[time.Duration][]Watched)
	for _, h := range due {
		if r, renew := h.Tick(now); renew {
			batches[r.Timeout], holds[r.Timeout] = append(batches[r.Timeout], r), append(holds[r.Timeout], h)
		}
	}
	for timeout, batch := range batches {
		of := holds[timeout]
		d.wg.Go(func() {
			ctx, cancel := context.WithTimeout(d.ctx, timeout)
			defer cancel()
			d.renew(ctx, batch, func(i int, r wire.Result, sent clock.Stamp, err error) {
				of[i].Settle(batch[i], r, sent, err)
			})
		})
	}
}

// untilNext returns how long to wait for the next look.
func (d *Watchdog) untilNext(round clock.Stamp) time.Duration {
	now := clock.Now()
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.holds.UntilNext(now, min(max(0, round.Until(now)), glance))
}

// Close stops the watchdog and returns the holds that were left. It waits for looks that are under way,
// for most at most: a hold may tell an observer there that blocks.
func (d *Watchdog) Close(most time.Duration) []Watched {
	d.cancel()
	stopped, t := make(chan struct{}), time.NewTimer(most)
	defer t.Stop()
	go func() {
		defer close(stopped)
		d.wg.Wait()
	}()
	select {
	case <-stopped:
	case <-t.C:
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.holds.All())
}

// Len returns how many holds the watchdog watches. It is for tests.
func (d *Watchdog) Len() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.holds.All())
}
