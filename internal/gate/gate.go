// Package gate queues the goroutines of one process that want the same key. They are served in the
// order in which they came, except that a running goroutine may overtake the first waiter while
// that waiter is being woken.
//
// Only the goroutine at the gate talks to Redis. However many goroutines wait behind it, Redis sees
// one contender per process and key. When a goroutine leaves the gate it hands a baton to the next
// one: what it has achieved so far, or nothing.
//
// There are two ways to hand on. Pass gives gate and baton to the first waiter, however long that
// waiter takes to wake up. Offer wakes the first waiter and leaves the baton at the gate. Until the
// first waiter has come for it, any goroutine that enters takes the baton. That saves a switch of
// goroutines. Overtaking is bounded: Offer does as Pass once the first waiter has come and found
// the baton taken, was called longer ago than Soon, or was overtaken maxOvertakes times.
//
// There are two more ways to leave the gate. LayDown is for a gate at which no goroutine waits: a
// baton lies there for the next goroutine that enters. Open gives a baton to every goroutine that
// waits, and then to every goroutine that enters, until it is withdrawn. None of those goroutines
// is at the gate.
//
// Two ways lead past the gate: the caller is not there, nor is the waiter that gets the baton, and the
// goroutine that is there stays. PassBeside gives the first waiter a baton. OfferBeside wakes it, and
// leaves the baton beside the gate, where goroutines that enter may take it first, within the bounds of
// Offer. As many batons lie there as goroutines wait, at most.
//
// So a gate is in one of five states. This is what its methods do in each:
//
//	free     Enter: taken.
//	taken    Enter: joins the line. Pass: taken, by the first waiter. Offer: offered, or as Pass.
//	         Leave: taken, by the first waiter with no baton; free if none waits.
//	         PassBeside, OfferBeside, and taking a baton that lies beside: taken, by the same goroutine.
//	         LayDown: as Offer or Pass; laid if none waits. Open: open, or free. Either way all that
//	         waited have left the line.
//	offered  Enter: taken, with the baton. The first waiter looks, since it was called or gives up:
//	         taken, with the baton. Leave, since what was offered is worth nothing any more: taken,
//	         by the first waiter with no baton.
//	laid     Enter: taken, with the baton. Withdraw: free.
//	open     Enter: open, with the baton. Withdraw: free.
//
// No waiter sleeps beside an offer: the first in the line has been called. If it gives up at that
// moment, it looks for the offer before it leaves, and returns with the baton. So does any waiter that
// gives up where there are as many batons as waiters.
package gate

import (
	"context"
	"errors"
	"hash/maphash"
	"sync"
	"time"

	"github.com/relock-go/relock/internal/clock"
)

// ErrClosed is returned to goroutines that wait at gates that have been closed.
var ErrClosed = errors.New("gates closed")

// ErrUnreported is the report of a gate whose goroutine came with no baton and has not reported
// anything yet.
var ErrUnreported = errors.New("nothing heard yet")

const (
	// Soon is about the time that a goroutine takes to wake up.
	Soon = 4 * time.Microsecond
	// maxOvertakes is how often one waiter is overtaken at most.
	maxOvertakes = 3
)

// A Left error is returned to a waiter that gave up. It wraps the cause.
type Left struct {
	Cause  error
	Report error         // the last one from the gate, nil if all is well
	Stood  time.Duration // for how long the report has been other than nil
	Waited time.Duration // for how long the waiter was in the line
}

// Error is the cause's text, and the report's.
func (e *Left) Error() string {
	if e.Report == nil {
		return e.Cause.Error()
	}
	return e.Cause.Error() + ": " + e.Report.Error()
}

// Unwrap returns the cause.
func (e *Left) Unwrap() error { return e.Cause }

// Gates holds a gate for each key in use. The zero value is not usable; call New.
type Gates[T comparable] struct {
	closed  chan struct{}
	waiters sync.Pool // *waiter, for reuse: no goroutine refers to them any more
	seed    maphash.Seed
	shards  [shards]shard[T]
}

// shards is how many mutexes the gates have: so many that goroutines that want different keys
// seldom wait for the same mutex.
const shards = 64

