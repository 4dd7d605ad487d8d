package quorum

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/relock-go/relock/internal/clock"
	"github.com/relock-go/relock/internal/driver"
	"github.com/relock-go/relock/internal/link"
	"github.com/relock-go/relock/internal/node"
	"github.com/relock-go/relock/internal/wire"
)

// identity is who a node was when it was first asked.
type identity struct {
	run    string // run id, "" when the server tells none
	marked bool   // the incarnation marker was there
}

// prepare checks the nodes before the first use, and returns once a quorum has answered: what the
// others say counts when they are asked to vote. Only where no node that answered is marked it
// waits for all: where every one of them is fresh it declares so, since nobody can hold a lock
// then.
func (q *Quorum) prepare(ctx context.Context) error {
	if q.ready.Load() {
		return nil
	}
	out := q.answers("prepare", "")
	idle := q.idle()
	for i, m := range q.members {
		if idle[i] {
			out.note(m, node.ErrIdle)
			continue
		}
		if !q.crew.Start(func() {
			ctx, cancel := context.WithTimeout(q.ctx, q.cfg.Timeout)
			defer cancel()
			out.note(m, q.check(ctx, m))
		}) {
			return wire.ErrClosed
		}
	}
	for !q.known(out) {
		select {
		case <-out.news:
		case <-ctx.Done():
			return out.leave(wire.CauseOf(ctx))
		case <-q.done:
			return wire.ErrClosed
		}
	}
	if err := out.invalid(); err != nil {
		return err
	}
	if err := out.err(); err != nil {
		return err
	}
	if q.cfg.Auto && out.agreed() == len(q.members) && !q.marked() {
		if err := q.declare(ctx); err != nil {
			return err
		}
	}
	q.ready.Store(true)
	return nil
}

// known reports whether the answers are enough to go on, or all there are.
func (q *Quorum) known(out *answers) bool {
	enough := out.agreed() >= q.need && (!q.cfg.Auto || q.marked())
	return enough || out.invalid() != nil || out.complete()
}

// marked reports whether a node that was asked was not fresh.
func (q *Quorum) marked() bool {
	return slices.ContainsFunc(q.members, func(m *member) bool { who := m.who.Load(); return who != nil && who.marked })
}

// check asks a node once who it is, and holds that against the others.
func (q *Quorum) check(ctx context.Context, m *member) error {
	if err := m.enter(ctx); err != nil {
		return err
	}
	defer m.leave()
	if m.who.Load() != nil {
		return nil
	}
	who, err := m.identify(ctx)
	if err != nil {
		return err
	}
	if err := q.admit(m, &who); err != nil {
		return err
	}
	if q.cfg.Guard && who.run == "" {
		q.cfg.Impaired(m.index, errNoRunID)
	}
	return nil
}

// errNoRunID is what the user is told of a node once.
var errNoRunID = errors.New("it tells no run id, so its restarts are not noticed")

// admit notes which server a node is, unless another node is that server.
func (q *Quorum) admit(m *member, who *identity) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, other := range q.members {
		if o := other.who.Load(); o != nil && who.run != "" && o.run == who.run {
			return fmt.Errorf("%w: nodes %d and %d are the same server", wire.ErrInvalidNodes, other.index, m.index)
		}
	}
	m.who.Store(who)
	return nil
}

// Initialize declares that no node has forgotten a lock that is held. It does nothing without the
// guard.
func (q *Quorum) Initialize(ctx context.Context) error {
	select {
	case <-q.done:
		return wire.ErrClosed
	default:
	}
	if !q.cfg.Guard {
		return nil
	}
	out := q.answers("initialize", "")
	q.askAll(ctx, out, func(ctx context.Context, m *member) error { return m.initialize(ctx, q.cfg.Longest) })
	return out.err()
}

