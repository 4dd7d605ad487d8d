package node

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/relock-go/relock/internal/clock"
	"github.com/relock-go/relock/internal/hub"
	"github.com/relock-go/relock/internal/link"
	"github.com/relock-go/relock/internal/wire"
)

// Belief is what may be believed of an entry's grant at one Redis. It is touched by the goroutine
// that contends. The rules are the same where one Redis decides and where it is one of a quorum:
//
//   - A grant that an answer tells of is believed from when the question was sent. At a node of a
//     quorum its number must be above Counter: what was given back counts no more, and a node
//     that forgot how far it counted proves nothing.
//   - A grant that a message tells of has no time of its own. It is believed if its number is
//     above Counter, so that it happened after the question that told Counter, and above a grant
//     that is believed already. It is dated from that question, and so believed for no longer
//     than a lease from there.
//   - No grant is believed for longer than its lease less the margin.
type Belief struct {
	Number  int64 // of the grant, which is its first fencing token; 0 for none
	Count   int   // how many tokens it has
	Sent    clock.Stamp
	Base    clock.Stamp // when the question was sent whose answer told Counter, or the first question
	Counter int64       // the fencing counter at Base, -1 for unknown
	Fresh   bool        // the first question of all was answered with it: no one waited then
}

// Begin notes that the first question is about to be sent.
func (b *Belief) Begin(now clock.Stamp) {
	if b.Base.IsZero() {
		b.Base, b.Counter = now, -1
	}
}

// Answered takes the answer to a question that was sent at sent. It returns false where Redis
// grants what cannot be believed, and no other grant is: then that must be given back.
func (b *Belief) Answered(a *wire.Answer, e *wire.Entry, votes bool, sent clock.Stamp) bool {
	switch {
	case a.Mine && (a.Number > b.Counter || !votes):
		b.take(a.Tokens(), e, sent)
		b.Fresh = sent == b.Base
	case a.Mine:
		return b.Number > 0
	default:
		b.Counter, b.Base = max(b.Counter, a.Number), sent
		if b.Number <= b.Counter {
			b.Number = 0
		}
	}
	return true
}

// Told takes a grant that a message told of. It returns false where that is not believed.
func (b *Belief) Told(t wire.Tokens, e *wire.Entry, now clock.Stamp) bool {
	if b.Base.IsZero() || t.First <= b.Counter || t.First <= b.Number ||
		b.Base.Add(e.Lease-clock.Margin(e.Lease)).Reached(now) {
		return false
	}
	b.take(t, e, b.Base)
	b.Fresh = false
	return true
}

func (b *Belief) take(t wire.Tokens, e *wire.Entry, sent clock.Stamp) {
	if b.Number != t.First {
		b.Count = t.Among(e.Block)
	}
	b.Number, b.Sent = t.First, sent
}

// Owns reports whether a grant is believed at now.
func (b *Belief) Owns(e *wire.Entry, now clock.Stamp) bool {
	return b.Number > 0 && !b.Sent.Add(e.Lease-clock.Margin(e.Lease)).Reached(now)
}

// Drop ends belief in the grant, and in all that may still tell of it.
func (b *Belief) Drop() {
	b.Counter = max(b.Counter, b.Number)
	b.Number = 0
}

// Tokens are those of the grant that is believed.
func (b *Belief) Tokens() wire.Tokens { return wire.Tokens{First: b.Number, Count: b.Count} }

// Claim is one entry at one Redis, until Redis surely knows that it is over. Its methods are called
// by the goroutine that has the entry, one at a time, but for Noted and Late.
type Claim struct {
	Entry  *wire.Entry
	Belief Belief
	Count  wire.Count // of a quorum: what its end tells a node

	node *Node
	ear  hub.Ear
	wake clock.Signal

	// unanswered counts the questions that may still run, after the claim is over. The sweeper then
	// comes back until they were answered or that cannot be.
	unanswered atomic.Int32
	// known is set once a question was answered, or a release that queued the entry: Redis may keep
	// it.
	known atomic.Bool
	// longest is what the lock may last in Redis, in nanoseconds, where that was asked to be longer
	// than the lease.
	longest atomic.Int64

	stage atomic.Int32 // stageRuns, stageEnds or stageOver, in this order
	late  atomic.Bool  // a question was answered after the claim was to end: it may stand again
}

// The stages of a claim.
const (
	stageRuns = iota
	stageEnds // a release may be out
	stageOver // no caller waits for an answer
)

// Start makes c the claim of an entry. Nothing is sent, and no message comes for it before Enter.
func (c *Claim) Start(n *Node, e *wire.Entry, wake clock.Signal) {
	c.node, c.Entry, c.wake = n, e, wake
}

// Enter makes the claim known to the hub, which must come before the first question.
func (c *Claim) Enter() {
	c.ear.Register(c.node.hub, c.Entry, c.wake, c.node.cfg.Votes)
}

