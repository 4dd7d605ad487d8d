package quorum

import (
	"context"
	"slices"
	"strconv"
	"time"

	"github.com/relock-go/relock/internal/clock"
	"github.com/relock-go/relock/internal/link"
	"github.com/relock-go/relock/internal/node"
	"github.com/relock-go/relock/internal/wire"
)

// contest is one entry's way to a quorum. Every contender queues on every node with one ticket, the
// lowest wins; a contender that has some nodes but cannot have a quorum gives them back to a lower
// ticket. It is Maekawa's algorithm, with his relinquish. Nobody needs to know whether somebody has
// a quorum.
//
// It is touched by one goroutine at a time; the goroutines that ask nodes only send into votes and
// raised.
type contest struct {
	q       *Quorum
	claim   *Claim
	ticket  int64
	written string // the ticket as it travels
	voters  []*voter
	votes   chan vote   // one slot a voter: a voter has one question out
	raised  chan raised // likewise: and one write-back

	voteTimeout time.Duration
	retry       clock.Stamp // when a minority tries again; zero until the first grant
	nudged      bool
	requeued    bool // by a release: others with higher tickets may have been there before

	answered bool // enough nodes have answered lately, as those who wait at the gate know
}

// vote is the answer to one question.
type vote struct {
	wire.Answer
	voter  *voter
	yield  int64 // grant that it gave back, or [wire.Apart] or [wire.Again]
	sent   clock.Stamp
	took   time.Duration
	err    error
	unsent bool // the node did not say who it is, or take its seed, so it was not asked
}

func newContest(c *Claim) *contest {
	q := c.q
	t := &contest{
		q: q, claim: c, ticket: q.ticket(), voteTimeout: q.voteTimeout(),
		votes: make(chan vote, len(q.members)), raised: make(chan raised, len(q.members)),
	}
	t.written = strconv.FormatInt(t.ticket, 10)
	pause := clock.Backoff{
		Least: 20 * time.Millisecond,
		Most:  min(c.Entry.Lease/3, max(q.cfg.Timeout, 20*time.Millisecond)),
	}
	for _, m := range q.members {
		t.voters = append(t.voters, newVoter(t, m, pause))
	}
	return t
}

// run contests until the entry has a quorum, or ctx ends, or too many nodes refuse for good.
func (t *contest) run(ctx context.Context) (node.Grant, error) {
	for {
		now := clock.Now()
		t.collect(now)
		if g, won := t.win(); won {
			return g, nil
		}
		t.remark() // who wins has not waited
		if err := t.hopeless(true); err != nil {
			return node.Grant{}, err
		}
		t.relinquish(now)
		t.ask(wire.ToWait)
		select {
		case v := <-t.votes:
			t.count(v)
		case r := <-t.raised:
			t.note(r)
		case <-t.claim.wake:
		case <-time.After(t.rest()):
		case <-ctx.Done():
			return node.Grant{}, t.gaveUp(ctx)
		case <-t.q.done:
			return node.Grant{}, wire.ErrClosed
		}
	}
}

// once asks every node for a lock that is free, and returns when a quorum has decided either way. A
// node that forgot how far the lock was counted has decided nothing: it is asked once more when it
// was told, which may take that others are asked once more before.
func (t *contest) once(ctx context.Context) (node.Grant, bool, error) {
	for {
		t.ask(wire.ToTry)
		if g, won := t.win(); won {
			return g, true, nil
		}
		refused, out := 0, 0
		for _, v := range t.voters {
			switch {
			case v.pending, v.raising:
				out++
			case v.Belief.Number == 0 && (v.doubter == "" || v.seeds > 1):
				refused++
			}
		}
		if refused > len(t.voters)-t.q.need || out == 0 {
			return node.Grant{}, false, t.hopeless(false)
		}
		select {
		case v := <-t.votes:
			t.count(v)
		case r := <-t.raised:
			t.note(r)
		case <-ctx.Done():
			return node.Grant{}, false, t.gaveUp(ctx)
		case <-t.q.done:
			return node.Grant{}, false, wire.ErrClosed
		}
	}
}

// owned counts the nodes believed to be ours at now.
func (t *contest) owned(now clock.Stamp) int {
	n := 0
	for _, v := range t.voters {
		if v.owns(now) {
			n++
		}
	}
	return n
}

