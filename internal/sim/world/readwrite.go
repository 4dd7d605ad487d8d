package world

import (
	"context"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/wire"
)

// The read-write lock: for the judge it is a lock that as many may hold as there are readers, and that a writer takes all of.
// It is in the scenes readers and languages, which have any faults on one Redis.

func init() {
	Scenes = append(Scenes, Scene{"readers", shapeReaders, func() Kind { return Readers{} }},
		Scene{"languages", shapeLanguages, func() Kind { return Readers{} }})
}

// allOf is what a writer takes of the lock.
const allOf = 1 << 20

// shapeReaders has any faults on one Redis, alone or with a replica: a quorum has no read-write locks.
func shapeReaders(p *Plan, r *rand.Rand) {
	p.onOneRedis(r)
	p.Instants, p.Dog = true, pick(r, []time.Duration{0, p.Lease, max(p.Lease/2, 200*time.Millisecond)})
}

// onOneRedis draws a plan of any faults anew, on one Redis, alone or with a replica.
func (p *Plan) onOneRedis(r *rand.Rand) {
	scene := p.Scene
	*p = *Draw(p.Seed, pick(r, Classes), pick(r, []topology{alone, alone, alone, pair}).Name)
	p.Scene, p.JVMs, p.Threads = scene, 0, 0
	if p.Topology.Guarded { // a failover's own
		p.Topology = pair
	}
	p.Events = drawEvents(r, p)
}

// shapeLanguages has Redisson's read-write locks beside relock's.
func shapeLanguages(p *Plan, r *rand.Rand) {
	shapeReaders(p, r)
	p.JVMs, p.Threads, p.Dog = 1+r.IntN(2), 1+r.IntN(3), p.Lease
}

// fixable is how long a lease may be fixed: no reader relies on more than Redisson's watchdog leaves it.
func (p *Plan) fixable(d time.Duration) time.Duration {
	if p.Dog > 0 {
		return min(d, p.Dog)
	}
	return d
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
		if h.amount == allOf && r.IntN(2) == 0 {
			h = k.downgrade(a, r, h)
			k.use(a, r, h, 0)
		}
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
	if f.Permits {
		_, listed := n.server.Listed(f.leasesOf(lock), id+":1")
		return listed
	}
	return n.server.Field(lock, id) != "" || f.RW && n.server.Field(lock, id+":write") != ""
}

// readersOf is the queue of readers.
func readersOf(name string) string {
	return strings.NewReplacer("{}", beside("", name), "[]", name).Replace(wire.Read.Further[0])
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
		case strings.HasSuffix(field, ":write"), livesRW(n, name, field):
			free = false
		}
	})
	return free
}

// deadRW reports whether a field is that of a reader whose key is gone: it keeps no one out.
func deadRW(n *node, name, field string) bool {
	return field != "mode" && !strings.HasSuffix(field, ":write") && !livesRW(n, name, field)
}

// livesRW reports whether a reader lives. A thread of Redisson's that has entered more than once has a key for each.
func livesRW(n *node, name, field string) bool {
	count, _ := strconv.Atoi(n.server.Field(name, field))
	for i := range max(count, 1) {
		if n.server.Left(strings.TrimSuffix(pulseOf(name, field), "1")+strconv.Itoa(i+1)) > 0 {
			return true
		}
	}
	return false
}

// write is what is known of the writers of a lock: whether one has it, and when the last one was seen to have ended, on the clock of
// tickets.
type write struct {
	on    bool
	ended float64
}

// writes notes when a write has ended: by this command, or since the one before.
func (w *World) writes(n *node, g *glimpsed) {
	was := w.written[g.lock]
	on := n.server.Field(g.lock, "mode") == "write"
	if (was.on || g.writer) && !on || was.on && !g.writer {
		was.ended = float64(n.server.Clock().Micro())
	}
	was.on = on
	w.written[g.lock] = was
}

// pastWriters demands that a reader which comes in passes no writer that waits, listens and came before it: but for those that have
// waited since before a write ended, who come in together behind that, and one that the writer itself becomes. Redisson's readers
// wait for no one.
func (w *World) pastWriters(n *node, c *command, g *glimpsed, id string) {
	if len(id) < 36+6 || w.plan.Class != "none" || w.written[g.lock].on {
		return
	}
	ticket := min(ticketOf(c, g, id), float64(n.server.Clock().Micro()))
	for _, other := range g.readers {
		if waits, _ := waiterOf(other.Member); waits == id {
			ticket = other.Ticket
		}
	}
	if ticket <= w.written[g.lock].ended {
		return
	}
	for _, other := range g.line {
		waits, client := waiterOf(other.Member)
		if waits == "" || other.Ticket >= ticket || asksFor(argsOf(c.args), waits) {
			continue
		}
		if n.server.Listeners("relock_inbox:"+client) > 0 {
			w.failed(g.lock, "node %d lets reader %s with ticket %.0f in past writer %s, which listens with %.0f", n.index, id, ticket, waits,
				other.Ticket)
			return
		}
	}
}
