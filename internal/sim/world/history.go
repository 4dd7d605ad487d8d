package world

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/anishathalye/porcupine"
)

// A history is what callers were told of one lock, as operations: a grant lies between the call
// that asked and its return; an end between the call of Unlock and its return, or at the instant at
// which the holder was told of a loss. It is sound where the operations have an order in which
// every grant finds the lock free, or is one of those who hold it together, and has a token above
// all earlier ones.

// turn is what one operation of a history does.
type turn struct {
	lease int  // counts the leases of the lock
	ends  bool // else it is the grant
}

// told is one operation as it is noted. Times are since the run began.
type told struct {
	turn
	from, to time.Duration
}

// history notes what happens to one lock. The judge's mutex guards it.
type history struct {
	leases []*Held
	told   []told
}

// begins notes a grant, and returns the lease's number.
func (h *history) begins(l *Held, asked time.Duration) {
	l.number = len(h.leases)
	h.leases = append(h.leases, l)
	h.told = append(h.told, told{turn{lease: l.number}, asked, l.at})
}

// ends notes that a lease is over, once.
func (h *history) ends(l *Held, from, to time.Duration) {
	if l.ended || l.number >= len(h.leases) || h.leases[l.number] != l {
		return
	}
	l.ended = true
	h.told = append(h.told, told{turn{l.number, true}, from, to})
}

// standing is what is known of a lock between two operations.
type standing struct {
	last    int // the lease that was granted last, -1 for none
	count   int // of leases that are not over
	highest int64
}

// sound reports whether a history has an order.
func (h *history) sound(together func(a, b *Held) bool) bool {
	return h.ordered(h.narrowed(), together)
}

func (h *history) ordered(list []told, together func(a, b *Held) bool) bool {
	model := porcupine.Model{
		Init: func() any { return standing{last: -1} },
		Step: func(state, input, _ any) (bool, any) { return h.step(state.(standing), input.(turn), together) },
	}
	var ops []porcupine.Operation
	for i, t := range list {
		if t.from > t.to {
			return false
		}
		ops = append(ops, porcupine.Operation{ClientId: i, Input: t.turn, Call: int64(t.from), Return: int64(t.to)})
	}
	return porcupine.CheckOperations(model, ops)
}

// narrowed are the operations with the times that they have in every order there may be: else the search takes a time that
// grows exponentially with how many call at once. A lease without an owner is granted, and over, before any lease with a
// higher token is granted: so that one's grant comes after the grant's call and Unlock's, and both come before it returns.
// Sharers of an owner may be let in with lower tokens than those before them.
func (h *history) narrowed() []told {
	ops := slices.Clone(h.told)
	slices.SortStableFunc(ops, func(a, b told) int { return cmp.Compare(h.leases[a.lease].Token, h.leases[b.lease].Token) })
	token := func(i int) int64 { return h.leases[ops[i].lease].Token }
	exact := func(t told) bool { return h.leases[t.lease].owner == "" }
	var floor, next time.Duration // of what is granted after all lower tokens, and after this one too
	for i, t := range ops {
		if i > 0 && token(i) > token(i-1) {
			floor = next
		}
		if exact(t) {
			next = max(next, t.from)
		}
		if !t.ends {
			ops[i].from = max(t.from, floor)
		}
	}
	ceiling, before := time.Duration(math.MaxInt64), time.Duration(math.MaxInt64) // likewise, from above
	for i, t := range slices.Backward(ops) {
		if i+1 < len(ops) && token(i) < token(i+1) {
			ceiling = before
		}
		if !t.ends {
			before = min(before, t.to)
		}
		if exact(t) {
			ops[i].to = min(t.to, ceiling)
		}
	}
	return ops
}

// step reports whether an operation may come next, and what is known then.
func (h *history) step(s standing, t turn, together func(a, b *Held) bool) (bool, standing) {
	if t.ends {
		s.count--
		return s.count >= 0, s
	}
	l := h.leases[t.lease]
	if shared := s.last >= 0 && together(l, h.leases[s.last]); !shared && (s.count > 0 || l.Token <= s.highest) {
		return false, s
	}
	s.last, s.count, s.highest = t.lease, s.count+1, max(s.highest, l.Token)
	return true, s
}

// unsound is the name of a lock whose history has no order, "" for none. Where a fault may have
// ended grants, or lost the counter, nothing is asked.
func (j *judge) unsound() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	for name, r := range j.locks {
		if r.horizon == 0 && r.loose == 0 && !j.ordered(&r.history) {
			return name
		}
	}
	return ""
}

// ordered reports whether a history has an order, by how many may hold the lock.
func (j *judge) ordered(h *history) bool {
	// crowded has compared all permits, which are passed on in memory beside later grants, and all readers, whose numbers do not
	// rise: without that the search takes too long.
	return j.w.form.Permits || j.w.form.RW || h.sound(j.w.kind.Together)
}

// retell looks for an order of each history, when the bubble is over.
func (w *World) retell() {
	if w.what != "" {
		return
	}
	if w.where = w.judge.unsound(); w.where != "" {
		w.what = "what callers were told of the lock has no order in which one had it at a time"
	}
}

// over notes that a lease is over between from, or since its Unlock was called, and now.
func (j *judge) over(h *Held, from time.Duration) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if h.letGo > 0 {
		from = h.letGo
	}
	j.of(h.Name).history.ends(h, from, j.w.now())
}

// lets notes that Unlock is called. Of a lease that was lost it is not known since when.
func (j *judge) lets(h *Held) {
	j.w.leaves(h)
	lost := !h.due.IsZero() || h.Lease.Context().Err() != nil // asked, it would end
	j.mu.Lock()
	defer j.mu.Unlock()
	h.letGo, h.gone = j.w.now(), j.w.now()
	if lost {
		h.letGo = h.at
	}
}

// now is how long the run has lasted.
func (w *World) now() time.Duration { return time.Since(w.trace.start) }
