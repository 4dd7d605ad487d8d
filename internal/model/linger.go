package model

import (
	"fmt"
	"strings"
)

// Processes of the linger system, and acquisitions that one of them has at a time: the one it uses and the one before.
const (
	lingerProcs = 2
	lingerIDs   = 2 * lingerProcs
	lingerBlock = 4 // a token is its grant times this, and its place in the block
)

// Where an acquisition is in its process.
const (
	blank   int8 = iota // as good as new
	asking              // its questions may or may not have been answered
	working             // a caller has a lease
	lingers             // nobody has: the next Lock may take it without a command
	ends                // over here; released until that is answered
)

// The answers to a question.
const (
	unheard int8 = iota
	isMine
	isQueued
	isHeld // to a TryLock: somebody else has it, and nobody was queued
)

// lingerID is one acquisition: what its process believes, what the server keeps, and what is on its way.
type lingerID struct {
	phase int8
	try   bool // by TryLock
	fresh bool // granted by the answer to its first question: nobody waited then
	told  bool // somebody else waits, or word of that may have been missed
	base  int8 // ticks since its first question was sent, or the last one that was answered "queued"
	bound int8 // ticks that the grant is believed for
	idle  int8 // ticks since it began to linger
	next  int8 // fencing token
	left  int8 // tokens

	owns   bool // the server's hash has it
	place  int8 // in the server's queue, from 1
	waited int8 // ticks that it has stood there
	first  int8 // its grant at the server
	tried  bool // a TryLock found it in the way

	ask      int8 // 1 + ticks since the question was sent that is under way
	again    bool // which is not the first
	reply    int8
	replyAge int8
	repeated bool // the answer is to one that is not the first
	push     bool // the message of its grant is under way
	look     bool // the message that somebody waits for it is
	rel      bool // a release is under way
	queues   bool // which queues the process's other acquisition
	quit     bool // its release was answered
	renew    int8 // 1 + ticks since the renewal was sent
	renewed  int8 // likewise, and answered
}

type lingerProc struct {
	locks   int8 // that it will still call
	stopped bool
	late    bool // it was, and its timers have not run since
	crashed bool
	closed  bool
	deaf    bool // its inbox is not subscribed yet
}

type lingerState struct {
	id      [lingerIDs]lingerID
	proc    [lingerProcs]lingerProc
	lease   int8 // of the owner
	counter int8
	issued  int8 // highest token of a lease
	foreign int8 // 1 + ticks that one waits who can be told of nothing, since the lock was last free to it
	java    bool // which has the lock
	come    int8 // foreigners that are still to come
	faults  int8
	lost    bool   // a message was
	broken  string // of the rules that look at steps
}

// LingerRules switches rules off. The zero value is the protocol.
type LingerRules struct {
	AnyAnswer     bool // a grant by the answer to a repeated question lingers, and is dated from that one
	DateByReply   bool // time to linger counts from the answer
	Handed        bool // a grant by message lingers
	LookAwaits    bool // a look that comes before the grant is processed is dropped
	LookIgnored   bool // an idle hold does not mind a look
	TryTellsNone  bool // TryLock sends no look
	NoBelief      bool // a cached lock asks only whether the time to linger is over
	NoBound       bool // and does not ask that
	NoTimer       bool // an idle hold ends only when somebody looks at it
	RenewDates    bool // a renewal that is answered prolongs the time to linger
	ForgetIdle    bool // loss of an idle hold sends nothing
	UseEnded      bool // a Lock takes back the hold that is being released
	CloseForgets  bool // Close leaves idle holds alone
	DeafLingers   bool // a hold whose inbox was not heard when it was granted lingers
	MissedForgets bool // and does not hear that the inbox is subscribed since
}

// LingerScope is how much is explored.
type LingerScope struct {
	Locks   [lingerProcs]int8
	Try     bool // B only tries
	Lease   int8 // in ticks
	Linger  int8 // ticks that a hold may be kept for the process alone
	Block   int8
	Renews  bool
	Foreign int8 // Redisson's waiters that come
	Deaf    bool // A's inbox is subscribed some time
	Close   bool // processes may be closed once they have locked for the last time
	Faults  int8 // messages late or lost, processes that crash or stop, callers that give up
	Stops   bool // faults are stops alone
}

type lingerSystem struct {
	LingerScope
	rules LingerRules
}

