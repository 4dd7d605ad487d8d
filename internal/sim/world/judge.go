package world

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/relock-go/relock"
)

// Held is a lease that a client gave out, as the judge knows it.
type Held struct {
	Lease *relock.Lease
	Name  string
	Token int64

	proc   *process
	ctx    context.Context // under which it is re-entered
	under  context.Context // that it was asked for
	owner  string          // who may hold the lock together have the same
	at     time.Duration   // when it was given out
	asked  time.Time       // not after the lock was granted: when its process first asked for what it was passed on from
	fixed  bool            // nothing renews it: a loss is not noticed before its end
	lease  time.Duration
	linger time.Duration // WithLinger
	passes handoff       // of passing on in memory
	bound  *bound        // nil for none
	id     string        // of its hold in Redis
	amount int           // of the lock that the hold takes
	first  time.Duration // the lease that the hold was asked for with
	on     footing       // on the nodes
	over   atomic.Bool   // Unlock was called, or its process was killed
	going  going         // guarded by the world's mutex

	letGo  time.Duration // when Unlock was called, or since when it may be over
	gone   time.Duration // when Unlock was called
	number int           // in the history
	ended  bool          // in the history

	began                 time.Time     // when it was called for
	took                  time.Time     // when it was taken, of one that All took before it returned
	maxHold, minHold, fix time.Duration // of what it was asked for with, 0 for none
	due                   time.Time     // when it was over at the latest, of one that is unlocked then; zero for none
}

// taken is when it was taken, which is now but for All.
func (h *Held) taken() time.Time {
	if h.took.IsZero() {
		return time.Now()
	}
	return h.took
}

// live reports whether its holder may believe in it.
func (h *Held) live() bool {
	return !h.over.Load() && (h.Lease.Context().Err() == nil || h.Lease.Count() > 0) && !h.over.Load()
}