// declare takes nodes for new that were all found to be fresh. By now another client may have done
// so, hold a lock on all of them, and one may have forgotten that lock since, which would look as
// fresh. So all are asked once more, and none is declared unless all still are the processes that
// were found, without a marker. A lock that was taken before one of the first answers is then seen
// on a node that kept it. What a node becomes after that the script sees itself.
func (q *Quorum) declare(ctx context.Context) error {
	out := q.answers("initialize", "")
	var changed atomic.Bool
	q.askAll(ctx, out, func(ctx context.Context, m *member) error {
		same, err := m.unchanged(ctx)
		if err == nil && !same {
			changed.Store(true)
		}
		return err
	})
	if err := out.err(); err != nil || changed.Load() || out.agreed() < len(q.members) {
		return err
	}
	out = q.answers("initialize", "")
	q.askAll(ctx, out, func(ctx context.Context, m *member) error {
		_, err := m.Wire.Declare(ctx, m.who.Load().run, q.cfg.Longest)
		return err
	})
	return out.err()
}

// unchanged asks a node again who it is, and reports whether it is the same process as before and
// fresh.
func (m *member) unchanged(ctx context.Context) (bool, error) {
	if err := m.enter(ctx); err != nil {
		return false, err
	}
	defer m.leave()
	who, err := m.identify(ctx)
	if err != nil {
		return false, err
	}
	same := !who.marked && who.run == m.who.Load().run
	m.who.Store(&who)
	return same, nil
}

// enter takes the node's slot for checks. It fails when ctx ends first.
func (m *member) enter(ctx context.Context) error {
	select {
	case m.checking <- struct{}{}:
		return nil
	case <-ctx.Done():
		return &link.Left{Cause: context.Cause(ctx)} // which may tell of another lock
	}
}

func (m *member) leave() { <-m.checking }

// identify asks a server who it is. A replica or a server that is another seat too would make a
// quorum that is none.
func (m *member) identify(ctx context.Context) (who identity, err error) {
	sent := clock.Now()
	got, err := m.Redis.Do(ctx, []string{"TIME"}, []string{"EXISTS", wire.IncarnationKey},
		[]string{"INFO", "server"}, []string{"INFO", "replication"})
	if err == nil || clock.Now().Since(sent) >= m.Timeout() || ctx.Err() == nil {
		m.Answered(err)
	}
	if err != nil {
		return who, err
	}
	parts, err := got[0].Ints()
	if err != nil {
		return who, err
	}
	if len(parts) != 2 {
		return who, fmt.Errorf("TIME answered %d parts", len(parts))
	}
	m.tick(parts[0]*1e6+parts[1], sent)
	marked, err := got[1].Int64()
	if err != nil {
		return who, err
	}
	who.marked = marked == 1
	server, err := section(got[2])
	if err != nil {
		return who, err
	}
	replication, err := section(got[3])
	if err != nil {
		return who, err
	}
	who.run = infoField(server, "run_id")
	if role := infoField(replication, "role"); role != "" && role != "master" {
		return who, fmt.Errorf("%w: node %d is a %s; a quorum is of masters that do not know each other", wire.ErrInvalidNodes, m.index, role)
	}
	return who, nil
}

// initialize declares that no lock is held that this server may have forgotten.
func (m *member) initialize(ctx context.Context, longest time.Duration) error {
	if err := m.enter(ctx); err != nil {
		return err
	}
	defer m.leave()
	who, err := m.identify(ctx) // it may have been restarted since it was checked
	if err != nil {
		return err
	}
	if who.run == "" {
		who.run = "unknown" // as guard.lua has it
	}
	got, err := m.Redis.Do(ctx, []string{
		"HSET", wire.IncarnationKey, "run", who.run, "born", "0", "longest", wire.MS(longest),
	})
	if err != nil {
		return err
	}
	return got[0].Err()
}

// section reads a section of INFO, "" where the server has none: an embedded one may know neither. A
// server that may not be asked might be anything.
func section(v driver.Value) (string, error) {
	text, err := v.Text()
	if strings.Contains(link.Reply(err), "not supported") { // as guard.lua has it
		return "", nil
	}
	return text, err
}

func infoField(info, field string) string {
	_, rest, found := strings.Cut(info, field+":")
	if !found {
		return ""
	}
	value, _, _ := strings.Cut(rest, "\r\n")
	return value
}
