package world

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/relock-go/relock/internal/driver"
)

// Kinds that several may hold are judged by the same rules, but where those say one holder: live leases take no more of a
// lock than there is, of the same hold once; nobody waits beside room for the first in line; tokens rise in the order in
// which Redis grants, which is not the order in which callers hear of it.

// crowded demands that a new lease has room beside those that are live. As of one holder, a grant from before a fault that
// may have ended it counts again two leases after that.
func (j *judge) crowded(h *Held, others []*Held, r record) {
	counts := func(l *Held) bool {
		return l.live() && !j.w.wasRobbed(l.id) && (l.Token > r.horizon || !l.fixed && time.Since(r.struck) > 2*j.w.plan.Longest())
	}
	if !counts(h) {
		return
	}
	taken, holds, last := h.amount, []string{h.id}, h.Token
	var told []string
	for _, other := range others {
		if counts(other) && !slices.Contains(holds, other.id) {
			taken, holds, last = taken+other.amount, append(holds, other.id), max(last, other.Token)
			told = append(told, fmt.Sprintf("p%d has had token %d since %v", other.proc.index, other.Token, other.at))
		}
	}
	most := j.w.form.Holders
	if j.w.form.Permits { // as many as there were when Redis granted the last of them
		j.w.mu.Lock()
		if java := j.w.javaPermits(j.w.nodes[0], h.Name); java > 0 {
			taken, last = taken+java, max(last, j.w.permits.javas[h.Name])
		}
		most = j.w.sizeAt(h.Name, last)
		j.w.mu.Unlock()
	}
	if taken > most && h.live() {
		j.w.fail(h.Name, "too many holders: %s, p%d is given %d, and that makes %d of %d", strings.Join(told, ", "),
			h.proc.index, h.Token, taken, most)
	}
}

