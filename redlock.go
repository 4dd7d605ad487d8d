package relock

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/redis/rueidis"
	"github.com/relock-go/relock/internal/clock"
)

// ErrInvalidNodes says that the nodes of a quorum are no independent masters: one is a replica, or two are the same server.
var ErrInvalidNodes = errors.New("relock: unusable nodes")

// NewRedlock returns a client whose locks are held by a quorum of nodes: independent Redis masters, none of which knows
// another, usually five. It is a Client like any other. A lock is held while more than half of the nodes (or as many as
// WithQuorum says) keep it; the others may be down, hung, cut off or in the hands of somebody else. The idea is Redlock's,
// with queues instead of random retries; docs/safety.md says what it takes and what it gives.
//
// Each node is asked with a timeout of its own (WithCommandTimeout, by default a twentieth of the lease and at most one
// second), all at once, and a call returns as soon as a quorum has decided. A node that lost its memory stays out for a
// lease (WithRestartGuard). Nodes are checked when they are first used, with ErrInvalidNodes if they make no quorum; a
// node that cannot be reached is no error while a quorum can. The clients in nodes stay the caller's.
//
// It fails with ErrInvalidOption for no node, a nil or doubled client, a Cluster, or an option that cannot work.
func NewRedlock(nodes []rueidis.Client, opts ...Option) (*Client, error) {
	cfg := defaultConfig()
	cfg.seats, cfg.guard, cfg.longest = len(nodes), GuardAuto, defaultLease
	if len(nodes) == 0 {
		return nil, fmt.Errorf("%w: a quorum of no nodes", ErrInvalidOption)
	}
	for i, rdb := range nodes {
		if isNil(rdb) {
			return nil, fmt.Errorf("%w: node %d is nil", ErrInvalidOption, i+1)
		}
		twin := slices.IndexFunc(nodes, func(other rueidis.Client) bool { return same(rdb, other) })
		switch {
		case twin >= 0 && twin < i:
			return nil, fmt.Errorf("%w: node %d is node %d again", ErrInvalidOption, i+1, twin+1)
		case rdb.Mode() == rueidis.ClientModeCluster:
			return nil, fmt.Errorf("%w: node %d is a Cluster; a quorum is of single masters", ErrInvalidOption, i+1)
		}
	}
	cfg, err := cfg.with(opts, true)
	if err != nil {
		return nil, err
	}
	id := uuid.NewString()
	return newClientOver(id, cfg, newQuorum(nodes, id, &cfg)), nil
}

// same reports whether two clients are one. Wrappers that cannot be compared are told apart by the server behind them.
func same(a, b rueidis.Client) bool {
	return reflect.ValueOf(a).Comparable() && reflect.ValueOf(b).Comparable() && a == b
}

// quorum is the arbiter over independent masters. What it adds to one node stands in election: who wins a split vote,
// and which token is safe.
type quorum struct {
	seats []*seat
	need  int
	cfg   *config

	ctx    context.Context // of the questions; ends with the client
	cancel context.CancelFunc
	done   chan struct{} // closed when the client closes: contenders leave
	crew   crew
	rtt    atomic.Int64 // smoothed, nanoseconds

	ready atomic.Bool
	mu    sync.Mutex // held while a node's run id is held against the others'
}

func newQuorum(nodes []rueidis.Client, id string, cfg *config) *quorum {
	q := &quorum{need: cfg.quorumSize(), cfg: cfg, done: make(chan struct{})}
	q.ctx, q.cancel = context.WithCancel(context.Background())
	longest := cfg.longest
	if cfg.guard == GuardOff {
		longest = 0
	}
	for i, rdb := range nodes {
		q.seats = append(q.seats, newSeat(i+1, rdb, id, longest, cfg))
	}
	q.rtt.Store(int64(time.Millisecond))
	return q
}

// tau is how long a minority waits for votes that are out before it takes them for lost: two round trips.
func (q *quorum) tau() time.Duration {
	return min(max(2*time.Duration(q.rtt.Load()), time.Millisecond), q.cfg.firstLease()/30)
}

func (q *quorum) measure(took time.Duration) {
	old := q.rtt.Load()
	q.rtt.Store(old + (int64(took)-old)/8)
}

// idle tells which of seats to leave alone, since they did not answer lately: none where the others are no quorum.
func (q *quorum) idle(seats []*seat) []bool {
	idle, left := make([]bool, len(seats)), len(q.seats)
	for i, s := range seats {
		if idle[i] = s.idle(); idle[i] {
			left--
		}
	}
	if left < q.need {
		clear(idle)
	}
	return idle
}

// each does something at every node at once and returns when all have answered or timed out.
func (q *quorum) each(ctx context.Context, timeout time.Duration, out *outcomes, do func(context.Context, *seat) error) {
	var wg sync.WaitGroup
	for i, idle := range q.idle(q.seats) {
		s := q.seats[i]
		if idle {
			out.note(s, errIdle)
			continue
		}
		wg.Go(func() {
			ctx, cancel := context.WithTimeout(ctx, timeout)
			defer cancel()
			out.note(s, do(ctx, s))
		})
	}
	wg.Wait()
}

