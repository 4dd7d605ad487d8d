// Package crew counts the goroutines or calls that a package has under way, so that its Close can
// wait for them.
package crew

import (
	"context"
	"sync"
)

// Crew is what is under way. The zero Crew is ready. All methods may be called from any goroutine.
type Crew struct {
	mu     sync.Mutex // guards what follows
	out    int
	barred bool
	idle   chan struct{} // closed when out falls to 0; nil while nothing waits for that
}

// Start runs work in a goroutine. Once the crew was ended it returns false, and nothing runs. A
// WaitGroup would not do: there a late Add races with Wait.
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

// Join counts one more, also once the crew was ended: some work, as giving a lock back, must run
// while its package is closed. Leave is to follow.
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

// Out is how much is under way.
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
func (c *Crew) End(ctx context.Context) { wait(ctx, c.bar(true)) }

// Wait returns when nothing is under way or ctx has ended.
func (c *Crew) Wait(ctx context.Context) { wait(ctx, c.bar(false)) }

// Awaited reports whether an End or a Wait waits, or has given up waiting, for what is under way.
func (c *Crew) Awaited() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.idle != nil
}

// bar returns a channel that is closed when nothing is under way any more, nil if nothing is now.
// With end it bars Start, in the same step: else work could start between the two.
func (c *Crew) bar(end bool) <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.barred = c.barred || end
	if c.out == 0 {
		return nil
	}
	if c.idle == nil {
		c.idle = make(chan struct{})
	}
	return c.idle
}

func wait(ctx context.Context, idle <-chan struct{}) {
	if idle == nil {
		return
	}
	select {
	case <-idle:
	case <-ctx.Done():
	}
}
