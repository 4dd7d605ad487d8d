package world

import (
	"context"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/relock-go/relock/internal/driver"
	"github.com/relock-go/relock/internal/sim"
)

// What is demanded of semaphores. A grant is known by a number that the world gives it, since permits have no tokens: the moment at
// which Redis granted it, in microseconds.

// sized is how many permits a semaphore has, since a number.
type sized struct {
	since   int64
	permits int
}

// semaphores is what is known of them, and of the command that runs. The world's mutex guards it.
type semaphores struct {
	sizes    map[string][]sized // by name
	brought  map[string]bool    // likewise: they may be as they were a while ago
	javas    map[string]int64   // likewise: number of the last grant to Redisson
	numbers  map[string]int64   // of grants, by acquisition id
	numbered int64              // the last number of all
	setting  map[asking]int     // calls of SetPermits under way
	robbed   map[string]bool    // acquisitions of which Redisson has freed permits before their time
	free     string             // what was free before the command
	held     []sim.Waiting      // what was held before it
	told     bool               // it told how many are free
}

func newSemaphores() semaphores {
	return semaphores{
		sizes: map[string][]sized{}, brought: map[string]bool{}, javas: map[string]int64{}, numbers: map[string]int64{},
		robbed: map[string]bool{}, setting: map[asking]int{},
	}
}

// seesPermits looks at a semaphore before a command.
func (w *World) seesPermits(n *node, c *command) {
	if !w.form.Permits {
		return
	}
	w.permits.free, w.permits.told = n.server.Text(c.lock), false
	w.permits.held = n.server.Line(w.form.leasesOf(c.lock), w.permits.held[:0])
}

// nextNumber is above all that were given out before. The caller does not hold the world's mutex.
func (w *World) nextNumber() int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.number()
}

func (w *World) number() int64 {
	w.permits.numbered = max(w.permits.numbered+1, time.Now().UnixMicro())
	return w.permits.numbered
}

// numberOf is that of the grant of an acquisition.
func (w *World) numberOf(id string) int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.permits.numbers[id]
}

// unsized is a number above all.
const unsized = math.MaxInt64

// sizeAt is how many permits there were when a number was given out.
func (w *World) sizeAt(name string, number int64) int {
	size := math.MaxInt
	for _, s := range w.permits.sizes[name] {
		if s.since <= number {
			size = s.permits
		}
	}
	return size
}

// sizeNow is how many permits there are.
func (w *World) sizeNow(name string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.sizeAt(name, unsized)
}

// hadSize reports whether there were ever so many permits since a number.
func (w *World) hadSize(name string, permits int, since int64) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.ContainsFunc(w.permits.sizes[name], func(s sized) bool { return s.permits == permits && s.since > since })
}

// leastSize is the smallest number of permits that there were since a moment.
func (w *World) leastSize(name string, since time.Time) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	least := w.sizeAt(name, since.UnixMicro())
	for _, s := range w.permits.sizes[name] {
		if s.since >= since.UnixMicro() {
			least = min(least, s.permits)
		}
	}
	return least
}

// permitsStand demands of each command that what is free and what is held are all the permits there are. Only resize changes how
// many those are. A node that came back with what it had a while ago may have as many as there were then. It is called under the
// world's mutex.
func (w *World) permitsStand(n *node, c *command, v driver.Value) {
	if !w.form.Permits || !n.server.Running() {
		return
	}
	if c.op == "resize" && w.permits.free != "" && argsOf(c.args)[1] == "" && v.Err() == nil && (answer{v}).number() == 1 {
		w.failed(c.lock, "node %d knew how many permits there are, and was told so once more", n.index)
	}
	if permits := resizes(c); permits > 0 && (v.Err() == nil && (answer{v}).number() == 1 || v.Err() != nil && w.permitsOn(n, c.lock) == permits) {
		w.permits.sizes[c.lock] = append(w.permits.sizes[c.lock], sized{w.number(), permits})
		w.permits.brought[c.lock] = false
	}
	for _, name := range w.plan.Names {
		size, all := w.sizeAt(name, unsized), w.permitsOn(n, name)
		switch {
		case all == size, all == unknown: // or it was deleted, or no client has asked yet
		case strings.HasPrefix(c.op, "java ") && name == c.lock && (w.permits.free == "" || all < size): // it knows no such thing, and takes twice
			w.permits.sizes[name] = append(w.permits.sizes[name], sized{w.number(), all})
		case w.permits.brought[name] && slices.ContainsFunc(w.permits.sizes[name], func(s sized) bool { return s.permits == all }):
			w.permits.sizes[name] = append(w.permits.sizes[name], sized{w.number(), all})
		default:
			w.failed(name, "after %s there are %d permits, %s of them free, and there are to be %d", c.op, all, n.server.Text(name), size)
		}
		w.permits.brought[name] = false
	}
	if c.op == "release" || c.op == "sweep" || c.op == "force" {
		w.leavesNoneWaiting(n, c, v)
	}
	w.leavesJava(n, c, v)
}

