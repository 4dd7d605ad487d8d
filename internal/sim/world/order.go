package world

import (
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/driver"
	"github.com/relock-go/relock/internal/sim"
)

// Order, promise 6, is seen in Redis itself: each command is looked at just before and just after it runs. The waiter that
// it grants the lock has the lowest ticket of those that listen, and a token above all that this Redis has granted since
// it started. What a process passes on in memory, while others stand in Redis's queue, is bounded by WithLocalHandoff and
// WithLinger.

// glimpse is what a command is about to change. The world's mutex guards it.
type glimpse struct {
	locks   []glimpsed
	line    []sim.Waiting
	numbers map[reign]int64 // the highest token that a Redis has reserved since it started
}

// reign is a lock in the memory of one Redis from its start to its end.
type reign struct{ run, lock string }

// glimpsed is one lock before a command. Its room is used again.
type glimpsed struct {
	lock, first string // the field relock:first, "" where the lock is not relock's
	line        []sim.Waiting
	ids         []string      // that hold it, where several may
	writer      bool          // a writer has it
	readers     []sim.Waiting // that wait
	wrote       string        // which writer has it
	java        string        // a thread of Redisson's that reads, and lives by any of its keys
}

// grantedAs is where a lock's hash keeps which tokens its grant has: it changes with every grant.
const grantedAs = "relock:first"

// looks notes how the locks of a script stand that may grant one.
func (g *glimpse) looks(n *node, c *command) {
	form := n.w.form
	room := g.locks
	g.locks = g.locks[:0]
	switch c.op {
	case "acquire", "vote", "release", "unvote", "sweep", "many", "gather", "force":
	default:
		return
	}
	for _, key := range keysOf(c.args) {
		if isGuest(key) || strings.HasPrefix(key, "relock_") || strings.HasPrefix(key, "redisson_") || form.Permits && permitKey(key) || g.knows(key) {
			continue
		}
		at := glimpsed{lock: key, first: n.server.Field(key, grantedAs)}
		if i := len(g.locks); i < cap(room) {
			at.line = room[:i+1][i].line[:0]
		}
		at.line = n.server.Line(form.queueOf(key), at.line)
		if owners := argsOf(c.args); c.op == "force" && len(owners) > 2 { // they lose their places in it
			at.line = slices.DeleteFunc(at.line, func(waits sim.Waiting) bool { return slices.Contains(owners[2:], ownerOf(waits.Member)) })
		}
		if form.Shared() {
			at.ids = idsOn(n, key)
		}
		if form.RW {
			at.writer = n.server.Field(key, "mode") == "write"
			at.java = n.w.javaReads(n, key)
			at.readers = n.server.Line(readersOf(key), nil)
			if at.writer {
				at.wrote = writerOf(n, key)
			}
		}
		g.locks = append(g.locks, at)
	}
}

// ownerOf is the owner that a member of a queue waits for: its own id, or one that it shares.
func ownerOf(member string) string {
	parts := strings.SplitN(member, ":", 5) // lease:block:client:number:owner
	if len(parts) < 4 {
		return ""
	}
	if len(parts) == 5 && parts[4] != "" {
		return parts[4]
	}
	return parts[2] + ":" + parts[3]
}

// knows reports whether the command names the lock a second time.
func (g *glimpse) knows(lock string) bool {
	for i := range g.locks {
		if g.locks[i].lock == lock {
			return true
		}
	}
	return false
}

// keysOf are the keys of a script, and argsOf its arguments.
func keysOf(args []string) []string {
	if len(args) < 3 {
		return nil
	}
	n, _ := strconv.Atoi(args[2])
	return args[3:min(3+n, len(args))]
}

func argsOf(args []string) []string { return args[min(3+len(keysOf(args)), len(args)):] }

// grants judges what the command did to those locks. It is called under the world's mutex.
func (w *World) grants(n *node, c *command, v driver.Value) {
	for i := range w.glimpse.locks {
		g := &w.glimpse.locks[i]
		if w.form.Shared() {
			w.grantsBeside(n, c, g, v)
		} else if now := n.server.Field(g.lock, grantedAs); now != "" && now != g.first {
			w.rises(n, g.lock, now)
			if !partly(c, v) {
				w.lowest(n, c, g)
			}
		}
	}
}

