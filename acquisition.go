package relock

import (
	"math/rand/v2"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"
	"github.com/relock-go/relock/internal/clock"
	"github.com/relock-go/relock/internal/gate"
)

// acquisition is one try for a lock. It lives: waiting, held (through a chain of local hand-overs), over. Its id is the
// owner's field in Redis and is never used again, so every command about it can be sent twice.
type acquisition struct {
	names   names
	id      string // <client uuid>:<n>
	owner   string // of WithOwner; "" when the id is the owner
	lease   time.Duration
	block   int // fencing tokens reserved by a grant
	passes  int // how many of the grant's may be used in a row; set when the lock is granted
	timeout time.Duration

	// unanswered counts the acquires that may still run, after the acquisition is over. The sweeper then comes back until
	// they were answered or that cannot be.
	unanswered atomic.Int32
	// known is set once an acquire was answered, or a release that queued it: Redis may keep it.
	known atomic.Bool
	// sweeper ends the acquisition at its Redis. A quorum ends a leg at each node, so only its legs have one.
	sweeper *sweeper
	// regranted is set when a grant arrives while a release is unanswered: unless the release found the lock held, it may
	// have run before that grant.
	regranted atomic.Bool
	// stretched is what the lock may last in Redis, in nanoseconds, where that was asked to be longer than lease.
	stretched atomic.Int64

	// Of a quorum: where it stands at each node, and the fencing counter that its grant reached.
	election *election
	reached  int64

	// The rest is touched only by the goroutine that contends, which is one at a time.
	gates   *gate.Gates[baton] // the contender is at its lock's gate; nil for one that goes past it
	failure error              // of the last poll that ended; nil when it was answered
	base    clock.Stamp        // a believable grant happened after this
	counter int64              // fencing counter at base; a grant at or below it is stale
	ticket  string
	blocker blocker
	asked   clock.Stamp // when the last answered poll was sent
	primed  bool        // queued already, by a release: wait before polling

	// wake asks the contender to look for a grant and to poll. One slot: wake-ups coalesce.
	wake chan struct{}

	// Guarded by the hub's mutex.
	phase phase
	grant tokens // of the last message that granted it, zero when taken
	hints hints
	room  *room
	hold  *hold
	// unvetted is set when the lock was granted before it was known whether the inbox may be subscribed.
	unvetted bool
}

// tokens are a grant's fencing tokens: the first, and how many. A count of 0 stands for the whole block, which is what an
// older client grants without saying so.
type tokens struct {
	first int64
	count int
}

// among returns how many of a block the grant has.
func (t tokens) among(block int) int {
	if t.count == 0 {
		return block
	}
	return min(t.count, block)
}

// hints are what messages told a waiter beside grants: that it should look again, and that somebody with a lower ticket
// may wait for what it has.
type hints struct{ look, nudged bool }

type phase int

const (
	waiting phase = iota
	held
	releasing
)

func newAcquisition(nm names, client string, n uint64, owner string, cfg *config) *acquisition {
	a := &acquisition{
		names:   nm,
		id:      client + ":" + strconv.FormatUint(n, 10),
		owner:   owner,
		lease:   cfg.firstLease(),
		block:   cfg.passes,
		timeout: cfg.commandTimeout(),
		wake:    make(chan struct{}, 1),
	}
	if owner != "" {
		a.block = 1 // sharers do not pass the lock on in memory
	}
	a.passes = a.block
	return a
}

// noted counts what became of an acquire, or of a release that queued a.
func (a *acquisition) noted(err error) {
	switch {
	case !unknown(err):
		a.known.Store(true)
	case mayHaveRun(err):
		a.unanswered.Add(1)
	}
}

// late makes the answer to an acquire, or to a release that queued a, end what is not known of a. It may come before the
// caller has counted the command as unanswered: only the sum matters.
func (a *acquisition) late(res rueidis.RedisResult) {
	err := res.NonRedisError()
	if mayHaveRun(err) {
		return
	}
	if err == nil {
		a.known.Store(true)
	}
	a.unanswered.Add(-1)
	a.sweeper.answered(a)
	a.poke()
}

// mayRunLate reports whether an acquire of a may still be executed.
func (a *acquisition) mayRunLate() bool { return a.unanswered.Load() > 0 }

// mayStand reports whether Redis may know of a: it does not where every connection was refused.
func (a *acquisition) mayStand() bool { return a.known.Load() || a.mayRunLate() }

// polled keeps what became of a poll, and tells those who wait at the gate.
func (a *acquisition) polled(failure error) {
	a.failure = failure
	if a.gates != nil {
		a.gates.Remark(a.names.lock, failure)
	}
}

// unheard is what a contender did not hear that gives up while a poll of its own is out, or waits for the next; nil when
// Redis has answered it lately. Then the lock is busy, else Redis is not there: no poll was ever answered, the last one
// failed, or one is out and the answer before is older than a command may take.
func (a *acquisition) unheard(out bool, now clock.Stamp) error {
	switch {
	case a.failure != nil:
		return a.failure
	case a.asked.IsZero(), out && now.Since(a.asked) > a.timeout:
		return errNoAnswer
	}
	return nil
}

// queued notes the answer "you wait" to a command sent at sent.
func (a *acquisition) queued(rep reply, sent clock.Stamp) {
	a.ticket, a.blocker = rep.ticket, rep.blocker
	a.base, a.counter, a.asked = sent, rep.counter, sent
}

// nextPoll is how long to sleep if no message comes: to the end of the holder's lease, since expiry publishes nothing,
// and at most a third of our own, so that a grant can be dated. A random part keeps processes apart.
func (a *acquisition) nextPoll() time.Duration {
	pause := a.lease / 3
	pause += rand.N(pause / 20)
	if ttl := a.blocker.ttl; ttl >= 0 && ttl < pause {
		pause = ttl + time.Millisecond
	}
	return max(pause-clock.Now().Since(a.asked), minPoll)
}

// minPoll keeps polls apart when a holder's lease is always about to end.
const minPoll = 2 * time.Millisecond

// poke wakes the contender. It never blocks.
func (a *acquisition) poke() {
	select {
	case a.wake <- struct{}{}:
	default:
	}
}

// news makes a waiter poll and a holder ask whether it still holds. The caller holds the hub's mutex.
func (a *acquisition) news() {
	if a.phase == waiting {
		a.hints.look = true
		a.poke()
	} else if a.hold != nil {
		a.hold.doubt()
	}
}