// leavesNoneWaiting demands of a command that ends an entry, held or waiting, that the first in line does not wait on beside permits
// that fit it: but for one that a turn leaves to Redisson's waiters. It is called under the world's mutex.
func (w *World) leavesNoneWaiting(n *node, c *command, v driver.Value) {
	name := c.lock
	line := n.server.Line(w.form.queueOf(name), nil)
	turn := 0
	if len(line) > 0 && line[0].Member == "turn" {
		line, turn = line[1:], 1
	}
	if len(line) == 0 || v.Err() != nil || c.op == "force" && (answer{v}).number() == 0 || w.forbade || partly(c, v) || n.refusing.After(time.Now()) {
		return
	}
	id, client := waiterOf(line[0].Member)
	free, err := strconv.Atoi(n.server.Text(name))
	if err == nil && id != "" && free-turn >= amountIn(line[0].Member) && n.server.Listeners("relock_inbox:"+client) > 0 {
		w.failed(name, "after %s %d permits are free, and %s waits for %d", c.op, free, id, amountIn(line[0].Member))
	}
}

// leavesJava demands of a command of relock's that Redisson's waiters are told of what it freed and no waiter took, but for a turn of
// theirs, which began with that; and of a grant that it leaves them a permit while they have a turn. It is called under the world's mutex.
func (w *World) leavesJava(n *node, c *command, v driver.Value) {
	name, free := c.lock, 0
	if strings.HasPrefix(c.op, "java ") || v.Err() != nil || w.forbade || partly(c, v) || len(keysOf(c.args)) > w.form.keys() {
		return
	}
	free, _ = strconv.Atoi(n.server.Text(name))
	held := map[string]bool{}
	for _, permit := range n.server.Line(w.form.leasesOf(name), nil) {
		held[permit.Member] = true
	}
	freed := slices.ContainsFunc(w.permits.held, func(p sim.Waiting) bool { return !held[p.Member] })
	for _, before := range w.permits.held {
		delete(held, before.Member)
	}
	listen := func(prefix string) int { return n.server.Listeners(beside(prefix, name)) }
	turn := slices.ContainsFunc(n.server.Line(w.form.queueOf(name), nil), func(waits sim.Waiting) bool {
		return waits.Member == "turn" && -waits.Ticket > float64(n.server.Clock().Micro())
	})
	if freed && free > 0 && !turn && !w.permits.told && listen(w.form.Channel.Unlock) > listen(w.form.Channel.Listen) {
		w.failed(name, "after %s %d permits are free, and Redisson's waiters are not told", c.op, free)
	}
	if turn && len(held) > 0 && free < 1 {
		w.failed(name, "%s takes the permit that a turn leaves to Redisson's waiters", c.op)
	}
}

// tellsFree notes a message that permits are free. It is called under the world's mutex.
func (w *World) tellsFree(channel string) {
	if w.form.Permits && strings.HasPrefix(channel, w.form.Channel.Unlock) {
		w.permits.told = true
	}
}

// wholly demands that an acquisition has as many permits as its caller asked for, if a node has it. It is told of each lease.
func (w *World) wholly(h *Held) {
	w.mu.Lock()
	defer w.mu.Unlock()
	has := 0
	for _, permit := range w.nodes[0].server.Line(w.form.leasesOf(h.Name), nil) {
		if entryOf(permit.Member) == h.id {
			has++
		}
	}
	if has > 0 && has != h.amount && !w.permits.robbed[h.id] && h.live() {
		w.failed(h.Name, "p%d is given %d permits by %s, which has %d", h.proc.index, h.amount, h.id, has)
	}
}

// overdrawn demands that no call waits on for more permits than there are: it is told so when it asks again.
func (j *judge) overdrawn(name string, now time.Time) {
	size := j.w.sizeNow(name)
	j.mu.Lock()
	defer j.mu.Unlock()
	for c := range j.of(name).waiting {
		since(&c.over, c.amount > size && !now.Before(j.excused), now)
		if d := now.Sub(c.over); !c.over.IsZero() && d > j.patience(true) {
			go j.w.fail(name, "p%d has waited for %v for %d permits of %d", c.proc.index, d, c.amount, size)
		}
	}
}

// setsPermits is SetPermits of a process.
func (w *World) setsPermits(ctx context.Context, p *process, name string, n int) error {
	w.mu.Lock()
	w.permits.setting[asking{p, name}]++
	w.mu.Unlock()
	defer func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.permits.setting[asking{p, name}]--
	}()
	return p.client.Semaphore(name, firstSize).SetPermits(ctx, n)
}

// setsUnasked demands of what a process is about to send that it changes no number of permits which Redis keeps, unless a caller
// of SetPermits asks for that. It is called under the world's mutex.
func (w *World) setsUnasked(p *process, c *command) {
	if w.form.Permits && c.op == "resize" && argsOf(c.args)[1] != "" && w.permits.setting[asking{p, c.lock}] == 0 {
		w.failed(c.lock, "p%d makes %s the number of permits, whatever it is, and no caller has asked for that", p.index, argsOf(c.args)[0])
	}
}

