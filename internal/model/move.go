package model

import (
	"bytes"
	"fmt"
	"strings"
)

// The acquisition ids of the move system: the giver's, its handle, and the attempts of two takers.
const (
	moveNone   int8 = iota
	moveOwn         // the giver's own
	moveHandle      // trusted by no process
	moveB1          // the first attempt of taker B, then its second
	moveB2
	moveC1
	moveC2
	moveOther // any of the contender's
	moveIDs
)

const moveTries = 2 // of each taker

// Where an acquisition is in its process.
const (
	moveBlank  int8 = iota
	moveHolds       // it is trusted
	moveAsks        // the giver hands over, the taker takes over: moves are sent until one is answered
	moveSweeps      // over; a release is repeated until it is answered
	moveLimbo       // answered, but a command may still come late
	moveOver
)

// Answers to a move.
const (
	moveUnheard int8 = iota
	moveYes
	moveNo
)

// moveID is one acquisition: what its process knows, and what is on its way. Ages are ticks since a command was sent;
// 1 more is stored, so that 0 means none.
type moveID struct {
	phase   int8
	bound   int8 // ticks that it is trusted for
	token   int8
	sent    bool // a move was
	ask     int8 // the latest move, on its way
	late    int8 // earlier moves on their way
	reply   int8 // to the latest
	age     int8
	told    int8 // the token in the answer
	rel     int8 // releases on their way
	relDone bool
	doubt   bool // a command of it may come late
	left    int8 // ticks of limbo
	gaveUp  bool
	deposed bool // by force
	seen    int8 // the holder's id that it takes for a handle
}

// moveState is one lock of one Redis, which its holder hands over.
type moveState struct {
	holder  int8
	also    int8 // an old field that was left in the hash
	lease   int8
	stood   int8 // ticks since the holder was written, or renewed
	first   int8 // token of the grant in force
	others  bool // that grant is not the one that the giver had
	counter int8
	queued  bool // the giver's own id, by a late acquire

	own     moveID
	acquire int8 // acquires of the giver's that come late
	renew   int8
	renewed int8
	push    bool // the message of a grant to its own id
	known   bool // takers have the handle
	taker   [2][moveTries]moveID

	waits   bool // the contender does
	sleep   int8
	wake    bool // word of the lock is on its way to it
	missed  bool // such a message was lost
	second  int8 // 1 + ticks that another thread of the contender's JVM sleeps
	wakes   bool // word for all its threads is on its way
	bound   int8 // the contender's trust
	deposed bool
	comes   int8 // times that it still comes
	forces  int8
	lost    int8 // messages to the contender that may still be lost

	top     int8 // highest token that was trusted
	took    int8 // takers that were
	between bool // the lock was granted since the hand-over began
	broken  string
}

// MoveRules switches rules off. The zero value is the protocol.
type MoveRules struct {
	TrustLonger   bool // trust ends after the move was sent
	KeepOld       bool // a move leaves the old field
	AnyFrom       bool // a move does not ask which id holds
	KeepToken     bool // a taker goes on with the giver's token
	RepeatRenews  bool // a repeated move to the handle sets the lease again
	CountRepeat   bool // a taker's repeated move does not lengthen the lease, and is counted from
	SweepHandle   bool // the giver's sweeper ends the handle
	ReuseID       bool // a taker that gave up tries again under the same id
	Silent        bool // a shorter lease is not announced
	WakesOne      bool // a shorter lease is announced as an unlock is: one thread of a JVM asks again
	SleepsByLease bool // a waiter does not poll
	ForgetOwn     bool // without an answer nothing is released
	AnyGrant      bool // a move does not ask which grant it moves
	AnyID         bool // a taker's move takes the id of a holder for a handle
	ForgetDoubt   bool // an answered hand-over is not swept, though an acquire may come late
}

// MoveScope is how much is explored.
type MoveScope struct {
	Lease    int8 // ticks
	Handle   int8 // ticks that the handle stands
	Tries    [2]int8
	Late     int8 // acquires of the giver's that may come late
	Renews   bool
	Poll     int8 // ticks that the waiter sleeps at most, 0 for Redisson's
	Threads  bool // a second thread of Redisson's waits beside it, E, which takes the lock for no time
	Comes    int8
	Forces   int8
	Lost     int8
	InFlight int
	Later    bool // commands outlast limbo
	Seen     bool // takers may also take the id of a holder for a handle
}

