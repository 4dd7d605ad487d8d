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

// contest gets a quorum for one entry, by Maekawa's algorithm with his relinquish. Every
// contender queues on every node with one ticket, and the lowest ticket wins. A contender that has
// some nodes but cannot have a quorum gives them back to a lower ticket. No contender needs to know
// whether another has a quorum.
//
// Two contenders with some nodes each would wait for each other for ever. The ticket prevents that:
// of any two contenders the same one is lower on every node, so only the other yields.
//
// Contenders of different clients may have the same ticket. Then each node orders them by their
// members of its sorted set, which are the same on all nodes. No answer tells a contender whether it
// is the later one. So both yield once they are nudged, and all nodes then grant the same one.
//
// One goroutine at a time touches a contest. The goroutines that ask nodes only send into votes and
// writeBacks. Each channel has a slot for every voter, and a voter has no more than one vote and
// one write-back out. So an answer that comes after the contest blocks no goroutine.
type contest struct {
	q          *Quorum
	claim      *Claim
	ticket     int64
	ticketText string // the ticket as it is sent to the nodes
	voters     []*voter
	votes      chan vote      // one slot for each voter
	writeBacks chan writeBack // likewise

	voteTimeout time.Duration
	retryAt     clock.Stamp // when a minority tries again; zero until the first grant
	nudged      bool        // another contender asked the owners of nodes to look again, and no node was given back since
	requeued    bool        // queued by a release: other entries may have waited before it

	reportedUp bool // the last report to the gate was that enough nodes answer
}

// vote is a node's answer to a vote that was sent.
type vote struct {
	wire.Answer
	voter  *voter
	yield  int64 // number of the grant that it gave back, or [wire.Apart] or [wire.Again]
	sent   clock.Stamp
	took   time.Duration
	err    error
	unsent bool // the node was not asked: its identity check failed, or its seed was not answered
}

func newContest(c *Claim) *contest {
	q := c.q
	t := &contest{
		q: q, claim: c, ticket: q.ticket(), voteTimeout: q.voteTimeout(),
		votes: make(chan vote, len(q.members)), writeBacks: make(chan writeBack, len(q.members)),
	}
	t.ticketText = strconv.FormatInt(t.ticket, 10)
	// A node that fails or refuses is asked again ever less often, but several times in a lease, so
	// that the entry keeps its place in the queue.
	pause := clock.Backoff{
		Least: 20 * time.Millisecond,
		Most:  min(c.Entry.Lease/3, max(q.cfg.Timeout, 20*time.Millisecond)),
	}
	for _, m := range q.members {
		v := &voter{member: m, contest: t, writeBackPause: pause, votePause: pause}
		v.Start(m.Node, c.Entry, c.wake)
		v.Enter() // before the first vote: a message may be faster than the vote's answer
		t.voters = append(t.voters, v)
	}
	return t
}

// run contests until the entry has a quorum, or ctx ends, or too many nodes refuse for good. After
// each event it looks at all voters anew, since one node's answer decides what the others are asked:
// a refusal here makes a minority yield there.
func (t *contest) run(ctx context.Context) (node.Grant, error) {
	next := time.NewTimer(0)
	defer next.Stop()
	for {
		now := clock.Now()
		t.takeMessages(now)
		if g, won := t.win(); won {
			return g, nil
		}
		t.report() // after win: a contender that wins at once has not waited
		// An entry that waits needs the nodes' messages.
		if err := t.hopeless(true); err != nil {
			return node.Grant{}, err
		}
		t.ask(t.yieldOrNudge(now))
		next.Reset(t.untilDue())
		if err := t.await(ctx, t.claim.wake, next.C); err != nil {
			return node.Grant{}, err
		}
	}
}

// await takes the next answer. It returns without one when there is news, or at the time to look
// again (due). It fails when the contest is to end.
func (t *contest) await(ctx context.Context, news clock.Signal, due <-chan time.Time) error {
	select {
	case v := <-t.votes:
		t.takeVote(v)
	case r := <-t.writeBacks:
		t.takeWriteBack(r)
	case <-news:
	case <-due:
	case <-ctx.Done():
		return t.gaveUp(ctx)
	case <-t.q.done:
		return wire.ErrClosed
	}
	return nil
}

// once asks every node for a lock that is free, and returns when a quorum has decided either way. A
// node that forgot how far the lock was counted decides nothing before it is told. As in run, it is
// told and then asked once more. To learn what to tell it, other nodes may be asked once more, too.
func (t *contest) once(ctx context.Context) (node.Grant, bool, error) {
	for {
		t.ask(wire.ToTry)
		if g, won := t.win(); won {
			return g, true, nil
		}
		refused, out := 0, 0
		for _, v := range t.voters {
			switch {
			case v.pending(), v.writingBack:
				out++
			case v.Belief.Number == 0 && (v.forgotBorn == "" || v.timesSeeded > 1):
				refused++
			}
		}
		if refused > len(t.voters)-t.q.need || out == 0 { // no quorum is left, or no answer to wait for
			return node.Grant{}, false, t.hopeless(false) // a try needs no messages
		}
		if err := t.await(ctx, nil, nil); err != nil {
			return node.Grant{}, false, err
		}
	}
}

