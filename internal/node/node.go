// Package node is one Redis as this process sees it: what is claimed there, what is believed of it,
// what may still have to be ended, and whether it answers. It is the same for a Redis that decides
// alone and for a node of a quorum.
package node

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/relock-go/relock/internal/clock"
	"github.com/relock-go/relock/internal/crew"
	"github.com/relock-go/relock/internal/driver"
	"github.com/relock-go/relock/internal/hub"
	"github.com/relock-go/relock/internal/link"
	"github.com/relock-go/relock/internal/wire"
)

// ErrIdle stands for the answer of a node that was not asked, because it did not answer the
// questions before.
var ErrIdle = errors.New("not asked: it did not answer lately")

// Grant is a lock given to an entry.
type Grant struct {
	Token  int64       // the first fencing token
	Passes int         // how many of the grant's tokens may be used in a row
	Sent   clock.Stamp // the lease runs from here at the latest
	Fresh  bool        // no one waited for the lock when it was asked for at Sent
}

// Config is what a client says of a Redis.
type Config struct {
	Client    string        // uuid
	Timeout   time.Duration // of a command whose caller has left, and of those without one
	Retention time.Duration // of fencing counters
	Votes     bool          // it is a node of a quorum
	Longest   time.Duration // of a node: the longest lease that any client may rely on, 0 for no restart guard
	PubSub    PubSub
	Impaired  func(cause error) // told why the Redis works worse than it should
	Presence  func(cause error) // told why a command was not answered, and nil once one is again; may be nil
}

// Node is one Redis. It has all that runs for it in this process: the commands that are out, the
// messages, and the sweeper.
type Node struct {
	Redis driver.Redis
	Wire  *wire.Redis
	Hub   *hub.Hub

	Counts  driver.Counts // of the commands sent
	cfg     Config
	link    *link.Link
	sweeper *sweeper
	refills crew.Crew
	health  *health // nil where Redis decides alone: it is asked whatever it did before

	presence presence

	// mode is 0 until the kind of channels is known; only a Cluster has to be asked.
	mode    atomic.Int32
	modeMu  sync.Mutex // guards probing; never held across a round trip
	probing *probe     // the question that is out, nil for none
}

// New returns a node. It takes a connection in the background, and sends nothing by itself.
func New(rdb driver.Redis, cfg Config) *Node {
	n := &Node{cfg: cfg}
	n.presence.tell = cfg.Presence
	rdb = n.Counts.Counted(rdb)
	n.Redis = rdb
	if cfg.Votes {
		n.health = newHealth(cfg.Timeout)
	}
	n.link = link.New(rdb, cfg.Timeout, n.answered)
	n.Wire = wire.New(n.link, wire.Options{Votes: cfg.Votes, Retention: cfg.Retention, Longest: cfg.Longest})
	n.sweeper = newSweeper(n)
	n.Hub = hub.New(rdb, cfg.Client, cfg.Impaired, n.orphan)
	if !rdb.Cluster() {
		n.mode.Store(modePlain)
		n.Hub.StartPlain(true)
	}
	return n
}

// answered is told of each command that had its whole time-out: nil when Redis answered.
func (n *Node) answered(err error) {
	if n.health != nil {
		n.health.answered(err)
	}
	n.presence.answered(err)
}

// Down reports whether the last command that had its whole time-out was not answered.
func (n *Node) Down() bool { return n.presence.down.Load() }

// Timeout is how long a command may take that no caller's time-out bounds.
func (n *Node) Timeout() time.Duration { return n.cfg.Timeout }

// Idle reports whether the node should not be asked: it did not answer lately.
func (n *Node) Idle() bool { return n.health != nil && n.health.idle() }

// Answered is told of a command that went past the link and had its whole time-out: nil when it was
// answered.
func (n *Node) Answered(err error) { n.answered(err) }

// Voted is told of each answer to a vote.
func (n *Node) Voted(err error) { n.health.voted(err) }