// partly reports whether some of the entries of a command failed. One that serves the queue takes the first waiter off before
// what fails, as for want of a right, and the next entry finds the second waiter first. The other queues again with its next poll.
func partly(c *command, v driver.Value) bool {
	if c.op != "many" && c.op != "sweep" && c.op != "gather" {
		return false
	}
	list, _ := v.Values()
	return slices.ContainsFunc(list, func(one driver.Value) bool {
		n, err := one.Int64()
		return one.Err() != nil || err == nil && n == -1
	})
}

// rises demands that a Redis grants a lock tokens above all that it has granted it before, whatever was lost elsewhere;
// unless it lost the counter while that was ahead of its clock.
func (w *World) rises(n *node, lock, tokens string) {
	from, many := tokensOf(tokens)
	at := reign{n.server.RunID(), lock}
	if w.glimpse.numbers == nil {
		w.glimpse.numbers = map[reign]int64{}
	}
	highest := w.glimpse.numbers[at]
	if from <= highest && from > w.judge.looseOf(lock) {
		w.failed(lock, "node %d has granted token %d before, and now %d", n.index, highest, from)
	}
	w.glimpse.numbers[at] = max(highest, from+many-1)
}

// tokensOf reads relock:first.
func tokensOf(text string) (from, many int64) {
	parts := strings.SplitN(text, ":", 3)
	from, _ = strconv.ParseInt(parts[0], 10, 64)
	if len(parts) > 1 {
		many, _ = strconv.ParseInt(parts[1], 10, 64)
	}
	return from, max(many, 1)
}

// looseOf is up to where tokens of a lock may repeat.
func (j *judge) looseOf(lock string) int64 {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.of(lock).loose
}

// lowest demands that no waiter that listens stands before the one that was granted the lock.
func (w *World) lowest(n *node, c *command, g *glimpsed) {
	if len(g.line) == 0 {
		return
	}
	if winner, ticket := w.winner(n, c, g); winner != "" {
		w.nobodyBefore(n, c, g, winner, ticket, nil)
	}
}

// nobodyBefore demands that of one winner. others were granted the lock by the same command.
func (w *World) nobodyBefore(n *node, c *command, g *glimpsed, winner string, ticket float64, others []string) {
	args := argsOf(c.args)
	for _, other := range g.line {
		id, client := waiterOf(other.Member)
		if other.Ticket >= ticket || id == "" || id == winner || asksFor(args, id) || slices.Contains(others, id) {
			continue // or it leaves, or is asked for in the same command
		}
		if w.form.Permits && amountIn(other.Member) > w.sizeAt(g.lock, unsized) {
			continue // it waits for what will never be
		}
		if n.server.Listeners("relock_inbox:"+client) > 0 {
			w.failed(g.lock, "node %d grants the lock to %s with ticket %.0f, but %s listens with %.0f", n.index, winner, ticket, id,
				other.Ticket)
			return
		}
	}
}

// winner is the only holder of the lock, and its ticket: that of the queue, or of the question; else it came last.
func (w *World) winner(n *node, c *command, g *glimpsed) (winner string, ticket float64) {
	ids := 0
	n.server.Fields(g.lock, func(id string) {
		if strings.HasPrefix(id, "relock:") || !strings.Contains(id, ":") {
			return
		}
		winner, ids = id, ids+1
	})
	if ids > 1 {
		return "", 0 // one had the turn, and let in the sharers of its owner
	}
	return winner, ticketOf(c, g, winner)
}

// ticketOf is the ticket of one that a command has granted the lock.
func ticketOf(c *command, g *glimpsed, winner string) float64 {
	ticket, args := math.Inf(1), argsOf(c.args)
	for _, other := range g.line {
		if id, _ := waiterOf(other.Member); id == winner && winner != "" {
			return other.Ticket
		}
	}
	for i, arg := range args {
		at := i + 2
		switch {
		case arg != winner:
			continue
		case c.op == "vote" && i+2 < len(args) && args[i+2] == "try":
			return ticket
		case c.op == "vote":
			at = i + 1
		case c.op == "unvote":
			at = i + 3
		}
		if at < len(args) && len(args[at]) > 10 { // no block, nor a lease
			if known, err := strconv.ParseFloat(args[at], 64); err == nil {
				ticket = known
			}
		}
	}
	return ticket
}

