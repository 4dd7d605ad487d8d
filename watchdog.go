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
	renew  renewFunc
	beside besideFunc // nil for nothing

	ctx    context.Context
	cancel context.CancelFunc
	wg     sync.WaitGroup

	// mu guards what follows and the slot of every hold. It is taken under a hold's mutex,
	// never the other way.
	mu    sync.Mutex
	holds *clock.Schedule[*hold]
	used  bool // there was a hold since beside was called
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

// besideFunc is called with each look at holds, and once after there were any. It must not block,
// and returns when it is due again.
type besideFunc func(now clock.Stamp) clock.Stamp

func newWatchdog(renew renewFunc, beside besideFunc) *watchdog {
	d := &watchdog{renew: renew, beside: beside, holds: clock.NewSchedule[*hold]()}
	d.ctx, d.cancel = context.WithCancel(context.Background())
	d.wg.Go(d.run)
	return d
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

// schedule makes the watchdog look at h at its time, or before.
func (d *watchdog) schedule(h *hold, l look, now clock.Stamp) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.used = true
	if s := &h.slot; !s.In() || l.at.Until(now) < s.Due.Until(now) {
		s.renews = l.renews
		d.holds.Put(h, l.at, now)
	}
}

// remove takes h out.
func (d *watchdog) remove(h *hold) {
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
		return d.rest(d.goBeside(now))
	})
}

// goBeside calls beside, the client's other periodic task, while there are holds and once after. It
// returns when beside is due again: never, without holds.
func (d *watchdog) goBeside(now clock.Stamp) clock.Stamp {
	if d.beside == nil {
		return clock.Never()
	}
	d.mu.Lock()
	used := d.used || len(d.holds.All()) > 0
	d.used = false
	d.mu.Unlock()
	if !used {
		return clock.Never()
	}
	return d.beside(now)
}

// take removes the holds that are due, and if one of them is to be renewed, those due soon. Others
// take none along: of thousands that linger one is due every moment. After a clock was set forward
// it takes all.
func (d *watchdog) take(now clock.Stamp, all bool) (due []*hold) {
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
		if h.renews && !all {
			horizon = now.Add(batchWindow)
		}
		due = append(due, h)
	}
}

// look ends what is past its deadline, sends what is to be renewed, and puts back all that live.
func (d *watchdog) look(due []*hold, now clock.Stamp) {
	// A lock with a short lease has a short time-out, which must not cut the others' short.
	batches := make(map[time.Duration][]claim.Renewal)
	holds := make(map[time.Duration][]*hold)
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
			d.renew(ctx, batch, func(i int, r wire.Result, sent clock.Stamp, err error) { of[i].settle(batch[i], r, sent, err) })
		})
	}
}

// rest is how long to wait for the next look.
func (d *watchdog) rest(beside clock.Stamp) time.Duration {
	now := clock.Now()
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.holds.Rest(now, min(max(0, beside.Until(now)), glance))
}

// close stops the watchdog and returns the holds that were left.
func (d *watchdog) close() []*hold {
	d.cancel()
	d.wg.Wait()
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.holds.All())
}