// judge knows what every client was told, on one clock, and what each Redis does. It demands, in the methods that are called
// with news:
//
//  1. When a call returns a lease, no other owner has a live lease of that lock.
//  2. A lease's token is above all earlier ones; a re-entry has the token of its outer lease. Sharers of an owner have
//     one token. On a quorum they have several, above those of all other owners before them.
//  3. No waiter waits beside a free lock for longer than docs/safety.md promises, nor for three leases for a lock without
//     a holder. The 2 s of promise 4 are not judged, in which a waiter has the lock on all counted nodes but one, where
//     its SUBSCRIBE was lost.
//  4. Calls return within a few command timeouts after the end of their context. So do Extend and Close. Unlock returns
//     within one.
//  5. Unlock returns nil only if the lease was not lost before, and a second Unlock never does. On a quorum one node's
//     answer does not decide the result. An Observer is told one end of each lease, and by turns that a node went down
//     and came back. The judge goes by true time, and by what Redis keeps. So some leases that nothing renews are
//     unlocked in the instant of their end, in which no timer may have run yet. Not judged are what a process has not yet
//     told Redis to end when Unlock returns, and on one Redis a command that is sent again, since the first copy may have
//     ended the lease.
//  6. After all faults have ended every process gets every lock, and hold counts in Redis are exact.
//  7. While no caller of a process asks or gets an answer, the process sends few commands: for each node and each caller
//     25 at once and 25 each second, without faults 15 and 10; for each lock whose end Redis refuses 5, and four a lease.
//  8. Without faults a call on one Redis costs few commands: Lock one, one more for each third of a lease that it waits,
//     and one to end it; a re-entry two, or three if its hold count is not sure; an uncontended lock that is entered
//     twice four. On each node of a quorum, under contention, it may cost twice as many.
//  9. A client that has used no lock for two minutes is subscribed to its inbox alone. After Close and some leases Redis
//     has only counters, seeds and incarnations, and there is no subscription and no goroutine.
//  10. No lease is lost, and no call fails, unless a fault hit its process or a node within its last lease. Lost messages,
//     full memory, flushed scripts and lost counters do not count as such faults.
//  11. The calls on a lock can be put into an order in which one owner had it at a time, with rising tokens. porcupine
//     checks each history, unless a fault broke that promise. Tokens first narrow the times of its operations. Otherwise
//     the search takes minutes if thirty goroutines call at once.
//  12. Redisson gets no lock for which relock has a live lease, nor relock one that Redisson's hash holds. Fenced tokens
//     rise across both. Without faults neither waits while the other gets the lock a hundred times, and no hold of
//     Redisson's is taken away. A Redisson thread that loses against another Redisson thread begins to count anew: they
//     keep no order. Redisson itself never learns of a loss, so its belief is not judged. The scene languages has
//     Redisson's read-write locks beside relock's, with re-entries and downgrades: no writer of one side enters beside a
//     live lease of the other. In that scene Redisson's readers, which wait for no writer, may overtake writers.
//  13. No lease is trusted for longer than enough nodes keep its id. The judge compares Until with the contents of the
//     nodes, in true time: when a lease is given out or lengthened, and seven times a lease. So a wrong deadline fails at
//     once, even if no other process is granted the lock in that time. A node that forgot, or whose clock was set
//     forward, counts for one lease as if it kept the id.
//  14. A holder that only listens to its lease's context hears of the end in that instant. Asking a lease would itself end
//     it once its time is over, so the judge asks half of the leases nothing around their end.
//  15. No lease is trusted beyond WithMaxHold and WithFixedLease, whatever extends or re-enters it. A lease by
//     WithFixedLease lasts as long as that says, but for what clocks may differ by. After Unlock nobody gets a lock that
//     WithMinHold keeps before its time is over, unless a fault hit its process or a node.
//  16. A hold without a lease that may no longer linger is released within a command timeout: its time is over, or its
//     process heard that another wants the lock. Close releases it before it returns. A hold whose fixed lease is being
//     lengthened for a caller is not idle. No hold comes from the cache if its time is over, or if it is wanted, in
//     doubt, or lengthened beyond its lease; on one Redis, nor if another question than its first was granted it. The
//     judge follows each acquisition's id where its process sends or hears it. While faults hit that process or a node it
//     waits before it judges.
//  17. Of the listening waiters in a node's queue, the one with the lowest ticket is granted the lock there, unless a
//     command for many locks failed at one of them. While another process waits, a lock is passed on in memory no more
//     often and no longer than WithLocalHandoff and WithLinger allow.
//  18. The grants of one Redis have rising tokens, from its start to its end. When a call on a quorum returns, the
//     counters of a quorum have reached its token.
//  19. A process ends each of its ids that has no lease. The id is gone within its linger time, a third of a lease, a
//     second and some commands, counted from the last fault that hit its process or its node. If a copy of a command left
//     it there, it may stay for three more leases. If a question left it that ran more than a lease after its process had
//     ended the acquisition, it may stay for one more lease, and for as long as its owner's other acquisitions. In hashes
//     and queues Close leaves only the locks that callers had.
//  20. No lease is lost if a renewal could have succeeded: for a third of the lease enough nodes kept it, and answered its
//     process. If a node of a quorum has no record of a live lease, it has one after two renewals, unless a fault hits
//     the node or the process, or another process wants the lock. A holder that heard that its lock was forced open, and
//     can ask, no longer trusts it. This is not judged if the lock was still there when the message came and was deleted
//     later, which sends no message.
//  21. Lock gives up when WithWait says so. Without JVMs Redisson gets no turn. A re-entry that a full Redis refuses
//     lengthens the lease all the same, unless the restart guard keeps that Redis out.
//  22. A call reports a busy lock only if its process got an answer about the lock since the call, or up to a third of a
//     lease before: from the one Redis, from one node if TryLock votes once, otherwise from a quorum. It reports that
//     Redis is down only if a question about the lock failed, was in flight, or had no answer. Goroutines in the local
//     line, which rely on the goroutine at its head, and batches are not judged. Nor is a report that Redis is down, if
//     the process has other calls under way.
//  23. In the scene forgetful majorities forget: more nodes of a quorum than a minority lose all data within a lease, one
//     clock is off, and in half of the seeds one node that remembers is silent for nine leases. Grants from before the
//     loss may break exclusion, for two leases after it. Tokens rise all the same. A node that forgot keeps no lock
//     before its quarantine is over, counted from the command that noticed the loss. From then on waiters are served
//     within the bounds of 3. In the scene fresh no client has used the nodes yet, and one node forgets while clients
//     look whether all nodes are new. Exclusion holds there without an exception. If another node had the guard's marker
//     before, the node that forgot keeps no lock before its quarantine is over.
//  24. If one acquisition is given out as several leases, their tokens rise, even if Redis has lost the counter. On one
//     Redis no lock comes from the cache once the process's connection for messages has broken. Readers that waited when
//     a reader's hold was granted may share it. Others may share it until the process has heard that another process
//     wants the lock, and for the longest time that one of its readers asked to share or linger.
//  25. A refused question tells each holder whose client listens that the lock is wanted, if there are 128 or fewer.
//     Owners of WithOwner, which never linger, and Redisson's turns are not judged.
//  26. A caller that gives up leaves its place in Redis's queue to the next goroutine of its process at the gate. This is
//     not judged on a quorum, where a caller has a place on each node.
//  27. Readers that listen and wait when a command ends a write enter before the next writer, even if the clock is set
//     back. A full Redis, and a write whose lease runs out, are not judged: then age decides. Nor are Redisson's writers,
//     which have no such order.
//  28. A lock that was forced open leaves none of its readers' keys. If a lock is read, and no relock writer waits for it,
//     it keeps a reader out for a second, a third of a lease and some commands at most: the time that is left to
//     Redisson's readers and writers ends. No writer enters beside a Redisson reader that still has any of its keys.
//  29. WithMaxHold ends no lease before its time. A reader's lease is trusted for no longer than WithRedissonWatchdog
//     says. A downgrade ends the write lease, and gives a higher token.
//  30. On a quorum the judge looks at each node just before each command. In its quarantine a node grants no lock and
//     confirms none, and it grants no lock before it was told the lock's counter. If a lock comes from the cache, its
//     first question was granted at a quorum of nodes, and its process had heard from as many that it is subscribed to
//     its inbox. In the scene guards one client asks for a longer quarantine than the others, in hearing many
//     subscriptions are lost, and in ties the goroutines of a process ask in the same instant, so that tickets could be
//     equal.
//  31. The scenes semaphores, heirs and tongues have semaphores of four or five permits, of which calls take one to three.
//     After each command, the permits that are free and those that are held are as many as there are. Only SetPermits
//     changes how many there are, or the first client that finds no number. Live leases take no more than there were when
//     Redis granted the last of them, and each has as many as its caller asked for. A command that ends an entry leaves
//     no listening waiter at the head of the line beside permits that fit it, but for one that a turn leaves to Redisson.
//     Holders are told that permits are wanted for the first in line alone. A call for more permits than there are does
//     not wait. In heirs processes are killed, and the counter of free permits is deleted. There no waiter is left for
//     longer than 100 ms beside permits that are free, or whose leases are over, unless a dead waiter stands before it.
//     At the end each process gets all permits at once. tongues has Redisson's semaphores beside relock's. Redisson's
//     waiters are told of permits that a command has freed, and a grant during their turn leaves them one. In a third of
//     its seeds Redisson's clock is ahead, so it frees permits too early. The judge excuses exactly the acquisitions that
//     this hits. Clients give a semaphore that has no number four permits or five. No process sends a command that
//     changes a number which Redis keeps, unless a caller of SetPermits asks for that.
//  32. The scenes all and any have callers of All and Any, of two to four locks, beside callers of one lock. Each call
//     ends within 150 leases. All.Lock does not give up because it lost a lock while it waited. If one of its leases
//     ends, so does the context of all, and after a loss its cause names a lock. A command that asks for several locks
//     takes no more than one where one was wanted, and what it takes without taking all is ended. An id that has no lock
//     stands in no line for more than two command timeouts and a second after the last call of its process that waits
//     there. Under the context of what they returned, both re-enter. Each lock has options of its own. What 5, 15 and 29
//     demand holds for it as if it were locked alone, and a call that fails has not waited longer than the WithWait of
//     its locks allows.
//  33. The scene flight has functions that run once, beside callers that take the lock of that name. Commands are lost, late
//     and doubled, lines break and processes are killed. A caller gets no result of a run if another was begun behind
//     that before the caller came, and none of a run that began before a Forget which had returned by then. A run that is
//     not trusted when it begins leaves nothing. In plans without Forget no run begins while an earlier one's result
//     stands. Redis keeps a result for exactly as long as its Flight says, to the millisecond, and no caller that comes
//     later is given it, unless a copy of the command that left it ran.
//  34. What State tells of a lock on one Redis is what that Redis kept at an instant of the call: the judge reads the keys
//     itself when the command runs. Permits and readers whose leases are over count as free. On a quorum as many nodes as
//     are needed have had the holder that it tells. Callers ask at any time, and for locks that they do not hold. Not
//     judged are plans with JVMs, and what several owners share that no grant names.
//
// If a fault breaks a promise by docs/safety.md, the judge excuses exactly the grants made before that fault, whose tokens
// are not above the counter at that moment. All later grants are judged as usual.
type judge struct {
	w *World

	mu      sync.Mutex // guards what follows; held for instants, never while a client is called
	locks   map[string]*record
	grants  int
	javas   int       // grants to Redisson
	most    int       // grants of the other side that a waiter let pass
	excused time.Time // until when a lock may have to be waited for
}

