package relock

import (
	"container/heap"
	"context"
	"sync"
	"time"

	"github.com/relock-go/relock/internal/clock"
)

// watchdog keeps every lease of a client alive and ends trust in those it cannot. One goroutine waits for the earliest
// of all deadlines and renewals; renewals that come up close to each other are sent together.
type watchdog struct {
	renew func(context.Context, []renewal, func(renewal, outcome, clock.Stamp))

	ctx    context.Context
	cancel context.CancelFunc
	wg     sync.WaitGroup
	kick   chan struct{} // one slot: something is due before the timer

	// mu guards what follows and index and due of every hold. It is taken under a hold's mutex, never the other way.
	mu    sync.Mutex
	holds dueHeap[*hold]
	armed clock.Stamp // when the goroutine wakes by itself; zero when it does not
}

const (
	// batchWindow is how far ahead renewals are taken along with one that is due.
	batchWindow = 250 * time.Millisecond
	// glance is how often both clocks are compared while leases are held: a timer sleeps through a suspended machine.
	glance = time.Second
)

func newWatchdog(renew func(context.Context, []renewal, func(renewal, outcome, clock.Stamp))) *watchdog {
	d := &watchdog{renew: renew, kick: make(chan struct{}, 1)}
	d.ctx, d.cancel = context.WithCancel(context.Background())
	d.wg.Go(d.run)
	return d
}

// schedule makes the watchdog look at h at due, or before.
func (d *watchdog) schedule(h *hold, due clock.Stamp) {
	now := clock.Now()
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case h.index < 0:
		h.due = due
		heap.Push(&d.holds, h)
	case due.Until(now) < h.due.Until(now):
		h.due = due
		heap.Fix(&d.holds, h.index)
	default:
		return
	}
	if d.armed.IsZero() || due.Until(now) < d.armed.Until(now) {
		d.armed = due
		select {
		case d.kick <- struct{}{}:
		default:
		}
	}
}

// remove takes h out. The timer stays as it is: waking for nothing is cheaper than waking to be told so.
func (d *watchdog) remove(h *hold) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if h.index >= 0 {
		heap.Remove(&d.holds, h.index)
	}
}

func (d *watchdog) run() {
	timer := time.NewTimer(0)
	defer timer.Stop()
	skew := clock.Now().Skew()
	for {
		select {
		case <-timer.C:
		case <-d.kick:
		case <-d.ctx.Done():
			return
		}
		now := clock.Now()
		due := d.take(now, now.Skew()-skew > glance/20)
		skew = now.Skew()
		d.look(due, now)
		d.arm(timer)
	}
}

// take removes the holds that are due, and if there are any, those due soon. After a clock was set forward it takes all.
func (d *watchdog) take(now clock.Stamp, all bool) []*hold {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.armed = clock.Stamp{}
	var due []*hold
	horizon := now
	for len(d.holds) > 0 && (all || d.holds[0].due.Reached(horizon)) {
		horizon = now.Add(batchWindow)
		due = append(due, heap.Pop(&d.holds).(*hold))
	}
	return due
}

// look ends what is past its deadline, sends what is to be renewed, and puts back all that live.
func (d *watchdog) look(due []*hold, now clock.Stamp) {
	// A lock with a short lease has a short time-out, which must not cut the others' short.
	batches := make(map[time.Duration][]renewal)
	for _, h := range due {
		if r, renew := h.tick(now); renew {
			timeout := min(h.a.timeout, 2*time.Second)
			batches[timeout] = append(batches[timeout], r)
		}
	}
	for timeout, batch := range batches {
		d.wg.Go(func() {
			ctx, cancel := context.WithTimeout(d.ctx, timeout)
			defer cancel()
			d.renew(ctx, batch, func(r renewal, o outcome, sent clock.Stamp) { r.hold.settle(r, o, sent) })
		})
	}
}

func (d *watchdog) arm(timer *time.Timer) {
	now := clock.Now()
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.holds) == 0 {
		d.armed = clock.Stamp{}
		timer.Stop()
		return
	}
	pause := min(max(0, d.holds[0].due.Until(now)), glance)
	d.armed = now.Add(pause)
	timer.Reset(pause)
}

// close stops the watchdog and returns the holds that were left.
func (d *watchdog) close() []*hold {
	d.cancel()
	d.wg.Wait()
	d.mu.Lock()
	defer d.mu.Unlock()
	left := append([]*hold(nil), d.holds...)
	return left
}

// tick is the watchdog's look at one hold. It returns a renewal to send, if one is near.
func (h *hold) tick(now clock.Stamp) (renewal, bool) {
	if h.expire() {
		return renewal{}, false
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.state != live {
		return renewal{}, false
	}
	var r renewal
	window := min(batchWindow, h.a.lease/20)
	renew := h.renewal(now).Until(now) <= window
	if renew {
		r = renewal{lock: h.a.names.lock, id: h.a.id, lease: h.renewLease(now), hold: h}
		h.asksFor(r.lease, now)
		if h.countUnsure && len(h.ops) == 0 {
			r.count = max(1, len(h.leases))
		}
		h.asking, h.askSoon = true, false
	}
	h.c.dog.schedule(h, h.next(now))
	return r, renew
}

// settle notes what became of a renewal. An unanswered one never moves the deadline and is repeated until then.
func (h *hold) settle(r renewal, o outcome, sent clock.Stamp) {
	if o == lost {
		h.lose(ErrLost)
		return
	}
	// An answer that is looked at too late revives nothing: on a quorum somebody else may have held the lock since.
	if h.expire() {
		return
	}
	now := clock.Now()
	h.mu.Lock()
	defer h.mu.Unlock()
	h.asking = false
	if h.state != live {
		return
	}
	if o == renewed {
		h.extended(sent, r.lease)
		if r.count > 0 && len(h.ops) == 0 && r.count == max(1, len(h.leases)) {
			h.countUnsure = !h.countUnsureUntil.Reached(sent)
		}
		if h.countUnsure && !h.askSoon {
			h.renewAt = clock.Later(h.renewAt, now.Add(h.a.lease/3), now)
		}
	} else {
		if r.count > 0 {
			h.countMissed(now)
		}
		h.renewAt = now.Add(h.soon())
		h.askSoon = h.askSoon || h.cfg.fixed > 0 // a fixed lease is asked for only on suspicion
	}
	h.c.dog.schedule(h, h.next(now))
}

func (h *hold) dueAt() clock.Stamp { return h.due }
func (h *hold) place() *int        { return &h.index }
