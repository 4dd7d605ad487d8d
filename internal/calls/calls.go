// Package calls counts the calls of a client that are under way, so that its Close can wait for
// them. Every call of every lock writes the count twice: one counter, or a crew with its mutex,
// would be too slow. So locks are spread over tallies, each on cache lines of its own, and
// different locks seldom write the same tally.
package calls

import (
	"sync/atomic"
	"time"
)

// Tallies is the number of tallies.
const Tallies = 16

// Calls counts the calls of one client. All methods may be called from any goroutine.
type Calls struct {
	closed  atomic.Bool   // every call reads it: nothing that calls write lies beside it
	idle    chan struct{} // one slot, filled when the last call of a tally ends after Close
	tallies [Tallies]Tally
}

// Tally counts for the locks whose names have one hash.
type Tally struct {
	_         [8]uint64
	of        *Calls
	calls     atomic.Int64
	Lingering atomic.Int64 // holds that lie idle; the code that counts them has just written calls
}

// New returns the calls of a client: none so far.
func New() *Calls {
	c := &Calls{idle: make(chan struct{}, 1)}
	for i := range c.tallies {
		c.tallies[i].of = c
	}
	return c
}

// Of returns the tally of the locks whose names have this hash.
func (c *Calls) Of(hash uint64) *Tally { return &c.tallies[hash%Tallies] }

// Begin counts a call, until End. It returns false, and counts nothing, once the client was closed.
func (t *Tally) Begin() bool {
	t.calls.Add(1) // first: so the call sees Close, or Wait sees the call
	if t.of.closed.Load() {
		t.End()
		return false
	}
	return true
}

// Enter counts a call that is served on a closed client too, as an unlock is. End must follow.
func (t *Tally) Enter() { t.calls.Add(1) }

// End counts a call as over.
func (t *Tally) End() {
	if t.calls.Add(-1) == 0 {
		t.of.ended()
	}
}

// ended wakes Wait, if it may wait by now.
func (c *Calls) ended() {
	if !c.closed.Load() {
		return
	}
	select {
	case c.idle <- struct{}{}:
	default:
	}
}

// Go runs do in the background, for a caller that must not wait. Wait waits for it, as for a call.
func (t *Tally) Go(do func()) {
	t.Enter()
	go func() {
		defer t.End()
		do()
	}()
}

// Close lets no call begin any more.
func (c *Calls) Close() { c.closed.Store(true) }

// Closed reports whether the client was closed.
func (c *Calls) Closed() bool { return c.closed.Load() }

// UnderWay returns how many calls are under way. It may miss a call that begins meanwhile.
func (c *Calls) UnderWay() (n int64) {
	for i := range c.tallies {
		n += c.tallies[i].calls.Load()
	}
	return n
}

// Wait returns when no call is under way, or after most. It is for a client that was closed.
func (c *Calls) Wait(most time.Duration) {
	t := time.NewTimer(most)
	defer t.Stop()
	for c.UnderWay() > 0 {
		select {
		case <-c.idle:
		case <-t.C:
			return
		}
	}
}
