package world

import (
	"context"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/wire"
)

// The read-write lock: for the judge it is a lock that as many may hold as there are readers, and that a writer takes all of.
// It is in the scene readers, which has any faults on one Redis.

func init() {
	Scenes = append(Scenes, Scene{"readers", shapeReaders, func() Kind { return Readers{} }})
}

// allOf is what a writer takes of the lock.
const allOf = 1 << 20

// shapeReaders has any faults on one Redis, alone or with a replica: a quorum has no read-write locks.
func shapeReaders(p *Plan, r *rand.Rand) {
	scene := p.Scene
	*p = *Draw(p.Seed, pick(r, Classes), pick(r, []topology{alone, alone, alone, pair}).Name)
	p.Scene, p.JVMs, p.Threads = scene, 0, 0
	if p.Topology.Guarded { // a failover's own
		p.Topology = pair
	}
	p.Events = drawEvents(r, p)
}

// Readers is the workload of a read-write lock.
type Readers struct{ Mutexes }

// side is one side of a read-write lock.
type side struct {
	*relock.RWMutex
	reads bool
}

func (s side) Lock(ctx context.Context) (*relock.Lease, error) {
	if s.reads {
		return s.RLock(ctx)
	}
	return s.RWMutex.Lock(ctx)
}

func (s side) TryLock(ctx context.Context) (*relock.Lease, error) {
	if s.reads {
		return s.TryRLock(ctx)
	}
	return s.RWMutex.TryLock(ctx)
}

// Together are leases of one hold.
func (Readers) Together(a, b *Held) bool { return a.id == b.id }

// Of is a side of an RWMutex.
func (Readers) Of(c *relock.Client, name string, amount int, opts ...relock.Option) Lock {
	return side{c.RWMutex(name, opts...), amount < allOf}
}

// Form is an RWMutex's.
func (Readers) Form() Form {
	kind := *wire.Write
	kind.Holders = allOf
	return Form{Kind: &kind, RW: true}
}

// Round is a Mutex's, but for owners and Do. One in three writes.
func (k Readers) Round(a *Actor, r *rand.Rand) {
	a.Sleep(a.w.hold(r) / 4)
	t := k.draw(a, r)
	t.Owner, t.Amount = "", 1
	if r.IntN(3) == 0 {
		t.Amount = allOf
	}
	ctx, cancel := k.context(a, r)
	defer cancel()
	if h := a.Acquire(ctx, t); h != nil {
		k.use(a, r, h, 0)
		k.giveBack(a, r, h)
	}
}

// above is how much those leases take at least whose tokens a lease's is above: a reader's is above those of writers.
func (f Form) above(h *Held) int {
	if f.RW && h.amount < allOf {
		return allOf
	}
	return 0
}

// idOf is the acquisition that a field of a lock's hash is for.
func (f Form) idOf(field string) string {
	if f.RW {
		return strings.TrimSuffix(field, ":write")
	}
	return field
}

// held reports whether an acquisition stands in the hash of a lock.
func (f Form) held(n *node, lock, id string) bool {
	return n.server.Field(lock, id) != "" || f.RW && n.server.Field(lock, id+":write") != ""
}

// pulseOf is the key by which a reader lives.
func pulseOf(name, id string) string { return beside("", name) + ":" + id + ":rwlock_timeout:1" }

// keepsRW is for how long a node keeps an acquisition, and whether it does: a reader ends with its key too.
func keepsRW(n *node, name, id string) (left time.Duration, kept bool) {
	if left, kept = n.server.Keeps(name, id+":write"); kept {
		return left, true
	}
	left, kept = n.server.Keeps(name, id)
	if !kept {
		return left, false
	}
	return min(left, time.Duration(n.server.Left(pulseOf(name, id))+1)*time.Millisecond), true
}

// freeRW reports whether a node keeps no writer, and no reader that lives.
func freeRW(n *node, name string) bool {
	free := true
	n.server.Fields(name, func(field string) {
		switch {
		case field == "mode":
		case strings.HasSuffix(field, ":write"), n.server.Left(pulseOf(name, field)) > 0:
			free = false
		}
	})
	return free
}

// deadRW reports whether a field is that of a reader whose key is gone: it keeps no one out.
func deadRW(n *node, name, field string) bool {
	return field != "mode" && !strings.HasSuffix(field, ":write") && n.server.Left(pulseOf(name, field)) <= 0
}