// mostPassed is more than a grant has tokens for those whom the lock is passed on to in memory.
const mostPassed = 1024

// record is what is known of one lock.
type record struct {
	held      []*Held          // those that may be live
	highest   int64            // token given out
	high      map[string]int64 // likewise, by the owner of WithOwner, "" for all that have none
	history   history
	horizon   int64 // tokens up to it are of grants that a fault may have ended
	struck    time.Time
	loose     int64 // tokens up to it may repeat: a counter was lost that was ahead of the clock
	waiting   map[*call]struct{}
	threads   map[*call]struct{} // of Redisson's that wait
	spent     spent
	alien     int64                // tokens up to it are of grants that Redisson need not respect
	uncounted bool                 // a counter was lost
	lost      time.Time            // when
	reserved  int64                // how far it had counted: one of its grants may not have been heard of yet
	given     map[*process][]*Held // leases of each
	free      time.Time            // since when nobody holds the lock in Redis while somebody waits, zero where that is not so
	nobody    time.Time            // since when no lease of it is live while somebody waits
	kept      keeping              // by WithMinHold

	returned map[*process][]time.Time // when calls at the gate did
}

func newJudge(w *World) *judge { return &judge{w: w, locks: map[string]*record{}} }

func (j *judge) of(name string) *record {
	r := j.locks[name]
	if r == nil {
		r = &record{
			waiting: map[*call]struct{}{}, threads: map[*call]struct{}{}, given: map[*process][]*Held{},
			returned: map[*process][]time.Time{},
			high:     map[string]int64{},
		}
		j.locks[name] = r
	}
	return r
}

