package world

import (
	"context"
	"errors"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/relock-go/relock"
)

// Actor is a goroutine of a process that uses locks.
type Actor struct {
	w     *World
	place int // of its process
	index int
	side  sync.WaitGroup // goroutines that it started
	calls atomic.Int64   // of Lock and TryLock
}

func (a *Actor) run() {
	for round := range a.w.plan.Rounds {
		if a.w.ctx.Err() != nil {
			break
		}
		if !a.w.turn(a.place, a.index, round) {
			continue
		}
		a.w.begun()
		r := throw(a.w.plan.Seed, "actor", strconv.Itoa(a.place), strconv.Itoa(a.index), strconv.Itoa(round)).stream()
		if d := throw(a.w.plan.Seed, "state", strconv.Itoa(a.place), strconv.Itoa(a.index), strconv.Itoa(round)); d.of(8) == 0 {
			a.asksState(a.w.process(a.place), a.w.plan.Names[d.of(len(a.w.plan.Names))], 1)
		}
		a.w.kind.Round(a, r)
		a.side.Wait()
	}
}

// Try is what an actor asks for.
type Try struct {
	Name   string
	Amount int    // how much of the lock, where several may hold it
	Owner  string // of WithOwner, "" for none
	Once   bool   // TryLock
	Apart  bool   // detached from what ctx holds
	Lease  time.Duration
	Fixed  bool
	wait   time.Duration // of WithWait, 0 for none
	passes handoff       // of WithLocalHandoff
	Opts   []relock.Option

	maxHold, minHold, fix, linger time.Duration // of the options, 0 for none
}

// Acquire locks, and has the judge look at what came of it. It returns nil where the lock was not
// had.
func (a *Actor) Acquire(ctx context.Context, t Try) *Held {
	if !a.w.plays(t.Name) {
		return nil
	}
	if a.w.form.RW && t.Owner != "" { // which no read-write lock has
		t.Owner, t.Apart = "", true
	}
	if t.Owner != "" || t.Apart {
		ctx = withOwner(ctx, t.Owner)
	}
	outer := scopeOf(ctx).find(t.Name)
	p := a.w.process(a.place)
	if a.w.form.Permits && outer != nil { // which are no re-entries
		p, outer = outer.proc, nil
	}
	if outer != nil {
		p = outer.proc
	}
	m := a.w.kind.Of(p.client, t.Name, t.Amount, t.Opts...)
	short := func(bool) {}
	if outer == nil {
		ctx, short = a.cutShort(ctx, t, p)
	}
	ended := ending(ctx)
	var l *relock.Lease
	var err error
	began := time.Now()
	a.begins(t, p, outer)
	a.w.called(p)
	defer a.w.answered(p)
	if t.Once {
		l, err = m.TryLock(ctx)
	} else {
		done := a.w.judge.waits(&call{name: t.Name, proc: p, lease: t.Lease, amount: max(t.Amount, 1), began: began, lines: scopeOf(ctx).whose() == "" && outer == nil})
		l, err = m.Lock(ctx)
		done()
	}
	short(err != nil)
	a.bound("Lock", t.Name, began, ended, t.Once)
	a.inTime(t, p, began, err)
	a.w.judge.asked(t.Name, outer != nil, time.Since(began))
	if err != nil {
		a.w.note(p.index, t.Name, "is refused", 0, err)
		a.refused(t, ctx, p, err)
		a.told(ctx, t, p, began, err)
		if ctx.Err() == nil {
			a.failed(t, p, began, err)
		}
		return nil
	}
	h := a.given(ctx, t, p, l, began)
	h.ctx = within(ctx, h)
	a.w.note(p.index, t.Name, "HAS", h.Token, nil)
	a.entered(h, outer)
	return h
}

// given is a lease that a call has returned which began then, as the judge knows it.
func (a *Actor) given(ctx context.Context, t Try, p *process, l *relock.Lease, began time.Time) *Held {
	h := &Held{
		Lease: l, Name: t.Name, Token: l.Token(), proc: p, owner: scopeOf(ctx).whose(),
		at: time.Since(a.w.trace.start), fixed: t.Fixed, lease: t.Lease, asked: began, began: began, under: ctx,
		bound: t.bound(began), linger: t.linger, passes: t.passes, amount: max(t.Amount, 1),
	}
	h.maxHold, h.minHold, h.fix = t.maxHold, t.minHold, t.fix
	if a.w.form.Permits {
		id, _ := idOf(l)
		h.Token = a.w.numberOf(id)
	}
	return h
}