// shard has the gates of the keys with one hash, on cache lines of its own.
type shard[T comparable] struct {
	// mu guards what follows, every line, and sending to a waiter. Invariants:
	//
	//   - A key has a line exactly while its gate is not free.
	//   - A line has no waiter while a baton is laid at its gate, or the gate is open.
	//   - A waiter is in its line until it is given the gate, takes an offer, or gives up.
	//   - A waiter that was called, and has not come in vain, is about to look: the call is in its
	//     channel, or the waiter has received the call and is about to lock mu.
	//   - While its gate is offered, or a baton lies beside the gate, the first waiter of a line is such
	//     a waiter.
	//   - Beside a gate that is taken lie no more batons than its line has waiters; beside others none.
	mu    sync.Mutex
	gates map[string]*line[T]
	spare []*line[T]

	_ [8]uint64
}

func (g *Gates[T]) shardOf(key string) *shard[T] {
	return &g.shards[maphash.String(g.seed, key)%shards]
}

// lock locks the shard of key's gate. It returns the shard and the gate's line, nil for a free
// gate.
func (g *Gates[T]) lock(key string) (*shard[T], *line[T]) {
	s := g.shardOf(key)
	s.mu.Lock()
	return s, s.gates[key]
}

// line is a gate that is not free, and the waiters there, the one that came first in front.
type line[T comparable] struct {
	first, last *waiter[T]
	waiting     int // waiters in the line

	state  state
	beside []T // batons that lie beside the gate; the one that came last is taken first
	baton  T   // that is offered, laid, or given to all; the zero T of a gate that is taken

	report error         // for waiters that give up; nil says that all is well
	since  time.Duration // when the report became other than nil
}

// state is the state of a gate that is not free. The package comment says what each state allows.
type state uint8

const (
	taken state = iota
	offered
	laid
	open
)

// waiter is a goroutine in a line.
type waiter[T comparable] struct {
	prev, next *waiter[T]
	signals    chan signal[T] // one slot
	joined     time.Duration

	called     bool
	calledAt   time.Duration // the first time
	cameInVain bool          // it answered a call, and the baton had been taken
	overtaken  int           // how often offers went to others
}

// signal is what a waiter is sent. If given is set, the gate is the waiter's, with the baton.
// Otherwise the signal is a call: the waiter is to look whether there still is an offer.
type signal[T any] struct {
	given bool
	baton T
}

// New returns gates, all of them free.
func New[T comparable]() *Gates[T] {
	return &Gates[T]{closed: make(chan struct{}), seed: maphash.MakeSeed()}
}

// A Watcher is told that its goroutine has joined a line. It must not block, since by then the gate
// may have been given to that goroutine.
type Watcher interface{ Waits() }

// Enter waits until the caller is at key's gate. It returns the baton that was handed over or lay
// there, the zero T if there was none. At an open gate it returns at once with that gate's baton,
// and the caller is not at the gate. If the caller has to wait, Enter calls seen.Waits once it is
// in the line, unless seen is nil.
//
// On failure the caller is not at the gate: ctx ended (a *Left is returned), or the gates were
// closed (ErrClosed). If the caller is given the gate just as ctx ends, Enter returns without error,
// and the caller decides what becomes of the baton.
func (g *Gates[T]) Enter(ctx context.Context, key string, seen Watcher) (T, error) {
	baton, w := g.join(key)
	if w == nil {
		return baton, nil
	}
	if seen != nil {
		seen.Waits()
	}
	for {
		select {
		case told := <-w.signals:
			if !told.given {
				told = g.answerCall(key, w)
			}
			if told.given {
				g.waiters.Put(w)
				return told.baton, nil
			}
			continue
		case <-ctx.Done():
		case <-g.closed:
		}
		told, left := g.giveUp(key, w)
		switch {
		case told.given:
			return told.baton, nil
		case ctx.Err() != nil: // without the mutex: ctx may be a lease, which locks its hold's mutex
			left.Cause = context.Cause(ctx)
			return told.baton, left
		}
		return told.baton, ErrClosed
	}
}

