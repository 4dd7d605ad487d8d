package world

import (
	"errors"
	"math/rand/v2"
	"time"

	"github.com/relock-go/relock"
)

// Moves: in place of Unlock an actor hands the lock over to a process, perhaps its own, where one or two callers have the
// handle. What the judge demands of leases it demands of these: no two are live at once, and tokens rise. Of two callers
// one at most gets the lock. A handle stands for so short that the lock is not waited for in vain. Before each hand-over
// another process takes the id of the holder, as State shows it, for a handle. It is refused.

// mayMove has a third of the plans of a single Redis move locks.
func (p *Plan) mayMove() bool {
	return !p.Topology.Quorum && !p.Topology.Guarded && throw(p.Seed, "moves").stream().IntN(3) == 0
}

// move hands a lock over. It returns false if that is refused for what the lease is: then the caller still has it.
func (m Mutexes) move(a *Actor, r *rand.Rand, h *Held) bool {
	if h.owner != "" {
		return false
	}
	w := a.w
	w.takesHolder(h)
	w.note(h.proc.index, h.Name, "hands over", h.Token, nil)
	lost := w.judge.unlocking(h)
	began := time.Now()
	w.called(h.proc)
	handle, err := h.Lease.HandOver(w.ctx, w.plan.Lease/5)
	w.answered(h.proc)
	w.hasLeft(h)
	w.note(h.proc.index, h.Name, "handed over", h.Token, err)
	if errors.Is(err, relock.ErrMisuse) && !errors.Is(err, relock.ErrNotHeld) {
		h.over.Store(false) // it has re-entries
		return false
	}
	w.judge.over(h, h.at)
	w.judge.unlocked(h, lost, err, false)
	if took := time.Since(began); took > 2*w.plan.Timeout()+unlockSlack {
		w.fail(h.Name, "HandOver took %v", took)
	}
	if err != nil {
		return true
	}
	a.Sleep(time.Duration(r.Int64N(int64(w.plan.Lease / 4))))
	for range 1 + r.IntN(2) {
		place, held := r.IntN(w.plan.Procs), w.hold(r)
		take := func() { m.takeOver(a, place, h, handle, held) }
		if r.IntN(2) == 0 {
			a.Go(take)
		} else {
			take()
		}
	}
	return true
}

// takesHolder lets the next process take over what h holds, by the id of its hold.
func (w *World) takesHolder(h *Held) {
	p := w.process((h.proc.index + 1) % w.plan.Procs)
	w.called(p)
	_, err := p.client.Mutex(h.Name).TakeOver(w.ctx, h.id)
	w.answered(p)
	if !errors.Is(err, relock.ErrLost) && !errors.Is(err, relock.ErrClosed) {
		w.fail(h.Name, "TakeOver of the holder's id was not refused: %v", err)
	}
}

// takeOver takes a lock over in a place, and gives it back.
func (Mutexes) takeOver(a *Actor, place int, from *Held, handle string, held time.Duration) {
	w, p := a.w, a.w.process(place)
	t := Try{Name: from.Name, Lease: from.lease, Opts: []relock.Option{relock.WithLease(from.lease)}}
	began := time.Now()
	w.note(p.index, t.Name, "calls TakeOver", 0, nil)
	w.called(p)
	l, err := p.client.Mutex(t.Name, t.Opts...).TakeOver(w.ctx, handle)
	w.answered(p)
	if err != nil {
		w.note(p.index, t.Name, "is refused", 0, err)
		return
	}
	h := &Held{
		Lease: l, Name: t.Name, Token: l.Token(), proc: p, at: time.Since(w.trace.start), lease: t.Lease, asked: began,
		began: began, under: w.ctx, amount: 1,
	}
	h.ctx = within(w.ctx, h)
	w.note(p.index, t.Name, "HAS", h.Token, nil)
	if before := from.Token; h.Token <= before && h.Token > w.judge.looseOf(t.Name) { // as a downgrade
		w.fail(t.Name, "token %d was handed over, and %d taken over", before, h.Token)
	}
	a.entered(h, nil)
	a.Sleep(held)
	a.Release(w.ctx, h, false)
}

// moves notes what a command says that moves a lock: the first id ends, the second is asked for. The world's mutex is held.
func (w *World) moves(p *process, c *command, from, to string, lease time.Duration, handle bool) {
	if s := w.stays[from]; s != nil && !s.ended {
		s.ended, s.over = true, time.Now()
	}
	s := w.stays[to]
	if s == nil {
		s = &stay{proc: p, id: to, first: time.Now(), lease: lease, handle: handle}
		w.stays[to] = s
	}
	s.asks(c)
}
