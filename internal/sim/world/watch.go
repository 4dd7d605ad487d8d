package world

import (
	"time"
)

// call is a Lock under way.
type call struct {
	name   string
	proc   *process
	lease  time.Duration
	amount int       // of the lock
	over   time.Time // since when that is more than there is
	side   string    // of a thread of Redisson's, for a read-write lock
	passed int       // grants of the other library since it waits
	began  time.Time
	lines  bool // at the gate of its process
}

// waits notes a Lock until the returned function is called.
func (j *judge) waits(c *call) (done func()) {
	j.mu.Lock()
	defer j.mu.Unlock()
	r := j.of(c.name)
	r.waiting[c] = struct{}{}
	return func() {
		j.mu.Lock()
		defer j.mu.Unlock()
		delete(r.waiting, c)
		if c.lines {
			r.returned[c.proc] = append(r.returned[c.proc], time.Now())
		}
		if len(r.waiting) == 0 {
			r.free, r.nobody = time.Time{}, time.Time{}
		}
	}
}

// watch looks, until the run is over, for locks that are free and waited for.
func (j *judge) watch(over <-chan struct{}) {
	tick := time.NewTicker(j.w.plan.Lease / 7)
	defer tick.Stop()
	for {
		select {
		case now := <-tick.C:
			j.trustsAll()
			j.w.strayedAll(now)
			j.w.linesLeft(now)
			j.w.shutOut(now)
			for _, name := range j.wanted() {
				j.look(name, now)
			}
		case <-over:
			return
		}
	}
}

// wanted are the locks that somebody waits for.
func (j *judge) wanted() []string {
	j.mu.Lock()
	defer j.mu.Unlock()
	var names []string
	for _, name := range j.w.plan.Names {
		if r := j.locks[name]; r != nil && len(r.waiting) > 0 {
			names = append(names, name)
		}
	}
	return names
}

// waiters are the processes that wait for a lock.
func (j *judge) waiters(name string) map[*process]bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	procs := map[*process]bool{}
	for c := range j.of(name).waiting {
		procs[c.proc] = true
	}
	return procs
}

// look finds how long a lock that somebody waits for has been free, and how long nobody has had it.
func (j *judge) look(name string, now time.Time) {
	free := j.w.isFree(name)
	held := j.heldNow(name) || j.w.javaHas(name) != ""
	if j.w.form.Shared() {
		free, held = j.room(name)
	}
	free = free && !held
	held = held || j.w.grasped(name) // by All, which waits for another lock
	unheard := !held && j.w.plan.Topology.Quorum && j.w.unheard(name, j.waiters(name))
	if j.w.form.Permits {
		j.overdrawn(name, now)
	}
	dead := j.w.deadFirst(name)
	j.mu.Lock()
	defer j.mu.Unlock()
	r := j.of(name)
	if now.Before(j.excused) || len(r.waiting) == 0 {
		r.free, r.nobody = time.Time{}, time.Time{}
		return
	}
	since(&r.free, free, now)
	since(&r.nobody, !held, now)
	if unheard && !r.nobody.IsZero() { // meanwhile that time stands still
		r.nobody = r.nobody.Add(j.w.plan.Lease / 7)
	}
	longest := j.w.plan.Longest()
	if d := now.Sub(r.free); !r.free.IsZero() && d > j.patience(dead) {
		go j.w.fail(name, "somebody has waited %v beside the free lock", d)
	} else if d := now.Sub(r.nobody); !r.nobody.IsZero() && d > 3*longest+j.patience(true) {
		go j.w.fail(name, "somebody has waited %v for a lock that nobody has", d)
	}
}

// patience is how long a free lock may be waited for: a third of the longest lease of those who
// wait, or have left their place in the queue to the next of their process, and some commands that are
// lost. In the scene heirs nothing is lost: a waiter asks when the lease of the dead is over, unless another of the dead stands before it.
func (j *judge) patience(dead bool) time.Duration {
	longest := j.w.plan.Longest()
	if j.w.plan.Scene == "heirs" && !dead {
		return heirsWait
	}
	if j.w.plan.Rates.lossy() {
		return longest/3 + 8*j.w.plan.Timeout() + longest/2
	}
	return longest/3 + 2*j.w.plan.Timeout()
}

func (r *rates) lossy() bool {
	return r.Slow+r.LoseCall+r.LoseReply+r.Twice+r.Late+r.Refused+r.Hang > 0
}

// since sets from to now where so begins to be true, and to nothing where it is not.
func since(from *time.Time, so bool, now time.Time) {
	if !so {
		*from = time.Time{}
	} else if from.IsZero() {
		*from = now
	}
}

// heldNow reports whether a live lease of the lock is known.
func (j *judge) heldNow(name string) bool {
	j.mu.Lock()
	held := append([]*Held(nil), j.of(name).held...)
	j.mu.Unlock()
	for _, h := range held {
		if h.live() {
			return true
		}
	}
	return false
}

// isFree reports whether a majority of the nodes keep no lock of that name.
func (w *World) isFree(name string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	free := 0
	for _, n := range w.nodes {
		if v, up := n.ask("EXISTS", name); up && v.number() == 0 {
			free++
		}
	}
	return free > len(w.nodes)/2
}
