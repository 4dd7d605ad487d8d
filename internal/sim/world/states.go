package world

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/driver"
)

// States: what State tells is what Redis kept at an instant of the call. The judge reads the memory of the node itself when the
// command runs that looks, by what docs/wire.md says of the keys, and not by the answer. Of a quorum it looks at the holder.

// sighting is a state as the judge read it.
type sighting struct {
	node int
	is   relock.State
}

// looking is what was seen of a lock while a process asks for its state. The world's mutex guards it.
type looking struct {
	calls int
	saw   []sighting
}

// lookedAt notes what a command that looks at a lock finds there. It is called under the world's mutex.
func (w *World) lookedAt(l *line, c *command, v driver.Value) {
	at := w.lookings[asking{l.proc, c.lock}]
	if c.op != "inspect" || at == nil || v.Err() != nil {
		return
	}
	if is, plain := w.stateOn(l.node, c.lock); plain {
		at.saw = append(at.saw, sighting{l.node.index, is})
	} else {
		at.saw = append(at.saw, sighting{node: -1})
	}
}

// asksState asks for the state of a lock, and demands that it is one that was there during the call.
func (a *Actor) asksState(p *process, name string, amount int) {
	w, key := a.w, asking{p, name}
	w.mu.Lock()
	at := w.lookings[key]
	if at == nil {
		at = &looking{}
		w.lookings[key] = at
	}
	at.calls++
	w.mu.Unlock()
	st, err := w.kind.Of(p.client, name, amount).State(w.ctx)
	w.mu.Lock()
	defer w.mu.Unlock()
	if at.calls--; at.calls == 0 {
		delete(w.lookings, key)
	}
	if err != nil || slices.ContainsFunc(at.saw, func(s sighting) bool { return s.node < 0 }) {
		return
	}
	st.Client = relock.ClientInfo{}
	if len(w.nodes) > 1 {
		w.agrees(p, name, st, at.saw)
	} else if !slices.ContainsFunc(at.saw, func(s sighting) bool { return s.is == st }) {
		w.failed(name, "State tells p%d %+v, and Redis has had %+v", p.index, st, at.saw)
	}
}

// agrees demands of the state that a quorum tells that as many nodes as are needed had that holder, and that it tells of one where
// none of them had another one. The caller holds the world's mutex.
func (w *World) agrees(p *process, name string, st relock.State, saw []sighting) {
	need, had, holders := len(w.nodes)/2+1, map[int]bool{}, map[string]bool{}
	nodes := map[int]bool{}
	for _, s := range saw {
		nodes[s.node], holders[s.is.Holder] = true, true
		if s.is.Holder == st.Holder && s.is.TTL >= st.TTL {
			had[s.node] = true
		}
	}
	switch {
	case st.Held && len(had) < need:
		w.failed(name, "State tells p%d %+v, and %d of %d nodes have had that: %+v", p.index, st, len(had), len(w.nodes), saw)
	case !st.Held && len(nodes) == len(w.nodes) && len(holders) == 1 && !holders[""]:
		w.failed(name, "State tells p%d that the lock is free, and all nodes have had %+v", p.index, saw)
	}
}

// stateOn is what a node keeps of a lock, but for the client that has it. plain says that the judge can tell: not what several
// owners share that no grant names, nor what a JVM has a part in. The caller holds the world's mutex.
func (w *World) stateOn(n *node, name string) (st relock.State, plain bool) {
	if w.plan.JVMs > 0 {
		return st, false
	}
	st.Reserved, _ = strconv.ParseInt(n.server.Text(w.form.counterOf(name)), 10, 64)
	st.Waiters = w.standIn(n, w.form.queueOf(name))
	switch {
	case w.form.Permits:
		return w.permitsState(n, name, st)
	case w.form.RW:
		st.Waiters += w.standIn(n, readersOf(name))
		return w.sidesState(n, name, st), true
	}
	first := strings.SplitN(n.server.Field(name, grantedAs), ":", 3)
	st.HolderToken, _ = strconv.ParseInt(first[0], 10, 64)
	counts := 0
	n.server.Fields(name, func(field string) {
		count, err := strconv.Atoi(n.server.Field(name, field))
		if err != nil || strings.HasPrefix(field, "relock:") || len(first) > 2 && first[2] != field {
			return
		}
		counts++
		st.Held, st.Holder, st.Count = true, field, count
	})
	if st.Held {
		st.TTL = time.Duration(n.server.Left(name)) * time.Millisecond
	}
	return st, counts < 2
}

// standIn is how many of relock's waiters stand in a line.
func (w *World) standIn(n *node, line string) (waiters int) {
	for _, one := range n.server.Line(line, nil) {
		if one.Ticket >= 0 {
			waiters++
		}
	}
	return waiters
}

// permitsState is that of a semaphore: permits whose leases are over are free, whether or not a command has ended them.
func (w *World) permitsState(n *node, name string, st relock.State) (relock.State, bool) {
	now := float64(n.server.Clock().Micro() / 1000)
	if all := w.permitsOn(n, name); all != unknown {
		st.Permits = all
	}
	for _, permit := range n.server.Line(w.form.leasesOf(name), nil) { // by when they end
		if permit.Ticket <= now {
			continue
		}
		if st.Count++; !st.Held {
			st.Held, st.Holder = true, entryOf(permit.Member)
			st.TTL = time.Duration(permit.Ticket-now) * time.Millisecond
		}
	}
	st.Free = st.Permits - st.Count
	return st, !w.hasTurn(n, name) // a process that may not subscribe all its channels looks like a JVM
}

// sidesState is that of a read-write lock: of readers those count that live.
func (w *World) sidesState(n *node, name string, st relock.State) relock.State {
	last, writes := int64(-1), false
	n.server.Fields(name, func(field string) {
		id, isWriter := strings.CutSuffix(field, ":write")
		switch {
		case field == "mode", !isWriter && !livesRW(n, name, field):
			return
		case !isWriter:
			st.Readers++
			last = max(last, n.server.Left(pulseOf(name, field)))
		}
		if isWriter || !st.Held {
			parts := strings.SplitN(n.server.Field(name, field), ":", 3)
			st.Held, st.Holder, writes = true, id, writes || isWriter
			st.Count, _ = strconv.Atoi(parts[0])
			if st.HolderToken = 0; isWriter {
				st.HolderToken, _ = strconv.ParseInt(parts[1], 10, 64)
			}
		}
	})
	left := n.server.Left(name)
	if !writes {
		left = min(left, last)
	}
	if st.Held {
		st.TTL = time.Duration(left) * time.Millisecond
	}
	return st
}
