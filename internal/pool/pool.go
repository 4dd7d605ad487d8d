// Package pool keeps what lies idle beside the gate of a lock that several may hold.
package pool

import (
	"slices"
	"sync"
)

// Any stands for holds of any amount.
const Any = 0

// Pool has idle holds, each with how much it has of the lock. The zero Pool has none.
type Pool[H comparable] struct {
	mu   sync.Mutex // guards idle; locked last
	idle []idle[H]  // each is idle, or was until a moment ago; the one that was used last is at the end
}

type idle[H comparable] struct {
	hold   H
	amount int
}

// Add puts a hold of that amount in.
func (p *Pool[H]) Add(hold H, amount int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.idle = append(p.idle, idle[H]{hold, amount})
}

// Remove takes a hold out, if it is in.
func (p *Pool[H]) Remove(hold H) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.idle = slices.DeleteFunc(p.idle, func(in idle[H]) bool { return in.hold == hold })
}

// Take takes out the hold of that amount which was used last. It returns the zero H if there is none.
func (p *Pool[H]) Take(amount int) (hold H) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, in := range slices.Backward(p.idle) {
		if amount == Any || in.amount == amount {
			p.idle = slices.Delete(p.idle, i, i+1)
			return in.hold
		}
	}
	return hold
}

// HasOther reports whether there are holds of another amount, and none of that one.
func (p *Pool[H]) HasOther(amount int) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.idle) > 0 && !slices.ContainsFunc(p.idle, func(in idle[H]) bool { return in.amount == amount })
}

// Len is how many holds are in.
func (p *Pool[H]) Len() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.idle)
}
