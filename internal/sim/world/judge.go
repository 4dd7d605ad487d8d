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

// judge knows what every client was told. What it demands is in the methods that are called with
// news.
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
