package run

import (
	"slices"
	"time"

	"github.com/relock-go/relock/bench/internal/peer"
	"github.com/relock-go/relock/bench/internal/results"
)

// Scenarios returns the names of all scenarios in the order they run.
func Scenarios() []string {
	return []string{
		"uncontended", "many-keys", "names-once", "reentry", "cached", "hot-local", "hot-processes", "rw", "giving-way",
		"idle-waiters", "watchdog", "crash", "redlock", "semaphore",
		"several",
	}
}

// kind is how a cell is measured.
type kind int

const (
	looping  kind = iota // processes that lock and unlock for the length of a round
	visiting             // a process that wants, now and then, what another one had
	idling               // goroutines that wait behind a long hold
	keeping              // leases held for long
	crashing             // a process killed
)

// cell is a scenario with its parameters.
type cell struct {
	scenario string
	kind     kind
	params   results.Params
	keyEach  bool
	keyOnce  bool
	cached   bool          // peers take part that keep a lock after its Unlock
	slice    time.Duration // of a looping cell; 0: as the plan has it, times weight
	weight   int           // 0 is 1
	baseline []string      // the peers measured beside, to compare with
	fits     func(peer.Spec) bool
}

// plan is all that a run measures, and how long each piece takes.
type plan struct {
	cells  []cell
	rounds int
	slice  time.Duration // what counts of a looping round
	warm   time.Duration // before it, for all to be under way
}

const (
	roundOverhead = 110 * time.Millisecond // connecting, reading counters, sending home
	processCost   = 8 * time.Millisecond   // the same, for each further process
)

func us(n int64) *int64 { return &n }

// quickCells are those of the short run, a minute and a half with all peers.
func quickCells(hold time.Duration) []cell {
	var cells []cell
	cells = append(cells, soloCells(0)...)
	cells = append(cells, cached(1, 0), cached(1, 5))
	for _, g := range []int{8, 64, 512} {
		cells = append(cells, hotLocal(g, 0, 0))
	}
	cells = append(cells, hotProcesses(8, 1000, 0), readWrite(90, 1, 64, 0), givingWay("idle", 1, 0, 0))
	cells = append(cells, idleWaiters(1000, orElse(hold, 600*time.Millisecond)),
		watchdogs(10_000, orElse(hold, 1200*time.Millisecond)))
	cells = append(cells, crashes(time.Second)...)
	cells = append(cells, redlock(8, 0, 0), redlock(8, 1, time.Second))
	return append(cells, permitsOf(8, 1000), permitsWithin(64), permitsByWeight(8), idlePermits(1000, orElse(hold, 600*time.Millisecond)),
		permitsLost(time.Second), freeTogether(10), someTogether(8, 1), anyOf(8, 10_000))
}

// fullCells are the whole bench.
func fullCells(hold time.Duration) []cell {
	cells := append(soloCells(0), soloCells(1000)[0], manyKeysOver(3), namesOnce(1), namesOnce(64), namesOnce(1000),
		cached(1, 0), cached(64, 0), cached(1, 5), cached(64, 5))
	for _, g := range []int{1, 8, 64, 512, 4096} {
		cells = append(cells, hotLocal(g, 0, 0))
	}
	for _, cs := range []int64{100, 1000, 10_000} {
		cells = append(cells, hotLocal(64, cs, 0))
	}
	cells = append(cells, hotLocal(64, 0, 1000))
	for _, p := range []int{2, 8, 32} {
		cells = append(cells, hotProcesses(p, 1000, 0))
	}
	cells = append(cells, hotProcesses(8, 1000, 1000))
	for _, reads := range []int{100, 99, 90, 50} {
		cells = append(cells, readWrite(reads, 1, 64, 0), readWrite(reads, 8, 16, 1000))
	}
	cells = append(cells, givingWay("idle", 1, 0, 0), givingWay("idle", 1, 1000, 0), givingWay("idle", 1, 0, 5),
		givingWay("busy", 1, 0, 0), givingWay("busy", 64, 0, 0), takingTurns())
	cells = append(cells, idleWaiters(1000, orElse(hold, 2*time.Second)), idleWaiters(10_000, orElse(hold, 3*time.Second)),
		watchdogs(10_000, orElse(hold, 3*time.Second)), watchdogs(100_000, orElse(hold, 11*time.Second)))
	cells = append(cells, crashes(2*time.Second)...)
	for hung := range 3 {
		cells = append(cells, redlock(1, hung, hungSlice), redlock(8, hung, hungSlice))
	}
	apart := redlock(1, 0, 0)
	apart.params.DelayUS = 1000
	return append(cells, apart, permitsOf(8, 1000), permitsOf(32, 1000), permitsOf(32, 10_000), permitsWithin(64), permitsByWeight(16),
		idlePermits(1000, orElse(hold, 3*time.Second)), permitsLost(2*time.Second),
		freeTogether(10), someTogether(50, 1), someTogether(8, 6), anyOf(32, 10_000), anyOf(32, 100_000))
}

