package main

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/relock-go/relock"
)

// recoverySlack is how long after a dead holder's lease the next waiter may get the lock. One or two milliseconds are
// usual. The rest is for busy machines, whose timers run late.
const recoverySlack = time.Second

// report has what the demo measured, and the table and the problems that judge makes of it.
type report struct {
	o           *demoOptions
	began       time.Time
	sections    []section
	found       int64 // the counter
	commands    int64 // lock commands, as the server counted
	commandsErr error
	crash       *crash // nil when nobody was killed
	faults      *faults
	client      string // id of the killed worker's relock client
	left        relock.State
	problems    []string
	rows        []row
}

type row struct {
	what, value, note string
}

// print writes the table, which fits in 100 columns, and the problems. It returns whether there were none.
func (r *report) print(w io.Writer) bool {
	r.judge()
	width := [2]int{}
	for _, row := range r.rows {
		width[0], width[1] = max(width[0], len(row.what)), max(width[1], len(row.value))
	}
	fmt.Fprintln(w)
	for _, row := range r.rows {
		line := fmt.Sprintf("  %-*s  %*s  %s", width[0], row.what, width[1], row.value, row.note)
		fmt.Fprintln(w, strings.TrimRight(line, " "))
	}
	fmt.Fprintln(w)
	for _, p := range r.problems {
		fmt.Fprintf(w, "WRONG: %s\n", p)
	}
	if len(r.problems) == 0 {
		fmt.Fprintln(w, "All as promised.")
	}
	return len(r.problems) == 0
}

// judge fills the rows and notes every problem.
func (r *report) judge() {
	if !r.o.locked() {
		r.judgeCount(&tally{expected: r.done()})
		r.judgeRate()
		return
	}
	t := tallyOf(r.sections)
	r.judgeCount(t)
	r.judgeRate()
	r.judgeWaits()
	r.judgeHandovers(t)
	r.judgeCommands()
	r.judgeTokens(t)
	r.judgeCrash()
	r.judgeFaults()
	r.judgeRemains()
}

func (r *report) row(what, value, format string, args ...any) {
	r.rows = append(r.rows, row{what, value, fmt.Sprintf(format, args...)})
}

func (r *report) wrong(format string, args ...any) {
	r.problems = append(r.problems, fmt.Sprintf(format, args...))
}

// done counts the increments whose SET was answered.
func (r *report) done() int64 {
	var n int64
	for _, s := range r.sections {
		if s.done {
			n++
		}
	}
	return n
}

// judgeCount compares the counter with the journals. The head of journal.go says why the expected count is exact.
func (r *report) judgeCount(t *tally) {
	note := ""
	switch {
	case r.crash == nil:
	case t.ran:
		note = fmt.Sprintf("%s reported; the one in flight ran", thousands(int(r.done())))
	default:
		note = "all reported; the one in flight did not"
	}
	r.row("increments expected", thousands(int(t.expected)), "%s", note)
	r.row("increments found", thousands(int(r.found)), "")
	if lost := t.expected - r.found; lost != 0 {
		r.wrong("the counter is off: %d increments expected, %d found, %+d", t.expected, r.found, -lost)
	}
	if t.expected == 0 {
		r.wrong("nothing was done")
	}
	if t.broken > 0 {
		r.wrong("%d times a holder did not read what the holder before it wrote", t.broken)
	}
	allowed := 0
	if r.crash != nil {
		allowed = 1
	}
	if t.open > allowed {
		r.wrong("%d sections were begun and never done, %d may be", t.open, allowed)
	}
}

func (r *report) judgeRate() {
	var last time.Time
	for _, s := range r.sections {
		last = later(last, s.begun)
	}
	took, what, note := last.Sub(r.began), "acquisitions per second", "each re-entered once"
	if !r.o.locked() {
		what, note = "increments per second", "nothing kept the workers apart"
	}
	if c := r.crash; c != nil && !c.recovered.IsZero() {
		took -= c.outage()
		note += "; outage left out"
	}
	if took > 0 {
		rate := float64(len(r.sections)) / took.Seconds()
		r.row(what, thousands(int(rate)), "%s", note)
	}
}

// judgeWaits shows the waits. Waits during which the worker was killed have a row of their own.
func (r *report) judgeWaits() {
	var plain, across []time.Duration
	for _, s := range r.sections {
		if c := r.crash; c != nil && s.begun.After(c.killed) && s.begun.Add(-s.wait).Before(c.killed) {
			across = append(across, s.wait)
		} else {
			plain = append(plain, s.wait)
		}
	}
	slices.Sort(plain)
	r.row("wait p50 / p99", percentile(plain, 50)+" / "+percentile(plain, 99), "those across the kill left out")
	if len(across) > 0 {
		slices.Sort(across)
		r.row("wait across the kill p50 / max", percentile(across, 50)+" / "+percentile(across, 100),
			"%d of them", len(across))
	}
}

func (r *report) judgeHandovers(t *tally) {
	share := make([]string, workers)
	for i := range share {
		share[i] = thousands(t.byWorker[i])
		if t.byWorker[i] == 0 {
			r.wrong("worker %d never had the lock", i+1)
		}
	}
	r.row("hand-overs local / remote", thousands(t.local)+" / "+thousands(t.remote), "by worker: %s",
		strings.Join(share, " "))
	if t.remote < workers-1 {
		r.wrong("the lock passed between processes %d times only", t.remote)
	}
}