// TryEnter takes key's gate if it is free, or if a baton is laid there, with that baton. It reports
// whether it did. At an open gate it returns that gate's baton and false: the caller is not at the
// gate.
func (g *Gates[T]) TryEnter(key string) (baton T, atGate bool) {
	s, l := g.lock(key)
	defer s.mu.Unlock()
	switch {
	case l == nil:
		s.take(key)
		return baton, true
	case l.state == laid:
		return l.takeBaton(), true
	case l.state == open:
		return l.baton, false
	}
	return baton, false
}

// Open makes the caller leave key's gate, and lets all others in. Every goroutine that waits gets a
// baton, toWaiters, and Open returns their number. If stays is set, the gate stays open: goroutines
// that come later get the baton toLater, until Withdraw takes that away. Otherwise the gate is
// free.
func (g *Gates[T]) Open(key string, toWaiters, toLater T, stays bool) (given int) {
	s, l := g.lock(key)
	defer s.mu.Unlock()
	for l.give(toWaiters) {
		given++
	}
	if !stays {
		s.free(key, l)
		return given
	}
	l.state, l.baton = open, toLater
	return given
}

// Withdraw takes away baton, and key's gate is free. It does nothing unless baton is laid there, or
// the open gate gives it to all.
func (g *Gates[T]) Withdraw(key string, baton T) {
	s, l := g.lock(key)
	defer s.mu.Unlock()
	if l != nil && (l.state == laid || l.state == open) && l.baton == baton {
		l.takeBaton()
		s.free(key, l)
	}
}

// Report sets the report that waiters at key's gate return with if they give up; nil says that all
// is well. The caller is at the gate. The report stays when the gate goes to the next goroutine.
// Report returns whether any goroutine waits.
func (g *Gates[T]) Report(key string, report error) (waiting bool) {
	s, l := g.lock(key)
	defer s.mu.Unlock()
	if l == nil {
		return false
	}
	l.setReport(report)
	return l.first != nil
}

// Waiting reports whether any goroutine waits behind the caller, which is at key's gate.
func (g *Gates[T]) Waiting(key string) bool {
	s, l := g.lock(key)
	defer s.mu.Unlock()
	return l != nil && l.first != nil
}

// Pass hands the gate and a baton to the next waiter. If there is none it returns false, and the
// caller stays at the gate.
func (g *Gates[T]) Pass(key string, baton T) bool {
	s, l := g.lock(key)
	defer s.mu.Unlock()
	l.clearBeside()
	return l.give(baton)
}

// PassBeside hands a baton to the next waiter at key's gate, which leaves the line and is not at the
// gate. The caller is not there either: another goroutine is, and stays. If no goroutine waits behind
// that one, PassBeside returns false.
func (g *Gates[T]) PassBeside(key string, baton T) bool {
	s, l := g.lock(key)
	defer s.mu.Unlock()
	return l != nil && l.state == taken && l.giveBeside(baton)
}

// OfferBeside is PassBeside, except that a goroutine which enters before the next waiter has woken up may
// take the baton. It is for callers that had the baton for no longer than Soon. now is a reading of
// clock.Mono.
func (g *Gates[T]) OfferBeside(key string, baton T, now time.Duration) bool {
	s, l := g.lock(key)
	defer s.mu.Unlock()
	if l == nil || l.state != taken || len(l.beside) == l.waiting {
		return false
	}
	if !l.call(now) {
		return l.giveBeside(baton)
	}
	l.beside = append(l.beside, baton)
	return true
}

// Offer is Pass, except that a goroutine which enters before the next waiter has woken up takes the
// gate and the baton. It is for callers that had the baton for no longer than Soon: a goroutine
// that overtakes will probably hand it on as fast, so the waiter loses little. now is a reading of
// clock.Mono.
func (g *Gates[T]) Offer(key string, baton T, now time.Duration) bool {
	s, l := g.lock(key)
	defer s.mu.Unlock()
	return l.offer(baton, now)
}