func orElse(d, otherwise time.Duration) time.Duration {
	if d > 0 {
		return d
	}
	return otherwise
}

// soloCells are those in which nobody waits. The first is uncontended.
func soloCells(delay int64) []cell {
	return []cell{
		{
			scenario: "uncontended", params: results.Params{Goroutines: 1, CSMicros: us(0), DelayUS: delay},
			baseline: []string{"raw"},
		},
		{scenario: "many-keys", params: results.Params{Goroutines: 1000, CSMicros: us(0), DelayUS: delay}, keyEach: true},
		{
			scenario: "reentry", params: results.Params{Goroutines: 1, CSMicros: us(0), DelayUS: delay, Depth: 3},
			fits: func(s peer.Spec) bool { return s.Reentrant },
		},
	}
}

// manyKeysOver is many-keys on a Cluster, with relock on a single Redis beside it.
func manyKeysOver(masters int) cell {
	return cell{scenario: "many-keys", keyEach: true, baseline: []string{"one-node"},
		params: results.Params{Masters: masters, Goroutines: 1000, CSMicros: us(0)}}
}

// namesOnce is goroutines that lock a name once and never again, as that of a job or of a request. Workers in other languages
// and those of earlier commits do not know of it.
func namesOnce(goroutines int) cell {
	return cell{scenario: "names-once", keyEach: true, keyOnce: true,
		params: results.Params{Goroutines: goroutines, CSMicros: us(0)},
		fits: func(s peer.Spec) bool {
			return s.JVM == "" && s.Worker == nil && !s.NeedsEtcd && differs(s)
		}}
}

// cached is goroutines of one process that lock the same key again and again, which no other process wants.
func cached(goroutines, nodes int) cell {
	c := cell{scenario: "cached", cached: true, fits: differs,
		params: results.Params{Nodes: nodes, Goroutines: goroutines, CSMicros: us(0)}}
	if nodes > 0 {
		c.fits = func(s peer.Spec) bool { return s.Quorum && differs(s) }
	}
	return c
}

// givingWay is a process that takes a lock which another one had last and may keep in a cache. An idle holder has
// unlocked it, a busy one locks it again and again, in as many goroutines.
func givingWay(holder string, goroutines int, delay int64, nodes int) cell {
	c := cached(goroutines, nodes)
	c.scenario, c.kind, c.weight = "giving-way", visiting, 3
	c.params.Holder, c.params.DelayUS = holder, delay
	if holder == "idle" {
		c.params.Goroutines = 0
	}
	return c
}

// takingTurns is two processes that want the same lock all the time.
func takingTurns() cell {
	c := cached(1, 0)
	c.scenario, c.weight, c.params.Processes = "giving-way", 2, 2
	return c
}

