package quorum

import (
	"context"
	"time"

	"github.com/relock-go/relock/internal/claim"
	"github.com/relock-go/relock/internal/clock"
	"github.com/relock-go/relock/internal/hub"
	"github.com/relock-go/relock/internal/node"
	"github.com/relock-go/relock/internal/wire"
)

// Claim is one entry at all nodes.
type Claim struct {
	Entry *wire.Entry

	q       *Quorum
	wake    hub.Signal
	contest *contest // nil before the nodes were first asked

	// These are touched only by the goroutine that contends, which is one at a time.
	remark  claim.Report // tells those who wait at the lock's gate what was heard; may be nil
	failure error        // of the last round of votes; nil when enough were answered
	holder  string       // who was in the way, "" for unknown
	ttl     time.Duration
	told    bool // the holder's client was told that the lock is wanted
}

// Claim returns the claim of an entry. Nothing is sent.
func (q *Quorum) Claim(e wire.Entry) claim.Claim { return q.newClaim(&e) }

func (q *Quorum) newClaim(e *wire.Entry) *Claim { return &Claim{Entry: e, q: q, wake: hub.NewSignal()} }

// Of is the entry.
func (c *Claim) Of() *wire.Entry { return c.Entry }

// Wait blocks until the entry holds the lock. It tells remark, unless that is nil, what is heard:
// nil for enough of the nodes. After a failure the entry may still be queued, or own the lock
// unknowingly: another contender may wait for it, or it has to be abandoned.
func (c *Claim) Wait(ctx context.Context, remark claim.Report) (node.Grant, error) {
	c.remark = remark
	pause := clock.Backoff{Least: 5 * time.Millisecond, Most: 250 * time.Millisecond}
	for {
		err := c.q.prepare(ctx)
		if err == nil {
			break
		}
		if !wire.Transient(err) {
			return node.Grant{}, err
		}
		c.polled(err)
		if !clock.Sleep(ctx, pause.Next()) {
			return node.Grant{}, wire.GivenUp("acquire", c.Entry.Names.Name, err, wire.CauseOf(ctx))
		}
		if c.q.ctx.Err() != nil {
			return node.Grant{}, wire.ErrClosed
		}
	}
	if c.contest == nil {
		c.contest = newContest(c)
	}
	return c.contest.run(ctx)
}

