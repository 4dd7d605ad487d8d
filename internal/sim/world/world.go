package world

import (
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"github.com/relock-go/relock/internal/driver"
	"github.com/relock-go/relock/internal/link"
	"github.com/relock-go/relock/internal/sim/overlay"
)

// Options say how a seed is run.
type Options struct {
	Class, Topology string   // "" for what the seed draws
	Only            []string // where it is not nil: the only faults there are
	Rounds, Names   []string // likewise
	Kind            Kind     // nil for Mutexes
	Redis           string   // a key of Redises
	Lines           int      // of the trace at most, the last ones
	Trace           bool     // also of a run without a violation
}

// Result is what came of a run.
type Result struct {
	Plan      *Plan
	Violation string // "" for none
	Trace     string // of the violation
	Where     string // the lock it is about
	Fired     []string
	Rounds    []string // that were begun
	Names     []string // of locks
	Spare     []string // of what was left out, which lists need not be told to repeat the failure
	Grants    int      // to relock
	Foreign   int      // to Redisson
	Passed    int      // grants of one side that a waiter of the other let pass, at most
	Commands  int
	Simulated time.Duration

	options Options
}

// World is one run.
type World struct {
	plan     *Plan
	mayMove  bool // actors hand locks over
	kind     Kind
	form     Form // of the kind
	seedName string
	lines    int
	options  Options
	always   bool // a trace is wanted of every run
	ctx      context.Context
	stop     context.CancelFunc // ends all that actors do
	judge    *judge
	left     portion // begun is guarded by mu
	rounds   atomic.Int64

	mu       sync.Mutex // guards what follows, servers and connections
	trace    trace
	fates    *fates
	nodes    []*node
	procs    []*process
	opened   []*process // all there ever were
	jvms     []*jvm
	javas    map[string]bool  // uuids of all there ever were
	written  map[string]write // by read-write lock
	ending   sync.WaitGroup   // JVMs that were killed
	parts    map[[2]int]*parting
	events   map[int64][]event
	scripts  int
	stays    map[string]*stay // by acquisition id
	started  map[int]int      // goroutines of actors, by place
	glimpse  glimpse
	lookings map[asking]*looking // calls of State under way
	strays   strays
	grasps   map[asking]int         // calls of All that may have the lock already
	letGo    map[asking]time.Time   // when the last of them returned
	calling  map[asking]int         // calls of All and Any under way
	backAt   map[asking]time.Time   // when the last of those returned
	guests   map[string]func() bool // whether the last that had one still has it
	queued   map[stray]time.Time    // since when a process stands in a line that no call of it waits in
	wants    []string               // what the command that runs has told holders
	phases   map[string]*phase      // by read-write lock
	shut     map[string]shutting    // likewise
	cuts     map[asking][]*cut
	serving  bool               // all faults are over, and each process is given each lock
	tenures  map[string]*tenure // by lock; of a semaphore by hold
	permits  semaphores
	ran      map[work]int      // scripts that ran, but for those that a server did not know
	torn     map[string]bool   // locks of which a run that no process asked for was refused, perhaps in its middle
	forbade  bool              // rights were taken away: channels are asked for again only after a while
	labels   map[string]string // of clients, by their uuid
	what     string            // the violation
	where    string            // its lock
	ended    time.Duration     // when it was noticed
	states   []state           // what the nodes said of the lock then
}

// work is what a script is sent for.
type work struct{ op, lock string }

// parting is a cut between a process and a node.
type parting struct{ waits []func() }

// Run plays a seed in a bubble.
func Run(t *testing.T, seed uint64, o Options) *Result {
	return perform(t, Draw(seed, o.Class, o.Topology), o)
}

// perform plays a plan in a bubble, which repeats.
func perform(t *testing.T, plan *Plan, o Options) (res *Result) {
	overlay.Run(plan.Seed, func() { res = performed(t, plan, o) })
	return res
}

func performed(t *testing.T, plan *Plan, o Options) (res *Result) {
	warm(Redises[o.Redis])
	ids := throw(plan.Seed, "uuid")
	uuid.SetRand(&ids)
	defer func(was io.Reader) { rand.Reader = was }(rand.Reader)
	digits := throw(plan.Seed, "digits")
	rand.Reader = &digits // of acquisitions' ids
	defer func(was int) { link.BatchFrom = was }(link.BatchFrom)
	link.BatchFrom = plan.Crowded
	var w *World
	defer func() {
		if died := recover(); died != nil {
			res = w.result()
			res.Violation = strings.TrimSpace(res.Violation + fmt.Sprintf("\nthe bubble did not end: %v\n%s", died, bubbleStacks()))
		}
	}()
	synctest.Test(t, func(*testing.T) {
		w = newWorld(plan, o)
		w.play()
	})
	defer w.trace.over()
	w.retell()
	return w.result()
}