// struck marks what was granted so far as perhaps lost; the counter may be lost too.
func (j *judge) struck(name string, counter, clock int64) {
	j.mu.Lock()
	defer j.mu.Unlock()
	r := j.of(name)
	r.horizon = max(r.horizon, counter, r.highest, r.reserved)
	r.struck = time.Now()
	if r.horizon >= clock {
		r.loose = r.horizon
	}
}

// unbounded is told how far a lock is counted when the clock is set back, 0 where its counter is gone.
// If that is less than it was, say on a replica that was promoted, what is granted next may be below
// all that was, also below a grant that no caller has heard of yet.
func (j *judge) unbounded(name string, counter int64) {
	j.mu.Lock()
	defer j.mu.Unlock()
	r := j.of(name)
	if last := max(r.highest, r.reserved); counter < last {
		r.loose = max(r.loose, last)
	}
}

// uncounted is told that a counter was lost.
func (j *judge) uncounted(name string, counter, clock int64) {
	j.mu.Lock()
	defer j.mu.Unlock()
	r := j.of(name)
	r.lost = time.Now()
	r.uncounted, r.reserved = true, max(r.reserved, counter)
	if last := max(counter, r.highest); last >= clock {
		r.loose = max(r.loose, last)
	}
}

func (j *judge) excuse(d time.Duration) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if until := time.Now().Add(d); until.After(j.excused) {
		j.excused = until
	}
}

