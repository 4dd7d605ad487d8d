package model

import (
	"fmt"
	"strings"
)

// Acquisitions that the read-write system has room for, and what its side of the lock may be.
const (
	rwSlots        = 4
	reads     int8 = 1
	writes    int8 = 2
	noMode    int8 = 0
	readMode       = reads
	writeMode      = writes
)

// rwEntry is one acquisition: what its process believes, what the server keeps, and what is on its way.
type rwEntry struct {
	phase int8 // as in linger; nobody lingers: it works for no caller then
	uses  int8 // leases
	let   int8 // goroutines that were let in and have not come yet
	open  bool // all that come may share the hold
	told  bool // somebody else wants the lock: heard before the grant
	base  int8 // ticks since the first question was sent, or the last one that was answered "queued"
	asked int8 // ticks since the first question was sent
	bound int8 // ticks that the grant is believed for
	num   int8 // fencing token
	known int8 // ticket that its process was told
	down  int8 // 1 + the writer that it is the downgrade of

	in     bool  // the hash has its field
	key    int8  // ticks that a reader's timeout key has left
	place  int8  // ticket in its line, 0 for none
	keeps  int8  // ticks that the place of a waiter which polls outlives its process
	first  int8  // number of its grant
	owed   bool  // it waited when a writer ended
	over   int8  // writers that came in since it waits
	before uint8 // readers that stood in line when it came
	waited int8  // ticks that it has stood there

	ask      int8 // 1 + ticks since the question was sent that is under way
	again    bool // which is not the first
	late     bool // a question that nobody waits for is under way
	reply    int8
	replyAge int8
	repeated bool // the answer is to one that is not the first
	push     bool // the message of its grant is under way
	look     bool // the message that somebody wants the lock is
	wake     bool // the message that the lock may be open is
	rel      bool // a release is under way
	relLate  bool // and another copy
	quit     bool // its release was answered
	renew    int8 // 1 + ticks since the renewal was sent
	renewed  int8 // likewise, and answered
}

type rwState struct {
	id      [rwSlots]rwEntry
	calls   [rwSlots]int8 // that will still be made, at the first slot of a seat
	line    [rwSlots]int8 // goroutines behind the gate, there too
	crashed [rwSlots]bool // by process

	mode    int8
	ttl     int8 // of the hash
	counter int8 // fencing counter
	clock   int8 // last ticket
	upTo    int8 // the phase: readers with tickets up to it come before the next writer
	back    bool // the server's clock has jumped back
	turn    bool // the lock is left to Redisson's waiters

	java  int8 // reads or writes: it holds the lock
	comes int8 // Redisson's calls that are still to come
	waits int8 // 1 + ticks that one waits, since relock last took the lock

	lastWriter int8 // number of the last writer's grant, Redisson's too
	topWriter  int8 // highest token of a writer's lease
	top        int8 // of any lease
	faults     int8
	lost       bool // a message was, or a process, or a lease ran out
	broken     string
}

// RWRules switches rules off. The zero value is the protocol.
type RWRules struct {
	NoKey          bool // a reader has no timeout key
	LeaverDeletes  bool // a reader that leaves frees the lock whoever else reads
	BlindWriter    bool // a writer that finds readers does not look whether one lives
	BelieveLease   bool // a reader believes its lease, whatever Redisson shortens the lock to
	DateByReply    bool // a grant is believed from when it was heard of
	NoSweep        bool // a release that is answered is the last one
	NoPhase        bool // the end of a writer lets nobody in
	SweepPhase     bool // a release of what is not held lets readers in as a writer's end does
	TicketByClock  bool // a ticket is above those of its own line alone
	ReadPhase      bool // so does the end of readers
	Unshut         bool // new readers join while Redisson's waiters listen
	DeadKept       bool // a waiter whose process is gone keeps its place
	QuietLeaver    bool // who leaves the line serves nobody
	Unkept         bool // readers that poll do not mind a writer that waits
	Unyielding     bool // nor writers that poll the readers of the phase
	NoAnnounce     bool // nobody is told of those that a batch leaves behind
	Recreate       bool // a renewal writes what it does not find
	ModeLeft       bool // a downgrade leaves the mode as it was
	Gap            bool // a downgrade releases first
	DownCuts       bool // its writer's end leaves the lock no longer than the next tick
	DownBlind      bool // one that is granted does not look whether its writer still holds
	AnyAnswer      bool // a grant by a repeated question is shared with those who come
	Handed         bool // so is one by message
	WantedIgnored  bool // that somebody wants the lock shuts nothing
	WantedAwaits   bool // or not when it comes before the grant
	OwnUnheard     bool // it is not told to the asker's own process
	NoWindow       bool // a hold is shared for as long as no message comes
	RenewWindow    bool // a renewal begins its window anew
	NoAwait        bool // a hold ends although some who were let in are on their way
	ReaderAsWriter bool // a reader's token is not counted
}

