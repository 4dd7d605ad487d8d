package world

import (
	"slices"
	"strings"

	"github.com/relock-go/relock/internal/driver"
	"github.com/relock-go/relock/internal/sim"
	"github.com/relock-go/relock/internal/wire"
)

// Wanted: a question that is refused tells those that have the lock, each of them where several may: one that is not told
// keeps an idle hold, or lets more in, beside the waiter. No client has the hold of a handle. Only of more than mostTold some
// are told.
const mostTold = 128

// says notes what a node publishes while it runs a command. It is called under the world's mutex.
func (w *World) says(message string) {
	if strings.HasPrefix(message, "0 2 ") {
		w.wants = append(w.wants, message)
	}
}

// tellsHolders demands of a question that was refused that each holder whose client listens was told. Who may not publish
// tells none. It is called under the world's mutex.
func (w *World) tellsHolders(n *node, c *command, v driver.Value) {
	list, err := v.Values()
	if c.op != "acquire" && c.op != "vote" || err != nil || v.Err() != nil || len(list) < 5 || w.forbade {
		return
	}
	if (answer{list[0]}).number() != 0 || w.hasTurn(n, c.lock) { // it waits for the end of that
		return
	}
	if !w.tellsFirst(n, c) {
		return
	}
	args, ids := argsOf(c.args), idsOn(n, c.lock)
	owner := 3
	if c.op == "vote" {
		owner = 5
	}
	own := ""
	if !w.form.Shared() && (len(args) <= owner || args[owner] == "") {
		own, _, _ = strings.Cut(args[2], ":")
	}
	if len(ids) > mostTold || !w.form.Shared() && (len(ids) != 1 || spell(list[4]) != ids[0]) { // an owner's hold never lingers
		return
	}
	for _, id := range ids {
		client, number, _ := strings.Cut(id, ":")
		if len(number) < 17 || wire.IsHandleField(id) || w.permits.robbed[id] || client == own || n.server.Listeners(wire.InboxPrefix+client) == 0 || w.wasTold(id) {
			continue
		}
		w.failed(c.lock, "node %d refuses %s, and has not told %s that the lock is wanted", n.index, args[2], id)
		return
	}
}

// hasTurn reports whether a lock is left to Redisson's waiters for a moment.
func (w *World) hasTurn(n *node, lock string) bool {
	w.glimpse.line = n.server.Line(w.form.queueOf(lock), w.glimpse.line[:0])
	return slices.ContainsFunc(w.glimpse.line, func(one sim.Waiting) bool { return one.Member == "turn" })
}

// wasTold reports whether the command that runs has told a holder that its lock is wanted.
func (w *World) wasTold(id string) bool {
	for _, message := range w.wants {
		if strings.HasPrefix(message[len("0 2 "):], id+" ") {
			return true
		}
	}
	return false
}
