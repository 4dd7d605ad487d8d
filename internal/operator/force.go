package operator

import (
	"context"

	"github.com/redis/rueidis"
	"github.com/relock-go/relock"
)

// Open returns a client of the locks on one Redis, or on a quorum of several.
func Open(nodes []rueidis.Client, prefix string, opts ...relock.Option) (*relock.Client, error) {
	opts = append([]relock.Option{relock.WithNamePrefix(prefix)}, opts...)
	if len(nodes) > 1 {
		return relock.NewRedlock(nodes, opts...)
	}
	return relock.New(nodes[0], opts...)
}

// Force frees a lock, whichever owner holds it. It returns false if no owner held it.
func Force(ctx context.Context, nodes []rueidis.Client, prefix, name string) (bool, error) {
	locks, err := Open(nodes, prefix)
	if err != nil {
		return false, err
	}
	defer locks.Close()
	ctx, cancel := Soon(ctx)
	defer cancel()
	seen, err := NewReader(nodes, prefix).One(ctx, name)
	if err == nil && seen.ReadWrite() {
		return locks.RWMutex(name).ForceUnlock(ctx)
	}
	return locks.Mutex(name).ForceUnlock(ctx) // a user may force what it may not look at
}
