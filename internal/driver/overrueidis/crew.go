package overrueidis

import (
	"context"
	"sync"
)

// crew is the driver's own goroutines.
type crew struct {
	mu     sync.Mutex // guards what follows
	out    int        // goroutines that run
	barred bool
	idle   chan struct{} // closed when out falls to 0; nil while nobody waits for that
}

// start runs work in a goroutine. Once the crew was ended it returns false and nothing runs.
func (c *crew) start(work func()) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.barred {
		return false
	}
	c.out++
	go func() {
		defer c.leave()
		work()
	}()
	return true
}

func (c *crew) leave() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.out--
	if c.out == 0 && c.idle != nil {
		close(c.idle)
		c.idle = nil
	}
}

func (c *crew) ended() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.barred
}

// end lets no goroutine start any more, and returns when none is left or ctx has ended.
func (c *crew) end(ctx context.Context) {
	idle := c.bar()
	if idle == nil {
		return
	}
	select {
	case <-idle:
	case <-ctx.Done():
	}
}

// bar returns what is closed when no goroutine is left, nil where none is.
func (c *crew) bar() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.barred = true
	if c.out > 0 && c.idle == nil {
		c.idle = make(chan struct{})
	}
	return c.idle
}
