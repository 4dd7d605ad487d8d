package operator

import (
	"context"

	"github.com/relock-go/relock"
)

// Force frees a lock, whichever owner holds it. It returns false if no owner held it.
func Force(ctx context.Context, locks *relock.Client, name string) (bool, error) {
	r, err := ReaderOf(locks)
	if err != nil {
		return false, err
	}
	ctx, cancel := Soon(ctx)
	defer cancel()
	seen, err := r.One(ctx, name)
	if err == nil && seen.ReadWrite() {
		return locks.RWMutex(name).ForceUnlock(ctx)
	}
	return locks.Mutex(name).ForceUnlock(ctx) // a user may force what it may not look at
}