// pardon forgets all excuses.
func (j *judge) pardon() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.excused = time.Time{}
}

// buried ends the leases of a process that was killed: it believes nothing any more.
func (j *judge) buried(p *process) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, r := range j.locks {
		for _, h := range r.held {
			if h.proc == p {
				h.over.Store(true)
				r.history.ends(h, j.sinceWhen(h), j.w.now())
			}
		}
		for c := range r.waiting {
			if c.proc == p {
				delete(r.waiting, c)
			}
		}
	}
}

// sinceWhen is from when on a lease may be over that is over now: those that nobody watches may have been lost before.
func (j *judge) sinceWhen(h *Held) time.Duration {
	if h.watched() {
		return j.w.now()
	}
	return h.at
}

// granted is told of each lease that a call returned. outer is the lease of the same lock that the
// call was made under.
func (j *judge) granted(h, outer *Held) {
	if !h.live() {
		return // lost on the way, as its holder is told at once
	}
	h.id, h.first = idOf(h.Lease)
	h.asked = j.w.askedFor(h)
	others, r := j.enter(h, outer)
	j.watches(h)
	j.lasts(h, outer)
	j.notKept(h, outer)
	j.trusts(h)
	j.listens(h)
	j.w.gives(h, outer)
	if outer == nil {
		j.w.inTurn(h)
		j.w.countedTo(h)
	}
	if j.w.form.Permits {
		j.w.wholly(h)
	}
	if j.w.form.Shared() {
		j.crowded(h, others, r)
	} else {
		for _, other := range others {
			j.compare(h, other, r)
		}
	}
	j.beside(h)
	// Granted before what was granted after a loss; or the loss brought the hold of an owner back, who
	// enters it again.
	earlier := h.Token <= r.horizon && (h.owner != "" || !h.asked.After(r.struck))
	if h.Token <= r.highest && h.Token > r.loose && !earlier {
		j.w.fail(h.Name, "token %d of p%d is not above %d", h.Token, h.proc.index, r.highest)
	}
}

// enter notes a lease, and returns those that were held before it with what was known until then.
func (j *judge) enter(h, outer *Held) ([]*Held, record) {
	j.mu.Lock()
	defer j.mu.Unlock()
	r := j.of(h.Name)
	for _, l := range r.given[h.proc] {
		if j.w.form.RW && l.id == h.id && l.asked.Before(h.asked) {
			h.asked = l.asked // readers share what one of them asked for
		}
	}
	since := max(0, h.asked.Sub(j.w.trace.start))
	j.grants++
	if outer == nil {
		j.passes(r, h.Name)
	}
	before := record{highest: r.highest, horizon: r.horizon, struck: r.struck, loose: r.loose}
	for _, l := range r.given[h.proc] {
		if !j.w.form.Shared() && h.Token > l.Token && h.Token-l.Token < mostPassed && l.asked.Before(h.asked) {
			h.asked = l.asked // perhaps passed on in memory
		}
	}
	r.given[h.proc] = append(r.given[h.proc], h)
	switch {
	case j.w.form.Permits: // whose numbers tell only when they were granted
		before.highest = 0
	case j.w.form.Shared():
		before.highest = r.history.highestBefore(since, j.w.form.above(h))
	case h.owner != "":
		before.highest = r.besides(h.owner)
	case h.Token <= r.alien: // Redisson may have been given the lock since, and need not respect it
		before.highest = slices.Max(append(slices.Collect(maps.Values(r.high)), 0))
	}
	r.high[h.owner] = max(r.high[h.owner], h.Token)
	if outer != nil && outer.Token == h.Token {
		before.highest = h.Token - 1 // a re-entry
	}
	kept := r.held[:0]
	for _, other := range r.held {
		if !other.over.Load() {
			kept = append(kept, other)
		}
	}
	others := append([]*Held(nil), kept...)
	r.held = append(kept, h)
	r.history.begins(h, since)
	r.highest = max(r.highest, h.Token)
	r.free, r.nobody = time.Time{}, time.Time{} // it may be over before watch looks again
	return others, before
}