// room reports whether a node has room for the first in line, and whether the leases that are known to be live leave none.
// Where the queue is empty, a call that waits for the least is about to be asked for.
func (j *judge) room(name string) (free, full bool) {
	w := j.w
	j.mu.Lock()
	held, least := slices.Clone(j.of(name).held), math.MaxInt
	for c := range j.of(name).waiting {
		least = min(least, c.amount)
	}
	j.mu.Unlock()
	taken, holds := 0, []string(nil)
	for _, h := range held {
		if !slices.Contains(holds, h.id) && h.live() {
			taken, holds = taken+h.amount, append(holds, h.id)
		}
	}
	if w.form.Permits {
		return j.roomForPermits(name, taken, least)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	n := w.nodes[0]
	if w.form.RW {
		return n.server.Running() && freeRW(n, name), taken > 0
	}
	need := least
	if line := n.server.Line(w.form.queueOf(name), nil); len(line) > 0 {
		need = amountIn(line[0].Member)
	}
	return n.server.Running() && w.takenOn(n, name)+need <= w.form.Holders, taken+need > w.form.Holders
}

// amountIn is how much a member of the queue waits for.
func amountIn(member string) int {
	parts := strings.SplitN(member, ":", 3) // <lease>:<amount>:<id>
	if len(parts) < 3 {
		return 0
	}
	amount, _ := strconv.Atoi(parts[1])
	return amount
}

// takenOn is how much of a lock a node keeps for acquisitions that stand in its hash, and whose leases are not over by its
// clock.
func (w *World) takenOn(n *node, name string) (taken int) {
	now := float64(n.server.Clock().Micro()) / 1000
	for _, lease := range n.server.Line(w.form.leasesOf(name), nil) {
		if lease.Ticket > now && n.server.Field(name, lease.Member) != "" {
			amount, _ := w.grantOf(n, name, lease.Member)
			taken += amount
		}
	}
	return taken
}

// grantOf is how much a node has granted an acquisition, and which tokens.
func (w *World) grantOf(n *node, name, id string) (amount int, tokens string) {
	if w.form.RW {
		_, tokens, _ = strings.Cut(n.server.Field(name, id+":write"), ":")
		return 0, tokens
	}
	text, tokens, _ := strings.Cut(n.server.Field(name, "relock:"+id), ":")
	amount, _ = strconv.Atoi(text)
	return amount, tokens
}

// idsOn are the acquisitions in the hash of a lock.
func idsOn(n *node, name string) (ids []string) {
	if f := n.w.form; f.Permits {
		for _, permit := range n.server.Line(f.leasesOf(name), nil) {
			if id := entryOf(permit.Member); id != "" && strings.HasSuffix(permit.Member, ":1") { // else it is lost
				ids = append(ids, id)
			}
		}
		return ids
	}
	n.server.Fields(name, func(id string) {
		if !strings.HasPrefix(id, "relock:") && strings.Contains(id, ":") {
			ids = append(ids, strings.TrimSuffix(id, ":write"))
		}
	})
	return ids
}

// grantsBeside judges what a command did to a lock: each acquisition that has come in had the lowest ticket, and has tokens
// above all before. It is called under the world's mutex.
func (w *World) grantsBeside(n *node, c *command, g *glimpsed, v driver.Value) {
	if w.form.RW {
		w.comesBefore(n, g)
		w.forcedWhole(n, c, g)
		w.pastJava(n, c, g)
		w.writes(n, g)
	}
	if w.form.Permits {
		w.permitsGranted(n, c, g, v)
		return
	}
	var came []string
	for _, id := range idsOn(n, g.lock) {
		if !slices.Contains(g.ids, id) {
			came = append(came, id)
		}
	}
	tokensOf := func(id string) string { _, tokens := w.grantOf(n, g.lock, id); return tokens }
	slices.SortFunc(came, func(a, b string) int { return cmp.Compare(tokensOf(a), tokensOf(b)) }) // numbers of one length
	for _, id := range came {
		if tokensOf(id) == "" { // a reader, whose number no one compares with another reader's
			w.pastWriters(n, c, g, id)
			continue
		}
		w.rises(n, g.lock, tokensOf(id))
		if w.form.RW {
			continue
		}
		if !partly(c, v) {
			w.nobodyBefore(n, c, g, id, ticketOf(c, g, id), came)
		}
	}
}

// highestBefore is the highest token of the leases that calls had returned by a moment, of those that take so much or more.
func (h *history) highestBefore(at time.Duration, least int) (highest int64) {
	for _, t := range h.told {
		if !t.ends && t.to < at && h.leases[t.lease].amount >= least {
			highest = max(highest, h.leases[t.lease].Token)
		}
	}
	return highest
}

// seated is what is known of a lock that several may hold, between two operations of its history.
type seated struct {
	highest int64
	seats   [mostSeats]seat // in the order of their ids
}

// seat is a hold with its leases.
type seat struct {
	id             string
	leases, amount int
}

// mostSeats is more holds than a lock is held by at once.
const mostSeats = 4

// fits reports whether a history has an order in which what is held never exceeds what there is.
func (h *history) fits(holders int) bool { return h.fitsIn(h.risen(), holders) }

func (h *history) fitsIn(list []told, holders int) bool {
	model := porcupine.Model{
		Init: func() any { return seated{} },
		Step: func(state, input, _ any) (bool, any) { return h.seats(state.(seated), input.(turn), holders) },
	}
	var ops []porcupine.Operation
	for i, t := range list {
		if t.from > t.to {
			return false
		}
		ops = append(ops, porcupine.Operation{ClientId: i, Input: t.turn, Call: int64(t.from), Return: int64(t.to)})
	}
	return porcupine.CheckOperations(model, ops)
}

// risen are the operations with the times that they have in every order there may be: a hold with a lower token was granted
// first.
func (h *history) risen() []told {
	ops := slices.Clone(h.told)
	slices.SortStableFunc(ops, func(a, b told) int { return cmp.Compare(h.leases[a.lease].Token, h.leases[b.lease].Token) })
	var grants []int
	known := map[string]bool{}
	for i, t := range ops {
		if l := h.leases[t.lease]; !t.ends && !known[l.id] { // the first of its hold: others enter that later
			known[l.id] = true
			grants = append(grants, i)
		}
	}
	floor, ceiling := time.Duration(0), time.Duration(math.MaxInt64)
	for _, i := range grants {
		floor = max(floor, ops[i].from)
		ops[i].from = floor
	}
	for _, i := range slices.Backward(grants) {
		ceiling = min(ceiling, ops[i].to)
		ops[i].to = ceiling
	}
	return ops
}

// seats reports whether an operation may come next, and what is known then.
func (h *history) seats(s seated, t turn, holders int) (bool, seated) {
	l, taken := h.leases[t.lease], 0
	at := slices.IndexFunc(s.seats[:], func(one seat) bool { return one.id == l.id })
	for _, one := range s.seats {
		taken += one.amount
	}
	switch {
	case at < 0 && (t.ends || l.Token <= s.highest || taken+l.amount > holders):
		return false, s
	case at < 0:
		at = slices.IndexFunc(s.seats[:], func(one seat) bool { return one.id == "" })
		s.seats[at] = seat{id: l.id, amount: l.amount}
		s.highest = l.Token
	}
	if t.ends {
		s.seats[at].leases--
	} else {
		s.seats[at].leases++
	}
	if s.seats[at].leases == 0 {
		s.seats[at] = seat{}
	}
	slices.SortFunc(s.seats[:], func(a, b seat) int { return cmp.Compare(a.id, b.id) })
	return true, s
}