// LayDown makes the caller leave key's gate. If a goroutine waits, LayDown hands baton on, by Offer
// if soon is set and otherwise by Pass. If none waits, the baton idle lies there for the next
// goroutine that enters, and LayDown returns true.
func (g *Gates[T]) LayDown(key string, baton, idle T, soon bool, now time.Duration) (lies bool) {
	s, l := g.lock(key)
	defer s.mu.Unlock()
	if soon && l.offer(baton, now) || !soon && l.give(baton) {
		return false
	}
	l.state, l.baton = laid, idle
	return true
}

// Leave makes the caller leave key's gate, and takes back what the caller has offered there. The next
// waiter comes to the gate with no baton.
func (g *Gates[T]) Leave(key string) {
	s, l := g.lock(key)
	defer s.mu.Unlock()
	l.takeBaton()
	l.clearBeside()
	var none T
	if !l.give(none) {
		s.free(key, l)
	} else if l.report == nil {
		l.setReport(ErrUnreported)
	}
}

// Close turns away the goroutines that wait, and those that would have to wait later. A goroutine
// at a gate keeps it until it leaves.
func (g *Gates[T]) Close() { close(g.closed) }

// Len returns how many gates are not free. It is for tests.
func (g *Gates[T]) Len() int {
	n := 0
	for i := range g.shards {
		s := &g.shards[i]
		s.mu.Lock()
		n += len(s.gates)
		s.mu.Unlock()
	}
	return n
}

// join takes the gate, with the baton that is laid or offered there, and returns no waiter. At an
// open gate it returns that gate's baton. If the gate is taken, it appends a waiter to the line.
func (g *Gates[T]) join(key string) (baton T, w *waiter[T]) {
	s, l := g.lock(key)
	defer s.mu.Unlock()
	switch {
	case l == nil:
		s.take(key)
		return baton, nil
	case l.state == open:
		return l.baton, nil
	case l.state == offered:
		l.first.overtaken++
		return l.takeBaton(), nil
	case l.state == laid:
		return l.takeBaton(), nil
	case len(l.beside) > 0 && l.first.overtaken < maxOvertakes:
		l.first.overtaken++
		return l.takeBeside(), nil
	}
	if w, _ = g.waiters.Get().(*waiter[T]); w == nil {
		w = &waiter[T]{signals: make(chan signal[T], 1)}
	}
	*w = waiter[T]{signals: w.signals, prev: l.last, joined: clock.Mono()}
	if l.last == nil {
		l.first = w
	} else {
		l.last.next = w
	}
	l.last = w
	l.waiting++
	return baton, w
}

// answerCall is called for a waiter that an offer woke. It takes the offer, unless another
// goroutine was faster. Then w waits on, and is not overtaken again.
func (g *Gates[T]) answerCall(key string, w *waiter[T]) signal[T] {
	s, l := g.lock(key)
	defer s.mu.Unlock()
	told := w.look(l)
	w.cameInVain = !told.given
	return told
}

// giveUp takes w out of the line, unless w has the gate by now. The error has no cause yet.
func (g *Gates[T]) giveUp(key string, w *waiter[T]) (told signal[T], left *Left) {
	s, l := g.lock(key)
	defer s.mu.Unlock()
	if told = w.look(l); told.given {
		return told, nil
	}
	last := len(l.beside) == l.waiting // beside a baton for each
	l.remove(w)
	if last {
		return signal[T]{given: true, baton: l.takeBeside()}, nil
	}
	left = &Left{Report: l.report, Waited: clock.Mono() - w.joined}
	if l.report != nil {
		left.Stood = clock.Mono() - l.since
	}
	return told, left
}

// look returns what w was given. If w is the first in the line, it takes the offer, if there is
// one. It empties w's channel: by looking now, w has answered a call that is still in there. The
// caller holds the mutex.
func (w *waiter[T]) look(l *line[T]) (told signal[T]) {
	select {
	case told = <-w.signals:
	default:
	}
	if !told.given && l.state == offered && l.first == w {
		l.remove(w)
		told = signal[T]{given: true, baton: l.takeBaton()}
	}
	if !told.given && len(l.beside) > 0 && l.first == w {
		l.remove(w)
		told = signal[T]{given: true, baton: l.takeBeside()}
		l.callNext()
	}
	return told
}

