package world

import (
	"math/rand/v2"
	"strconv"
	"strings"
	"time"
)

// thread is a thread of a JVM that uses locks.
type thread struct {
	w     *World
	place int // of its JVM among them
	index int
}

// want is what a thread asks for.
type want struct {
	name, field string
	lease       time.Duration // given, or the watchdog's
	watched     bool
	fenced      bool
	side        string        // of a read-write lock, "" for a mutex
	wait        time.Duration // of tryLock, negative for lock()
}

func (t *thread) run() {
	for round := range t.w.plan.Rounds {
		if t.w.ctx.Err() != nil {
			return
		}
		if !t.w.turn(t.w.plan.Procs+t.place, t.index, round) {
			continue
		}
		r := throw(t.w.plan.Seed, "thread", strconv.Itoa(t.place), strconv.Itoa(t.index), strconv.Itoa(round)).stream()
		t.round(r)
	}
}

// jvm returns which runs in a place now.
func (w *World) jvm(place int) *jvm {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.jvms[place]
}

// round takes a lock, perhaps twice, does something under it, and unlocks. A thread that is not
// answered gives up.
func (t *thread) round(r *rand.Rand) {
	v, plan := t.w.jvm(t.place), t.w.plan
	v.pause(time.Duration(r.Int64N(int64(20*plan.Rates.Delay) + 1)))
	if t.w.form.Permits {
		t.permits(v, r)
		return
	}
	field := v.id + ":" + strconv.Itoa(40+t.index)
	o := want{name: pick(r, plan.Names), field: field, lease: v.lease, watched: true, wait: -1}
	if r.IntN(4) == 0 {
		o.lease, o.watched = pick(r, plan.Leases), false
	}
	o.fenced = r.IntN(5) == 0
	if t.w.form.RW {
		if o.side, o.fenced = "read", false; r.IntN(3) == 0 {
			o.side = "write"
		}
	}
	switch r.IntN(6) {
	case 0:
		o.wait = 0
	case 1:
		o.wait = time.Duration(1 + r.Int64N(int64(2*plan.Lease)))
	}
	if o.side == "read" && r.IntN(6) == 0 {
		t.readTwice(v, r, o)
		return
	}
	if !t.lock(v, r, o) {
		return
	}
	began := time.Now()
	v.pause(t.w.hold(r))
	if o.side == "write" && r.IntN(3) == 0 { // it goes on as a reader
		in := o
		in.side, in.wait = "read", 0
		if t.lock(v, r, in) {
			t.unlock(v, o, began)
			v.pause(t.w.hold(r))
			t.unlock(v, in, began)
			return
		}
	}
	if r.IntN(4) == 0 {
		o.wait = 0
		if t.lock(v, r, o) {
			v.pause(t.w.hold(r))
			t.unlock(v, o, began)
		}
	}
	t.unlock(v, o, began)
}

// readTwice enters twice, with leases of its own, and reads on when the first is over: it lives by its second key then.
func (t *thread) readTwice(v *jvm, r *rand.Rand, o want) {
	o.lease, o.watched = t.w.plan.Lease, false
	if !t.lock(v, r, o) {
		return
	}
	began, in := time.Now(), o
	in.lease, in.wait = 3*o.lease, 0
	if t.lock(v, r, in) {
		v.pause(o.lease + time.Duration(r.Int64N(int64(o.lease))))
		t.unlock(v, in, began)
	}
	t.unlock(v, o, began)
}

// lock is RedissonLock's: try, subscribe, try, and sleep until a message or until the lock ends.
func (t *thread) lock(v *jvm, r *rand.Rand, o want) bool {
	if !t.w.plays(o.name) {
		return false
	}
	began := time.Now()
	got, _, err := v.takes(o)
	if err != nil || !got && o.wait == 0 {
		return false
	}
	if !got {
		e := v.subscribe(o.name)
		if e == nil {
			return false
		}
		defer v.leave(o.name, e)
		done := t.w.judge.threadWaits(o.name, o.side)
		defer done()
		for {
			got, ttl, err := v.takes(o)
			if err != nil {
				return false
			} else if got {
				break
			}
			if o.wait > 0 {
				if ttl = min(ttl, o.wait-time.Since(began)); ttl <= 0 {
					return false
				}
			}
			if !v.sleep(e, ttl, time.Duration(r.Int64N(int64(t.w.plan.wakes())))) {
				return false
			}
		}
	}
	if o.watched {
		v.watches(o)
	}
	t.w.note(v.index, o.name, strings.TrimSuffix("JAVA HAS "+o.side, " "), 0, nil)
	return true
}

// wakes is how long a JVM may need until a thread that is woken runs.
func (p *Plan) wakes() time.Duration { return min(5*time.Millisecond, 10*p.Rates.Delay) }

// sleep waits for a permit, and then until the thread runs. It reports false where the JVM ends.
func (v *jvm) sleep(e *latchEntry, ttl, wakes time.Duration) bool {
	var ends <-chan time.Time
	if ttl >= 0 {
		t := time.NewTimer(ttl)
		defer t.Stop()
		ends = t.C
	}
	v.sleeps(e, 1)
	defer v.sleeps(e, -1)
	select {
	case <-e.permits:
	case <-ends:
	case <-v.over:
		return false
	case <-v.w.ctx.Done():
		return false
	}
	return v.pause(wakes)
}

func (t *thread) unlock(v *jvm, o want, began time.Time) {
	if o.watched {
		v.watchesNot(o)
	}
	held, err := v.gives(o)
	t.w.note(v.index, o.name, "java unlocked", 0, err)
	short := !o.watched && time.Since(began) > o.lease*9/10
	if err == nil && !held && t.w.plan.Class == "none" && !short {
		t.w.fail(o.name, "a hold of Redisson's, which p%d began at %v, was taken away", v.index, began.Sub(t.w.trace.start))
	}
}