// collect takes what came by message: grants, and hints to look again.
func (t *contest) collect(now clock.Stamp) {
	look, had := false, t.owned(now)
	for _, v := range t.voters {
		given, news := v.Ear().Heard()
		look = look || news.Look
		t.nudged = t.nudged || news.Nudged
		before := v.Belief.Number
		if given.First > 0 && !t.q.astray(v.member) && v.Belief.Told(given, v.Entry, now) {
			v.believe(before)
			v.kept = false
			t.retry = now.Add(t.voteTimeout)
		}
	}
	if had == 0 && t.owned(now) > 0 {
		// A hand-over has begun: the low tickets heard of while another client held the lock are
		// its, and over.
		for _, v := range t.voters {
			v.low = 0
		}
	}
	if !look {
		return
	}
	for _, v := range t.voters {
		if v.Belief.Number == 0 {
			v.due, v.look = now, v.pending
		}
	}
}

// count takes the answer to a vote.
func (t *contest) count(got vote) {
	v, now := got.voter, clock.Now()
	v.pending, v.err, v.seeded = false, got.err, false
	v.hear(got, now)
	defer t.reseed()
	if got.err == nil && t.q.astray(v.member) {
		got.err, v.err = errAstray, errAstray
		v.disown()
		v.Belief.Counter = max(v.Belief.Counter, got.Number)
	} else if wire.RefusalOf(got.err).Left > 0 {
		v.failing.Reset() // it says itself when to ask again
	}
	if got.err != nil {
		v.putOff(got.err, max(t.voteTimeout, v.failing.Next()), now)
		return
	}
	v.low, v.holder, v.ttl = got.Low, got.Holder, got.TTL
	before, above := v.Belief.Number, got.Number > v.Belief.Counter
	believed := v.Belief.Answered(&got.Answer, v.Entry, true, got.sent)
	if believed {
		v.failing.Reset()
	}
	switch {
	case !believed:
		v.yield, v.due = got.Number, now // the yield was lost: it is ours there, and must not stay so
		again := v.failing.Begun()
		if pause := v.failing.Next(); again {
			v.due = now.Add(pause) // it keeps coming back: the node has lost count, and has to catch up
		}
		return
	case got.Mine && above:
		if before == 0 {
			t.retry = now.Add(t.voteTimeout)
		}
		v.kept = v.kept || v.yield > 0
		v.believe(before)
		v.yield, v.gave = 0, false
	case !got.Mine:
		t.refused(v, got)
	}
	if v.due = v.asked.Add(v.lookAgain()); v.look || v.yield > 0 { // one that was decided on meanwhile must not wait
		v.due, v.look = now, false
	}
	v.apart = got.yield == wire.Apart
}

// refused notes that another client holds a node, or is before us there.
func (t *contest) refused(v *voter, got vote) {
	if v.yield == got.yield {
		v.gave = v.gave || v.yield > 0
		v.yield = 0 // one that was decided on since is still to be sent
	}
	if v.Belief.Number == 0 {
		v.kept = false
	}
	v.refusals++
	t.claim.told = t.claim.told || got.Wanted
	if c := t.claim; c.holder == "" || v.ttl > c.ttl {
		c.holder, c.ttl = v.holder, v.ttl
	}
}

// lookAgain is how long after a vote to vote again if no message comes.
func (v *voter) lookAgain() time.Duration {
	if v.Belief.Number > 0 {
		return v.Entry.LookAgain(-1, v.refusals)
	}
	return v.Entry.LookAgain(v.ttl, v.refusals)
}

