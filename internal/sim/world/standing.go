package world

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// state is what a node said of a lock when what is demanded was violated.
type state struct {
	clock         time.Time
	down          bool
	pttl          int64
	fields, queue []string
	counter       string
}

// look asks every node for the keys of a lock. The caller holds the world's mutex.
func (w *World) look(lock string) []state {
	var all []state
	for _, n := range w.nodes {
		s := state{clock: n.server.Clock().Now()}
		fields, up := n.ask("HGETALL", lock)
		s.down, s.fields = !up, fields.texts()
		pttl, _ := n.ask("PTTL", lock)
		queue, _ := n.ask("ZRANGE", w.form.queueOf(lock), "0", "-1", "WITHSCORES")
		counter, _ := n.ask("GET", w.form.counterOf(lock))
		if w.form.Permits {
			s.fields = w.permitsTold(n, lock)
		}
		s.pttl, s.queue = pttl.number(), queue.texts()
		s.counter, _ = counter.Text()
		all = append(all, s)
	}
	return all
}

// standing tells, of the lock violated, which leases callers had, and what each Redis said of it.
func (w *World) standing(r *reader) string {
	if w.where == "" {
		return ""
	}
	var b strings.Builder
	fmt.Fprintf(&b, "\nleases of %s, as callers were told, the last %d:\n", w.where, mostLeases)
	for _, line := range w.judge.leases(w.where, w.ended) {
		b.WriteString("  " + r.short(line) + "\n")
	}
	fmt.Fprintf(&b, "what each Redis said of it at %s:\n", stamp(w.ended))
	for i, s := range w.states {
		b.WriteString("  " + r.short(s.text(i, w.trace.start.Add(w.ended))) + "\n")
	}
	return b.String()
}

// mostLeases is how many are told.
const mostLeases = 8

// leases tells from when until when the last leases of a lock were had, at a time.
func (j *judge) leases(name string, at time.Duration) []string {
	h := &j.of(name).history
	began, ended := map[int]told{}, map[int]told{}
	for _, t := range h.told {
		if t.ends {
			ended[t.lease] = t
		} else {
			began[t.lease] = t
		}
	}
	var list []string
	for i, l := range h.leases {
		if began[i].to > at {
			continue
		}
		until := "still had"
		if end, over := ended[i]; over && end.to < at {
			until = "until " + stamp(end.to)
		} else if over && l.letGo > l.at && l.letGo < at {
			until = "Unlock called at " + stamp(l.letGo) + ", not returned"
		}
		list = append(list, fmt.Sprintf("p%d  token=%d  had from %s, %s", l.proc.index, l.Token, stamp(began[i].to), until))
	}
	return list[max(0, len(list)-mostLeases):]
}

// text is a state as a reader likes it.
func (s *state) text(node int, now time.Time) string {
	name := fmt.Sprintf("n%d: ", node)
	if s.down {
		return name + "it is down"
	}
	if ahead := s.clock.Sub(now).Round(10 * time.Microsecond); ahead != 0 {
		name += fmt.Sprintf("its clock is off by %v; ", ahead)
	}
	lock := "free"
	if len(s.fields) > 0 {
		var had []string
		for i := 0; i+1 < len(s.fields); i += 2 {
			had = append(had, s.fields[i]+"="+s.fields[i+1])
		}
		slices.Sort(had)
		lock = fmt.Sprintf("held, %s, ends in %d ms", strings.Join(had, " "), s.pttl)
	}
	queue := "nobody waits"
	if len(s.queue) > 0 {
		var waits []string
		for i := 0; i+1 < len(s.queue); i += 2 {
			parts := strings.SplitN(s.queue[i], ":", 3) // <lease>:<block>:<id>, and an owner
			waits = append(waits, fmt.Sprintf("%s (ticket %s)", strings.TrimRight(parts[len(parts)-1], ":"), s.queue[i+1]))
		}
		queue = "in the queue " + strings.Join(waits, ", ")
	}
	counter := "no counter"
	if s.counter != "" {
		counter = "counter " + s.counter
	}
	return name + lock + "; " + queue + "; " + counter
}
