package relock

import (
	"context"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	"github.com/relock-go/relock/internal/clock"
)

// election is one acquisition's contest for a quorum. Every contender queues on every node with one ticket, the lowest
// wins; who has some nodes but cannot have a quorum gives them back to a lower ticket. It is Maekawa's algorithm, with
// his relinquish. Nobody needs to know whether somebody has a quorum.
//
// It is touched by one goroutine at a time; the goroutines that ask nodes only send into votes.
type election struct {
	q      *quorum
	a      *acquisition
	ticket int64
	legs   []*leg
	votes  chan vote   // one slot a leg: a leg has one question out
	raised chan raised // likewise: and one write-back
	tau    time.Duration
	retry  clock.Stamp // when a minority tries again; zero until the first grant
	nudged bool

	answered bool // enough nodes have answered lately, as those who wait at the gate know
}

// vote is the answer to one question.
type vote struct {
	leg   *leg
	yield int64 // grant that it gave back
	sent  clock.Stamp
	took  time.Duration
	ballot
	err error
}

func newElection(q *quorum, a *acquisition) *election {
	e := &election{
		q: q, a: a, ticket: q.ticket(), tau: q.tau(),
		votes: make(chan vote, len(q.seats)), raised: make(chan raised, len(q.seats)),
	}
	a.ticket = strconv.FormatInt(e.ticket, 10)
	pause := backoff{least: 20 * time.Millisecond, most: min(a.lease/3, max(q.cfg.commandTimeout(), 20*time.Millisecond))}
	for _, s := range q.seats {
		l := &leg{seat: s, amiss: pause, failing: pause, acquisition: &acquisition{
			names: a.names, id: a.id, owner: a.owner, lease: a.lease, block: a.block, timeout: a.timeout,
			ticket: a.ticket, counter: -1, wake: a.wake, sweeper: s.sweeper,
		}}
		s.hub.contend(l.acquisition)
		e.legs = append(e.legs, l)
	}
	return e
}

// run contests until a has a quorum, or ctx ends, or too many nodes refuse for good.
func (e *election) run(ctx context.Context) (grant, error) {
	for {
		now := clock.Now()
		e.collect(now)
		if g, won := e.win(); won {
			return g, nil
		}
		if err := e.hopeless(true); err != nil {
			return grant{}, err
		}
		e.relinquish(now)
		e.ask(toWait)
		select {
		case v := <-e.votes:
			e.count(v)
		case r := <-e.raised:
			e.note(r)
		case <-e.a.wake:
		case <-time.After(e.rest()):
		case <-ctx.Done():
			return grant{}, e.gaveUp(ctx)
		case <-e.q.done:
			return grant{}, ErrClosed
		}
		e.remark()
	}
}

// once asks every node for a lock that is free, and returns when a quorum has decided either way.
func (e *election) once(ctx context.Context) (grant, bool, error) {
	e.ask(toTry)
	for {
		if g, won := e.win(); won {
			return g, true, nil
		}
		refused, out := 0, 0
		for _, l := range e.legs {
			switch {
			case l.pending, l.raising:
				out++
			case l.own == 0:
				refused++
			}
		}
		if refused > len(e.legs)-e.q.need || out == 0 {
			return grant{}, false, e.hopeless(false)
		}
		select {
		case v := <-e.votes:
			e.count(v)
		case r := <-e.raised:
			e.note(r)
		case <-ctx.Done():
			return grant{}, false, e.gaveUp(ctx)
		case <-e.q.done:
			return grant{}, false, ErrClosed
		}
	}
}

// owned counts the nodes believed to be ours at now.
func (e *election) owned(now clock.Stamp) int {
	n := 0
	for _, l := range e.legs {
		if l.owns(now) {
			n++
		}
	}
	return n
}

// collect takes what came by message: grants, and hints to look again.
func (e *election) collect(now clock.Stamp) {
	look, had := false, e.owned(now)
	for _, l := range e.legs {
		given, news := l.seat.hub.take(l.acquisition)
		look = look || news.look
		e.nudged = e.nudged || news.nudged
		// As on a single node: a grant must be above what an answered vote saw, and is dated from the first of those.
		if given.first > 0 && !e.q.astray(l.seat) && given.first > l.counter && !l.base.IsZero() && !l.base.Add(l.lease-margin(l.lease)).Reached(now) {
			l.take(given, l.base)
			l.kept = false
			e.retry = now.Add(e.tau)
		}
	}
	if had == 0 && e.owned(now) > 0 {
		// A hand-over has begun: the low tickets heard of while somebody else held the lock are its, and over.
		for _, l := range e.legs {
			l.low = 0
		}
	}
	if !look {
		return
	}
	for _, l := range e.legs {
		if l.own == 0 {
			l.due, l.look = now, l.pending
		}
	}
}

