// Package crew counts the goroutines or calls that a package has under way, so that its Close can
// wait for them.
package crew

import (
	"context"
	"sync"
)

// Crew counts what is under way. The zero Crew is ready. All methods may be called from any
// goroutine. A WaitGroup would not do: its Add must not race with its Wait, and its Wait has no
// context.
type Crew struct {
	mu     sync.Mutex // guards what follows
	out    int
	barred bool          // no goroutine may start any more
	idle   chan struct{} // closed when out falls to 0; nil until a Wait needs it
}

// Start runs work in a goroutine. Once the crew was ended it returns false, and nothing runs.
func (c *Crew) Start(work func()) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.barred {
		return false
	}
	c.out++
	go func() {
		defer c.Leave()
		work()
	}()
	return true
}

// Join counts one more, even after End: some work, such as giving a lock back, must run while its
// package is closed. Leave must follow.
func (c *Crew) Join() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.out++
}

// Leave counts one less.
func (c *Crew) Leave() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.out--
	if c.out == 0 && c.idle != nil {
		close(c.idle)
		c.idle = nil
	}
}

// Out is how many goroutines and calls are under way. It is for tests.
func (c *Crew) Out() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.out
}

// Ended reports whether the crew was ended.
func (c *Crew) Ended() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.barred
}

// End lets no goroutine start any more, and returns when nothing is under way or ctx has ended.
func (c *Crew) End(ctx context.Context) {
	c.mu.Lock()
	c.barred = true
	c.mu.Unlock()
	c.Wait(ctx)
}

// Wait returns when nothing is under way or ctx has ended.
func (c *Crew) Wait(ctx context.Context) {
	c.mu.Lock()
	if c.out > 0 && c.idle == nil {
		c.idle = make(chan struct{})
	}
	idle := c.idle
	c.mu.Unlock()
	if idle == nil {
		return
	}
	select {
	case <-idle:
	case <-ctx.Done():
	}
}

// Awaited reports whether an End or a Wait waits, or has given up waiting, for what is under way.
func (c *Crew) Awaited() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.idle != nil
}