func newWorld(plan *Plan, o Options) *World {
	w := &World{
		plan: plan, kind: o.Kind, lines: max(o.Lines, 200), always: o.Trace, options: o, seedName: strconv.FormatUint(plan.Seed, 10), parts: map[[2]int]*parting{},
		javas: map[string]bool{}, written: map[string]write{}, stays: map[string]*stay{}, started: map[int]int{}, torn: map[string]bool{}, tenures: map[string]*tenure{}, ran: map[work]int{},
		labels: map[string]string{}, events: map[int64][]event{}, left: newPortion(o),
		phases: map[string]*phase{}, shut: map[string]shutting{}, cuts: map[asking][]*cut{}, lookings: map[asking]*looking{},
		permits: newSemaphores(), grasps: map[asking]int{}, letGo: map[asking]time.Time{}, calling: map[asking]int{}, backAt: map[asking]time.Time{}, guests: map[string]func() bool{}, queued: map[stray]time.Time{},
	}
	w.fates = newFates(plan, w.left.faults)
	w.fates.shorten = w.shorten
	if w.kind == nil {
		w.kind = Mutexes{}
	}
	_, mutexes := w.kind.(Mutexes)
	w.form, w.mayMove = w.kind.Form(), mutexes && plan.mayMove()
	w.ctx, w.stop = context.WithCancel(context.Background())
	w.trace.start = time.Now()
	w.judge = newJudge(w)
	for i := range plan.Topology.Nodes {
		w.nodes = append(w.nodes, newNode(w, i))
	}
	for i := range plan.Procs {
		w.procs = append(w.procs, newProcess(w, i))
	}
	for i := range plan.JVMs {
		w.jvms = append(w.jvms, newJVM(w, plan.Procs+i))
	}
	w.initialize()
	w.countsFirst()
	for _, e := range plan.Events {
		if !w.due(e) {
			w.events[e.Round] = append(w.events[e.Round], e)
		}
	}
	return w
}

// initialize makes the nodes known to the restart guard, unless the clients are to find them fresh.
func (w *World) initialize() {
	switch {
	case !w.plan.Topology.Guarded:
	case w.plan.Fresh:
		w.excuse(2 * w.plan.Longest())
		for _, n := range w.nodes {
			n.begunAnew()
		}
	default:
		for _, n := range w.nodes {
			n.ask("HSET", "relock_incarnation", "run", n.server.RunID(), "born", "0", "longest", small(int(w.plan.Longest().Milliseconds())))
			if n.spare != nil {
				n.spare.CatchUp(-1) // else a failover may find the replica new
			}
		}
	}
}

// result is what came of the run so far.
func (w *World) result() *Result {
	if w == nil {
		return &Result{}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.judge.mu.Lock()
	defer w.judge.mu.Unlock()
	res := &Result{
		Plan: w.plan, Violation: w.what, Where: w.where, Rounds: w.left.begun, Names: w.plan.Names, options: w.options, Fired: w.fates.fired, Grants: w.judge.grants, Foreign: w.judge.javas, Passed: w.judge.most, Commands: w.scripts,
	}
	if w.options.Names != nil {
		res.Names = w.options.Names
	}
	if n := len(w.trace.lines); n > 0 {
		res.Simulated = w.trace.lines[n-1].at
	}
	if w.what != "" || w.always {
		r := w.reader()
		res.Trace = w.trace.text(r, w.lines)
		if w.what != "" {
			res.Trace += w.standing(r)
		}
		res.Violation = r.short(res.Violation)
	}
	return res
}

// fail notes the first violation and ends the run.
func (w *World) fail(lock, format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.failed(lock, format, args...)
}

// failed is fail for those who hold the world's mutex.
func (w *World) failed(lock, format string, args ...any) {
	if w.what == "" {
		w.what, w.where = fmt.Sprintf(format, args...), lock
		w.trace.add(entry{proc: -1, node: -1, what: violated + w.what, lock: lock})
		w.ended = w.now()
		if lock != "" {
			w.states = w.look(lock)
		}
	}
	w.stop()
}

// note adds to the trace what an actor saw.
func (w *World) note(proc int, lock, what string, n int64, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.trace.add(entry{proc: proc, node: -1, what: what, lock: lock, n: n, err: err})
}

// after does something d later, under the world's mutex.
func (w *World) after(d time.Duration, do func()) {
	time.AfterFunc(d, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		do()
	})
}

// parted reports whether nothing passes between a process and a node.
func (w *World) parted(p *process, n *node) bool { return w.parts[[2]int{p.index, n.index}] != nil }

func (w *World) whenHealed(p *process, n *node, do func()) {
	cut := w.parts[[2]int{p.index, n.index}]
	cut.waits = append(cut.waits, do)
}

// part cuts a process from a node.
func (w *World) part(p, n int) {
	if key := [2]int{p, n}; w.parts[key] == nil {
		w.parts[key] = &parting{}
	}
}