// count takes the answer to a vote.
func (e *election) count(v vote) {
	l, now := v.leg, clock.Now()
	l.pending, l.err, l.seeded = false, v.err, false
	l.hear(v, now)
	defer e.reseed(now)
	if v.err == nil && e.q.astray(l.seat) {
		v.err, l.err, l.own, l.counter = errAstray, errAstray, 0, max(l.counter, v.number)
	}
	if v.err != nil {
		l.putOff(v.err, max(e.tau, l.failing.next()), now)
		return
	}
	l.low, l.blocker = v.low, v.blocker
	switch {
	case v.mine && v.number > l.counter:
		if l.own == 0 {
			e.retry = now.Add(e.tau)
		}
		l.kept = l.kept || l.yield > 0
		l.take(tokens{v.number, v.tokens}, v.sent)
		l.yield = 0
	case v.mine && l.own == 0:
		l.yield, l.due = v.number, now // the yield was lost: it is ours there, and must not stay so
		return
	case !v.mine:
		l.counter, l.base = max(l.counter, v.number), v.sent
		if l.yield == v.yield {
			l.yield = 0 // one that was decided on since is still to be sent
		}
		if l.own <= l.counter {
			l.own, l.kept = 0, false
		}
		if e.a.blocker.holder == "" || l.blocker.ttl > e.a.blocker.ttl {
			e.a.blocker = l.blocker
		}
	}
	if l.due = l.asked.Add(e.poll(l)); l.look || l.yield > 0 { // one that was decided on meanwhile must not wait
		l.due, l.look = now, false
	}
}

// poll is how long after a vote to vote again if no message comes.
func (e *election) poll(l *leg) time.Duration {
	pause := l.lease/3 + rand.N(l.lease/60+1)
	if ttl := l.blocker.ttl; l.own == 0 && ttl > 0 && ttl < pause {
		pause = ttl + time.Millisecond
	}
	return max(pause, minPoll)
}

// relinquish gives back what a minority owns, if a lower ticket waits for it: at once when no quorum can come of the
// votes that are out, else when tau is over. A node that left its grant with us is asked again only then.
func (e *election) relinquish(now clock.Stamp) {
	owned, out, low, kept := 0, 0, false, false
	for _, l := range e.legs {
		if l.owns(now) {
			owned++
			kept = kept || l.kept
		} else if l.pending && now.Since(l.asked) < e.tau {
			out++
		}
		low = low || l.low > 0 && l.low < e.ticket
	}
	if owned == 0 || owned >= e.q.need { // a quorum is being written back
		e.nudged = false
		return
	}
	fire := e.retry.Reached(now)
	if fire || e.nudged && now.Since(e.retry.Add(-e.tau)) > e.tau {
		e.tau = min(2*e.tau, e.a.lease/3)
		e.retry = now.Add(e.tau)
	}
	if (low || e.nudged) && (fire || !kept && owned+out < e.q.need) {
		for _, l := range e.legs {
			if l.owns(now) {
				l.give(now)
			}
		}
	}
	if fire {
		for _, l := range e.legs {
			if l.own == 0 && l.yield == 0 {
				l.due = now
			}
		}
		e.ask(toNudge)
	}
	e.nudged = false
}

// ask sends the votes that are due. The first go to a node that refuses too.
func (e *election) ask(how string) {
	now := clock.Now()
	for _, l := range e.due(now) {
		if l.base.IsZero() {
			l.base = now
		}
		yield, answered := l.yield, l.ask(now)
		if !e.q.crew.start(func() { e.cast(e.send(l, now, yield, how), answered) }) {
			close(answered) // the client is being closed, which the contest hears next
		}
	}
}

// due returns the legs to vote at. It puts off those at nodes that did not answer lately, or refuse.
func (e *election) due(now clock.Stamp) (due []*leg) {
	first := !slices.ContainsFunc(e.legs, func(l *leg) bool { return !l.asked.IsZero() })
	var idle []bool
	if first {
		idle = e.q.idle(e.q.seats)
	}
	for i, l := range e.legs {
		if l.pending || !l.due.Reached(now) {
			continue
		}
		if first && idle[i] || !first && l.seat.idle() {
			l.due, l.err = now.Add(50*time.Millisecond), errIdle
		} else if left, err := l.seat.refusing(); left > 0 && !first {
			l.due, l.err = now.Add(left), err
		} else {
			due = append(due, l)
		}
	}
	return due
}

// cast hands an answer to the contest, which may be over.
func (e *election) cast(v vote, answered chan struct{}) {
	if v.err == nil {
		e.q.measure(v.took)
	}
	e.votes <- v
	v.leg.straggled(v.err)
	close(answered) // last: who waits for it may end the leg
}

func (e *election) send(l *leg, sent clock.Stamp, yield int64, how string) vote {
	v := vote{leg: l, yield: yield, sent: sent}
	if l.seat.who.Load() == nil {
		ctx, cancel := context.WithTimeout(e.q.ctx, l.timeout)
		defer cancel()
		if v.err = e.q.check(ctx, l.seat); v.err != nil {
			return v
		}
	}
	began := clock.Now()
	v.ballot, v.err = l.seat.ballots.vote(e.q.ctx, l.acquisition, yield, how)
	v.took = clock.Now().Since(began)
	l.seat.voted(v.err)
	if v.err == nil {
		l.seat.tick(v.now, began)
	}
	return v
}

// rest is how long nothing is due.
func (e *election) rest() time.Duration {
	now := clock.Now()
	rest := e.a.lease / 3
	for _, l := range e.legs {
		if !l.pending {
			rest = min(rest, l.due.Until(now))
		}
	}
	if n := e.owned(now); n > 0 && n < e.q.need {
		rest = min(rest, e.retry.Until(now))
	}
	return max(rest, 100*time.Microsecond)
}