// polled keeps what became of the last votes, and tells those who wait at the gate.
func (c *Claim) polled(failure error) {
	c.failure = failure
	if c.remark != nil {
		c.remark(c.Entry.Names.Gate(), failure)
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
	nodes := t.refusal("acquire")
	down := t.failed() > len(c.q.members)-c.q.need
	c.Abandon()
	switch {
	case err == wire.ErrBusy:
		return node.Grant{}, c.held(wire.CauseOf(ctx))
	case err != nil:
		return node.Grant{}, err
	case down:
		return node.Grant{}, nodes // a free lock could not be had either
	case len(nodes.Nodes) == 0:
		return node.Grant{}, c.held(nil)
	}
	return node.Grant{}, c.held(nodes)
}

func (c *Claim) held(cause error) error {
	return &wire.HeldError{Name: c.Entry.Names.Name, Holder: c.holder, TTL: c.ttl, Wanted: c.told, Cause: cause}
}

// Seen returns who held the lock when the entry last asked, and what was left of the lease.
func (c *Claim) Seen() (holder string, ttl time.Duration) { return c.holder, c.ttl }

// Watch makes news about the lock go to what keeps it.
func (c *Claim) Watch(w *hub.Watcher) {
	for _, v := range c.contest.voters {
		v.Ear().Watch(w)
	}
}

// Attend makes the claim hear that somebody else wants the lock, and reports whether it does: at so
// many nodes that whoever waits at a quorum waits at one of them.
func (c *Claim) Attend() bool {
	hear := 0
	for _, v := range c.contest.voters {
		if v.Ear().Attend() {
			hear++
		}
	}
	return hear >= c.q.need
}

// Asks notes that the nodes are about to be asked to keep the lock for lease.
func (c *Claim) Asks(lease time.Duration) {
	if lease > c.Entry.Lease {
		for _, v := range c.contest.voters {
			v.Asks(lease)
		}
	}
}

// SetCount writes the hold count on all nodes; a quorum of them must confirm. The stamp is when
// that was sent. A caller whose ctx ends leaves, and the nodes may still write it.
func (c *Claim) SetCount(ctx context.Context, count int, lease time.Duration) (clock.Stamp, error) {
	sent := clock.Now()
	out := c.q.answers("set count", c.Entry.Names.Name)
	c.q.ask(context.WithoutCancel(ctx), out, func(ctx context.Context, m *member) error {
		held, err := m.Wire.SetCount(ctx, c.Entry, count, lease)
		switch {
		case err == nil && !held:
			return wire.ErrLost
		case err == nil && !c.contest.voters[m.index-1].confirms(sent):
			return errYielding
		}
		return err
	})
	return sent, out.wait(ctx)
}

// Forget leaves the lock's lease to run out.
func (c *Claim) Forget() {
	for _, v := range c.contest.voters {
		v.Forget()
	}
}

// Abandon ends the claim in the background, however often it takes. It waits for nothing: those who
// lose a lock have other locks to care for.
func (c *Claim) Abandon() {
	if c.contest == nil {
		return
	}
	for _, v := range c.contest.voters {
		end := func() {
			v.settle(c.q.voteTimeout())
			v.End(true) // a node that its contest never asked a renewal may have asked
		}
		switch {
		case v.answered():
			end()
		case !c.q.ending.Start(end): // the client is being closed
			v.Ending(true)
			v.End(true)
		}
	}
}

// Release ends the claim at all nodes. It never returns a grant: what the nodes answer are votes,
// which next counts when it waits.
func (c *Claim) Release(_ context.Context, next claim.Claim) (node.Grant, bool, error) {
	n, _ := next.(*Claim)
	return node.Grant{}, false, c.release(n)
}

// Refill does nothing: what a quorum's nodes count is reconciled by grants alone.
func (c *Claim) Refill(func(node.Grant)) {}

// release ends the claim at all nodes, and queues next, unless that is nil, at all of them in the
// same step: what its nodes answer are votes for next. A node that does not answer is told in the
// background. ErrLost says that the lock was not held any more.
func (c *Claim) release(next *Claim) error {
	if next != nil {
		next.contest = newContest(next)
		next.contest.requeued = true
	}
	now, least := clock.Now(), c.q.least()
	out := c.q.answers("release", c.Entry.Names.Name)
	idle := c.q.idle()
	for i, v := range c.contest.voters {
		v.Ear().Releasing()
		v.Count.Least = least
		switch {
		case idle[i]:
			out.note(v.member, node.ErrIdle)
			v.End(true)
		case next == nil:
			if !c.q.crew.Start(func() { c.releaseAt(v, nil, "", out) }) {
				out.note(v.member, wire.ErrClosed)
				v.End(true)
			}
		default:
			c.releaseFor(v, next.contest, next.contest.voters[i], out, now)
		}
	}
	return out.wait(context.Background()) // Unlock takes as long as it takes
}

// releaseFor releases at one node, whose answer is a vote of next's contest.
func (c *Claim) releaseFor(v *voter, next *contest, n *voter, out *answers, now clock.Stamp) {
	n.Belief.Begin(now)
	answered := n.ask(now)
	if c.q.crew.Start(func() {
		got := vote{voter: n, sent: now}
		began := time.Now()
		got.Answer, got.err = c.releaseAt(v, &n.Claim, next.written, out)
		got.took = time.Since(began)
		next.cast(got, answered)
	}) {
		return
	}
	close(answered)
	out.note(v.member, wire.ErrClosed)
	v.End(true)
}

func (c *Claim) releaseAt(v *voter, next *node.Claim, ticket string, out *answers) (wire.Answer, error) {
	v.settle(c.q.voteTimeout())
	held, a, err := v.Unvote(c.q.ctx, next, ticket)
	v.Released(held, err)
	if err == nil && !held {
		out.note(v.member, wire.ErrLost)
	} else {
		out.note(v.member, err)
	}
	if err == nil {
		err = a.Barred
	}
	return a, err
}
