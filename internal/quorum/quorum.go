// Package quorum decides who holds a lock by the votes of independent masters. What it adds to one
// node is who wins a split vote, which fencing token is safe, and which nodes may vote at all.
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

// Config is what a client says of its nodes.
type Config struct {
	Client    string                           // uuid
	Need      int                              // nodes that have to agree
	Timeout   time.Duration                    // of one command
	Lease     time.Duration                    // that locks are first taken with
	Guard     bool                             // nodes that may have forgotten locks wait
	Auto      bool                             // nodes that are all fresh are taken for new
	Longest   time.Duration                    // the longest lease anybody may rely on
	Retention time.Duration                    // of fencing counters
	Impaired  func(node int, cause error)      // told why a node, from 1, works worse than it should
	Presence  func(node int) func(cause error) // what a node, from 1, is to tell of its presence; may be nil
}

// Quorum is a client's way to its nodes.
type Quorum struct {
	members []*member
	need    int
	cfg     Config

	ctx    context.Context // of the questions; ends with the client
	cancel context.CancelFunc
	done   chan struct{} // closed when the client closes: contenders leave
	crew   crew.Crew
	ending crew.Crew    // waits for votes whose claims are abandoned
	rtt    atomic.Int64 // smoothed, nanoseconds

	ready atomic.Bool
	mu    sync.Mutex // held while a node's run id is held against the others'
}

// New returns a quorum of nodes.
func New(nodes []driver.Redis, cfg Config) *Quorum {
	q := &Quorum{need: cfg.Need, cfg: cfg, done: make(chan struct{})}
	q.ctx, q.cancel = context.WithCancel(context.Background())
	for i, rdb := range nodes {
		q.members = append(q.members, newMember(i+1, rdb, cfg))
	}
	q.rtt.Store(int64(time.Millisecond))
	return q
}

// voteTimeout is how long a minority waits for votes that are out before it takes them for lost:
// two round trips.
func (q *Quorum) voteTimeout() time.Duration {
	return min(max(2*time.Duration(q.rtt.Load()), time.Millisecond), q.cfg.Lease/30)
}

func (q *Quorum) measure(took time.Duration) {
	old := q.rtt.Load()
	q.rtt.Store(old + (int64(took)-old)/8)
}

// idle tells which members to leave alone, since they did not answer lately: none where the others
// are no quorum.
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

// ask asks every member and returns at once; what they say is noted as it comes.
func (q *Quorum) ask(ctx context.Context, out *answers, do func(context.Context, *member) error) {
	for i, idle := range q.idle() {
		m := q.members[i]
		if idle {
			out.note(m, node.ErrIdle)
			continue
		}
		if !q.crew.Start(func() { out.note(m, do(ctx, m)) }) {
			out.note(m, wire.ErrClosed)
		}
	}
}

// askAll asks every member and returns when all have answered or timed out.
func (q *Quorum) askAll(ctx context.Context, out *answers, do func(context.Context, *member) error) {
	var wg sync.WaitGroup
	for i, idle := range q.idle() {
		m := q.members[i]
		if idle {
			out.note(m, node.ErrIdle)
			continue
		}
		wg.Go(func() {
			ctx, cancel := context.WithTimeout(ctx, q.cfg.Timeout)
			defer cancel()
			out.note(m, do(ctx, m))
		})
	}
	wg.Wait()
}

// Inspect returns what a quorum of nodes knows of a lock.
func (q *Quorum) Inspect(ctx context.Context, n *wire.Names) (wire.State, error) {
	out := q.answers("inspect", n.Name)
	var mu sync.Mutex
	var states []wire.State
	seen := func() []wire.State {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(states)
	}
	q.ask(context.WithoutCancel(ctx), out, func(ctx context.Context, m *member) error {
		st, err := m.Wire.Inspect(ctx, n)
		if err == nil {
			mu.Lock()
			states = append(states, st)
			mu.Unlock()
		}
		return err
	})
	enough := func() bool {
		left := out.left() // first: who is not out has told
		return q.settled(seen(), left)
	}
	if err := out.waitMost(ctx, enough, q.voteTimeout()); err != nil {
		return wire.State{}, err
	}
	return q.agreed(seen()), nil
}

// settled reports whether a quorum has told whether the lock is held and by whom, whatever the nodes
// that are left say.
func (q *Quorum) settled(states []wire.State, left int) bool {
	most, keep := 0, make(map[string]int)
	for _, s := range states {
		if s.Held {
			keep[s.Holder]++
			most = max(most, keep[s.Holder])
		}
	}
	return len(states) >= q.need && (most >= q.need || most+left < q.need)
}

// agreed is what a quorum of nodes says: a lock is held by the owner whom enough of them name.
func (q *Quorum) agreed(states []wire.State) (st wire.State) {
	ttls := make(map[string][]time.Duration)
	for _, s := range states {
		st.Waiters, st.Token = max(st.Waiters, s.Waiters), max(st.Token, s.Token)
		if s.Held {
			ttls[s.Holder] = append(ttls[s.Holder], s.TTL)
		}
	}
	if len(q.members) == 1 && len(states) == 1 {
		st.HolderToken = states[0].HolderToken // where there are more, each has a number of its own
	}
	for holder, ttl := range ttls {
		if len(ttl) < q.need {
			continue
		}
		slices.SortFunc(ttl, func(a, b time.Duration) int { return cmp.Compare(b, a) })
		st.Held, st.Holder, st.TTL = true, holder, ttl[q.need-1]
		clients := make(map[string]bool)
		for _, s := range states {
			if s.Holder == holder {
				st.Count, st.Client, clients[s.Client] = max(st.Count, s.Count), s.Client, true
			}
		}
		if len(clients) > 1 {
			st.Client = "" // it is shared, by others at one node than at another
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

// Force frees a lock on all nodes, and returns once a quorum has: among it is a node of any other
// quorum that held the lock. It returns false when none of them had a holder.
func (q *Quorum) Force(ctx context.Context, n *wire.Names) (bool, error) {
	out := q.answers("force unlock", n.Name)
	var freed atomic.Bool
	q.ask(context.WithoutCancel(ctx), out, func(ctx context.Context, m *member) error {
		ok, err := m.Wire.Force(ctx, wire.Plain, n)
		if ok {
			freed.Store(true)
		}
		return err
	})
	err := out.waitMost(ctx, out.decided, q.voteTimeout())
	return freed.Load(), err
}

// Silence is the error of a caller that gave up, by cause, and nothing had been heard by then.
func (q *Quorum) Silence(op, name string, cause error) error {
	out := &wire.QuorumError{Op: op, Name: name, Need: q.need, Of: len(q.members), Cause: cause}
	for _, m := range q.members {
		out.Nodes = append(out.Nodes, &wire.MemberError{Node: m.index, Err: wire.ErrNoAnswer})
	}
	return out
}

// Stop makes contenders leave.
func (q *Quorum) Stop() { close(q.done) }

// Draining reports whether Close waits for commands that are out to a node.
func (q *Quorum) Draining() bool {
	return slices.ContainsFunc(q.members, func(m *member) bool { return m.Draining() })
}

// Close ends the questions that are out, then everything that runs for a node.
func (q *Quorum) Close() {
	q.ending.End(context.Background()) // what they leave is to be swept
	var wg sync.WaitGroup
	for _, m := range q.members {
		wg.Go(m.Settle)
	}
	wg.Wait()
	q.cancel()
	q.crew.End(context.Background())
	for _, m := range q.members {
		wg.Go(m.Close)
	}
	wg.Wait()
}
