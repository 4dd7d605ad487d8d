package world

import (
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/driver"
	"github.com/relock-go/relock/internal/opening"
)

// process is a place where clients run, one after the other. The world's mutex guards it; index and
// w never change.
type process struct {
	w         *World
	index     int
	client    *relock.Client
	foreign   bool            // it uses Redisson
	dead      bool            // the process was killed; who takes its place has another
	asked     time.Time       // when one of its callers asked or was answered
	commands  int             // since then
	denied    map[string]bool // locks for which Redis refused to end anything since then
	disturbed time.Time       // until when faults touch its commands
	faults    spans           // when they did
	calls     int             // under way
	closed    bool            // Close was called
	broke     time.Time       // when the connection broke over which it heard its inbox
	closing   sync.WaitGroup
	ledger    *ledger
	lines     []*line // to each node
	asks      map[string]*questions
	// subscribing is how many subscriptions and their ends are not answered.
	subscribing int
	failed      time.Time // when a command of it was last refused, or not answered
}

// newProcess opens a client with lines of its own. It is called under the world's mutex, or before
// anything runs.
func newProcess(w *World, index int) *process {
	p := &process{
		w: w, index: index, asked: time.Now(), denied: map[string]bool{}, asks: map[string]*questions{},
	}
	w.opened = append(w.opened, p)
	lines := make([]driver.Redis, len(w.nodes))
	for i, n := range w.nodes {
		p.lines = append(p.lines, newLine(p, n))
		lines[i] = p.lines[i]
	}
	p.ledger = newLedger(p)
	opts := append(w.plan.options(), relock.WithObserver(p.ledger))
	if w.plan.Longer > 0 && index == 0 {
		opts = append(opts, w.plan.guard(w.plan.Longer))
	}
	var made any
	var err error
	if w.plan.Topology.Quorum {
		made, err = opening.NewRedlock(lines, opts)
	} else {
		made, err = opening.New(lines[0], opts)
	}
	if err != nil {
		panic(fmt.Sprintf("a client cannot be opened: %v", err))
	}
	p.client = made.(*relock.Client)
	w.label(p.client.ID(), index)
	return p
}

// process returns who is in a place now.
func (w *World) process(index int) *process {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.procs[index]
}

// replace puts a new process in the place of one that ends: killed, or by Close alone.
func (w *World) replace(index int, killed bool) {
	if index >= len(w.procs) {
		w.replaceJVM(index - len(w.procs))
		return
	}
	old := w.procs[index]
	if killed {
		w.silence(old)
	}
	w.procs[index] = newProcess(w, index)
	w.procs[index].disturb(old.disturbed) // the line to a node may be down for both
	old.closing.Go(func() { w.close(old) })
}

// silence lets nothing pass between a process and the nodes any more: it was killed.
func (w *World) silence(p *process) {
	p.dead = true
	w.judge.buried(p)
	for _, n := range w.nodes {
		for _, l := range n.lines {
			if l.proc == p {
				l.cut(errBroken)
			}
		}
		for _, e := range append([]*listener(nil), n.ears...) {
			if e.proc == p {
				e.drop(errBroken)
			}
		}
	}
}

// close closes a client within its bound.
func (w *World) close(p *process) {
	began, idle := time.Now(), w.idleOf(p)
	p.client.Close()
	w.keptBy(p, idle)
	if took := time.Since(began); took > 12*w.plan.Timeout()+2*time.Second {
		w.fail("", "Close of p%d took %v", p.index, took)
	}
	w.closed(p, began)
	w.note(p.index, "", "closed", 0, nil)
}

// small spells small numbers without an allocation.
func small(n int) string { return strconv.Itoa(n) }

// lockOf is the lock that a message is about.
func lockOf(channel, message string) string {
	if _, rest, braced := strings.Cut(channel, "{"); braced {
		return strings.TrimSuffix(rest, "}")
	}
	parts := strings.SplitN(message, " ", 5)
	if len(parts) < 5 {
		return ""
	}
	owner, _ := strconv.Atoi(parts[3])
	return parts[4][min(owner, len(parts[4])):]
}
