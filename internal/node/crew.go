package node

import "sync"

// Crew is a client's goroutines of one kind, which its Close waits for.
type Crew struct {
	mu     sync.Mutex // guards barred; held while one starts, so that none starts once End waits
	barred bool
	wg     sync.WaitGroup
}

// Start runs work in a goroutine. Once the crew was ended it returns false and nothing runs.
func (c *Crew) Start(work func()) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.barred {
		return false
	}
	c.wg.Go(work)
	return true
}

// End lets no goroutine start any more, and returns when none is left.
func (c *Crew) End() {
	c.mu.Lock()
	c.barred = true
	c.mu.Unlock()
	c.wg.Wait()
}