// resizes is how many permits a command is to set, 0 for another command. One that fails may have set them before.
func resizes(c *command) (permits int) {
	if c.op == "resize" {
		permits, _ = strconv.Atoi(argsOf(c.args)[0])
	}
	return permits
}

// unknown is how many permits there are where a node does not know.
const unknown = math.MinInt

// permitsOn is how many permits a node has, free and held.
func (w *World) permitsOn(n *node, name string) int {
	free, err := strconv.Atoi(n.server.Text(name))
	if err != nil {
		return unknown
	}
	return free + len(n.server.Line(w.form.leasesOf(name), nil))
}

// bringsPermitsBack notes that a node may come back with as many permits as it had a while ago. It is called under the world's mutex.
func (w *World) bringsPermitsBack() {
	for _, name := range w.plan.Names {
		w.permits.brought[name] = true
	}
}

// permitsHeld is how many permits a node keeps for leases that last by its clock.
func (w *World) permitsHeld(n *node, name string) (held int) {
	now := float64(n.server.Clock().Micro()) / 1000
	for _, permit := range n.server.Line(w.form.leasesOf(name), nil) {
		if permit.Ticket > now {
			held++
		}
	}
	return held
}

// firstWaits is how many permits the first in line wants whose client listens, 0 where none does. It is called under the world's
// mutex.
func (w *World) firstWaits(n *node, name string) int {
	for _, waits := range n.server.Line(w.form.queueOf(name), nil) {
		if _, client := waiterOf(waits.Member); client != "" && n.server.Listeners("relock_inbox:"+client) > 0 {
			return amountIn(waits.Member)
		}
	}
	return 0
}

// deadFirst reports whether the first in line is of a process that was killed.
func (w *World) deadFirst(name string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	line := w.nodes[0].server.Line(w.form.queueOf(name), nil)
	if !w.form.Permits || len(line) == 0 {
		return false
	}
	_, client := waiterOf(line[0].Member)
	return w.nodes[0].server.Listeners("relock_inbox:"+client) == 0
}

// roomForPermits is room of a semaphore: permits whose leases are over are as good as free, and one before which only a dead waiter
// stands is first.
func (j *judge) roomForPermits(name string, taken, least int) (free, full bool) {
	w := j.w
	w.mu.Lock()
	defer w.mu.Unlock()
	n, need := w.nodes[0], least
	if first := w.firstWaits(n, name); first > 0 {
		need = first
	}
	taken += w.javaPermits(n, name)
	size := w.sizeAt(name, unsized)
	if n.server.Text(name) == "" { // a client that asks will say how many there are
		size = min(size, firstSize)
	}
	if need > size { // it is told so when it asks again
		return false, true
	}
	return n.server.Running() && !w.hasTurn(n, name) && w.permitsHeld(n, name)+need <= size, taken+need > size
}

// permitsGranted looks at the acquisitions that a command has let in: each had the lowest ticket of those that listen. It is called
// under the world's mutex.
func (w *World) permitsGranted(n *node, c *command, g *glimpsed, v driver.Value) {
	var came []string
	for _, id := range idsOn(n, g.lock) {
		if !slices.Contains(g.ids, id) {
			came = append(came, id)
			w.permits.numbers[id] = w.number()
		}
	}
	for _, id := range came {
		if !partly(c, v) {
			w.nobodyBefore(n, c, g, id, ticketOf(c, g, id), came)
		}
	}
}

// tellsFirst reports whether holders are told of a question that was refused: those of an entry that is first in line, or comes next.
// For another one none is told. It is called under the world's mutex.
func (w *World) tellsFirst(n *node, c *command) bool {
	if !w.form.Permits {
		return true
	}
	asks := argsOf(c.args)[2]
	for _, waits := range n.server.Line(w.form.queueOf(c.lock), nil) {
		if id, _ := waiterOf(waits.Member); id != "" && id != asks {
			if len(w.wants) > 0 {
				w.failed(c.lock, "node %d tells holders for %s, before which %s waits", n.index, asks, id)
			}
			return false
		} else if id == asks {
			return true
		}
	}
	return true
}

// permitKey reports whether a key is a semaphore's set of permits that are held.
func permitKey(key string) bool { return strings.HasSuffix(key, ":timeout") }

// permitsTold is what a node keeps of a semaphore, in the order in which a hash's fields and values are told.
func (w *World) permitsTold(n *node, name string) []string {
	told := []string{"free", n.server.Text(name)}
	for _, permit := range n.server.Line(w.form.leasesOf(name), nil) {
		told = append(told, permit.Member, strconv.FormatFloat(permit.Ticket, 'f', 0, 64)+"000")
	}
	return told
}
