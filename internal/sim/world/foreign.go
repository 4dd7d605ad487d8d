package world

import (
	"strings"
	"time"
)

// patienceOfOthers is how many grants of the other side a waiter lets pass at most, where nothing
// goes wrong.
const patienceOfOthers = 100

// javaTook is told, under the world's mutex, that a server gave a lock to a thread of Redisson's,
// perhaps once more.
func (w *World) javaTook(v *jvm, name, field string, token int64) {
	var counter int64
	if a, ok := w.nodes[0].ask("GET", beside("redisson_lock_token:", name)); ok {
		counter = a.number()
	}
	above := w.judge.taken(name, "", counter, token)
	if token > 0 && token <= above {
		w.failed(name, "Redisson's token %d of p%d is not above %d", token, v.index, above)
	}
	go w.judge.overtaken(v, name, max(counter, above))
}

// taken notes a grant to Redisson, with its token if it has one, and returns the highest that was
// given out before. Its readers come in beside one another and wait for no writer, so they count as
// none that passes one. A thread that lost against others of its side has not waited for relock.
func (j *judge) taken(name, side string, counter, token int64) (above int64) {
	j.mu.Lock()
	defer j.mu.Unlock()
	r := j.of(name)
	j.javas++
	r.free, r.nobody = time.Time{}, time.Time{} // it may be over before watch looks again
	for c := range r.threads {
		if c.side == side {
			c.passed = 0
		}
	}
	for c := range r.waiting {
		if side == "read" {
			break
		}
		c.passed++
		j.most = max(j.most, c.passed)
		if c.passed > patienceOfOthers && j.w.fair() {
			go j.w.fail(name, "p%d has waited while Redisson was given the lock %d times", c.proc.index, c.passed)
		}
	}
	above = r.highest
	if token > 0 {
		if r.uncounted { // RFencedLock begins at 1 where there is no counter
			above = 0
		}
		r.highest = max(r.highest, token)
	}
	return above
}

// overtaken demands that no lease of relock's is live that was granted before Redisson was given
// the lock: those have tokens up to last.
func (j *judge) overtaken(v *jvm, name string, last int64) {
	j.mu.Lock()
	r := j.of(name)
	held, excused := append([]*Held(nil), r.held...), max(r.horizon, r.alien)
	j.mu.Unlock()
	for _, h := range held {
		if h.Token <= last && h.Token > excused && h.live() {
			j.w.fail(name, "two holders: p%d has had token %d since %v, and Redisson in p%d is given the lock", h.proc.index,
				h.Token, h.at, v.index)
		}
	}
}

// beside demands that Redisson does not hold what relock was just given.
func (j *judge) beside(h *Held) {
	field := ""
	if j.w.form.RW {
		field = j.w.javaKeepsOut(h.Name, h.amount < allOf)
	} else {
		field = j.w.javaHas(h.Name)
	}
	if field == "" || !h.live() {
		return
	}
	j.mu.Lock()
	r := j.of(h.Name)
	excused := max(r.horizon, r.alien)
	j.mu.Unlock()
	if h.Token > excused && h.live() {
		j.w.fail(h.Name, "two holders: Redisson's %s has the lock, and p%d is given token %d", field, h.proc.index, h.Token)
	}
}

// javaHas is the field of a thread of Redisson's that a server keeps the lock for, "" for none.
func (w *World) javaHas(name string) string {
	switch {
	case w.plan.JVMs == 0, w.form.Permits: // both may hold
		return ""
	case w.form.RW:
		return w.javaKeepsOut(name, false)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	v, _ := w.nodes[0].ask("HKEYS", name)
	for _, field := range v.texts() {
		if client, _, ok := strings.Cut(field, ":"); ok && w.javas[client] {
			return field
		}
	}
	return ""
}

// threadWaits notes a thread of Redisson's that waits, until the returned function is called.
func (j *judge) threadWaits(name, side string) (done func()) {
	j.mu.Lock()
	defer j.mu.Unlock()
	c := &call{name: name, side: side}
	r := j.of(name)
	r.threads[c] = struct{}{}
	return func() {
		j.mu.Lock()
		defer j.mu.Unlock()
		delete(r.threads, c)
	}
}

// passes counts a grant of relock's past the threads that wait. The judge's mutex is held.
func (j *judge) passes(r *record, name string) {
	for c := range r.threads {
		c.passed++
		j.most = max(j.most, c.passed)
		if c.passed > patienceOfOthers && j.w.fair() {
			go j.w.fail(name, "a thread of Redisson's has waited while relock gave the lock %d times, and no other thread had it", c.passed)
		}
	}
}

// fair reports whether neither side may starve: nothing goes wrong, and turns are given, which a
// guarded Redis does not.
func (w *World) fair() bool { return w.plan.Class == "none" && !w.plan.Topology.Guarded }

// forgotten is told that a node's memory is gone, or some of it: what relock granted Redisson may
// be given too, whom no quarantine keeps out.
func (j *judge) forgotten(name string, counter int64) {
	j.mu.Lock()
	defer j.mu.Unlock()
	r := j.of(name)
	r.alien, r.uncounted = max(r.alien, counter, r.highest), true
}

// forgetsJava tells the judge of what a memory's loss means to Redisson.
func (w *World) forgetsJava() {
	for _, name := range w.plan.Names {
		var counter int64
		if v, ok := w.nodes[0].ask("GET", beside("redisson_lock_token:", name)); ok {
			counter = v.number()
		}
		w.judge.forgotten(name, counter)
	}
}

// replaceJVM kills an instance of Redisson, and starts another in its place.
func (w *World) replaceJVM(place int) {
	old := w.jvms[place]
	w.silence(old.process)
	w.jvms[place] = newJVM(w, old.index)
	w.ending.Go(old.end)
}

// endJVMs ends all, and waits for those that were killed.
func (w *World) endJVMs() {
	for i := range w.jvms {
		w.ending.Go(w.jvm(i).end)
	}
	w.ending.Wait()
}

// countsFirst has Redisson count before relock where both do: a counter that it makes has no expiry.
func (w *World) countsFirst() {
	if w.plan.JVMs == 0 || w.form.Permits {
		return
	}
	for _, name := range w.plan.Names {
		w.nodes[0].ask("INCR", "redisson_lock_token:{"+name+"}")
	}
	if spare := w.nodes[0].spare; spare != nil {
		spare.CatchUp(-1)
	}
}

// countsStill demands that those counters have none in the end, but for those that were lost: Redisson would begin at 1 again.
func (w *World) countsStill() {
	for _, name := range w.plan.Names {
		w.judge.mu.Lock()
		lost := w.judge.of(name).uncounted
		w.judge.mu.Unlock()
		w.mu.Lock()
		v, ok := w.nodes[0].ask("PTTL", "redisson_lock_token:{"+name+"}")
		w.mu.Unlock()
		if w.plan.JVMs > 0 && !w.form.Permits && !lost && ok && v.number() != -1 {
			w.fail(name, "the counter that Redisson made expires in %d ms", v.number())
		}
	}
}
