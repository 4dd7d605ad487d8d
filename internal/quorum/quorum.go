// Package quorum decides by the votes of independent masters which owner holds a lock. To what
// package node does for one node it adds: which contender wins a split vote, which fencing token is
// safe, and which nodes may vote at all.
package quorum

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/relock-go/relock/internal/crew"
	"github.com/relock-go/relock/internal/driver"
	"github.com/relock-go/relock/internal/node"
	"github.com/relock-go/relock/internal/wire"
)

// Config is how a client uses its nodes.
type Config struct {
	Need     int                         // nodes that have to agree
	Timeout  time.Duration               // of one command
	Lease    time.Duration               // of a lock when it is taken
	Guard    bool                        // a node that may have forgotten locks waits before it grants
	Auto     bool                        // if all nodes are fresh, they are declared new
	Longest  time.Duration               // the longest lease that any client may rely on
	Impaired func(node int, cause error) // called with why a node, from 1, works worse than it should
	Mended   func(node int, cause error) // called once that is over
}

// Quorum is the arbiter of a client that has several nodes.
type Quorum struct {
	members []*member
	need    int
	cfg     Config

	ctx    context.Context // of the questions; ends with the client
	cancel context.CancelFunc
	done   chan struct{} // closed when the client closes: contenders leave
	crew   crew.Crew     // goroutines that send commands
	ending crew.Crew     // abandoned claims that wait for a vote that is out
	rtt    atomic.Int64  // smoothed, nanoseconds

	lastTicket atomic.Int64 // of this client's contenders

	ready atomic.Bool
	mu    sync.Mutex // held while a node's run id is compared with the others'
}

// member is one of the masters.
type member struct {
	*node.Node
	index int // from 1, as errors name it

	checking chan struct{} // one slot: one check at a time
	identity atomic.Pointer[identity]
	clock    atomic.Pointer[reading] // nil until first read
	clockOff atomic.Bool             // its clock was too far off when last looked at
}

// New returns a quorum of nodes, which are its own from here on.
func New(nodes []*node.Node, cfg Config) *Quorum {
	q := &Quorum{need: cfg.Need, cfg: cfg, done: make(chan struct{})}
	q.ctx, q.cancel = context.WithCancel(context.Background())
	for i, n := range nodes {
		q.members = append(q.members, &member{Node: n, index: i + 1, checking: make(chan struct{}, 1)})
	}
	q.rtt.Store(int64(time.Millisecond))
	return q
}

// voteTimeout returns how long a minority waits for votes that are out before it takes them for lost:
// two round trips. A thirtieth of the lease is the most: meanwhile no other contender gets the
// minority's nodes.
func (q *Quorum) voteTimeout() time.Duration {
	return min(max(2*time.Duration(q.rtt.Load()), time.Millisecond), q.cfg.Lease/30)
}

// measure updates the smoothed round trip by that of an answered vote. A concurrent update may be
// lost: it is only an estimate.
func (q *Quorum) measure(took time.Duration) {
	old := q.rtt.Load()
	q.rtt.Store(old + (int64(took)-old)/8)
}

// idle returns which members not to ask, since they did not answer lately. If the others are no
// quorum, all are asked: without a silent node nothing could be decided.
func (q *Quorum) idle() []bool {
	idle, left := make([]bool, len(q.members)), len(q.members)
	for i, m := range q.members {
		if idle[i] = m.Idle(); idle[i] {
			left--
		}
	}
	if left < q.need {
		clear(idle)
	}
	return idle
}

// each calls work for every member that is not idle, and starts the function that work returns, each
// in a goroutine. It does not wait. Where no function is started, since the member is idle or the
// client is closed, it calls skipped with the reason.
func (q *Quorum) each(work func(m *member) func(), skipped func(m *member, why error)) {
	for i, idle := range q.idle() {
		if m := q.members[i]; idle {
			skipped(m, node.ErrIdle)
		} else if !q.crew.Start(work(m)) {
			skipped(m, wire.ErrClosed)
		}
	}
}

// ask asks every member and returns at once. Answers go into out as they come. A member that is not
// asked counts as one that failed: out must hear of each, or its waiter would wait for ever.
func (q *Quorum) ask(ctx context.Context, out *answers, do func(context.Context, *member) error) {
	q.each(func(m *member) func() { return func() { out.add(m, do(ctx, m)) } }, out.add)
}

// askTimed is ask, with Config.Timeout for each member: a command that bypasses the link has no
// timeout of its own.
func (q *Quorum) askTimed(ctx context.Context, out *answers, do func(context.Context, *member) error) {
	q.ask(ctx, out, func(ctx context.Context, m *member) error {
		ctx, cancel := context.WithTimeout(ctx, q.cfg.Timeout)
		defer cancel()
		return do(ctx, m)
	})
}

// askAll asks as askTimed does, and returns the answers once all members have answered or timed out.
func (q *Quorum) askAll(ctx context.Context, op driver.Op, do func(context.Context, *member) error) *answers {
	out := q.newAnswers(op, "")
	q.askTimed(ctx, out, do)
	for !out.complete() {
		<-out.changed
	}
	return out
}

// Inspect returns what a quorum of nodes knows of a lock.
func (q *Quorum) Inspect(ctx context.Context, n *wire.Names) (wire.State, error) {
	out := q.newAnswers(driver.Inspect, n.Name)
	states := make([]wire.State, len(q.members)) // a state is read only after its node has agreed
	// Only waitMost watches ctx. If ctx cut the commands short, the nodes would seem to have failed.
	q.ask(context.WithoutCancel(ctx), out, func(ctx context.Context, m *member) (err error) {
		states[m.index-1], err = m.Inspect(ctx, n)
		return err
	})
	enough := func() bool { return q.decides(agreed(out, states)) }
	if err := out.waitMost(ctx, enough, q.voteTimeout()); err != nil {
		return wire.State{}, err
	}
	seen, _ := agreed(out, states)
	return q.merge(seen), nil
}

