package world

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
)

// losers lose a lease to a cut, and unlock it long after the cut has healed.
type losers struct {
	Mutexes
	lost *bool
}

func (k losers) Round(a *Actor, _ *rand.Rand) {
	w, lease := a.w, a.w.plan.Lease
	t := Try{Name: w.plan.Names[0], Lease: lease, Opts: []relock.Option{relock.WithLease(lease)}}
	h := a.Acquire(w.ctx, t)
	for ; h != nil && !h.watched(); h = a.Acquire(w.ctx, t) {
		a.Release(w.ctx, h, false)
	}
	if h == nil {
		return
	}
	w.mu.Lock()
	part(w, event{Proc: a.place, Last: 3 * lease / 2})
	w.mu.Unlock()
	a.Sleep(4 * lease)
	*k.lost = h.Lease.Count() == 0
	a.Release(w.ctx, h, false)
}

// A loss is judged by the time before it: the quiet time between it and a late Unlock could renew nothing.
func TestLossIsJudgedByTheTimeBeforeIt(t *testing.T) {
	plan, lost := Draw(1, "none", alone.Name), false
	plan.lasts(30 * time.Second)
	plan.Procs, plan.Actors, plan.Rounds, plan.JVMs, plan.Names = 1, 1, 1, 0, plan.Names[:1]
	res := perform(t, plan, Options{Kind: losers{lost: &lost}})
	require.Empty(t, res.Violation, res.Trace)
	require.True(t, lost)
}

// doubters hear that their lock was forced open when it was not, which they find out by asking; later it is deleted.
type doubters struct{ Mutexes }

func (doubters) Round(a *Actor, _ *rand.Rand) {
	w, lease := a.w, a.w.plan.Lease
	h := a.Acquire(w.ctx, Try{Name: w.plan.Names[0], Lease: lease, Opts: []relock.Option{relock.WithLease(lease)}})
	w.mu.Lock()
	w.forcedOpen(h.proc, "relock_inbox:"+h.proc.client.ID(), "0 0 "+h.id+" 0 "+h.Name)
	w.mu.Unlock()
	a.Sleep(4*w.plan.Timeout() - time.Millisecond)
	w.mu.Lock()
	deleteLock(w, event{})
	w.mu.Unlock()
	a.Sleep(2 * time.Millisecond)
	a.Release(w.ctx, h, false)
}

// A message that a lock was forced open tells nothing of a deletion that comes later.
func TestForceIsToldDeletionIsNot(t *testing.T) {
	plan := Draw(1, "none", guarded.Name) // whose commands have a shorter time than renewals are apart
	plan.lasts(3 * time.Second)
	plan.Fresh = false
	plan.Class, plan.Procs, plan.Actors, plan.Rounds, plan.JVMs, plan.Throng, plan.Names = "operator", 1, 1, 1, 0, 0, plan.Names[:1]
	res := perform(t, plan, Options{Kind: doubters{}})
	require.Empty(t, res.Violation, res.Trace)
}

// quarantines re-enter a lock at a Redis that was just restarted with all its memory.
type quarantines struct {
	Mutexes
	full          bool
	before, after *int64 // how long Redis keeps the lock, in ms
	said          *error
}

func (k quarantines) Round(a *Actor, _ *rand.Rand) {
	w, n, lease := a.w, a.w.nodes[0], a.w.plan.Lease
	h := a.Acquire(w.ctx, Try{Name: w.plan.Names[0], Lease: lease, Opts: []relock.Option{relock.WithLease(lease)}})
	a.Sleep(lease / 10)
	w.mu.Lock()
	restart(w, event{N: 4})
	w.mu.Unlock()
	a.Sleep(time.Millisecond)
	w.mu.Lock()
	*k.before = n.server.Left(h.Name)
	n.refuses(lease)
	n.server.SetFull(k.full)
	w.mu.Unlock()
	_, *k.said = h.proc.client.Mutex(h.Name).TryLock(h.Lease.Context())
	w.mu.Lock()
	*k.after = n.server.Left(h.Name)
	n.server.SetFull(false)
	w.mu.Unlock()
	a.Release(w.ctx, h, false)
}

// A Redis that may have forgotten locks lengthens none, whether it is full or not: its guard refuses before the re-entry.
func TestReentryInQuarantineLengthensNothing(t *testing.T) {
	for said, full := range map[string]bool{"QUARANTINED": false, "OOM": true} {
		t.Run(said, func(t *testing.T) {
			var before, after int64
			var err error
			plan := Draw(1, "none", guarded.Name)
			plan.lasts(3 * time.Second)
			plan.Fresh = false
			plan.Class, plan.Procs, plan.Actors, plan.Rounds, plan.JVMs, plan.Throng, plan.Names = "mixed", 1, 1, 1, 0, 0, plan.Names[:1]
			res := perform(t, plan, Options{Kind: quarantines{full: full, before: &before, after: &after, said: &err}})
			require.Empty(t, res.Violation, res.Trace)
			require.ErrorContains(t, err, said)
			require.Positive(t, after)
			require.LessOrEqual(t, after, before)
		})
	}
}

// cappers have a lock for as long as WithMaxHold lets them. The judge is told that it was to be longer, where early is set.
type cappers struct {
	Mutexes
	early bool
}

func (k cappers) Round(a *Actor, _ *rand.Rand) {
	w, lease := a.w, a.w.plan.Lease
	t := Try{Name: w.plan.Names[0], Lease: lease, Opts: []relock.Option{relock.WithLease(lease)}}
	t.caps(2 * lease)
	h := a.Acquire(w.ctx, t)
	if k.early {
		h.bound.least = h.bound.least.Add(time.Second)
	}
	a.Sleep(3 * lease)
	a.Release(w.ctx, h, false)
}

// WithMaxHold excuses the loss of a lease once its time is over, and not before.
func TestMaxHoldExcusesNoEarlierEnd(t *testing.T) {
	for _, early := range []bool{false, true} {
		plan := Draw(1, "none", alone.Name)
		plan.lasts(30 * time.Second)
		plan.Procs, plan.Actors, plan.Rounds, plan.JVMs, plan.Names = 1, 1, 1, 0, plan.Names[:1]
		res := perform(t, plan, Options{Kind: cappers{early: early}})
		if early {
			require.Contains(t, res.Violation, "ms before that is over")
		} else {
			require.Empty(t, res.Violation, res.Trace)
		}
	}
}