// relinquish gives back what a minority owns, if a lower ticket waits for it: at once when no
// quorum can come of the votes that are out, else when the vote timeout is over. A node that left
// its grant with us is asked again only then.
func (t *contest) relinquish(now clock.Stamp) {
	owned, out, low, kept := 0, 0, false, false
	for _, v := range t.voters {
		if v.owns(now) {
			owned++
			kept = kept || v.kept
		} else if v.pending && now.Since(v.asked) < t.voteTimeout {
			out++
		}
		low = low || v.low > 0 && v.low < t.ticket
	}
	if owned == 0 || owned >= t.q.need { // a quorum is being written back
		t.nudged = false
		return
	}
	timedOut := t.retry.Reached(now)
	if timedOut || t.nudged && now.Since(t.retry.Add(-t.voteTimeout)) > t.voteTimeout {
		t.voteTimeout = min(2*t.voteTimeout, t.claim.Entry.Lease/3)
		t.retry = now.Add(t.voteTimeout)
	}
	if (low || t.nudged) && (timedOut || !kept && owned+out < t.q.need) {
		for _, v := range t.voters {
			if v.owns(now) {
				v.give(now)
			}
		}
	}
	if timedOut {
		for _, v := range t.voters {
			if v.Belief.Number == 0 && v.yield == 0 {
				v.due = now
			}
		}
		t.ask(wire.ToNudge)
	}
	t.nudged = false
}

// ask sends the votes that are due. The first go to a node that refuses too.
func (t *contest) ask(how string) {
	now := clock.Now()
	t.rejoin(now)
	least := t.q.least()
	for _, v := range t.due(now, how == wire.ToTry) {
		v.Belief.Begin(now)
		b, s := wire.Ballot{Ticket: t.written, Yield: t.yield(v), How: how, Least: least}, v.seed()
		if b.Yield > 0 {
			v.yielded.Store(&yieldIsOut)
		}
		answered := v.ask(now)
		if !t.q.crew.Start(func() { t.cast(t.send(v, now, b, s), answered) }) {
			close(answered) // the client is being closed, which the contest hears next
		}
	}
}

// due returns the voters that are to vote: with once all, and later only those that are asked anew. It
// puts off those at nodes that did not answer lately, or refuse.
func (t *contest) due(now clock.Stamp, once bool) (due []*voter) {
	first := !slices.ContainsFunc(t.voters, func(v *voter) bool { return !v.asked.IsZero() })
	var idle []bool
	if first {
		idle = t.q.idle()
	}
	for i, v := range t.voters {
		if v.pending || !v.anew && (!v.due.Reached(now) || once && !first) {
			continue
		}
		v.anew = false
		if first && idle[i] || !first && v.member.Idle() {
			v.due, v.err = now.Add(50*time.Millisecond), node.ErrIdle
		} else if left, err := v.member.Refusing(); left > 0 && !first {
			v.due, v.err = now.Add(left), err
		} else {
			due = append(due, v)
		}
	}
	return due
}

// cast hands an answer to the contest, which may be over.
func (t *contest) cast(got vote, answered chan struct{}) {
	if got.err == nil {
		t.q.measure(got.took)
	}
	if got.yield > 0 && !got.unsent && !link.Unanswered(got.err) {
		now := clock.Now()
		got.voter.yielded.CompareAndSwap(&yieldIsOut, &now)
	}
	t.votes <- got
	if !got.unsent {
		got.voter.Noted(got.err)
	}
	close(answered) // last: the goroutine that waits for it may end the claim
}

// send has a node vote, which is told before how far the lock was counted where it forgot that.
func (t *contest) send(v *voter, sent clock.Stamp, b wire.Ballot, s seed) vote {
	got := vote{voter: v, yield: b.Yield, sent: sent}
	if v.member.who.Load() == nil {
		ctx, cancel := context.WithTimeout(t.q.ctx, v.Entry.Timeout)
		defer cancel()
		if got.err = t.q.check(ctx, v.member); got.err != nil {
			got.unsent = true
			return got
		}
	}
	if err := v.plant(t.q.ctx, s); link.Unanswered(err) {
		got.err, got.unsent = err, true
		return got
	}
	began := clock.Now()
	got.Answer, got.err = v.Vote(t.q.ctx, b)
	got.took = clock.Now().Since(began)
	v.member.Voted(got.err)
	if got.err == nil {
		v.member.tick(got.Now, began)
	}
	return got
}

// rest is how long nothing is due.
func (t *contest) rest() time.Duration {
	now := clock.Now()
	rest := t.claim.Entry.Lease / 3
	for _, v := range t.voters {
		if !v.pending {
			rest = min(rest, v.due.Until(now))
		}
	}
	if n := t.owned(now); n > 0 && n < t.q.need {
		rest = min(rest, t.retry.Until(now))
	}
	return max(rest, 100*time.Microsecond)
}