// decides reports whether the states tell which owner holds the lock, if any. The nodes that have not
// answered, left in number, then cannot change it.
func (q *Quorum) decides(states []wire.State, left int) bool {
	_, keep := mostNamed(states)
	return len(states) >= q.need && (keep >= q.need || keep+left < q.need)
}

// mostNamed returns the holder that most of the states name, and how many of them do.
func mostNamed(states []wire.State) (holder string, keep int) {
	named := make(map[string]int)
	for _, s := range states {
		if s.Held {
			named[s.Holder]++
			if n := named[s.Holder]; n > keep {
				holder, keep = s.Holder, n
			}
		}
	}
	return holder, keep
}

// merge makes one state of the nodes' states. The lock is held by the owner that a quorum of nodes
// names. Fewer nodes may name a holder whose hold has ended, or a contender that will yield.
func (q *Quorum) merge(states []wire.State) (st wire.State) {
	for _, s := range states {
		st.Waiters, st.Token = max(st.Waiters, s.Waiters), max(st.Token, s.Token)
	}
	if len(q.members) == 1 {
		st.HolderToken = states[0].HolderToken // of several nodes, each has a number of its own
	}
	holder, keep := mostNamed(states)
	if keep < q.need {
		return st
	}
	states = slices.DeleteFunc(states, func(s wire.State) bool { return !s.Held || s.Holder != holder })
	// A quorum keeps the lock for the need-th longest of the leases.
	slices.SortFunc(states, func(a, b wire.State) int { return cmp.Compare(b.TTL, a.TTL) })
	st.Held, st.Holder, st.TTL, st.Client = true, holder, states[q.need-1].TTL, states[0].Client
	for _, s := range states {
		st.Count = max(st.Count, s.Count)
		if s.Client != st.Client {
			st.Client = "" // sharers of one owner, of different clients on different nodes
		}
	}
	return st
}

// Nodes returns all nodes.
func (q *Quorum) Nodes() []*node.Node {
	nodes := make([]*node.Node, len(q.members))
	for i, m := range q.members {
		nodes[i] = m.Node
	}
	return nodes
}

// Force frees a lock on all nodes, and returns once a quorum has freed it: any quorum that held the
// lock has lost a node then. It returns false if no node had a holder.
//
// The nodes are freed one by one, and each hands the lock over to the first in its queue. At a node
// that another contender had, the first may be the holder's own entry. If another node is not
// reached, the holder may have a quorum again. So the owners that may have one are ended once more,
// at a quorum.
func (q *Quorum) Force(ctx context.Context, n *wire.Names) (bool, error) {
	owners, silent, err := q.force(ctx, n)
	if err != nil {
		return false, err
	}
	if again := survivors(owners, silent, q.need); len(again) > 0 {
		_, _, err = q.force(ctx, n, again...)
	}
	return slices.ContainsFunc(owners, func(owner string) bool { return owner != "" }), err
}

// force frees a lock on all nodes; if only is given, it frees them only from these owners. It returns
// the owners from which the nodes that answered were freed, "" for none, and the number of the
// other nodes.
func (q *Quorum) force(ctx context.Context, n *wire.Names, only ...string) (owners []string, silent int, err error) {
	out := q.newAnswers(driver.Force, n.Name)
	freed := make([]string, len(q.members)) // an owner is read only after its node has agreed
	// If the caller leaves, the lock must not stay forced at only half of the nodes.
	q.ask(context.WithoutCancel(ctx), out, func(ctx context.Context, m *member) (err error) {
		_, freed[m.index-1], err = m.Force(ctx, n, only...)
		return err
	})
	err = out.waitMost(ctx, out.decided, q.voteTimeout())
	owners, _ = agreed(out, freed)
	return owners, len(q.members) - len(owners), err
}

// survivors returns the owners that may have had a quorum, and may have one again: a node that has
// not answered may still be the owner's, and a node that another owner had may have been handed over
// to it.
func survivors(owners []string, silent, need int) (may []string) {
	if silent == 0 {
		return nil
	}
	for _, owner := range owners {
		had := 0
		for _, other := range owners {
			if other == owner {
				had++
			}
		}
		if owner != "" && had < len(owners) && had+silent >= need && !slices.Contains(may, owner) {
			may = append(may, owner)
		}
	}
	return may
}

// Silence returns the error of a caller that gave up, for cause, before any node had answered. why
// says why none had.
func (q *Quorum) Silence(op driver.Op, name string, why, cause error) error {
	out := &wire.QuorumError{Op: op, Name: name, Need: q.need, Of: len(q.members), Cause: cause}
	for _, m := range q.members {
		out.Nodes = append(out.Nodes, &wire.NodeError{Op: out.Op, Name: out.Name, Node: m.index, Err: why})
	}
	return out
}

// Stop makes contenders leave.
func (q *Quorum) Stop() { close(q.done) }

// Close first waits for abandoned claims to end, while the sweepers still run: these end what the
// claims leave in Redis. Then it ends the commands that are out, and everything that runs for a node.
func (q *Quorum) Close() {
	q.ending.End(context.Background())
	var wg sync.WaitGroup
	for _, m := range q.members {
		wg.Go(m.LastSweep)
	}
	wg.Wait()
	q.cancel()
	q.crew.End(context.Background())
	for _, m := range q.members {
		wg.Go(m.Close)
	}
	wg.Wait()
}
