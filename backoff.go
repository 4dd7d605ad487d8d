package relock

import (
	"context"
	"math/rand/v2"
	"time"
)

// backoff doubles a pause from least to most, with up to a quarter taken off at random.
type backoff struct {
	least, most, last time.Duration
}

func (b *backoff) next() time.Duration {
	b.last = min(max(2*b.last, b.least), b.most)
	return b.last - rand.N(b.last/4+1)
}

func (b *backoff) reset() { b.last = 0 }

// sleep waits for d. It returns false when ctx ended first.
func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
