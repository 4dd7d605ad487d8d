package world

import "time"

// spent is what calls may cost: how many there were, and how long they took.
type spent struct {
	calls   int // of Lock, TryLock and Do, but for re-entries
	enters  int // re-entries
	extends int
	waited  time.Duration // all calls together
}

// asked counts a call that returned.
func (j *judge) asked(name string, inside bool, took time.Duration) {
	j.mu.Lock()
	defer j.mu.Unlock()
	s := &j.of(name).spent
	s.waited += took
	if inside {
		s.enters++
	} else {
		s.calls++
	}
}

// extended counts a call of Extend.
func (j *judge) extended(h *Held) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.of(h.Name).spent.extends++
	if h.bound != nil {
		h.bound.extends++
	}
}

// dear demands, where nothing went wrong, that calls cost no more commands than they should: of a
// call one that asks and one that ends, and one for each third of a lease of waiting; of a re-entry
// two, and one more where its hold count is not sure. On a quorum who votes in vain votes again; of what several may hold
// an end wakes all that wait where it makes no room for the first of them.
func (w *World) dear() {
	if w.plan.Class != "none" || w.plan.JVMs > 0 {
		return
	}
	all, ran := w.spent()
	slack, factor := 10+2*len(w.plan.Names), 1
	if w.plan.Topology.Quorum || w.form.Shared() {
		factor = 2
	}
	polls := int(3 * all.waited / w.plan.shortest())
	for kind, most := range map[string]int{
		"asking": factor*all.calls + polls, "ending": factor * all.calls, "fencing": all.calls,
		"counting": 3*all.enters + 2*all.extends,
	} {
		if most = (5*most/4 + slack) * len(w.nodes); ran[kind] > most {
			w.fail("", "%d commands for %s where %d would do: %+v", ran[kind], kind, most, all)
		}
	}
}

// spent sums what was asked of all locks, and the commands that this took, by their kind.
func (w *World) spent() (all spent, ran map[string]int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	ran = map[string]int{}
	for _, name := range w.plan.Names {
		s := w.judge.spentOn(name)
		all.calls, all.enters, all.extends = all.calls+s.calls, all.enters+s.enters, all.extends+s.extends
		all.waited += s.waited
		for op, kind := range commandKinds {
			ran[kind] += w.ran[work{op, name}]
		}
	}
	return all, ran
}

var commandKinds = map[string]string{
	"acquire": "asking", "gather": "asking", "vote": "asking", "release": "ending", "unvote": "ending", "sweep": "ending",
	"recount": "counting", "fence": "fencing",
}

// twice is what an uncontended lock that is entered twice costs: to ask, to count up and down, and
// to end. On a quorum those that heard last are told the fencing token. A guarded node that was not
// declared new in time is told a counter the first time, and asked again after that and with each answer of another.
func (p *Plan) twice() int {
	each, n := 4, p.Topology.Nodes
	if n > 1 {
		each = 6
	}
	if p.Topology.Guarded {
		each += 1 + n
	}
	return each * n
}

// costs counts all commands about a lock.
func (w *World) costs(name string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := 0
	for op := range commandKinds {
		n += w.ran[work{op, name}]
	}
	return n
}

func (j *judge) spentOn(name string) spent {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.of(name).spent
}

// shortest is the shortest lease of the plan.
func (p *Plan) shortest() time.Duration {
	shortest := p.Lease
	for _, lease := range p.Leases {
		shortest = min(shortest, lease)
	}
	return shortest
}