// waiterOf is the id and the client of a member of the queue, "" where it is none.
func waiterOf(member string) (id, client string) {
	parts := strings.SplitN(member, ":", 5)
	if len(parts) < 4 {
		return "", ""
	}
	return parts[2] + ":" + parts[3], parts[2]
}

func asksFor(args []string, id string) bool {
	for _, arg := range args {
		if arg == id {
			return true
		}
	}
	return false
}

// tenure is a grant of Redis, and what a process does with it while others wait in Redis. The world's mutex guards it.
type tenure struct {
	first  string
	began  time.Time
	waited time.Time // since when another process has stood in the queue, as far as was seen
	stood  []string  // those that did when it was last looked
	passes int       // since then
	most   int       // of what the grant's leases were asked for with
	time   time.Duration
	linger time.Duration
}

// The defaults of WithLocalHandoff.
const (
	usualPasses = 256
	usualTime   = 10 * time.Millisecond
)

// handoff is WithLocalHandoff: how often, and how long, a lock may pass in memory.
type handoff struct {
	most int
	time time.Duration
}

// handsOff asks for a lock with bounds of its own.
func (t *Try) handsOff(passes int, d time.Duration) {
	t.passes = handoff{passes, d}
	t.Opts = append(t.Opts, relock.WithLocalHandoff(passes, d))
}

// bounds notes how a lease may be passed on that All or Any took before it returned, and that is not judged itself.
func (w *World) bounds(h *Held, by handoff) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.form.RW && !h.proc.dead && h.owner == "" {
		w.tenureOf(h, by)
	}
}

// tenureOf is the time of the grant that h is a lease of, nil if Redis has no such grant any more. It notes what bounds how the grant is
// passed on behind h. The caller holds the world's mutex.
func (w *World) tenureOf(h *Held, by handoff) *tenure {
	n := w.nodes[0]
	grant, mine := n.server.Field(h.Name, grantedAs), n.server.Field(h.Name, h.id) != ""
	at := h.Name
	if w.form.Permits {
		grant, mine, at = h.id, w.form.held(n, h.Name, h.id), h.Name+" "+h.id
	}
	if grant == "" || !mine {
		return nil
	}
	t := w.tenures[at]
	if t == nil || t.first != grant {
		t = &tenure{first: grant, began: time.Now()}
		w.tenures[at] = t
	}
	t.most, t.time, t.linger = max(t.most, by.most), max(t.time, by.time), max(t.linger, h.linger)
	return t
}

// inTurn is told of each lease that is no re-entry. While a process stands in the queue of a node, another passes the lock
// on in memory no more often and no longer than its bounds allow.
func (w *World) inTurn(h *Held) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.form.RW || h.proc.dead || h.owner != "" || h.passes.most == 0 { // a scene does not say what was asked for
		return
	}
	t, n, now := w.tenureOf(h, h.passes), w.nodes[0], time.Now()
	if t == nil {
		return
	}
	stand := w.strangersWait(n, h)
	stayed := slices.ContainsFunc(stand, func(member string) bool { return slices.Contains(t.stood, member) })
	if t.stood = stand; len(stand) == 0 {
		t.waited, t.passes = time.Time{}, 0
		return
	}
	if !stayed { // none of those that stood there does: it may have been empty in between
		t.waited, t.passes = now, 0
	}
	t.passes++
	slack := 2*w.plan.Timeout() + 4*w.plan.Rates.Delay
	idle := t.linger > 0 && now.Before(t.began.Add(t.linger+slack))
	switch {
	case t.passes > t.most+1 && !idle:
		w.failed(h.Name, "p%d passes the lock on %d times in memory past a waiter", h.proc.index, t.passes)
	case h.proc.disturbed.After(t.waited) || n.disturbed.After(t.waited):
		// What it was passed on with in time may reach the next caller late: its lease is set in Redis before.
	case now.Sub(t.waited) > t.time+slack && !idle:
		w.failed(h.Name, "p%d still passes the lock on in memory, %v after another began to wait", h.proc.index, now.Sub(t.waited))
	}
}

// strangersWait returns those of other processes than the holder's that stand in the queue.
func (w *World) strangersWait(n *node, h *Held) (members []string) {
	w.glimpse.line = n.server.Line(w.form.queueOf(h.Name), w.glimpse.line[:0])
	for _, other := range w.glimpse.line {
		if _, client := waiterOf(other.Member); client != "" && client != h.proc.client.ID() {
			members = append(members, other.Member)
		}
	}
	return members
}
