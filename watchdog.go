package relock

import (
	"container/heap"
	"context"
	"sync"
	"time"

	"github.com/relock-go/relock/internal/claim"
	"github.com/relock-go/relock/internal/clock"
	"github.com/relock-go/relock/internal/node"
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
	kick   chan struct{} // one slot: something is due before the timer

	// mu guards what follows and index, due and renews of every hold. It is taken under a hold's mutex,
	// never the other way.
	mu    sync.Mutex
	holds clock.Heap[*hold]
	armed clock.Stamp // when the goroutine wakes by itself; zero when it does not
	used  bool        // there was a hold since beside was called
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
	d := &watchdog{renew: renew, beside: beside, kick: make(chan struct{}, 1)}
	d.ctx, d.cancel = context.WithCancel(context.Background())
	d.wg.Go(d.run)
	return d
}

// look is when the watchdog is to look at a hold.
type look struct {
	at     clock.Stamp
	renews bool // to renew it, which it does for many at a time
}

// schedule makes the watchdog look at h at its time, or before.
func (d *watchdog) schedule(h *hold, l look, now clock.Stamp) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.used = true
	due := l.at
	switch {
	case h.index < 0:
		h.due, h.renews = due, l.renews
		heap.Push(&d.holds, h)
	case due.Until(now) < h.due.Until(now):
		h.due, h.renews = due, l.renews
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

// remove takes h out. The timer stays as it is: waking for nothing is cheaper than waking to be
// told so.
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
		d.arm(timer, d.goBeside(now))
	}
}

// goBeside calls beside where there are or were holds, and returns when that is due again.
func (d *watchdog) goBeside(now clock.Stamp) clock.Stamp {
	if d.beside == nil {
		return clock.Never()
	}
	d.mu.Lock()
	used := d.used || len(d.holds) > 0
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
func (d *watchdog) take(now clock.Stamp, all bool) []*hold {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.armed = clock.Stamp{}
	var due []*hold
	horizon := now
	for len(d.holds) > 0 && (all || d.holds[0].due.Reached(horizon)) {
		h := heap.Pop(&d.holds).(*hold)
		if h.renews {
			horizon = now.Add(batchWindow)
		}
		due = append(due, h)
	}
	return due
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

func (d *watchdog) arm(timer *time.Timer, beside clock.Stamp) {
	now := clock.Now()
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.holds) == 0 {
		d.armed = clock.Stamp{}
		timer.Stop()
		return
	}
	pause := min(max(0, clock.Sooner(d.holds[0].due, beside, now).Until(now)), glance)
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

// newHold makes h a hold by an entry's grant.
func (k *keeper) newHold(h *hold, c claim.Claim, g node.Grant, cfg *config, atGate bool) *hold {
	e := c.Of()
	if atGate {
		k.gates.Remark(e.Names.Lock, nil)
	}
	*h = hold{
		k: k, tally: k.tallyOf(e.Names), claim: c, entry: e, cfg: cfg, atGate: atGate, index: -1,
		token: g.Token, left: g.Passes, since: clock.Now(), cap: clock.Never(),
		until: g.Sent.Add(e.Lease - clock.Margin(e.Lease)), renewAt: g.Sent.Add(e.Lease / 3), kept: g.Sent.Add(e.Lease),
	}
	h.trip = h.since.Since(g.Sent)
	h.fresh, h.asked = atGate && g.Fresh && cfg.lingers() && c.Attend(), g.Sent
	h.watcher, h.shares = h, h.room[:0]
	c.Watch(&h.watcher)
	return h
}

// start gives out s as the hold's only share, with its next token, from now on and by cfg. It fails
// when the hold was lost on its way here.
func (h *hold) start(s *share, cfg *config, now clock.Stamp) error {
	h.mu.Lock()
	if h.state != holdLive {
		defer h.mu.Unlock()
		return h.causeLocked()
	}
	h.cfg, h.began = cfg, now
	h.cap = clock.Never()
	if d := cfg.maxLease; d > 0 {
		h.cap = now.Add(d)
	}
	h.shares, s.token, s.since = append(h.shares, s), h.token, now.Mono()
	h.token++
	h.left--
	h.used++
	due := h.next(now)
	sooner := h.lookAt.IsZero() || due.at.Until(now) < h.lookAt.Until(now)
	if sooner {
		h.lookAt = due.at
	}
	h.mu.Unlock()
	if sooner {
		h.k.dog.schedule(h, due, now)
	}
	if h.k.isClosed() {
		h.lose(ErrClosed) // Close may have counted the holds before this one was among them
		h.claim.Abandon() // and where it did, it left the lock to a lease that nobody is given
		return ErrClosed
	}
	return nil
}

// deadline is the end of trust. The caller holds h.mu.
func (h *hold) deadline(now clock.Stamp) clock.Stamp {
	return clock.Sooner(h.cap, h.until, now)
}

// next is when the watchdog has to look again. The caller holds h.mu.
func (h *hold) next(now clock.Stamp) look {
	renewal, end := h.renewal(now), clock.Sooner(h.deadline(now), h.lingersUntil(now), now)
	return look{at: clock.Sooner(renewal, end, now), renews: renewal.Until(now) <= end.Until(now)}
}

// renewal is when to ask Redis next: never while a renewal is under way, for a fixed lease, or once
// the lease reaches to where the hold is capped. The caller holds h.mu.
func (h *hold) renewal(now clock.Stamp) clock.Stamp {
	capped := h.cfg.fixed > 0 || h.until.Until(now) >= h.cap.Until(now)
	if h.asking || capped && !h.askSoon && !h.countUnsure {
		return clock.Never()
	}
	return h.renewAt
}

// tick is the watchdog's look at one hold. It returns a renewal to send, if one is near.
func (h *hold) tick(now clock.Stamp) (claim.Renewal, bool) {
	if h.expire() {
		return claim.Renewal{}, false
	}
	if h.outstayed(now) {
		h.giveBack()
		return claim.Renewal{}, false
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.state != holdLive {
		return claim.Renewal{}, false
	}
	var r claim.Renewal
	window := min(batchWindow, h.shortest()/20)
	renew := h.renewal(now).Until(now) <= window
	if renew {
		r = claim.Renewal{Claim: h.claim, Lease: h.renewLease(now), Timeout: min(h.entry.Timeout, h.cfg.commandTimeout, 2*time.Second)}
		h.asksFor(r.Lease, now)
		if h.countUnsure && !h.ops.taken {
			r.Count = max(1, len(h.shares))
		}
		h.asking, h.askSoon = true, false
	}
	next := h.next(now)
	h.lookAt = next.at
	h.k.dog.schedule(h, next, now)
	return r, renew
}

func (h *hold) DueAt() clock.Stamp { return h.due }
func (h *hold) Place() *int        { return &h.index }
