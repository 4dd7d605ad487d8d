package quorum

import (
	"cmp"
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
	"github.com/relock-go/relock/internal/wire"
)

// identity is which server a node led to when it was last asked.
type identity struct {
	run    string // run id, "" when the server tells none
	marked bool   // the incarnation marker was there
}

// prepare checks the nodes before the first use, and returns once a quorum has answered. A node
// that answers later is checked when it is asked to vote.
//
// With Auto, and if no node that answered is marked, it waits for all nodes. If every one of them
// is fresh it declares them new: no client can hold a lock then.
func (q *Quorum) prepare(ctx context.Context) error {
	switch {
	case q.ready.Load():
		return nil
	case q.ctx.Err() != nil:
		return wire.ErrClosed
	}
	out := q.newAnswers("prepare", "")
	q.askTimed(q.ctx, out, q.check) // the client's context: other callers wait for it when this one has left
	for !q.settled(out) {
		select {
		case <-out.changed:
		case <-ctx.Done():
			if out.decided() { // in this moment
				return out.err()
			}
			return out.refusal(wire.CauseOf(ctx))
		case <-q.done:
			return wire.ErrClosed
		}
	}
	if err := cmp.Or(out.invalid(), out.err()); err != nil {
		return err
	}
	if agree, _, _ := out.count(); q.cfg.Auto && agree == len(q.members) && !q.anyMarked() {
		if err := q.declare(ctx); err != nil {
			return err
		}
	}
	q.ready.Store(true) // two callers may both get here: each of the steps may be done twice
	return nil
}

// settled reports whether the answers are enough to go on, or no more are to come.
func (q *Quorum) settled(out *answers) bool {
	agree, _, _ := out.count()
	enough := agree >= q.need && (!q.cfg.Auto || q.anyMarked())
	return enough || out.invalid() != nil || out.complete()
}

// anyMarked reports whether a node that was asked was not fresh. Then the nodes are not new, and
// what is missing on another may have been forgotten.
func (q *Quorum) anyMarked() bool {
	return slices.ContainsFunc(q.members, func(m *member) bool { id := m.identity.Load(); return id != nil && id.marked })
}

// check asks a node once which server it is, and compares that with the others. Checks of one node
// come one at a time: the second finds the answer of the first.
func (q *Quorum) check(ctx context.Context, m *member) error {
	if err := m.beginCheck(ctx); err != nil {
		return err
	}
	defer m.endCheck()
	if m.identity.Load() != nil {
		return nil
	}
	id, err := m.identify(ctx)
	if err != nil {
		return err
	}
	if err := q.admit(m, &id); err != nil {
		return err
	}
	if q.cfg.Guard && id.run == "" {
		q.cfg.Impaired(m.index, errNoRunID)
	}
	return nil
}

// errNoRunID is reported once for each node that tells no run id.
var errNoRunID = errors.New("it tells no run id, so its restarts are not noticed")

// admit notes which server a node is, unless another node is that server. The mutex spans look and
// note: else two nodes that are one server could be admitted at once.
func (q *Quorum) admit(m *member, id *identity) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, other := range q.members {
		if o := other.identity.Load(); o != nil && id.run != "" && o.run == id.run {
			return fmt.Errorf("%w: nodes %d and %d are the same server", wire.ErrInvalidNodes, other.index, m.index)
		}
	}
	m.identity.Store(id)
	return nil
}

// TrustNodes tells all nodes that none has forgotten a lock that is held, so that they grant at once.
// It does nothing without the restart guard.
func (q *Quorum) TrustNodes(ctx context.Context) error {
	select {
	case <-q.done:
		return wire.ErrClosed
	default:
	}
	if !q.cfg.Guard {
		return nil
	}
	return q.askAll(ctx, "initialize", func(ctx context.Context, m *member) error {
		return m.initialize(ctx, q.cfg.Longest)
	}).errOf(ctx)
}

