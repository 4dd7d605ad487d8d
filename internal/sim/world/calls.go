package world

import (
	"strconv"
	"strings"
	"time"

	"github.com/relock-go/relock/internal/driver"
)

// What single calls and commands promise.

// inTime demands that Lock gives up when WithWait says so: at once where no fault is about.
func (a *Actor) inTime(t Try, p *process, began time.Time, err error) {
	if t.wait == 0 || err == nil {
		return
	}
	most := t.wait + a.w.plan.Timeout()/2
	if took := time.Since(began); took > most && !a.w.disturbedSince(p, began.Add(-a.w.plan.Timeout()), true) {
		a.w.fail(t.Name, "Lock was to wait %v, and took %v", t.wait, took)
	}
}

// fulfils looks at what a command has just done. A node that may have forgotten confirms nothing, and lengthens nothing: its
// guard writes that down first, which a full Redis refuses. It is called under the world's mutex.
func (w *World) fulfils(l *line, c *command, v driver.Value) {
	if c.op == "recount" && !l.node.quarantined() && v.Err() != nil && strings.HasPrefix(v.Err().Error(), "OOM") {
		args := argsOf(c.args)
		lease, _ := strconv.ParseInt(args[2], 10, 64)
		if left := l.node.server.Left(c.lock); w.form.held(l.node, c.lock, args[0]) && left >= 0 && left < lease-1 {
			w.failed(c.lock, "a re-entry that a full Redis refused has not lengthened the lease: %d ms are left of %d", left, lease)
		}
	}
}

// turned demands that nobody leaves a lock to Redisson where there is none. Where rights were taken away channels are
// subscribed one by one, and a client that has the unlock channel alone looks like Redisson until it has the other. It is called under the world's mutex.
func (w *World) turned(channel string) {
	if w.plan.JVMs == 0 && !w.forbade && strings.HasPrefix(channel, w.form.Channel.Listen) {
		w.failed("", "%s: a free lock is left to Redisson, which nobody uses", channel)
	}
}
