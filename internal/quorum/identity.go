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

// identity tells which server a node led to when it was last asked.
type identity struct {
	run    string // run id, "" when the server tells none
	marked bool   // the incarnation marker was there
}

// prepare checks the nodes before the first use, and returns once a quorum has answered. A node
// that answers later is checked when it is asked to vote.
//
// With Config.Auto, if all nodes that answered are fresh (have no marker), it waits for the others.
// If every node is fresh, it declares them new: no client can hold a lock then.
func (q *Quorum) prepare(ctx context.Context) error {
	switch {
	case q.ready.Load():
		return nil
	case q.ctx.Err() != nil:
		return wire.ErrClosed
	}
	out := q.newAnswers(driver.Check, "")
	q.askTimed(q.ctx, out, q.check) // q.ctx: other callers use the answers even if this one leaves
	for !q.settled(out) {
		select {
		case <-out.changed:
		case <-ctx.Done():
			if out.decided() { // in this moment; or a quorum of fresh nodes before, and the next caller goes on
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

// settled reports whether prepare need not wait on: enough nodes answered, or all did, or the nodes
// are no quorum.
func (q *Quorum) settled(out *answers) bool {
	agree, _, _ := out.count()
	enough := agree >= q.need && (!q.cfg.Auto || q.anyMarked())
	return enough || out.invalid() != nil || out.complete()
}

// anyMarked reports whether a node that was asked has the marker. Then the nodes are not new, and a
// node without it may have forgotten its locks.
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

// admit notes which server a node is, unless another node is that server. The mutex covers both the
// comparison and the note, so that two nodes that are one server are not admitted at once.
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
	return q.askAll(ctx, driver.Check, func(ctx context.Context, m *member) error {
		return m.initialize(ctx, q.cfg.Longest)
	}).errOf(ctx)
}

// declare declares nodes new that were all found to be fresh.
//
// The race: since then, another client may have declared them and taken a lock on all of them, and a
// node that forgot that lock looks fresh again. So all nodes are asked once more. None is declared
// unless each still is the process that was found, without a marker. A lock that was taken before one
// of these answers shows on a node that kept it. A change after a node's answer is seen by the script.
//
// Other callers ask the nodes at the same time, and note what they find. So declare first copies what
// was found: a process that another caller finds later may have forgotten its locks.
func (q *Quorum) declare(ctx context.Context) error {
	found := make([]identity, len(q.members))
	for i, m := range q.members {
		found[i] = *m.identity.Load()
	}
	var changed atomic.Bool
	out := q.askAll(ctx, driver.Check, func(ctx context.Context, m *member) error {
		same, err := m.unchanged(ctx, found[m.index-1])
		if err == nil && !same {
			changed.Store(true)
		}
		return err
	})
	if agree, _, _ := out.count(); changed.Load() || agree < len(q.members) {
		return out.errOf(ctx)
	}
	return q.askAll(ctx, driver.Check, func(ctx context.Context, m *member) error {
		_, err := m.Declare(ctx, found[m.index-1].run)
		return err
	}).errOf(ctx)
}

// unchanged asks a node again which server it is, and reports whether it is the process that was
// found before, and fresh both times.
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

// beginCheck waits until no other check of this node runs. It fails if ctx ends first. endCheck lets
// the next check run.
func (m *member) beginCheck(ctx context.Context) error {
	select {
	case m.checking <- struct{}{}:
		return nil
	case <-ctx.Done():
		// Left keeps errors.As from taking the caller's cause for this node's answer.
		return &link.Left{Cause: context.Cause(ctx)}
	}
}

func (m *member) endCheck() { <-m.checking }

// identify asks a node which server it is, and reads its clock. It refuses a server of a Cluster, and
// a replica: a replica holds what its master holds, so it has no vote of its own.
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

// initialize declares that this server has forgotten no lock that is held. It writes the marker of
// the process that runs now: after another restart the marker is stale, and the guard holds again.
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

// section returns a section of INFO, "" if the server has none, as an embedded one may. Any other
// refusal is an error: the server might be a replica, say.
func section(v driver.Value) (string, error) {
	text, err := v.Text()
	if strings.Contains(link.Reply(err), "not supported") { // as in guard.lua
		return "", nil
	}
	return text, err
}

// infoField returns the value of a field of INFO's answer, "" if it has none.
func infoField(info, field string) string {
	_, rest, found := strings.Cut(info, field+":")
	if !found {
		return ""
	}
	value, _, _ := strings.Cut(rest, "\r\n")
	return value
}
