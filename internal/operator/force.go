package operator

import (
	"context"

	"github.com/relock-go/relock"
)

// Force frees a lock, whichever owner holds it, of a semaphore all permits. It returns false if no owner
// held it.
func Force(ctx context.Context, locks *relock.Client, name string) (bool, error) {
	r, err := ReaderOf(locks)
	if err != nil {
		return false, err
	}
	ctx, cancel := Soon(ctx)
	defer cancel()
	seen, err := r.One(ctx, name)
	switch {
	case err == nil && seen.ReadWrite():
		return locks.RWMutex(name).ForceUnlock(ctx)
	case err == nil && seen.Semaphore():
		return locks.Semaphore(name, 1).ForceUnlock(ctx) // the number does not count here
	}
	return locks.Mutex(name).ForceUnlock(ctx) // a user may force what it may not look at
}