func (r *report) judgeCommands() {
	if r.commandsErr != nil {
		r.row("Redis commands per acquisition", "unknown", "%v", r.commandsErr)
		return
	}
	per := float64(r.commands) / float64(max(1, len(r.sections)))
	if r.o.nodes > 1 {
		r.row("Redis commands per acquisition", fmt.Sprintf("%.2f", per), "on all nodes; %.2f a node", per/float64(r.o.nodes))
		return
	}
	r.row("Redis commands per acquisition", fmt.Sprintf("%.2f", per), "two are the re-entry and its unlock")
}

func (r *report) judgeTokens(t *tally) {
	if t.fallen > 0 {
		r.row("tokens strictly rising", "no", "")
		r.wrong("%d times a later holder had no greater token", t.fallen)
		return
	}
	r.row("tokens strictly rising", "yes", "up to %s", thousands(int(t.last)))
}

// judgeCrash checks that the killed worker held the lock, and that the lock came free when its lease ran out: neither
// before, nor much later.
func (r *report) judgeCrash() {
	c := r.crash
	if c == nil {
		r.wrong("no worker was killed")
		return
	}
	mine := strings.HasPrefix(c.before.Holder, r.client+":")
	if !mine || c.before.Count != 2 || c.after.Holder != c.before.Holder {
		r.wrong("worker %d (%s) was killed, but the holder was %q with count %d before and %q after",
			c.worker+1, r.client, c.before.Holder, c.before.Count, c.after.Holder)
	} else {
		r.row("killed while holding", fmt.Sprintf("worker %d", c.worker+1),
			"hold count %d; still the holder when dead", c.before.Count)
	}
	if c.recovered.IsZero() {
		r.wrong("nobody got the lock after the kill")
		return
	}
	outage := c.outage()
	r.row("lock back after the kill", millis(outage), "lease %v, %v of it left at the kill", r.o.lease, c.before.TTL)
	if outage > r.o.lease+recoverySlack {
		r.wrong("the lock came back %v after the kill, the lease is %v", outage, r.o.lease)
	}
	if passed := c.recovered.Sub(c.asked); passed < c.before.TTL {
		r.wrong("the lock came back after %v, the dead holder had a lease for another %v", passed, c.before.TTL)
	}
}

// judgeFaults checks that the lock was granted while nodes of its quorum were out, and that the restarted node, which
// had forgotten the lock, granted nothing for a lease.
func (r *report) judgeFaults() {
	f := r.faults
	if r.o.nodes == 1 {
		return
	}
	if f.empty.IsZero() || f.back.IsZero() {
		r.wrong("the node that was to be stopped and come back did not grant the lock again before the end")
		return
	}
	n := 0
	for _, s := range r.sections {
		if s.begun.After(f.out) && s.begun.Before(f.empty) {
			n++
		}
	}
	r.row(fmt.Sprintf("acquisitions with %d of %d nodes", len(f.ns)-f.minority(), len(f.ns)), thousands(n), "in %v",
		f.empty.Sub(f.out).Round(time.Millisecond))
	if n == 0 {
		r.wrong("nobody got the lock while nodes were out")
	}
	kept := f.back.Sub(f.empty)
	r.row("restarted node kept out", millis(kept), "it forgot every lock; the lease is %v", r.o.lease)
	if kept < r.o.lease {
		r.wrong("the node that had forgotten the lock granted it after %v, the lease is %v", kept, r.o.lease)
	}
}

func (r *report) judgeRemains() {
	if r.left.Held || r.left.Waiters > 0 {
		r.wrong("the lock is not free in the end: holder %q, %d waiters", r.left.Holder, r.left.Waiters)
	}
}

// tally sums up the journals of all workers.
type tally struct {
	expected int64 // value of the counter
	open     int   // sections begun and not done
	ran      bool  // the SET of an open section ran
	broken   int   // sections that did not read what the one before wrote
	fallen   int   // sections whose token is not greater than the token of the section that wrote before
	last     int64 // greatest token
	local    int   // hand-overs inside a process
	remote   int   // hand-overs between two processes
	byWorker [workers]int
}

// tallyOf walks the sections in the order of their tokens, which is the order in which the lock was held, and follows
// the counter's value through them.
func tallyOf(sections []section) *tally {
	t := &tally{}
	byToken := slices.Clone(sections)
	slices.SortFunc(byToken, func(a, b section) int { return cmp.Compare(a.token, b.token) })
	var value int64   // of the counter
	inFlight := false // the section before is open: its SET ran or did not
	for i, s := range byToken {
		if inFlight && s.read == value+1 {
			t.ran = true
			t.expected++
		} else if s.read != value {
			t.broken++
		}
		value, inFlight = s.read, !s.done
		if inFlight {
			t.open++
		} else {
			t.expected++
			value++
		}
		t.byWorker[s.worker]++
		t.last = s.token
		if i > 0 && byToken[i-1].worker == s.worker {
			t.local++
		} else if i > 0 {
			t.remote++
		}
	}
	t.fallen = fallen(sections)
	return t
}

// fallen sorts the sections by the counter's value, and counts the tokens that do not rise.
func fallen(sections []section) int {
	byRead := slices.Clone(sections)
	slices.SortStableFunc(byRead, func(a, b section) int { return cmp.Compare(a.read, b.read) })
	n := 0
	for i := 1; i < len(byRead); i++ {
		if byRead[i].token <= byRead[i-1].token {
			n++
		}
	}
	return n
}

// percentile returns the p-th percentile of sorted waits, as a text.
func percentile(sorted []time.Duration, p int) string {
	if len(sorted) == 0 {
		return "-"
	}
	return millis(sorted[(len(sorted)-1)*p/100])
}

func millis(d time.Duration) string { return thousands(int(d.Milliseconds())) + " ms" }

// thousands writes n with separators.
func thousands(n int) string {
	s := strconv.Itoa(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
