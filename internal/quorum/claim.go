package quorum

import (
	"context"
	"time"

	"github.com/relock-go/relock/internal/claim"
	"github.com/relock-go/relock/internal/clock"
	"github.com/relock-go/relock/internal/driver"
	"github.com/relock-go/relock/internal/hub"
	"github.com/relock-go/relock/internal/node"
	"github.com/relock-go/relock/internal/wire"
)

// Claim is one entry's claim at all nodes.
type Claim struct {
	Entry *wire.Entry

	q       *Quorum
	wake    clock.Signal
	contest *contest // nil before the nodes were first asked

	// Only the contending goroutine touches these. There is one at a time.
	report claim.Report // tells the lock's gate whether enough nodes answer; may be nil
	wanted bool         // the holder's client was told that the lock is wanted
}

// Claim returns the claim of an entry. Nothing is sent.
func (q *Quorum) Claim(e wire.Entry) claim.Claim {
	return &Claim{Entry: &e, q: q, wake: clock.NewSignal()}
}

// Of returns the entry.
func (c *Claim) Of() *wire.Entry { return c.Entry }

// at returns the claim's voter at a member.
func (c *Claim) at(m *member) *voter { return c.contest.voters[m.index-1] }

// Wait blocks until the entry holds the lock. It calls report, unless report is nil: with the reason
// when too few nodes answer, with nil when enough do. After a failure the entry may still be queued,
// or own the lock without knowing it: the caller has to Abandon the claim, or to let another
// goroutine Wait for it.
func (c *Claim) Wait(ctx context.Context, report claim.Report) (node.Grant, error) {
	c.report = report
	pause := clock.Backoff{Least: 5 * time.Millisecond, Most: 250 * time.Millisecond}
	for {
		err := c.q.prepare(ctx)
		if err == nil {
			break
		}
		if !wire.Transient(err) {
			return node.Grant{}, err
		}
		// The failure may pass. The waiters behind this one learn of it meanwhile.
		c.tellGate(err)
		if !clock.Sleep(ctx, pause.Next()) {
			return node.Grant{}, wire.GivenUp(driver.Acquire, c.Entry.Names.Name, err, wire.CauseOf(ctx))
		}
	}
	if c.contest == nil {
		c.contest = newContest(c)
	}
	return c.contest.run(ctx)
}

// tellGate tells the lock's gate why too few nodes answer, or nil if enough do.
func (c *Claim) tellGate(failure error) {
	if c.report != nil {
		c.report(c.Entry.Gate(), failure)
	}
}

// Try takes the lock if it is free, in one round trip. After a failure the claim is over.
func (c *Claim) Try(ctx context.Context) (node.Grant, error) {
	if err := c.q.prepare(ctx); err != nil {
		return node.Grant{}, err
	}
	t := newContest(c)
	c.contest = t
	g, won, err := t.once(ctx)
	if won {
		return g, nil
	}
	nodes := t.refusal() // before Abandon, which passes the voters to other goroutines
	down := t.failed() > len(c.q.members)-c.q.need
	c.Abandon() // also after a refusal: votes that are out may still take their nodes
	switch {
	case err == wire.ErrBusy:
		return node.Grant{}, c.held(wire.CauseOf(ctx))
	case err != nil:
		return node.Grant{}, err
	case down:
		return node.Grant{}, nodes // too few nodes answered: a free lock could not be had either
	case len(nodes.Nodes) == 0:
		return node.Grant{}, c.held(nil)
	}
	return node.Grant{}, c.held(nodes)
}

// held returns the error of a lock that another owner holds. cause is why the try ended early, or
// the errors of nodes that failed.
func (c *Claim) held(cause error) error {
	holder, ttl := c.Seen()
	return &wire.HeldError{Name: c.Entry.Names.Name, Holder: holder, TTL: ttl, Wanted: c.wanted, Cause: cause}
}

// Seen returns which owner held the lock when the entry last asked, and what was left of its lease.
// If the nodes' last answers differ, the one with the most left counts.
func (c *Claim) Seen() (holder string, ttl time.Duration) {
	if c.contest == nil {
		return "", 0
	}
	for _, v := range c.contest.voters {
		taken := v.Belief.Number == 0 && v.holder != "" && v.holder != c.Entry.ID
		if taken && (holder == "" || v.ttl > ttl) {
			holder, ttl = v.holder, v.ttl
		}
	}
	return holder, ttl
}

// Watch makes w hear what messages say of the entry, from every node.
func (c *Claim) Watch(w *hub.Watcher) {
	for _, v := range c.contest.voters {
		v.Ear().Watch(w)
	}
}

// Attend makes the claim hear that another owner wants the lock, and reports whether it does by now.
// It must hear that at a quorum of nodes: a waiter is queued at a quorum too, and two quorums share a
// node.
func (c *Claim) Attend() bool {
	return c.contest.count(func(v *voter) bool { return v.Ear().Attend() }) >= c.q.need
}