func hotLocal(goroutines int, cs, delay int64) cell {
	c := cell{scenario: "hot-local", params: results.Params{Goroutines: goroutines, CSMicros: us(cs), DelayUS: delay}}
	if cs >= 10_000 {
		c.weight = 3 // so that everybody has a turn
	}
	return c
}

func hotProcesses(processes int, cs, delay int64) cell {
	return cell{scenario: "hot-processes", weight: 2, // many workers share what is granted one by one
		params: results.Params{Processes: processes, Goroutines: 1, CSMicros: us(cs), DelayUS: delay}}
}

// readWrite is goroutines of which most read, by the read-write locks of the peers that have one, else by their mutexes.
func readWrite(reads, processes, goroutines int, cs int64) cell {
	c := cell{scenario: "rw", cached: true, fits: func(s peer.Spec) bool {
		return differs(s) && s.JVM != "redisson-fair" && s.Worker == nil
	}}
	c.params = results.Params{Processes: processes, Goroutines: goroutines, CSMicros: us(cs), Reads: reads}
	if processes > 1 {
		c.weight = 3
	} else {
		c.baseline = []string{"sync.RWMutex"}
	}
	return c
}

// differs leaves out relock-remote where nothing is handed over within a process: there it is relock.
func differs(s peer.Spec) bool { return s.Name != "relock-remote" }

func idleWaiters(n int, hold time.Duration) cell {
	return cell{scenario: "idle-waiters", kind: idling, fits: differs,
		params: results.Params{Goroutines: n, HoldMS: hold.Milliseconds()}}
}

// watchdogs is a cell in which many leases are held. Redisson's locks share one watchdog.
func watchdogs(n int, hold time.Duration) cell {
	p := results.Params{Leases: n, HoldMS: hold.Milliseconds()}
	if hold < 10*time.Second {
		p.LeaseMS = hold.Milliseconds() * 2 // or nothing would be renewed meanwhile
	}
	keeps := func(s peer.Spec) bool { return s.Keeps && differs(s) && s.JVM != "redisson-fair" }
	return cell{scenario: "watchdog", kind: keeping, params: p, fits: keeps}
}

func crashes(lease time.Duration) []cell {
	var cells []cell
	for _, who := range []string{"holder", "waiter"} {
		cells = append(cells, cell{scenario: "crash", kind: crashing, fits: differs,
			params: results.Params{Crash: who, LeaseMS: lease.Milliseconds()}})
	}
	return cells
}

// redlock is a quorum of five nodes. Eight contenders are processes: nothing is handed over in memory between them.
// Where nodes hang, slice bounds the cell: some peers wait for them so long that a plain round would show nothing.
func redlock(contenders, hung int, slice time.Duration) cell {
	c := cell{scenario: "redlock", fits: func(s peer.Spec) bool { return s.Quorum && differs(s) }}
	c.params = results.Params{Nodes: 5, Hung: hung, Processes: contenders, Goroutines: 1, CSMicros: us(0)}
	if contenders > 1 {
		c.params.CSMicros = us(1000)
	}
	if hung == 0 {
		c.baseline, c.weight = []string{"one-node"}, 3 // what the long rounds with hung nodes are compared with
	} else {
		c.slice = slice
	}
	return c
}

// semaphore is a cell in which n permits are shared. Workers of earlier commits do not know of it.
func semaphore(n int, p results.Params) cell {
	p.Permits = n
	return cell{scenario: "semaphore", params: p, fits: func(s peer.Spec) bool { return s.Worker == nil && differs(s) }}
}

// permitsOf is real processes that want a permit each, with relock's mutex in place of the semaphore beside them.
// With longer work the processors are not the bound.
func permitsOf(processes int, cs int64) cell {
	c := semaphore(4, results.Params{Processes: processes, Goroutines: 1, CSMicros: us(cs)})
	c.weight, c.baseline = 2, []string{"mutex"}
	if cs >= 10_000 {
		c.weight = 3 // so that everybody has a turn
	}
	return c
}

