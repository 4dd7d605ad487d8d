package world

import (
	"context"
	"math/rand/v2"
	"strings"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/wire"
)

// Kind is a kind of lock: what actors do with it, who may hold it together, and how it stands in a Redis.
type Kind interface {
	// Round is one thing that an actor does. It may leave nothing held.
	Round(a *Actor, r *rand.Rand)
	// Together reports whether two leases of one lock may be live at once, of a kind that one owner holds.
	Together(a, b *Held) bool
	// Of is a client's lock of the kind. A lease takes so much of it, where several may hold.
	Of(c *relock.Client, name string, amount int, opts ...relock.Option) Lock
	// Form is how a lock of the kind stands in a Redis.
	Form() Form
}

// Lock is what actors do with a lock of any kind.
type Lock interface {
	Lock(ctx context.Context) (*relock.Lease, error)
	TryLock(ctx context.Context) (*relock.Lease, error)
	State(ctx context.Context) (relock.State, error)
	ForceUnlock(ctx context.Context) (bool, error)
}

// Form is what the judge has to know of a kind to read it in a Redis: what the library says of it, and what only its scripts
// know. A lock is a hash with a field for each acquisition that holds it. Of a kind that several may hold, the field
// relock:<acquisition id> has <amount>:<first token>:<how many>.
type Form struct {
	*wire.Kind
	// Leases is, as in Further, the key of a sorted set: ids by when their leases end, in ms. It is "" where
	// the hash ends with the lease.
	Leases string
	// RW says that it is a read-write lock, as readwrite.go tells.
	RW bool
}

// queueOf is the key of a lock's queue.
func (f Form) queueOf(name string) string {
	if name == tagged {
		return beside(f.Line, name)
	}
	return beside(f.Queue, name)
}

// counterOf is the key of a lock's fencing counter.
func (f Form) counterOf(name string) string { return beside(f.Counter, name) }

// leasesOf is the key of a lock's leases.
func (f Form) leasesOf(name string) string {
	return strings.NewReplacer("{}", beside("", name), "[]", name).Replace(f.Leases)
}

// keys are how many a script takes for one lock.
func (f Form) keys() int { return 5 + len(f.Further) }

// Of is a Mutex.
func (Mutexes) Of(c *relock.Client, name string, _ int, opts ...relock.Option) Lock {
	return c.Mutex(name, opts...)
}

// Form is a Mutex's.
func (Mutexes) Form() Form { return Form{Kind: wire.Mutex} }