// Asks notes that the nodes are about to be asked to keep the lock for lease. The caller calls it
// before it sends the command, which may lengthen the lease even if its answer is lost.
func (c *Claim) Asks(lease time.Duration) {
	for _, v := range c.contest.voters {
		v.Asks(lease)
	}
}

// SetCount writes the hold count on all nodes. A quorum of them must confirm it. The stamp is the
// time of sending. If ctx ends, SetCount returns, and the nodes may still write the count.
func (c *Claim) SetCount(ctx context.Context, count int, lease time.Duration) (clock.Stamp, error) {
	sent := clock.Now()
	out := c.q.newAnswers(driver.Recount, c.Entry.Names.Name)
	c.q.ask(context.WithoutCancel(ctx), out, func(ctx context.Context, m *member) error {
		v := c.at(m)
		held, err := v.SetCount(ctx, count, lease)
		switch {
		case err == nil && !held:
			return wire.ErrLost
		case err == nil && !v.confirms(sent):
			return errYielding
		}
		return err
	})
	return sent, out.wait(ctx)
}

// Forget ends the claim in this process, at every node. In Redis its lease ends it.
func (c *Claim) Forget() {
	for _, v := range c.contest.voters {
		v.Forget()
	}
}

// Abandon ends the claim in the background, however many tries that takes. It does not wait: its
// caller may have other locks to look after.
//
// Where a vote is out, the claim is ended only when that vote has been answered, or counts as lost.
// A release that overtook the vote would find nothing to end, and the vote would then take the
// lock.
func (c *Claim) Abandon() {
	if c.contest == nil {
		return
	}
	for _, v := range c.contest.voters {
		end := func() {
			v.awaitVote(c.q.voteTimeout())
			v.End(true) // also where the contest never asked: a repair may have asked
		}
		switch {
		case v.voteOver():
			end()
		case !c.q.ending.Start(end): // the client is being closed
			v.Ending(true)
			v.End(true)
		}
	}
}

// Refill does nothing: only grants bring the nodes' counters together.
func (c *Claim) Refill(func(node.Grant)) {}

// Release ends the claim at all nodes. Unless following is nil, the same step queues it at all of
// them. The nodes' answers are votes for following, and its Wait counts them: Release never returns
// a grant. A node that does not answer is told in the background. ErrLost says that the lock was not
// held any more.
//
// Release returns once a quorum has decided, so that Unlock can tell whether the lock was given back.
// It waits for one command's timeout at most, and no longer than ctx lives. Its commands go on.
func (c *Claim) Release(ctx context.Context, following claim.Claim) (node.Grant, bool, error) {
	next, _ := following.(*Claim)
	if next != nil {
		next.contest = newContest(next) // its ticket is of now: behind the entries that wait already
		next.contest.requeued = true
	}
	now, proposed := clock.Now(), c.q.proposedToken()
	out := c.q.newAnswers(driver.Release, c.Entry.Names.Name)
	for _, v := range c.contest.voters {
		v.Ear().Releasing() // a grant that arrives from here on may have to be swept
		v.Count.Least = proposed
	}
	c.q.each(func(m *member) func() {
		v := c.at(m)
		if next == nil {
			return func() { c.releaseAt(v, nil, "", out) }
		}
		return c.releaseFor(v, next.at(m), out, now)
	}, func(m *member, why error) {
		out.add(m, why)
		c.at(m).End(true)
		if next != nil && why == wire.ErrClosed { // releaseFor has begun the vote
			close(next.at(m).voteDone)
		}
	})
	soon, cancel := context.WithTimeoutCause(ctx, c.Entry.Timeout, wire.ErrNoAnswer)
	defer cancel()
	return node.Grant{}, false, out.wait(soon)
}

// releaseFor returns the function that releases v at its node and queues n there. The node's answer
// is a vote for n. So the release begins as a vote of n, and its answer goes to n's contest, which
// sends no other vote there before this one is over.
func (c *Claim) releaseFor(v, n *voter, out *answers, now clock.Stamp) func() {
	answered := n.beginVote(now)
	return func() {
		got := vote{voter: n, sent: now}
		began := time.Now()
		got.Answer, got.err = c.releaseAt(v, &n.Claim, n.contest.ticketText, out)
		got.took = time.Since(began)
		n.contest.deliver(got, answered)
	}
}

// releaseAt releases at one node. If a vote of c is out there, it waits for the vote first. A node
// that must not grant yet still releases, and answers why it grants nothing: that error concerns
// only next's vote.
func (c *Claim) releaseAt(v *voter, next *node.Claim, ticket string, out *answers) (wire.Answer, error) {
	v.awaitVote(c.q.voteTimeout())
	held, a, err := v.Unvote(c.q.ctx, next, ticket)
	v.Released(err)
	if err == nil && !held {
		out.add(v.member, wire.ErrLost)
	} else {
		out.add(v.member, err)
	}
	if err == nil {
		err = a.Barred
	}
	return a, err
}