// Linger is the system of one Redis and processes that keep the lock after its last Unlock, for the next one of their
// own. One goroutine locks in each. Its goal is that all have locked as often as they are to, and the lock is free.
func Linger(scope LingerScope, rules LingerRules) System[lingerState] {
	w := &lingerSystem{scope, rules}
	init := lingerState{faults: scope.Faults, come: scope.Foreign}
	for p := range init.proc {
		init.proc[p].locks = scope.Locks[p]
	}
	init.proc[0].deaf = scope.Deaf
	return System[lingerState]{
		Name:  fmt.Sprintf("linger %+v", scope),
		Init:  init,
		Steps: w.steps,
		Rules: []Rule[lingerState]{
			{"exclusion", lingerExclusion}, {"belief is ownership", lingerOwnership}, {"no orphan", lingerOrphan},
			{"idle is bounded", w.idleBounded}, {"looks are minded", w.looksMinded},
			{"tokens rise", stepRule("token")}, {"no lease past the bound", stepRule("bound")},
		},
		Goal: w.quiet,
		Show: lingerState.String,
	}
}

// stepRule is a rule that a step breaks.
func stepRule(about string) func(lingerState) string {
	return func(s lingerState) string {
		if strings.HasPrefix(s.broken, about) {
			return s.broken
		}
		return ""
	}
}

// believes reports whether an acquisition's process takes the lock for its own.
func (a *lingerID) believes() bool { return a.phase == working || a.phase == lingers }

func lingerExclusion(s lingerState) string {
	first := -1
	for i := range s.id {
		if s.id[i].phase != working || s.proc[i/2].crashed || s.id[i].bound <= 0 {
			continue
		}
		if s.java || first >= 0 {
			return letter(i/2) + " and another hold the lock"
		}
		first = i
	}
	return ""
}

// lingerOwnership: who believes owns the lock at the server, for no shorter. One who was stopped asks before it acts.
func lingerOwnership(s lingerState) string {
	for i := range s.id {
		a := &s.id[i]
		if a.believes() && a.bound > 0 && !s.proc[i/2].crashed && (!a.owns || a.bound > s.lease) {
			return letter(i/2) + " believes what the server does not grant"
		}
	}
	return ""
}

func lingerOrphan(s lingerState) string {
	for i := range s.id {
		if a := &s.id[i]; (a.owns || a.place > 0) && a.phase == blank && !s.proc[i/2].crashed {
			return letter(i/2) + " is over, yet stands at the server, and nobody releases it"
		}
	}
	return ""
}

// idleBounded: no process that runs keeps the lock for nobody for longer than it may.
func (w *lingerSystem) idleBounded(s lingerState) string {
	for i := range s.id {
		a, p := &s.id[i], &s.proc[i/2]
		if a.phase == lingers && !p.late && !p.crashed && a.idle > w.Linger {
			return letter(i/2) + " keeps the lock idle past its time"
		}
	}
	return ""
}

// looksMinded: as long as no message was lost, and nothing is under way, no idle hold lies beside one who waits for it
// or has tried.
func (w *lingerSystem) looksMinded(s lingerState) string {
	idle := -1
	for i := range s.id {
		a, p := &s.id[i], &s.proc[i/2]
		if a.look || p.crashed || p.late {
			return ""
		}
		if a.phase == lingers && a.owns {
			idle = i
		}
	}
	if idle < 0 || s.lost {
		return ""
	}
	for i := range s.id {
		if i/2 != idle/2 && s.id[i].place > 0 || s.id[idle].tried {
			return letter(idle/2) + " keeps the lock idle beside one who wants it"
		}
	}
	return ""
}

// quiet is when all is served and released.
func (w *lingerSystem) quiet(s lingerState) bool {
	for i := range s.id {
		if s.id[i].phase != blank && !s.proc[i/2].crashed || s.id[i].owns {
			return false
		}
	}
	for _, p := range s.proc {
		if p.locks > 0 && !p.crashed && !p.closed || p.stopped {
			return false
		}
	}
	return !s.java && s.foreign == 0
}

func (s lingerState) String() string {
	var b strings.Builder
	b.WriteString("free")
	if s.java {
		b.Reset()
		b.WriteString("Java's")
	}
	for i := range s.id {
		if s.id[i].owns {
			b.Reset()
			fmt.Fprintf(&b, "%s.%d's for %d", letter(i/2), i%2+1, s.lease)
		}
	}
	for i := range s.id {
		a := &s.id[i]
		if a.place > 0 {
			fmt.Fprintf(&b, ", queued %s.%d", letter(i/2), i%2+1)
		}
		if a.phase == blank {
			continue
		}
		fmt.Fprintf(&b, " | %s.%d %s", letter(i/2), i%2+1, [...]string{"", "asks", "WORKS", "LINGERS", "ends"}[a.phase])
		if a.believes() {
			fmt.Fprintf(&b, " for %d, asked %d ago", a.bound, a.base)
		}
	}
	if s.foreign > 0 {
		fmt.Fprintf(&b, " | Java waits %d", s.foreign-1)
	}
	return b.String()
}