// declare takes nodes for new that were all found to be fresh.
//
// The race: since they were found so, another client may have declared them and taken a lock on all
// of them, and one node may have forgotten that lock, which looks as fresh. So all are asked once
// more. None is declared unless all of them still are the processes that were found, without a
// marker. A lock that was taken before one of these answers is then seen on a node that kept it.
// What a node becomes after that, the script itself sees.
//
// Other callers ask the nodes at the same time, and note what they find. So the caller keeps what
// was found before its own looks: a process that another caller found since may have forgotten.
func (q *Quorum) declare(ctx context.Context) error {
	found := make([]identity, len(q.members))
	for i, m := range q.members {
		found[i] = *m.identity.Load()
	}
	var changed atomic.Bool
	out := q.askAll(ctx, "initialize", func(ctx context.Context, m *member) error {
		same, err := m.unchanged(ctx, found[m.index-1])
		if err == nil && !same {
			changed.Store(true)
		}
		return err
	})
	if agree, _, _ := out.count(); changed.Load() || agree < len(q.members) {
		return out.errOf(ctx)
	}
	return q.askAll(ctx, "initialize", func(ctx context.Context, m *member) error {
		_, err := m.Declare(ctx, found[m.index-1].run)
		return err
	}).errOf(ctx)
}

// unchanged asks a node again which server it is, and reports whether it is the same process as was
// found, and fresh both times.
func (m *member) unchanged(ctx context.Context, found identity) (bool, error) {
	if err := m.beginCheck(ctx); err != nil {
		return false, err
	}
	defer m.endCheck()
	id, err := m.identify(ctx)
	if err != nil {
		return false, err
	}
	m.identity.Store(&id)
	return id == found && !id.marked, nil
}

// beginCheck takes the node's slot for checks. It fails when ctx ends first.
func (m *member) beginCheck(ctx context.Context) error {
	select {
	case m.checking <- struct{}{}:
		return nil
	case <-ctx.Done():
		return &link.Left{Cause: context.Cause(ctx)} // the cause may be another lock's error
	}
}

func (m *member) endCheck() { <-m.checking }

// identify asks a server which one it is. A replica holds what its master holds, so it has no vote
// of its own.
func (m *member) identify(ctx context.Context) (id identity, err error) {
	sent := clock.Now()
	got, err := m.Do(ctx, []string{"TIME"}, []string{"EXISTS", wire.IncarnationKey},
		[]string{"INFO", "server"}, []string{"INFO", "replication"})
	if err != nil {
		return id, err
	}
	parts, err := got[0].Ints()
	if err != nil {
		return id, err
	}
	if len(parts) != 2 {
		return id, fmt.Errorf("TIME answered %d parts", len(parts))
	}
	m.readClock(parts[0]*1e6+parts[1], sent)
	marked, errMarked := got[1].Int64()
	server, errServer := section(got[2])
	replication, errReplication := section(got[3])
	if wire.ReplyCode(link.Reply(errMarked)) == "MOVED" {
		return id, fmt.Errorf("%w: node %d is one server of a Redis Cluster; a quorum is of masters that do not know each other",
			wire.ErrInvalidNodes, m.index)
	}
	if err := cmp.Or(errMarked, errServer, errReplication); err != nil {
		return id, err
	}
	id.marked, id.run = marked == 1, infoField(server, "run_id")
	if role := infoField(replication, "role"); role != "" && role != "master" {
		return id, fmt.Errorf("%w: node %d is a %s; a quorum is of masters that do not know each other", wire.ErrInvalidNodes, m.index, role)
	}
	return id, nil
}

// initialize declares that no lock is held that this server may have forgotten. It writes the
// marker as of the process that answers now: after another restart the marker is stale, and the
// guard holds again.
func (m *member) initialize(ctx context.Context, longest time.Duration) error {
	id, err := m.identify(ctx) // it may have been restarted since it was checked
	if err != nil {
		return err
	}
	if id.run == "" {
		id.run = "unknown" // what guard.lua compares the marker with
	}
	got, err := m.Do(ctx, []string{
		"HSET", wire.IncarnationKey, "run", id.run, "born", "0", "longest", wire.MS(longest),
	})
	if err != nil {
		return err
	}
	return got[0].Err()
}

// section reads a section of INFO, "" if the server has none, as an embedded one may. Any other
// refusal is an error: a server that may not be asked might be anything.
func section(v driver.Value) (string, error) {
	text, err := v.Text()
	if strings.Contains(link.Reply(err), "not supported") { // as guard.lua has it
		return "", nil
	}
	return text, err
}

// infoField is the value of a field in what INFO answers, "" where there is none.
func infoField(info, field string) string {
	_, rest, found := strings.Cut(info, field+":")
	if !found {
		return ""
	}
	value, _, _ := strings.Cut(rest, "\r\n")
	return value
}