// besides is the highest token that others than the sharers of an owner were given.
func (r *record) besides(owner string) int64 {
	var highest int64
	for other, token := range r.high {
		if other != owner {
			highest = max(highest, token)
		}
	}
	return highest
}

// compare judges a new lease beside an older one.
func (j *judge) compare(h, other *Held, r record) {
	together := j.w.kind.Together(h, other)
	// Sharers of an owner on a quorum, which a guarded Redis is one of, have tokens of their own.
	if together && (h.Token == other.Token || j.w.plan.Topology.Guarded) || !other.live() || !h.live() {
		return
	}
	if old := min(h.Token, other.Token); old <= r.horizon {
		j.late(h, other, r)
		return
	}
	if together {
		j.w.fail(h.Name, "p%d and p%d share an owner, and have the tokens %d and %d", h.proc.index, other.proc.index,
			h.Token, other.Token)
		return
	}
	j.w.fail(h.Name, "two holders: p%d has had token %d since %v, p%d is given %d", other.proc.index, other.Token, other.at,
		h.proc.index, h.Token)
}

// late demands that a loss that a fault excuses is noticed in the end: nobody believes longer than
// a lease.
func (j *judge) late(h, other *Held, r record) {
	old := h
	if other.Token < h.Token {
		old = other
	}
	if since := time.Since(r.struck); !old.fixed && since > 2*j.w.plan.Longest() {
		j.w.fail(h.Name, "two holders, %v after the fault: p%d believes in token %d, p%d in %d", since, h.proc.index, h.Token,
			other.proc.index, other.Token)
	}
}

// unlocking is called before Unlock is. It reports whether the lease was lost already.
func (j *judge) unlocking(h *Held) bool {
	j.keeps(h)
	lost := h.due.IsZero() && h.Lease.Count() == 0 && !h.over.Load()
	h.over.Store(true)
	j.lets(h)
	return lost
}

// unlocked is told what Unlock returned.
func (j *judge) unlocked(h *Held, lost bool, got error, again bool) {
	if lost && !again {
		// What was taken from the cache, or passed on, may have been lost before that: for a lease at most.
		j.lost(h, j.w.now()-h.at+j.w.plan.Longest(), got)
	}
	switch {
	case got != relock.ErrNotHeld && errors.Is(got, relock.ErrNotHeld):
		j.w.fail(h.Name, "Unlock of token %d takes a node's word for the lock's: %v", h.Token, got)
	case got == nil && again:
		j.w.fail(h.Name, "a second Unlock of token %d returned nil", h.Token)
	case got == nil && lost:
		j.w.fail(h.Name, "Unlock of token %d returned nil, but the lease was lost before", h.Token)
	case again && !errors.Is(got, relock.ErrNotHeld) && !errors.Is(got, relock.ErrLost) && !errors.Is(got, relock.ErrClosed):
		j.w.fail(h.Name, "a second Unlock of token %d returned %v", h.Token, got)
	}
}
