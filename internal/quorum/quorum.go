// Package quorum decides by the votes of independent masters which owner holds a lock. What it adds
// to one node: which contender wins a split vote, which fencing token is safe, and which nodes may
// vote at all.
package quorum

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/relock-go/relock/internal/crew"
	"github.com/relock-go/relock/internal/node"
	"github.com/relock-go/relock/internal/wire"
)

// Config is how a client uses its nodes.
type Config struct {
	Need     int                         // nodes that have to agree
	Timeout  time.Duration               // of one command
	Lease    time.Duration               // that locks are first taken with
	Guard    bool                        // nodes that may have forgotten locks wait
	Auto     bool                        // nodes that are all fresh are taken for new
	Longest  time.Duration               // the longest lease that any client may rely on
	Impaired func(node int, cause error) // called with why a node, from 1, works worse than it should
	Mended   func(node int, cause error) // called once that is over
}

// Quorum is a client's way to its nodes.
type Quorum struct {
	members []*member
	need    int
	cfg     Config

	ctx    context.Context // of the questions; ends with the client
	cancel context.CancelFunc
	done   chan struct{} // closed when the client closes: contenders leave
	crew   crew.Crew     // commands, and what sends them
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

// voteTimeout is how long a minority waits for votes that are out before it takes them for lost:
// two round trips. A thirtieth of the lease is the most, since no other contender gets the nodes
// that a minority owns meanwhile.
func (q *Quorum) voteTimeout() time.Duration {
	return min(max(2*time.Duration(q.rtt.Load()), time.Millisecond), q.cfg.Lease/30)
}

// measure takes the round trip of an answered vote into the smoothed one. Concurrent updates may
// lose one: it is only an estimate.
func (q *Quorum) measure(took time.Duration) {
	old := q.rtt.Load()
	q.rtt.Store(old + (int64(took)-old)/8)
}

// idle returns which members to leave alone, since they did not answer lately. If the others are no
// quorum, none is: without one of the silent nodes nothing can be decided.
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

// each calls work for every member, starts what that returns, and waits for none of it. If a member
// is left alone, or the client is closed, it calls skipped instead, with the reason.
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

// askTimed is ask for what has no timeout of its own, since it goes past the link.
func (q *Quorum) askTimed(ctx context.Context, out *answers, do func(context.Context, *member) error) {
	q.ask(ctx, out, func(ctx context.Context, m *member) error {
		ctx, cancel := context.WithTimeout(ctx, q.cfg.Timeout)
		defer cancel()
		return do(ctx, m)
	})
}

// askAll is askTimed, and returns the answers when all have answered or timed out.
func (q *Quorum) askAll(ctx context.Context, op string, do func(context.Context, *member) error) *answers {
	out := q.newAnswers(op, "")
	q.askTimed(ctx, out, do)
	for !out.complete() {
		<-out.changed
	}
	return out
}

// Inspect returns what a quorum of nodes knows of a lock.
func (q *Quorum) Inspect(ctx context.Context, n *wire.Names) (wire.State, error) {
	out := q.newAnswers("inspect", n.Name)
	states := make([]wire.State, len(q.members)) // one is read only after its node has agreed
	// The caller's end is waitMost's to see. To the nodes it would look like a failure of theirs.
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

// decides reports whether it is settled which owner holds the lock, if any does: the nodes that are
// left cannot change it, whatever they answer.
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

// merge is what the states say together. The lock is held by the owner that a quorum of nodes
// names. Less than a quorum may be what is left of a hold that ended, or of a contender that will
// yield.
func (q *Quorum) merge(states []wire.State) (st wire.State) {
	for _, s := range states {
		st.Waiters, st.Token = max(st.Waiters, s.Waiters), max(st.Token, s.Token)
	}
	if len(q.members) == 1 {
		st.HolderToken = states[0].HolderToken // where there are more, each has a number of its own
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

// Nodes are all of them.
func (q *Quorum) Nodes() []*node.Node {
	nodes := make([]*node.Node, len(q.members))
	for i, m := range q.members {
		nodes[i] = m.Node
	}
	return nodes
}

// Force frees a lock on all nodes, and returns once a quorum has freed it: any quorum that held the
// lock has lost a node then. It returns false if none of them had a holder.
//
// The nodes are freed one by one, and each hands the lock over to the first in its queue. Where
// another contender had a node, that may be the holder's own entry. If another node is not reached,
// the holder may have a quorum again. So owners that may are ended once more, at a quorum.
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

// force frees a lock on all nodes, of those owners alone if any are given. It returns which owners the
// nodes that answered were freed of, and how many nodes have not answered.
func (q *Quorum) force(ctx context.Context, n *wire.Names, only ...string) (owners []string, silent int, err error) {
	out := q.newAnswers("force unlock", n.Name)
	freed := make([]string, len(q.members)) // one is read only after its node has agreed
	// A caller that leaves must not leave the lock forced at half of the nodes.
	q.ask(context.WithoutCancel(ctx), out, func(ctx context.Context, m *member) (err error) {
		_, freed[m.index-1], err = m.Force(ctx, n, only...)
		return err
	})
	err = out.waitMost(ctx, out.decided, q.voteTimeout())
	owners, _ = agreed(out, freed)
	return owners, len(q.members) - len(owners), err
}

// survivors are the owners that may have had a quorum, and may have one again: each node that has not
// answered may be theirs, and each that another owner had may have been handed over to them.
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

// Silence is the error of a caller that gave up, for cause, before anything was heard of any node: why.
func (q *Quorum) Silence(op, name string, why, cause error) error {
	out := &wire.QuorumError{Op: op, Name: name, Need: q.need, Of: len(q.members), Cause: cause}
	for _, m := range q.members {
		out.Nodes = append(out.Nodes, &wire.NodeError{Op: out.Op, Name: out.Name, Node: m.index, Err: why})
	}
	return out
}

// Stop makes contenders leave.
func (q *Quorum) Stop() { close(q.done) }

// Close ends the questions that are out, then everything that runs for a node. Abandoned claims
// come first, while the sweepers still run: what they leave in Redis is to be swept.
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