// RWScope is how much is explored. Slots of one process and side make a seat: one is used while another is released.
type RWScope struct {
	Side, Proc, Calls [rwSlots]int8
	Lease             int8 // in ticks
	Dog               int8 // what Redisson's renewals set the hash to, 0 for the lease
	Window            int8 // ticks for which a hold is shared
	Linger            bool // also while no caller has it
	Batch             int8 // waiters that one command lets in
	Polled            bool // no message grants: waiters come in by their own questions
	Down              bool // writers may become readers
	Renews            bool
	Java              int8 // side of Redisson's calls
	Comes             int8 // how many they are
	Crash             bool // faults may be crashes
	Back              bool // or that the server's clock jumps back
	Faults            int8 // messages late, lost or doubled, callers that give up
}

type rwSystem struct {
	RWScope
	rules RWRules
}

// RW is the system of one Redis with a read-write lock, the readers and writers of a few processes, and one of
// Redisson's. The readers of a process may share a hold. Its goal is that all have been served, and the lock is free.
func RW(scope RWScope, rules RWRules) System[rwState] {
	w := &rwSystem{scope, rules}
	if w.Dog == 0 {
		w.Dog = w.Lease
	}
	return System[rwState]{
		Name:  fmt.Sprintf("read-write %+v", scope),
		Init:  rwState{calls: scope.Calls, comes: scope.Comes, faults: scope.Faults},
		Steps: w.steps,
		Rules: []Rule[rwState]{
			{"exclusion", w.exclusion}, {"belief is ownership", w.ownership},
			{"the hash is Redisson's", w.wellFormed},
			{"tokens rise", rwBroken("token")}, {"no gap", rwBroken("gap")}, {"no reader past a writer", rwBroken("past")},
			{"readers wait for one writer", w.oneWriter}, {"no sleeper", w.noSleeper}, {"wanted is minded", w.wantedMinded},
			{"no lease past the window", rwBroken("window")}, {"no orphan", w.noOrphan},
			{"the dead keep nobody out", rwBroken("dead")},
		},
		Goal: w.quiet,
		Show: w.show,
	}
}

// rwBroken is a rule that a step breaks.
func rwBroken(about string) func(rwState) string {
	return func(s rwState) string {
		if strings.HasPrefix(s.broken, about) {
			return s.broken
		}
		return ""
	}
}

func (w *rwSystem) dead(s *rwState, i int) bool { return s.crashed[w.Proc[i]] }

// leaseOf is what i may rely on.
func (w *rwSystem) leaseOf(i int) int8 {
	if w.Side[i] == reads && !w.rules.BelieveLease {
		return min(w.Lease, w.Dog)
	}
	return w.Lease
}

// seat is the first slot of i's process and side.
func (w *rwSystem) seat(i int) int {
	for k := range i {
		if w.Side[k] == w.Side[i] && w.Proc[k] == w.Proc[i] {
			return k
		}
	}
	return i
}

// believes reports whether a caller has a lease that counts, or is about to have one.
func (w *rwSystem) believes(s *rwState, i int) bool {
	e := &s.id[i]
	return e.phase == working && e.uses > 0 && e.bound > 0 && !w.dead(s, i)
}

// exclusion: beside a writer that believes nobody does. A downgrade's reader and its writer are one.
func (w *rwSystem) exclusion(s rwState) string {
	if strings.HasPrefix(s.broken, "exclusion") {
		return s.broken
	}
	for i := range s.id {
		if w.Side[i] != writes || !w.believes(&s, i) {
			continue
		}
		if s.java != noMode {
			return letter(i) + " writes beside one of Redisson's"
		}
		for k := range s.id {
			if k != i && w.believes(&s, k) && s.id[k].down != int8(i+1) {
				return letter(i) + " writes beside " + letter(k)
			}
		}
	}
	for i := range s.id {
		if s.java == writes && w.believes(&s, i) {
			return letter(i) + " reads beside Redisson's writer"
		}
	}
	return ""
}

// ownership: who believes stands in the hash, with its key, for no shorter.
func (w *rwSystem) ownership(s rwState) string {
	for i := range s.id {
		e := &s.id[i]
		if e.phase != working || e.bound <= 0 || w.dead(&s, i) {
			continue
		}
		if !e.in || s.ttl < e.bound || w.Side[i] == reads && e.key < e.bound {
			return letter(i) + " believes what the server does not grant"
		}
	}
	return ""
}