type moveSystem struct {
	MoveScope
	rules MoveRules
}

// Move is the system of one Redis and an acquisition that its process hands over to others: a giver, two takers with
// the same handle, and a contender whose own commands are answered at once.
func Move(scope MoveScope, rules MoveRules) System[moveState] {
	w := &moveSystem{scope, rules}
	return System[moveState]{
		Name: fmt.Sprintf("move %+v", scope),
		Init: moveState{
			holder: moveOwn, lease: scope.Lease, first: 1, counter: 1, top: 1,
			own:     moveID{phase: moveHolds, bound: scope.Lease, token: 1, doubt: scope.Late > 0},
			acquire: scope.Late, comes: scope.Comes, forces: scope.Forces, lost: scope.Lost,
		},
		Steps: w.steps,
		Rules: []Rule[moveState]{
			{"exclusion", moveExclusion}, {"belief is ownership", w.ownership},
			{"tokens rise", moveRule("token")}, {"a handle is used once", moveRule("handle")},
			{"never free between", moveRule("free")}, {"none between", moveRule("between")},
			{"bounded", w.bounded}, {"no orphan", w.noOrphan}, {"no sleeper", w.noSleeper},
		},
		Canon: w.canon,
		Goal:  w.quiet,
		Show:  moveState.String,
	}
}

func moveRule(about string) func(moveState) string {
	return func(s moveState) string {
		if strings.HasPrefix(s.broken, about) {
			return s.broken
		}
		return ""
	}
}

// id returns what the process knows of an id, nil for the handle and the contender's.
func (s *moveState) id(i int8) *moveID {
	switch i {
	case moveOwn:
		return &s.own
	case moveB1, moveB2, moveC1, moveC2:
		return &s.taker[(i-moveB1)/moveTries][(i-moveB1)%moveTries]
	}
	return nil
}

func (s *moveState) each(visit func(i int8, a *moveID)) {
	for i := range moveIDs {
		if a := s.id(i); a != nil {
			visit(i, a)
		}
	}
}

func (s *moveState) in(i int8) bool { return s.holder == i || s.also == i && s.also != moveNone }

func moveExclusion(s moveState) string {
	var who []string
	s.each(func(i int8, a *moveID) {
		if a.bound > 0 && !a.deposed {
			who = append(who, moveName(i))
		}
	})
	if s.bound > 0 && !s.deposed {
		who = append(who, "D")
	}
	if len(who) > 1 {
		return strings.Join(who, " and ") + " are trusted at once"
	}
	return ""
}

// ownership: a trusted process holds the lock at the server, for no shorter, but for force.
func (w *moveSystem) ownership(s moveState) string {
	wrong := ""
	s.each(func(i int8, a *moveID) {
		if a.bound > 0 && !a.deposed && (s.holder != i || a.bound > s.lease || a.token != s.first) {
			wrong = moveName(i) + " is trusted with what the server does not grant"
		}
	})
	return wrong
}

// bounded: nothing stands for longer than it was written for.
func (w *moveSystem) bounded(s moveState) string {
	most := w.Lease
	if s.holder == moveHandle {
		most = w.Handle
	}
	if s.holder != moveNone && s.stood >= most {
		return moveName(s.holder) + " stands for longer than it was written for"
	}
	return ""
}

func (w *moveSystem) noOrphan(s moveState) string {
	wrong := ""
	s.each(func(i int8, a *moveID) {
		if (s.in(i) || i == moveOwn && s.queued) && a.phase == moveOver && !w.Later && !(i == moveOwn && s.push) {
			wrong = moveName(i) + " is over, yet stands at the server, and nobody releases it"
		}
	})
	return wrong
}

