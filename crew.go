package relock

import "sync"

// crew is a client's goroutines of one kind, which its Close waits for.
type crew struct {
	mu     sync.Mutex // guards barred; held while one starts, so that none starts once end waits
	barred bool
	wg     sync.WaitGroup
}

// start runs work in a goroutine. Once the crew was ended it returns false and nothing runs.
func (c *crew) start(work func()) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.barred {
		return false
	}
	c.wg.Go(work)
	return true
}

// end lets no goroutine start any more, and returns when none is left.
func (c *crew) end() {
	c.mu.Lock()
	c.barred = true
	c.mu.Unlock()
	c.wg.Wait()
}