// Ear is what the claim hears.
func (c *Claim) Ear() *hub.Ear { return &c.ear }

// Ask asks a Redis that decides alone for the lock, and stands in its queue unless ticket is
// wire.NoTicket.
func (c *Claim) Ask(ctx context.Context, ticket string) (wire.Answer, clock.Stamp, error) {
	sent := clock.Now()
	way, err := c.node.route(ctx, c.Entry.Names)
	if err != nil {
		return wire.Answer{}, sent, err
	}
	sent = clock.Now()
	c.Belief.Begin(sent)
	a, err := c.node.wire.Acquire(ctx, way, c.Entry, ticket, c.ear.TurnOver(), c)
	c.Noted(err)
	if err == nil {
		c.Belief.Answered(&a, c.Entry, false, sent)
	}
	return a, sent, err
}

// Noted is told what became of each command that may have put the entry into Redis: a question, or
// a release that queued it. One that was answered after the claim was to end may have undone what
// ended it. While the release is out it is left to end: a sweep that overtook the release would
// make the lock look lost.
func (c *Claim) Noted(err error) {
	switch {
	case !link.Unanswered(err):
		c.known.Store(true)
	case link.MayHaveRun(err):
		c.unanswered.Add(1)
	default:
		return // it never ran, and undid nothing
	}
	c.cameLate()
}

// cameLate makes an end that was begun before a question came not be the last word. It reports
// whether there was one.
func (c *Claim) cameLate() bool {
	if c.stage.Load() == stageRuns {
		return false
	}
	c.late.Store(true)
	if c.stage.Load() == stageOver {
		c.node.sweeper.sweep(c, false)
	}
	return true
}

// Refill asks, in the background, for the tokens of another block, and tells done of them where the
// entry holds the lock and no one waits for it. They are as good as a new grant's at that moment.
func (c *Claim) Refill(done func(Grant)) {
	c.node.hub.Go(func() {
		ctx := c.node.hub.Context()
		way, err := c.node.route(ctx, c.Entry.Names)
		if err != nil {
			return
		}
		sent := clock.Now()
		if got, err := c.node.wire.Refill(ctx, way, c.Entry); err == nil && got.First > 0 {
			done(Grant{Token: got.First, Passes: got.Count, Sent: sent})
		}
	})
}

// Told takes a grant that came as a message, if it can be believed.
func (c *Claim) Told(now clock.Stamp) bool {
	given, _ := c.ear.Heard()
	return given.First > 0 && c.Belief.Told(given, c.Entry, now)
}

// Vote asks a node of a quorum. It may be called by any goroutine: the caller has to tell Belief
// and Noted.
func (c *Claim) Vote(ctx context.Context, b wire.Ballot) (wire.Answer, error) {
	return c.node.wire.Vote(ctx, c.Entry, b, c)
}

// SetCount writes the hold count and lengthens the lease. It returns false where the entry holds the
// lock no more.
func (c *Claim) SetCount(ctx context.Context, count int, lease time.Duration) (bool, error) {
	return c.node.wire.SetCount(ctx, c.Entry, count, lease)
}

// Raise raises the fencing counter of a node where the entry holds the lock. It returns false where
// that is not so.
func (c *Claim) Raise(ctx context.Context, counter int64) (bool, error) {
	return c.node.wire.Raise(ctx, c.Entry, counter)
}

// Counter returns the fencing counter of a node where the entry holds the lock, else 0.
func (c *Claim) Counter(ctx context.Context) (int64, error) { return c.node.wire.Counter(ctx, c.Entry) }

// Seed tells a node that forgot how far the others counted, if it still is the incarnation born.
func (c *Claim) Seed(ctx context.Context, born string, counter int64) error {
	_, err := c.node.wire.Seed(ctx, c.Entry, born, counter)
	return err
}

// Asks notes that Redis is about to be asked to keep the lock for lease.
func (c *Claim) Asks(lease time.Duration) {
	for {
		longest := c.longest.Load()
		if lease <= c.Entry.Lease || int64(lease) <= longest || c.longest.CompareAndSwap(longest, int64(lease)) {
			return
		}
	}
}

// route returns how messages about a lock travel. On a Cluster the first calls ask the server.
func (n *Node) route(ctx context.Context, names *wire.Names) (wire.Route, error) {
	mode := n.mode.Load()
	if mode == 0 {
		var err error
		if mode, err = n.probe(ctx); err != nil {
			return wire.Route{}, err
		}
	}
	switch mode {
	case modeSharded:
		return wire.Route{Inbox: wire.InboxPrefix + names.Tag + ":", Publish: "SPUBLISH"}, nil
	case modeRaceOnly:
		return wire.Route{Publish: "PUBLISH"}, nil
	default:
		return wire.Plain, nil
	}
}