func (w *World) heal(p, n int) {
	key := [2]int{p, n}
	cut := w.parts[key]
	if cut == nil {
		return
	}
	delete(w.parts, key)
	for _, do := range cut.waits {
		do()
	}
}

// What Redis refuses to end for its lock's key is told apart from what went with it, by halves, and then tried alone: after
// a tenth of a second, and less and less often, down to once in a third of a lease. Where many locks are forbidden together
// that is more than callers ask for.
const (
	deniedBurst = 5
	deniedPause = 75 * time.Millisecond // the shortest
)

// sent counts what a client sends. While its callers neither ask nor are answered that must be
// little: polls, renewals, and tries again, for each call under way and each actor who may hold
// something. Where actors start more goroutines than there are calls, each of those may hold something.
func (w *World) sent(l *line, op string) {
	w.scripts++
	p := l.proc
	if p.foreign || p.dead {
		return
	}
	p.commands++
	burst, rate := 25, 25
	if w.plan.Class == "none" {
		burst, rate = 15, 10
	}
	quiet := time.Since(p.asked)
	each := burst + int(quiet*time.Duration(rate)/time.Second)
	allowed := each * (w.plan.actorsOf(p.index) + max(p.calls, w.started[p.index]) + 1)
	denied := len(p.denied)
	if w.form.RW {
		denied *= 2 // its readers and its writers are ended by commands of their own
	}
	allowed += denied * (deniedBurst + int(quiet/max(w.plan.Longest()/4, deniedPause)))
	if allowed *= len(w.nodes); p.commands > allowed {
		w.failed("", "a storm: p%d has sent %d commands in the %v since one of its callers asked or was answered", p.index,
			p.commands, quiet)
	}
}

// starts counts the goroutines that the actors in a place have started.
func (w *World) starts(place, n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.started[place] += n
}

// called is told that a caller of a process asks.
func (w *World) called(p *process) {
	w.mu.Lock()
	defer w.mu.Unlock()
	p.calls++
	p.countsAnew()
}

// answered is told that a caller of a process has its answer.
func (w *World) answered(p *process) {
	w.mu.Lock()
	defer w.mu.Unlock()
	p.calls--
	p.countsAnew()
}

// countsAnew begins to count anew what a process sends.
func (p *process) countsAnew() {
	p.asked, p.commands = time.Now(), 0
	clear(p.denied)
}

// before is called when a node is about to run a command.
func (w *World) before(n *node, c *command) {
	w.glimpse.looks(n, c)
	w.wants = w.wants[:0]
	if isGuest(c.lock) {
		return
	}
	w.seesPermits(n, c)
	if c.op == "force" {
		w.strike(c.lock, "force")
	}
}

func (w *World) executed(l *line, c *command, v driver.Value, answered bool) {
	if err := v.Err(); err == nil || !strings.HasPrefix(err.Error(), "NOSCRIPT") {
		w.ran[work{c.op, c.lock}]++
	}
	what := "runs " + c.verb()
	if !answered {
		what = "runs unasked " + c.verb()
	}
	w.trace.add(entry{
		proc: l.proc.index, node: l.node.index, what: what, lock: c.lock, args: c.args[min(2, len(c.args)):], value: v, told: true, fate: c.fate.name,
		trip: c.trip, names: c.names,
	})
	if isGuest(c.lock) {
		return
	}
	w.grants(l.node, c, v)
	w.tellsHolders(l.node, c, v)
	if c.op == "sweep" && v.Err() != nil && aloneIn(c, w.form.keys()) {
		l.proc.denied[c.lock] = true
	}
	w.quarantines(l.node, c)
	w.permitsStand(l.node, c, v)
	w.robs(l.node, c)
	w.fulfils(l, c, v)
	w.lookedAt(l, c, v)
}

// aloneIn reports whether a sweep, with so many keys for each entry, is for one lock.
func aloneIn(c *command, deep int) bool {
	keys := keysOf(c.args)
	for i := deep; i < len(keys); i += deep {
		if keys[i] != c.lock {
			return false
		}
	}
	return true
}

// strike tells the judge that a lock, or every one for "", may have been lost by what a fault does
// now.
func (w *World) strike(lock, why string) {
	names := w.plan.Names
	if lock != "" {
		names = []string{lock}
	}
	for _, name := range names {
		var counter, clock int64
		for _, n := range w.nodes {
			reached, _ := strconv.ParseInt(n.server.Text(w.form.counterOf(name)), 10, 64) // one that loads answers no question
			counter = max(counter, reached)
			if now := n.clock(); clock == 0 || now < clock {
				clock = now
			}
		}
		if w.form.Permits { // whose grants have numbers of the world's
			counter = w.number()
		}
		w.judge.struck(name, counter, clock)
	}
	w.trace.add(entry{proc: -1, node: -1, what: "STRIKE " + why, lock: lock})
}