// Refusing is how long no vote should be asked for again, and why.
func (n *Node) Refusing() (time.Duration, error) { return n.health.refusing() }

// orphan ends the entry of a grant that came when it was over.
func (n *Node) orphan(g wire.Grant) {
	names, err := g.Kind.Names("", g.Name)
	if err != nil {
		return
	}
	c := &Claim{node: n, Entry: &wire.Entry{
		Names: names, ID: g.ID, Owner: g.Owner, Lease: g.Lease, Block: 1, Timeout: n.cfg.Timeout,
	}}
	c.known.Store(true)
	n.sweeper.sweep(c, false)
}

// group is what the locks of one command have in common.
type group struct {
	slot uint16 // on a Cluster
	kind *wire.Kind
}

func (n *Node) groupOf(e *wire.Entry) group {
	if n.mode.Load() == modePlain {
		return group{kind: e.Names.Kind}
	}
	return group{slot: driver.Slot(e.Names.Lock), kind: e.Names.Kind}
}

// Renew lengthens leases. It calls note once for each renewal, by its place in the batch, with why it
// was not answered where it was not, from any goroutine, and returns when all have been noted.
func (n *Node) Renew(ctx context.Context, batch []wire.Renewal, note func(i int, r wire.Result, err error)) {
	var wg sync.WaitGroup
	if n.alike(batch) {
		n.renew(ctx, &wg, batch, note)
		wg.Wait()
		return
	}
	groups := make(map[group][]int)
	for i, r := range batch {
		g := n.groupOf(r.Entry)
		groups[g] = append(groups[g], i)
	}
	for _, of := range groups {
		part := make([]wire.Renewal, len(of))
		for i, at := range of {
			part[i] = batch[at]
		}
		n.renew(ctx, &wg, part, func(i int, r wire.Result, err error) { note(of[i], r, err) })
	}
	wg.Wait()
}

// alike reports whether all of a batch fits into one command.
func (n *Node) alike(batch []wire.Renewal) bool {
	if n.mode.Load() != modePlain {
		return len(batch) < 2
	}
	for _, r := range batch {
		if r.Entry.Names.Kind != batch[0].Entry.Names.Kind {
			return false
		}
	}
	return true
}

// renew sends a batch whose locks are alike, in commands that keep others waiting for a short time only.
func (n *Node) renew(ctx context.Context, wg *sync.WaitGroup, batch []wire.Renewal, note func(i int, r wire.Result, err error)) {
	for from := 0; from < len(batch); from += wire.MaxBatch {
		part := batch[from:min(from+wire.MaxBatch, len(batch))]
		wg.Go(func() {
			n.Wire.RenewApart(ctx, part, func(at int, got []wire.Result, err error) {
				for i, r := range got {
					note(from+at+i, r, err)
				}
			})
		})
	}
}

// Inspect reads a lock's state.
func (n *Node) Inspect(ctx context.Context, names *wire.Names) (wire.State, error) {
	ctx, cancel := context.WithTimeout(ctx, n.cfg.Timeout)
	defer cancel()
	return n.Wire.Inspect(ctx, names)
}

// Force frees a lock, whichever owner holds it. It returns false when none did.
func (n *Node) Force(ctx context.Context, names *wire.Names) (bool, error) {
	way, err := n.route(ctx, names)
	if err != nil {
		return false, err
	}
	ctx, cancel := context.WithTimeout(ctx, n.cfg.Timeout)
	defer cancel()
	return n.Wire.Force(ctx, way, names)
}

// Stop makes contenders leave.
func (n *Node) Stop() { n.Hub.Stop() }

// Settle lets every sweep try once more, and waits for them.
func (n *Node) Settle() { n.sweeper.close() }

// Draining reports whether Close waits for commands that are out.
func (n *Node) Draining() bool { return n.link.Draining() }

// Close ends what runs for the node, and waits for it.
func (n *Node) Close() {
	n.link.Close()
	n.Hub.Close()
	n.refills.End(context.Background())
}