// wellFormed: the hash has a writer alone, but for its downgrade, or readers, and a mode that says which.
func (w *rwSystem) wellFormed(s rwState) string {
	var in [3]int
	in[s.java]++
	for i := range s.id {
		if s.id[i].in {
			in[w.Side[i]]++
		}
	}
	switch {
	case s.mode == noMode && in[reads]+in[writes] > 0, s.mode == writeMode && in[writes] != 1,
		s.mode == readMode && (in[writes] > 0 || in[reads] == 0):
		return fmt.Sprintf("mode %d with %d readers and %d writers", s.mode, in[reads], in[writes])
	}
	return ""
}

// oneWriter: where nothing is lost, a waiting reader sees one writer come in, and is next.
func (w *rwSystem) oneWriter(s rwState) string {
	for i := range s.id {
		if s.id[i].over > 1 && !s.lost {
			return letter(i) + " waits for a second writer"
		}
	}
	return ""
}

// still reports whether nothing is under way and nothing was lost.
func (w *rwSystem) still(s *rwState) bool {
	if s.lost || s.turn {
		return false
	}
	for i := range s.id {
		if e := &s.id[i]; s.crashed[w.Proc[i]] || e.busy() || e.late || e.relLate || e.phase == ends {
			return false
		}
	}
	return true
}

// busy reports whether something is under way that a tick would be long for.
func (e *rwEntry) busy() bool {
	return e.ask > 0 || e.reply != unheard || e.push || e.look || e.wake || e.rel || e.renew > 0 || e.renewed > 0 ||
		e.let > 0 || e.phase == ends && !e.quit
}

// noSleeper: with nothing under way, no waiter stands beside a lock that is open to it. Who comes to a lock that is
// read is told to ask once more when Redisson's waiters shut it out no more.
func (w *rwSystem) noSleeper(s rwState) string {
	if !w.still(&s) {
		return ""
	}
	for i := range s.id {
		if s.id[i].place > 0 && (s.mode == noMode || w.Side[i] == reads && s.id[i].waited > 0 && w.opens(&s, i)) {
			return letter(i) + " sleeps beside a lock that is open to it"
		}
	}
	return ""
}

// wantedMinded: with nothing under way, nobody's readers go on sharing the lock beside one who waits for it.
func (w *rwSystem) wantedMinded(s rwState) string {
	if !w.still(&s) {
		return ""
	}
	for i := range s.id {
		e := &s.id[i]
		if e.phase != working || !e.open {
			continue
		}
		for k := range s.id {
			if w.seat(k) != w.seat(i) && s.id[k].place > 0 {
				return letter(i) + " shares the lock beside " + letter(k) + ", who waits"
			}
		}
	}
	return ""
}

func (w *rwSystem) noOrphan(s rwState) string {
	for i := range s.id {
		if e := &s.id[i]; (e.in || e.place > 0) && e.phase == blank && !w.dead(&s, i) {
			return letter(i) + " is over, yet stands at the server, and nobody releases it"
		}
	}
	return ""
}

// quiet is when all are served and the lock is free.
func (w *rwSystem) quiet(s rwState) bool {
	for i := range s.id {
		e := &s.id[i]
		if e.in || !w.dead(&s, i) && (e.phase != blank || s.calls[i] > 0 || s.line[i] > 0) {
			return false
		}
	}
	return s.java == noMode && s.waits == 0
}

func (w *rwSystem) show(s rwState) string {
	var b strings.Builder
	b.WriteString([...]string{"free", "read", "written"}[s.mode])
	if s.mode != noMode {
		fmt.Fprintf(&b, " for %d", s.ttl)
	}
	for i := range s.id {
		if s.id[i].in {
			fmt.Fprintf(&b, " by %s", letter(i))
		}
	}
	if s.java != noMode {
		b.WriteString(" by Java")
	}
	for i := range s.id {
		if s.id[i].place > 0 {
			fmt.Fprintf(&b, ", %s waits at %d", letter(i), s.id[i].place)
		}
	}
	if s.upTo > 0 {
		fmt.Fprintf(&b, ", phase %d", s.upTo)
	}
	if s.waits > 0 {
		b.WriteString(", Java waits")
	}
	for i := range s.id {
		e := &s.id[i]
		if e.phase == blank {
			continue
		}
		fmt.Fprintf(&b, " | %s %s", letter(i), [...]string{"", "asks", "HOLDS", "", "ends"}[e.phase])
		if e.phase == working {
			fmt.Fprintf(&b, " %d times for %d", e.uses, e.bound)
		}
		if e.open {
			b.WriteString(", open")
		}
	}
	return b.String()
}