// permitsWithin is goroutines of one process that want a permit each, and no other process does.
func permitsWithin(goroutines int) cell {
	c := semaphore(8, results.Params{Goroutines: goroutines, CSMicros: us(0)})
	c.baseline, c.fits = []string{"x/sync"}, func(s peer.Spec) bool { return s.Worker == nil }
	return c
}

// permitsByWeight is processes that want one to three of four permits at once.
func permitsByWeight(processes int) cell {
	c := semaphore(4, results.Params{Processes: processes, Goroutines: 1, CSMicros: us(1000), Weights: 3})
	c.weight, c.fits = 2, func(s peer.Spec) bool { return s.Worker == nil && differs(s) && s.Weighted }
	return c
}

// idlePermits is goroutines that wait behind another process's hold of all permits.
func idlePermits(n int, hold time.Duration) cell {
	c := semaphore(4, results.Params{Goroutines: n, HoldMS: hold.Milliseconds()})
	c.kind = idling
	return c
}

// permitsLost is a killed process that held all permits.
func permitsLost(lease time.Duration) cell {
	c := semaphore(4, results.Params{Crash: "holder", LeaseMS: lease.Milliseconds()})
	c.kind = crashing
	return c
}

// several is a cell in which callers take some of several locks. Workers of earlier commits do not know of it.
func several(p results.Params) cell {
	return cell{scenario: "several", params: p, fits: func(s peer.Spec) bool { return s.Worker == nil && differs(s) }}
}

// freeTogether is one goroutine that takes n locks together, which no other caller wants, with n mutexes taken one by one beside it.
func freeTogether(n int) cell {
	c := several(results.Params{Locks: n, Together: n, Goroutines: 1, CSMicros: us(0)})
	c.baseline = []string{"one-by-one"}
	return c
}

// someTogether is callers that want three of ten locks each, others each time. Fifty JVMs would be measured, and not their locks.
func someTogether(processes, goroutines int) cell {
	c := several(results.Params{Locks: 10, Together: 3, Processes: processes, Goroutines: goroutines, CSMicros: us(1000)})
	c.weight = 3 // so that everybody has a turn
	c.baseline = []string{"one-by-one"}
	c.fits = func(s peer.Spec) bool { return s.Worker == nil && differs(s) && (s.JVM == "" || processes <= 8) }
	return c
}

// anyOf is processes that want any one of eight locks, with a permit of a semaphore of eight beside it, which is no certain lock.
func anyOf(processes int, cs int64) cell {
	c := several(results.Params{Locks: 8, Processes: processes, Goroutines: 1, CSMicros: us(cs)})
	c.weight, c.baseline = 3, []string{"permit"}
	if cs >= 100_000 {
		c.weight = 8
	}
	return c
}

// takes reports whether the cell shows anything of the peer.
func (c cell) takes(s peer.Spec) bool {
	if c.params.Permits > 0 && !s.Semaphore || c.params.Permits == 0 && s.NoMutex {
		return false
	}
	if c.params.Together > 0 && !s.Several || c.params.Locks > 0 && c.params.Together == 0 && !s.AnyOf {
		return false
	}
	if s.Cached && !c.cached || s.Once && !c.keyOnce || c.params.Masters > 0 && !s.Cluster {
		return false
	}
	return c.fits == nil || c.fits(s)
}

// peersOf returns the peers that take part in the cell.
func (c cell) peersOf(chosen []peer.Spec, all []peer.Spec) []peer.Spec {
	var specs []peer.Spec
	for _, s := range chosen {
		if c.takes(s) {
			specs = append(specs, s)
		}
	}
	for _, name := range c.baseline {
		for _, s := range all {
			if s.Name == name && !slices.ContainsFunc(specs, func(c peer.Spec) bool { return c.Name == name }) {
				specs = append(specs, s)
			}
		}
	}
	return specs
}

