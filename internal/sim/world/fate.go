package world

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// fate is what becomes of one command.
type fate struct {
	name      string // of the fault, "" where there is none
	kind      doom
	out, back time.Duration
	again     time.Duration // when it runs a second time, or late
	silent    bool          // the caller hears nothing, else that its connection broke
	lags      bool          // its answer is slow, but comes in time: that is no fault
}

type doom uint8

const (
	fine doom = iota
	slow
	loseCall
	loseReply
	twice
	late
	refused
	hang
)

var dooms = [...]string{"", "slow", "call lost", "reply lost", "run twice", "run late", "refused", "hangs"}

// meeting is what a fate is drawn for: who sends what where.
type meeting struct {
	proc, node int
	op, lock   string
}

// subscribes is what SUBSCRIBE and UNSUBSCRIBE are met as.
const subscribes = "(un)subscribe"

// fates draws fates by name, and knows which of them are left out. The world's mutex guards it.
type fates struct {
	plan    *Plan
	met     map[meeting]int
	shorten func(string) string      // of uuids in names
	only    map[string]time.Duration // where it is not nil: the faults that are not left out
	fired   []string
	seen    map[string]bool
	calm    bool
}

func newFates(p *Plan, only map[string]time.Duration) *fates {
	return &fates{plan: p, met: map[meeting]int{}, only: only, seen: map[string]bool{}}
}

// fires notes, as is written, that the fault named is to happen, unless it is left out.
func (f *fates) fires(name, written string) bool {
	if _, left := f.only[name]; f.calm || f.only != nil && !left {
		return false
	}
	if !f.seen[name] {
		f.seen[name] = true
		f.fired = append(f.fired, written)
	}
	return true
}

// nth counts a meeting and returns its dice.
func (f *fates) nth(m meeting) (dice, int) {
	n := f.met[m]
	f.met[m]++
	d := throw(f.plan.Seed, m.op, m.lock, strconv.Itoa(m.proc<<8|m.node), strconv.Itoa(n))
	return d, n
}

// command draws the fate of a command.
func (f *fates) command(m meeting) fate {
	d, n := f.nth(m)
	r := &f.plan.Rates
	out := fate{out: d.upTo(r.Delay), back: d.upTo(r.Delay)}
	if out.kind = f.doom(&d); out.kind == fine && r.LoseSubscribe > 0 && m.op == subscribes && d.chance(r.LoseSubscribe) {
		out.kind = loseCall
	}
	if out.kind == fine {
		if out.lags = r.Lag > 0 && m.op == "renew" && d.chance(r.Lag); out.lags {
			out.back += d.upTo(4 * f.plan.Timeout() / 5)
		}
		return out
	}
	name := fmt.Sprintf("p%d n%d %s #%d %s", m.proc, m.node, strings.TrimSpace(m.op+" "+f.shorten(m.lock)), n, dooms[out.kind])
	if !f.fires(name, name) {
		out.kind = fine
		return out
	}
	out.name, out.silent = name, d.chance(.5)
	switch out.kind {
	case slow:
		if d.chance(.5) {
			out.out += d.upTo(3 * f.plan.Timeout() / 2)
		} else {
			out.back += d.upTo(3 * f.plan.Timeout() / 2)
		}
	case twice, late:
		out.again = d.upTo(f.span(&d))
	case hang:
		out.again = d.upTo(3 * f.plan.Timeout())
	}
	return out
}

// span is how late a command may run: often soon, at most a lease and a half later.
func (f *fates) span(d *dice) time.Duration {
	switch d.of(3) {
	case 0:
		return 20 * f.plan.Rates.Delay
	case 1:
		return 2 * f.plan.Timeout()
	}
	return f.plan.Longest() * 3 / 2
}

func (f *fates) doom(d *dice) doom {
	r := &f.plan.Rates
	for kind, rate := range [...]float64{
		slow: r.Slow, loseCall: r.LoseCall, loseReply: r.LoseReply, twice: r.Twice, late: r.Late, refused: r.Refused, hang: r.Hang,
	} {
		if rate > 0 && d.chance(rate) {
			return doom(kind)
		}
	}
	return fine
}

// message draws how long a message travels, and whether it is lost.
func (f *fates) message(proc, node int, channel string) (delay time.Duration, name string, lost bool) {
	m := meeting{proc: proc, node: node, op: "message", lock: channel}
	d, n := f.nth(m)
	r := &f.plan.Rates
	delay = d.upTo(r.Delay)
	if d.chance(r.LoseMessage) {
		name = fmt.Sprintf("p%d n%d message %s #%d lost", proc, node, f.shorten(channel), n)
		if f.fires(name, name) {
			return delay, name, true
		}
	}
	if d.chance(r.SlowMessage) {
		name = fmt.Sprintf("p%d n%d message %s #%d slow", proc, node, f.shorten(channel), n)
		if f.fires(name, name) {
			return delay + d.upTo(f.span(&d)), name, false
		}
	}
	return delay, "", false
}