// noSleeper: a thread of Redisson's sleeps for the lease that it was told. So it needs the message.
func (w *moveSystem) noSleeper(s moveState) string {
	if s.holder != moveNone || s.wake || s.wakes || w.Poll == 0 && s.missed {
		return ""
	}
	awake := s.waits && s.sleep == 0 || s.second == 1 // a thread that takes the lock tells the others when it is over
	switch {
	case awake:
	case s.waits && s.sleep > w.Poll:
		return "D sleeps beside a free lock"
	case s.second > 1:
		return "E sleeps beside a free lock"
	}
	return ""
}

func (w *moveSystem) quiet(s moveState) bool {
	quiet := s.holder == moveNone && !s.waits && s.second == 0 && (!s.queued || w.Later) && s.bound == 0 // a queue ends by itself
	s.each(func(_ int8, a *moveID) {
		quiet = quiet && (a.phase == moveBlank || a.phase == moveOver)
	})
	return quiet
}

// canon renumbers tokens by rank, and orders takers with as many attempts: all that there is about one stands in its
// attempts, and in who holds.
func (w *moveSystem) canon(s moveState) moveState {
	var rank [32]int8
	s.tokens(func(t *int8) { rank[*t] = 1 })
	for t, next := 0, int8(0); t < len(rank); t++ {
		if t == 0 || rank[t] > 0 {
			rank[t] = next
			next++
		}
	}
	s.tokens(func(t *int8) { *t = rank[*t] })
	if w.Tries[0] == w.Tries[1] {
		other := s.swapped()
		if bytes.Compare(other.bytes(), s.bytes()) < 0 {
			return other
		}
	}
	return s
}

func (s *moveState) tokens(visit func(*int8)) {
	visit(&s.counter)
	visit(&s.first)
	visit(&s.top)
	s.each(func(_ int8, a *moveID) {
		visit(&a.token)
		visit(&a.told)
	})
}

// swapped calls each taker by the other's letter.
func (s *moveState) swapped() moveState {
	r := *s
	r.taker[0], r.taker[1] = s.taker[1], s.taker[0]
	for _, i := range []*int8{&r.holder, &r.also} {
		switch *i {
		case moveB1, moveB2:
			*i += moveTries
		case moveC1, moveC2:
			*i -= moveTries
		}
	}
	return r
}

// bytes writes down what swapped changes.
func (s *moveState) bytes() []byte {
	at := make([]byte, 0, 2+4*15)
	at = append(at, byte(s.holder), byte(s.also))
	for i := moveB1; i <= moveC2; i++ {
		a := s.id(i)
		at = append(at, byte(a.phase), byte(a.bound), byte(a.token), byte(a.ask), byte(a.late),
			byte(a.reply), byte(a.age), byte(a.told), byte(a.rel), byte(a.left), byte(a.seen),
			bit(a.sent)|bit(a.relDone)<<1|bit(a.doubt)<<2|bit(a.gaveUp)<<3|bit(a.deposed)<<4)
	}
	return at
}

func moveName(i int8) string {
	return [...]string{"nobody", "A", "the handle", "B.1", "B.2", "C.1", "C.2", "D"}[i]
}

func (s moveState) String() string {
	var b strings.Builder
	if s.holder == moveNone {
		b.WriteString("free")
	} else {
		fmt.Fprintf(&b, "%s's for %d, token %d", moveName(s.holder), s.lease, s.first)
	}
	if s.also != moveNone {
		fmt.Fprintf(&b, ", and %s's", moveName(s.also))
	}
	if s.queued {
		b.WriteString(", queued A")
	}
	s.each(func(i int8, a *moveID) {
		switch {
		case a.bound > 0:
			fmt.Fprintf(&b, " | %s TRUSTS %d for %d", moveName(i), a.token, a.bound)
		case a.phase != moveBlank:
			fmt.Fprintf(&b, " | %s %s", moveName(i), [...]string{"", "", "asks", "is swept", "in limbo", "is over"}[a.phase])
		}
	})
	if s.waits {
		fmt.Fprintf(&b, " | D sleeps %d", s.sleep)
	}
	if s.second > 0 {
		fmt.Fprintf(&b, " | E sleeps %d", s.second-1)
	}
	if s.bound > 0 {
		fmt.Fprintf(&b, " | D TRUSTS %d for %d", s.first, s.bound)
	}
	return b.String()
}