// cost is how long one round of a cell takes for one peer.
func (p *plan) cost(c cell, s peer.Spec) time.Duration {
	hold := time.Duration(c.params.HoldMS) * time.Millisecond
	start := 50 * time.Millisecond
	if s.JVM != "" {
		start = 1500 * time.Millisecond
	}
	switch c.kind {
	case idling:
		return hold + 2*start + 300*time.Millisecond + time.Duration(c.params.Goroutines)*200*time.Microsecond
	case keeping:
		return hold + start + time.Duration(c.params.Leases)*100*time.Microsecond
	case crashing:
		if c.params.Crash == "waiter" {
			return 3*start + 300*time.Millisecond
		}
		killed := 2*start + time.Duration(c.params.LeaseMS)*time.Millisecond + 100*time.Millisecond
		if c.params.Permits > 0 {
			killed += permitsBack + permitsCounted
		}
		return killed
	}
	round := p.sliceOf(c) + p.warmOf(c) + roundOverhead
	if s.JVM != "" {
		return round + jvmWarm + time.Duration(c.processes())*processCost*5
	}
	return round + time.Duration(c.processes())*processCost
}

// processes is how many workers a round needs.
func (c cell) processes() int {
	if c.kind == visiting {
		return 2
	}
	return max(1, c.params.Processes)
}

// timed reports whether a round of the cell is as long as the plan has it.
func (c cell) timed() bool { return c.kind == looping || c.kind == visiting }

func (p *plan) sliceOf(c cell) time.Duration {
	return orElse(c.slice, p.slice*time.Duration(max(1, c.weight)))
}

// warmOf is how long a round goes on before it counts. A quorum must have come to know all nodes before some hang.
func (p *plan) warmOf(c cell) time.Duration {
	if c.params.Hung > 0 {
		return max(p.warm, 500*time.Millisecond)
	}
	return p.warm
}

// roundsOf is how often each peer takes its turn in a cell. Where a round is a long hold, one must do.
func (p *plan) roundsOf(c cell) int {
	switch {
	case c.kind == idling, c.kind == keeping, c.slice > 0:
		return 1
	case c.kind == crashing:
		return max(1, p.rounds-1)
	}
	return p.rounds
}

// total is how long the plan takes with the peers given.
func (p *plan) total(chosen, all []peer.Spec) time.Duration {
	sum := p.heat(chosen)
	for _, c := range p.cells {
		for _, s := range c.peersOf(chosen, all) {
			sum += time.Duration(p.roundsOf(c)) * p.cost(c, s)
		}
	}
	return sum
}

// heat is how long it takes in all to warm up JVMs.
func (p *plan) heat(chosen []peer.Spec) time.Duration {
	if !slices.ContainsFunc(chosen, needsJVM) {
		return 0
	}
	var sum time.Duration
	running := 0
	for _, c := range p.cells {
		if n := c.processes(); c.timed() && n > running {
			sum += heatOf(n - running)
			running = n
		}
	}
	return sum
}

const (
	leastSlice = 80 * time.Millisecond
	goodSlice  = 250 * time.Millisecond // less is not worth a third round
	mostSlice  = 2 * time.Second
	hungSlice  = 12 * time.Second // longer than go-redis waits for a node that hangs, tries again included
)

// fit chooses the length of a round so that the whole takes budget.
func (p *plan) fit(chosen, all []peer.Spec, budget time.Duration) {
	p.slice = 0
	fixed := p.total(chosen, all)
	turns := 0
	for _, c := range p.cells {
		if c.timed() && c.slice == 0 {
			turns += p.roundsOf(c) * max(1, c.weight) * len(c.peersOf(chosen, all))
		}
	}
	if turns > 0 {
		p.slice = (budget - fixed) / time.Duration(turns)
	}
	p.slice = min(max(p.slice, leastSlice), mostSlice).Truncate(time.Millisecond)
}
