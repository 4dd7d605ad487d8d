package world

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

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
	return w.nodes[0].server.Running() && freeRW(w.nodes[0], name), taken > 0
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

// writersTokens are the tokens that a node has granted a writer, "" for a reader.
func writersTokens(n *node, name, id string) string {
	_, tokens, _ := strings.Cut(n.server.Field(name, id+":write"), ":")
	return tokens
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

// grantsBeside judges what a command did to a lock that several may hold. It is called under the world's mutex.
func (w *World) grantsBeside(n *node, c *command, g *glimpsed, v driver.Value) {
	if w.form.Permits {
		w.permitsGranted(n, c, g, v)
		return
	}
	w.comesBefore(n, g)
	w.forcedWhole(n, c, g)
	w.pastJava(n, c, g)
	w.writes(n, g)
	var came []string
	for _, id := range idsOn(n, g.lock) {
		if !slices.Contains(g.ids, id) {
			came = append(came, id)
		}
	}
	tokens := func(id string) string { return writersTokens(n, g.lock, id) }
	slices.SortFunc(came, func(a, b string) int { return cmp.Compare(tokens(a), tokens(b)) }) // numbers of one length
	for _, id := range came {
		if tokens(id) == "" { // a reader, whose number no one compares with another reader's
			w.pastWriters(n, c, g, id)
		} else {
			w.rises(n, g.lock, tokens(id))
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