// count returns how many voters match.
func (t *contest) count(match func(v *voter) bool) (n int) {
	for _, v := range t.voters {
		if match(v) {
			n++
		}
	}
	return n
}

// takeMessages takes what messages told since its last call: grants, and hints to look again.
func (t *contest) takeMessages(now clock.Stamp) {
	look, had, got := false, false, false
	for _, v := range t.voters {
		had = had || v.owns(now)
		given, news := v.Ear().Heard()
		look = look || news.Look
		t.nudged = t.nudged || news.Nudged
		if news.Deposed {
			v.drop() // the node may have another owner by now, and must not count for a quorum
		}
		before := v.Belief.Number
		if given.First > 0 && !t.q.clockOff(v.member) && v.Belief.Told(given, v.Entry, now) {
			v.noteGrant(before)
			v.endRegrant()
			got = true
			t.retryAt = now.Add(t.voteTimeout) // until then the other nodes' messages may arrive
		}
	}
	if got && !had {
		// A hand-over has begun. The low tickets known so far are of the client that held the lock,
		// and over: this contest must not yield to them.
		for _, v := range t.voters {
			v.lowest = 0
		}
	}
	if !look {
		return
	}
	for _, v := range t.voters {
		if v.Belief.Number == 0 {
			v.news(now)
		}
	}
}

// takeVote takes the answer to a vote.
func (t *contest) takeVote(got vote) {
	v, now := got.voter, clock.Now()
	missed := v.phase == overtaken
	v.phase, v.err, v.seed.born = resting, got.err, ""
	v.noteIfForgot(got, now)
	defer t.planSeeds() // reads what this answer leaves in v
	if got.err == nil && t.q.clockOff(v.member) {
		got.err, v.err = errClockOff, errClockOff
		v.disown()
		// The node's grant stands in Redis all the same. The raised counter keeps messages about it
		// from being believed.
		v.Belief.Counter = max(v.Belief.Counter, got.Number)
	} else if wire.RefusalOf(got.err).Left > 0 {
		v.votePause.Reset() // the node says itself when to ask again
	}
	if got.err != nil {
		v.putOff(got.err, max(t.voteTimeout, v.votePause.Next()), now)
		return
	}
	v.lowest, v.holder, v.ttl = got.Low, got.Holder, got.TTL
	before, above := v.Belief.Number, got.Number > v.Belief.Counter
	if !v.Belief.Answered(&got.Answer, v.Entry, true, got.sent) {
		// The node still grants what was given back: the vote that gave it back was lost. Give it
		// back again, or it would keep the node from all other contenders.
		v.yield, v.due = got.Number, now
		again := v.votePause.Begun()
		if pause := v.votePause.Next(); again {
			v.due = now.Add(pause) // the node lost its counter: its numbers must first pass what we know
		}
		return
	}
	v.votePause.Reset()
	v.noteYield(&got, above)
	switch {
	case got.Mine && above:
		if before == 0 {
			t.retryAt = now.Add(t.voteTimeout)
		}
		v.noteGrant(before)
	case !got.Mine:
		v.refusals++
		t.claim.wanted = t.claim.wanted || got.Wanted
	}
	// Any message may be lost, so a waiting entry also polls.
	left := v.ttl
	if v.Belief.Number > 0 {
		left = -1
	}
	v.due = v.askedAt.Add(v.Entry.LookAgain(left, v.refusals))
	if missed || v.yield > 0 { // news, or a yield, came while this vote was out: neither must wait
		v.due = now
	}
}

// yieldOrNudge decides what a minority does about a split vote. To yield, it marks all grants that it
// owns to be given back. It returns how the next votes ask, by wire.ToNudge or by wire.ToWait:
//
//	                             a lower ticket waits, or we are nudged   neither
//	a quorum may come yet        wait                                     wait
//	the votes out are too few    yield*                                   wait
//	the vote timeout is over     yield and nudge                          nudge
//
//	*  not while we own a node that answered a yield with a new grant to us, since it knows no lower
//	   ticket: we would give it back as fast as it answers.
func (t *contest) yieldOrNudge(now clock.Stamp) (how string) {
	owned, out, low, kept := 0, 0, false, false
	for _, v := range t.voters {
		if v.owns(now) {
			owned++
			kept = kept || v.lastYield == regranted
		} else if v.pending() && now.Since(v.askedAt) < t.voteTimeout { // an older one counts as lost
			out++
		}
		low = low || v.lowest > 0 && v.lowest < t.ticket
	}
	if owned == 0 || owned >= t.q.need { // a quorum keeps what it has: its token is being written back
		t.nudged = false
		return wire.ToWait
	}
	timedOut := t.retryAt.Reached(now)
	if timedOut {
		t.voteTimeout = min(2*t.voteTimeout, t.claim.Entry.Lease/3) // slow nodes get longer each time
		t.retryAt = now.Add(t.voteTimeout)
	}
	// A nudge is kept until then: the other contender may have the same ticket, and nothing else
	// tells of it.
	if (low || t.nudged) && (timedOut || !kept && owned+out < t.q.need) {
		t.nudged = false
		for _, v := range t.voters {
			if v.owns(now) {
				v.yieldGrant(now)
			}
		}
	}
	if !timedOut {
		return wire.ToWait
	}
	// Another minority may wait for us as we wait for it. The nudge makes the owners of the nodes
	// that we lack look whether they are to yield.
	for _, v := range t.voters {
		if v.Belief.Number == 0 && v.yield == 0 {
			v.due = now
		}
	}
	return wire.ToNudge
}