func (q *quorum) contend(ctx context.Context, a *acquisition) (grant, error) {
	pause := backoff{least: 5 * time.Millisecond, most: 250 * time.Millisecond}
	for {
		err := q.prepare(ctx)
		if err == nil {
			break
		}
		if !transient(err) {
			return grant{}, err
		}
		a.polled(err)
		if !sleep(ctx, pause.next()) {
			return grant{}, notHeard("acquire", a.names.name, err, causeOf(ctx))
		}
		if q.ctx.Err() != nil {
			return grant{}, ErrClosed
		}
	}
	if a.election == nil {
		a.election = newElection(q, a)
	}
	return a.election.run(ctx)
}

func (q *quorum) try(ctx context.Context, a *acquisition) (grant, error) {
	if err := q.prepare(ctx); err != nil {
		return grant{}, err
	}
	a.election = newElection(q, a)
	g, won, err := a.election.once(ctx)
	if won {
		return g, nil
	}
	seen := a.blocker
	nodes := a.election.outcome("acquire")
	down := a.election.failed() > len(q.seats)-q.need
	q.abandon(a)
	switch {
	case err == errBusy:
		return grant{}, gaveUp(a.names.name, seen, causeOf(ctx))
	case err != nil:
		return grant{}, err
	case down:
		return grant{}, nodes // a free lock could not be had either
	}
	return grant{}, &HeldError{Name: a.names.name, Holder: seen.holder, TTL: seen.ttl, Cause: nodes.ifAny()}
}

func (q *quorum) attach(a *acquisition, h *hold) {
	for _, l := range a.election.legs {
		l.seat.hub.attach(l.acquisition, h)
	}
}

func (q *quorum) forget(a *acquisition) {
	for _, l := range a.election.legs {
		l.seat.hub.forget(l.acquisition)
	}
}

func (q *quorum) abandon(a *acquisition) {
	if a.election == nil {
		return
	}
	for _, l := range a.election.legs {
		l.stretched.Store(a.stretched.Load())
		l.settle(q.tau())
		l.end(!l.asked.IsZero())
	}
}

// stop makes contenders leave.
func (q *quorum) stop() { close(q.done) }

// close ends the questions that are out, then everything that runs for a node.
func (q *quorum) close() {
	var wg sync.WaitGroup
	for _, s := range q.seats {
		wg.Go(s.sweeper.close)
	}
	wg.Wait()
	q.cancel()
	q.crew.end()
	for _, s := range q.seats {
		wg.Go(func() {
			s.link.close()
			s.hub.close()
		})
	}
	wg.Wait()
}

// recount writes the hold count on all nodes; a quorum of them must confirm.
func (q *quorum) recount(ctx context.Context, a *acquisition, count int, lease time.Duration) (clock.Stamp, error) {
	sent := clock.Now()
	out := newOutcome("recount", a.names.name, q)
	q.ballot(ctx, out, func(ctx context.Context, s *seat) error {
		held, err := s.ballots.recount(ctx, a.timeout, &a.names, a.id, count, lease)
		if err == nil && !held {
			return ErrLost
		}
		return err
	})
	return sent, out.wait()
}

func (q *quorum) inspect(ctx context.Context, n *names) (State, error) {
	out := newOutcome("inspect", n.name, q)
	var mu sync.Mutex
	var states []State
	q.each(ctx, q.cfg.commandTimeout(), out, func(ctx context.Context, s *seat) error {
		st, err := s.ballots.inspect(ctx, n)
		if err == nil {
			mu.Lock()
			states = append(states, st)
			mu.Unlock()
		}
		return err
	})
	if err := out.err(); err != nil {
		return State{}, err
	}
	return q.agreed(states), nil
}

// agreed is what a quorum of nodes says: a lock is held by whom enough of them name.
func (q *quorum) agreed(states []State) (st State) {
	ttls := make(map[string][]time.Duration)
	for _, s := range states {
		st.Waiters, st.Token = max(st.Waiters, s.Waiters), max(st.Token, s.Token)
		if s.Held {
			ttls[s.Holder] = append(ttls[s.Holder], s.TTL)
		}
	}
	if len(q.seats) == 1 && len(states) == 1 {
		st.HolderToken = states[0].HolderToken // where there are more, each has a number of its own
	}
	for holder, ttl := range ttls {
		if len(ttl) < q.need {
			continue
		}
		slices.SortFunc(ttl, func(a, b time.Duration) int { return cmp.Compare(b, a) })
		st.Held, st.Holder, st.TTL = true, holder, ttl[q.need-1]
		for _, s := range states {
			if s.Holder == holder {
				st.Count = max(st.Count, s.Count)
			}
		}
	}
	return st
}

func (q *quorum) force(ctx context.Context, n *names) (bool, error) {
	out := newOutcome("force unlock", n.name, q)
	var freed atomic.Bool
	q.each(ctx, q.cfg.commandTimeout(), out, func(ctx context.Context, s *seat) error {
		ok, err := s.ballots.force(ctx, n)
		if ok {
			freed.Store(true)
		}
		return err
	})
	return freed.Load(), out.err()
}