// maxSpare is how many lines a shard keeps for reuse.
const maxSpare = 4

// take takes a free gate: it makes a line for it. The caller holds the mutex.
func (s *shard[T]) take(key string) {
	var l *line[T]
	if n := len(s.spare); n > 0 {
		l, s.spare = s.spare[n-1], s.spare[:n-1]
	} else {
		l = new(line[T])
	}
	l.report, l.since = ErrUnreported, clock.Mono()
	if s.gates == nil {
		s.gates = make(map[string]*line[T])
	}
	s.gates[key] = l
}

// free makes a gate free that has neither waiter nor baton: it ends its line. The caller holds the
// mutex.
func (s *shard[T]) free(key string, l *line[T]) {
	delete(s.gates, key)
	if len(s.spare) < maxSpare {
		s.spare = append(s.spare, l)
	}
}

// setReport changes the report. Reports other than nil that follow one another count from the
// first.
func (l *line[T]) setReport(report error) {
	if l.report == nil {
		l.since = clock.Mono()
	}
	l.report = report
}

// takeBaton makes a gate taken that was offered, laid or open, and returns its baton.
func (l *line[T]) takeBaton() (baton T) {
	baton, l.baton, l.state = l.baton, baton, taken
	return baton
}

// call wakes the first waiter to look, unless that was called before and has not looked since. It returns
// false if none waits, or if the first must not be overtaken any more. The caller holds the mutex.
func (l *line[T]) call(now time.Duration) bool {
	w := l.first
	switch {
	case w == nil:
		return false
	case !w.called:
		w.called, w.calledAt = true, now
		w.signals <- signal[T]{}
	case w.cameInVain || w.overtaken >= maxOvertakes || now-w.calledAt > Soon:
		return false
	}
	return true
}

// takeBeside takes the baton that came last beside the gate. The caller holds the mutex.
func (l *line[T]) takeBeside() (baton T) {
	var none T
	end := len(l.beside) - 1
	baton, l.beside[end] = l.beside[end], none
	l.beside = l.beside[:end]
	return baton
}

// giveBeside gives the first waiter a baton, but not the gate. It returns false if there is a baton for
// each waiter. The caller holds the mutex.
func (l *line[T]) giveBeside(baton T) bool {
	if len(l.beside) == l.waiting {
		return false
	}
	l.give(baton)
	l.callNext()
	return true
}

// clearBeside gives waiters all batons that lie beside the gate: there are as many waiters, at least. The
// caller holds the mutex.
func (l *line[T]) clearBeside() {
	for len(l.beside) > 0 {
		l.give(l.takeBeside())
	}
}

// callNext calls the first waiter, if there is a baton beside the gate for it, or gives it the baton. The
// caller holds the mutex.
func (l *line[T]) callNext() {
	for len(l.beside) > 0 && !l.call(clock.Mono()) {
		l.give(l.takeBeside())
	}
}

// offer leaves baton at the gate for the first waiter, or for a goroutine that enters before that
// one looks. It calls the waiter unless it has done so before: a waiter that was called, and has
// not looked since, will look. A waiter that has looked, or must not be overtaken again, is given
// the baton. If none waits, offer returns false. The caller holds the mutex.
func (l *line[T]) offer(baton T, now time.Duration) bool {
	if !l.call(now) {
		return l.give(baton)
	}
	l.state, l.baton = offered, baton
	return true
}

// give gives gate and baton to the first waiter. It returns false if none waits. A call that is
// still in the waiter's channel is taken out. The send does not block then: the caller holds the
// mutex, so no other goroutine fills the channel's one slot.
func (l *line[T]) give(baton T) bool {
	w := l.first
	if w == nil {
		return false
	}
	l.remove(w)
	select {
	case <-w.signals:
	default:
	}
	w.signals <- signal[T]{given: true, baton: baton}
	return true
}

func (l *line[T]) remove(w *waiter[T]) {
	if w.prev == nil {
		l.first = w.next
	} else {
		w.prev.next = w.next
	}
	if w.next == nil {
		l.last = w.prev
	} else {
		w.next.prev = w.prev
	}
	w.prev, w.next = nil, nil
	l.waiting--
}
