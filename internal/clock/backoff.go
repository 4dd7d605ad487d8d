package clock

import (
	"context"
	"math/rand/v2"
	"time"
)

// Backoff doubles a pause from Least to Most, with up to a quarter taken off at random.
type Backoff struct {
	Least, Most time.Duration

	last time.Duration
}

// Next returns the next pause.
func (b *Backoff) Next() time.Duration {
	b.last = min(max(2*b.last, b.Least), b.Most)
	return b.last - rand.N(b.last/4+1)
}

// Reset makes the next pause the first again.
func (b *Backoff) Reset() { b.last = 0 }

// Begun reports whether there was a pause since the last Reset.
func (b *Backoff) Begun() bool { return b.last > 0 }

// Sleep waits for d. It returns false when ctx ended first.
func Sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
