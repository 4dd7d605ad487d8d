package faultproxy

import (
	"sync"
	"time"
)

// faults are the faults of all connections at one moment. A value on the board is never changed,
// only replaced.
type faults struct {
	loseRequests bool
	loseReplies  bool
	stall        bool
	delay        time.Duration // each way
	epoch        int           // connections that began in an earlier epoch are closed

	replaced chan struct{} // closed when the board shows other faults
}

// loses reports whether the bytes of one direction are swallowed.
func (f *faults) loses(replies bool) bool {
	if replies {
		return f.loseReplies
	}
	return f.loseRequests
}

// board shows the faults in force to the gates of a proxy.
type board struct {
	mu  sync.Mutex
	now *faults // guarded by mu
}

func newBoard() *board { return &board{now: &faults{replaced: make(chan struct{})}} }

func (b *board) current() *faults {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.now
}

// set shows the faults that change makes of the current ones, and wakes the
// gates.
func (b *board) set(change func(*faults)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	next := *b.now
	change(&next)
	next.replaced = make(chan struct{})
	close(b.now.replaced)
	b.now = &next
}

// clear ends all faults. It closes only the connections that lost bytes.
func (b *board) clear() {
	b.set(func(f *faults) { *f = faults{epoch: f.epoch} })
}

// hangUp closes the connections open now.
func (b *board) hangUp() {
	b.set(func(f *faults) { f.epoch++ })
}