// ask sends the votes that are due. All of them carry one proposal for the first token, so that the
// nodes grant the same number and nothing has to be written back.
func (t *contest) ask(how string) {
	now := clock.Now()
	t.rejoin(now)
	proposed := t.q.proposedToken()
	for _, v := range t.due(now, how == wire.ToTry) {
		b, s := wire.Ballot{Ticket: t.ticketText, Yield: t.yieldAt(v), How: how, Least: proposed}, v.seed
		if b.Yield > 0 {
			v.yielded.Store(&yieldIsOut)
		}
		answered := v.beginVote(now)
		if !t.q.crew.Start(func() { t.deliver(t.send(v, now, b, s), answered) }) {
			close(answered) // the client is being closed: the contest hears that by q.done
		}
	}
}

// due returns the voters to ask for a vote now. With once, these are all voters in the first round,
// and later only the called ones. due puts off the voters at nodes that did not answer lately and,
// from the second round on, at nodes that refuse. The first round also asks nodes that refuse: a
// refusal still queues an entry that waits.
func (t *contest) due(now clock.Stamp, once bool) (due []*voter) {
	first := !slices.ContainsFunc(t.voters, func(v *voter) bool { return !v.askedAt.IsZero() })
	var idle []bool
	if first {
		idle = t.q.idle() // none, if a quorum needs one of them
	}
	for i, v := range t.voters {
		if v.pending() || v.phase != called && (!v.due.Reached(now) || once && !first) {
			continue
		}
		v.phase = resting
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

// deliver hands an answer to the contest, and tells the claim that the vote is not out any more. If
// the contest is over, the answer stays in its channel.
func (t *contest) deliver(got vote, answered chan struct{}) {
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

// send asks one node for its vote. A node of unknown identity is checked before: a server that two
// nodes lead to must not count twice. A node that forgot how far the lock was counted is told before,
// by the seed s. The field sent of the vote is the time before all that, so that a grant is not
// believed for too long.
func (t *contest) send(v *voter, sent clock.Stamp, b wire.Ballot, s seed) vote {
	got := vote{voter: v, yield: b.Yield, sent: sent}
	if v.member.identity.Load() == nil {
		ctx, cancel := context.WithTimeout(t.q.ctx, v.Entry.Timeout)
		defer cancel()
		if got.err = t.q.check(ctx, v.member); got.err != nil {
			got.unsent = true
			return got
		}
	}
	if err := v.sendSeed(s); link.Unanswered(err) {
		got.err, got.unsent = err, true
		return got
	}
	began := clock.Now() // the round trip and the node's clock are measured from here
	got.Answer, got.err = v.Vote(t.q.ctx, b)
	got.took = clock.Now().Since(began)
	v.member.Voted(got.err)
	switch {
	case got.err == nil:
		v.member.readClock(got.Now, began)
	case wire.RefusalOf(got.err).Born != "" && t.q.clockOff(v.member):
		// A refusal tells no time, and the clock may be right by now. A node whose clock is off does not
		// count where seeds are planned. Without a new reading it might get none, and refuse for ever.
		ctx, cancel := context.WithTimeout(t.q.ctx, v.Entry.Timeout)
		defer cancel()
		_, _ = v.member.identify(ctx) // reads the clock
	}
	return got
}

// untilDue returns the time until a vote is due. Its lower bound keeps run from spinning while a due
// vote cannot be sent.
func (t *contest) untilDue() time.Duration {
	now := clock.Now()
	rest := t.claim.Entry.Lease / 3
	for _, v := range t.voters {
		if !v.pending() {
			rest = min(rest, v.due.Until(now))
		}
	}
	if n := t.count(func(v *voter) bool { return v.owns(now) }); n > 0 && n < t.q.need { // only a minority tries again by the clock
		rest = min(rest, t.retryAt.Until(now))
	}
	return max(rest, 100*time.Microsecond)
}
