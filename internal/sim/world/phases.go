package world

import (
	"strings"
	"time"

	"github.com/relock-go/relock/internal/wire"
)

// Phases: a reader that waits when a command ends a write comes in before the next writer, whatever becomes of the clock.

// phase is the readers that come before the next writer of a lock, in the memory of one Redis.
type phase struct {
	at     reign
	before map[string]bool // by acquisition id
}

// comesBefore looks at what a command did to the writers of a lock. A full Redis may refuse to write the phase down: then age
// decides. Redisson's writers know no order. It is called under the world's mutex.
func (w *World) comesBefore(n *node, g *glimpsed) {
	p := w.phases[g.lock]
	if p == nil || p.at.run != n.server.RunID() {
		if g.wrote == "" {
			return // nothing waits for what is only about to begin
		}
		p = &phase{reign{n.server.RunID(), g.lock}, map[string]bool{}}
		w.phases[g.lock] = p
	}
	now := writerOf(n, g.lock)
	if now == g.wrote && len(p.before) == 0 {
		return
	}
	if g.wrote != "" && now != g.wrote && !n.refusing.After(time.Now()) {
		for _, r := range g.readers {
			if id, client := waiterOf(r.Member); id != "" && n.server.Listeners(wire.InboxPrefix+client) > 0 {
				p.before[id] = true
			}
		}
	}
	waits := map[string]string{}
	for _, r := range n.server.Line(readersOf(g.lock), nil) {
		id, client := waiterOf(r.Member)
		waits[id] = client
	}
	client, number, _ := strings.Cut(now, ":")
	for id := range p.before {
		listens := waits[id] != "" && n.server.Listeners(wire.InboxPrefix+waits[id]) > 0
		switch {
		case now != "" && now != g.wrote && (w.javas[client] || len(number) < 17):
			delete(p.before, id)
		case now != "" && now != g.wrote && listens:
			w.failed(g.lock, "node %d lets writer %s in before reader %s, which has waited since the write before", n.index, now, id)
			return
		case !listens:
			delete(p.before, id)
		}
	}
}

// writerOf is the writer of a lock, "" for none.
func writerOf(n *node, lock string) (id string) {
	n.server.Fields(lock, func(field string) {
		if who, writes := strings.CutSuffix(field, ":write"); writes {
			id = who
		}
	})
	return id
}

// forcedWhole demands that a lock which was forced open leaves no key by which one of its readers lives: a reader that such a
// key is left of would count as alive if its field came back. It is called under the world's mutex.
func (w *World) forcedWhole(n *node, c *command, g *glimpsed) {
	if c.op != "force" {
		return
	}
	for _, id := range g.ids {
		if _, number, _ := strings.Cut(id, ":"); len(number) < 17 || w.form.held(n, g.lock, id) {
			continue // or it waited once more, and is let in again
		}
		if n.server.Stands(pulseOf(g.lock, id)) {
			w.failed(g.lock, "node %d has forced the lock open, and keeps the key by which reader %s lives", n.index, id)
		}
	}
}

// turnTime is for how long Redisson's waiters keep new readers of relock's out of a lock that is read.
const turnTime = time.Second

// shutOut looks at each lock that is read: a reader that waits, where no writer of relock's does, comes in when that time is
// over and it has asked again. It is called with each tick of the watch.
func (w *World) shutOut(now time.Time) {
	if !w.form.RW || w.plan.JVMs == 0 {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	n := w.nodes[0]
	for _, name := range w.plan.Names {
		first := ""
		if line := n.server.Line(readersOf(name), nil); len(line) > 0 {
			first, _ = waiterOf(line[0].Member)
		}
		waits := first != "" && n.server.Field(name, "mode") == "read" && len(n.server.Line(w.form.queueOf(name), nil)) == 0
		s := w.stays[first]
		if !waits || s == nil || s.proc.dead || s.ended || s.copied {
			delete(w.shut, name)
			continue
		}
		was := w.shut[name]
		since := was.since
		if was.id != first {
			since = now
		}
		since = later(since, earlier(now, later(later(s.proc.disturbed, n.disturbed), n.refusing)))
		w.shut[name] = shutting{first, since}
		if most := turnTime + w.plan.Longest()/3 + 4*w.plan.Timeout(); now.Sub(since) > most && !n.off {
			w.failed(name, "reader %s has been kept out of a lock that is read, and that no writer of relock's waits for, for %v", first,
				now.Sub(since))
		}
	}
}

// shutting is a reader that is kept out of a lock that is read, and since when.
type shutting struct {
	id    string
	since time.Time
}

// javaReads is a thread of Redisson's that reads a lock and lives, by any of its keys, "" for none.
func (w *World) javaReads(n *node, lock string) (field string) {
	if w.plan.JVMs == 0 {
		return ""
	}
	n.server.Fields(lock, func(f string) {
		if client, _, _ := strings.Cut(f, ":"); w.javas[client] && !strings.HasSuffix(f, ":write") && livesRW(n, lock, f) {
			field = f
		}
	})
	return field
}

// pastJava demands of a command that lets a writer of relock's in that it found no reader of Redisson's alive. It is called under
// the world's mutex.
func (w *World) pastJava(n *node, c *command, g *glimpsed) {
	if now := writerOf(n, g.lock); g.java != "" && now != "" && now != g.wrote && c.op != "force" {
		if client, _, _ := strings.Cut(now, ":"); !w.javas[client] {
			w.failed(g.lock, "node %d lets writer %s in beside Redisson's reader %s, which is alive by one of its keys", n.index, now, g.java)
		}
	}
}