// begins notes that an actor asks for a lock, under the lease of it that it has.
func (a *Actor) begins(t Try, p *process, outer *Held) {
	what, token := "calls Lock", int64(0)
	if t.Once {
		what = "calls TryLock"
	}
	if outer != nil {
		what, token = what+" under", outer.Token
	}
	a.w.note(p.index, t.Name, what, token, nil)
}

// entered has the judge look at a new lease.
func (a *Actor) entered(h, outer *Held) {
	if outer != nil {
		h.fixed = h.fixed || outer.fixed
		if outer.Token == h.Token {
			h.owner, h.bound, h.linger = outer.owner, outer.bound, outer.linger
		} else if outer.live() && h.live() {
			a.w.fail(h.Name, "a re-entry under token %d was given %d", outer.Token, h.Token)
		}
	}
	if a.w.judge.dead(h.proc) {
		h.over.Store(true)
	}
	a.w.judge.granted(h, outer)
}

// ending returns how long ago ctx ended, once it has.
func ending(ctx context.Context) func() time.Duration {
	ended := make(chan time.Time, 1)
	stop := context.AfterFunc(ctx, func() { ended <- time.Now() })
	return func() time.Duration {
		if stop() {
			return 0
		}
		return time.Since(<-ended)
	}
}

// bound demands that a call returned soon after its context had ended, or soon at all.
func (a *Actor) bound(what, name string, began time.Time, ended func() time.Duration, soon bool) {
	most := 8*a.w.plan.Timeout() + time.Second
	if late := ended(); late > most {
		a.w.fail(name, "%s returned %v after its context had ended", what, late)
	}
	if took := time.Since(began); soon && took > most {
		a.w.fail(name, "%s took %v", what, took)
	}
}

// refused demands that there was a reason.
func (a *Actor) refused(t Try, ctx context.Context, p *process, err error) {
	if t.Once || t.wait > 0 || ctx.Err() != nil || !errors.Is(err, relock.ErrNotAcquired) {
		return
	}
	a.w.fail(t.Name, "Lock gave up by itself: %v", err)
}

// unlockSlack is what an Unlock may take beyond a command's time: for the turns of processes that share one processor.
const unlockSlack = 100 * time.Millisecond

// Release unlocks, now and then twice.
func (a *Actor) Release(ctx context.Context, h *Held, again bool) {
	a.w.note(h.proc.index, h.Name, "unlocks", h.Token, nil)
	gone := a.w.goneOf(h)
	lost := a.w.judge.unlocking(h)
	began := time.Now()
	a.w.called(h.proc)
	defer a.w.answered(h.proc)
	err := h.Lease.Unlock(ctx)
	a.w.hasLeft(h)
	a.w.note(h.proc.index, h.Name, "unlocked", h.Token, err)
	a.w.judge.over(h, h.at)
	a.w.judge.unlocked(h, lost, err, false)
	a.w.givenBackFor(h, gone, err)
	if took := time.Since(began); took > a.w.plan.Timeout()+unlockSlack {
		a.w.fail(h.Name, "Unlock took %v", took)
	}
	if again {
		a.w.judge.unlocked(h, lost, h.Lease.Unlock(ctx), true)
	}
}

// Sleep passes simulated time, unless the run is over.
func (a *Actor) Sleep(d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-a.w.ctx.Done():
	}
}

// Go starts a goroutine that the round waits for.
func (a *Actor) Go(f func()) {
	a.w.starts(a.place, 1)
	a.side.Go(func() {
		defer a.w.starts(a.place, -1)
		f()
	})
}

// pick is one of the list.
func pick[T any](r *rand.Rand, list []T) T { return list[r.IntN(len(list))] }

// dead reports whether a process was killed.
func (j *judge) dead(p *process) bool {
	j.w.mu.Lock()
	defer j.w.mu.Unlock()
	return p.dead
}
