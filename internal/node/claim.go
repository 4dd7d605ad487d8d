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

// Belief is what this process may believe of an entry's grant at one Redis. Only the goroutine that
// contends touches it. The rules are the same for a Redis that decides alone and for a node of a
// quorum:
//
//   - A grant in an answer is believed from the time when the question was sent. At a node of a quorum
//     its number must also be above Counter. A grant with a lower number may have been given back, or
//     be of a node that forgot how far it had counted.
//   - A grant in a message does not say when it was given. It is believed if its number is above
//     Counter: then Redis gave it after the question at Base, and its lease is counted from Base.
//     It must also be above the grant that is believed already, if one is.
//   - No grant is believed for longer than its lease less the margin.
type Belief struct {
	Number  int64       // of the believed grant, which is its first fencing token; 0 for none
	Count   int         // how many tokens that grant has
	Sent    clock.Stamp // its lease began then or later, so counting from here is safe
	Base    clock.Stamp // when the question that told Counter was sent; before that, the first question
	Counter int64       // the lock's fencing counter at Base, -1 for unknown
	Fresh   bool        // the first question was answered with the grant: no process waited for the lock then
	again   bool        // the question that was begun last is not the first: the clock may not tell them apart
}

// Begin notes that the first question is about to be sent.
func (b *Belief) Begin(now clock.Stamp) {
	if b.again = !b.Base.IsZero(); !b.again {
		b.Base, b.Counter = now, -1
	}
}

// Answered takes the answer to a question that was sent at sent. votes says that the Redis is a
// node of a quorum. It returns false if Redis says that the entry has the lock, but no grant is
// believed: the lock must be given back then.
func (b *Belief) Answered(a *wire.Answer, e *wire.Entry, votes bool, sent clock.Stamp) bool {
	switch {
	case a.Mine && (a.Number > b.Counter || !votes):
		b.take(a.Tokens(), e, sent)
		b.Fresh = !b.again && sent == b.Base
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

// Told takes a grant that a message told of, and reports whether it is believed.
func (b *Belief) Told(t wire.Tokens, e *wire.Entry, now clock.Stamp) bool {
	if b.Base.IsZero() || t.First <= b.Counter || t.First <= b.Number ||
		b.Base.Add(e.Lease-clock.Margin(e.Lease)).Reached(now) {
		return false
	}
	b.take(t, e, b.Base)
	b.Fresh = false
	return true
}

// take makes t the believed grant, with a lease from sent. If t was believed before, its count of
// tokens stays.
func (b *Belief) take(t wire.Tokens, e *wire.Entry, sent clock.Stamp) {
	if b.Number != t.First {
		b.Count = t.Among(e.Asks())
	}
	b.Number, b.Sent = t.First, sent
}

// Owns reports whether a grant is believed at now: its lease has not run out.
func (b *Belief) Owns(e *wire.Entry, now clock.Stamp) bool {
	return b.Number > 0 && !b.Sent.Add(e.Lease-clock.Margin(e.Lease)).Reached(now)
}

// Drop ends belief in the grant. Messages and answers that still tell of it are not believed
// either.
func (b *Belief) Drop() {
	b.Counter = max(b.Counter, b.Number)
	b.Number = 0
}

// Tokens returns the believed grant's tokens.
func (b *Belief) Tokens() wire.Tokens { return wire.Tokens{First: b.Number, Count: b.Count} }

// Claim is one entry at one Redis, until Redis surely knows that it is over. The goroutine that has
// the entry calls its methods, one at a time. Vote, Noted, Late and Asks may be called by any
// goroutine.
type Claim struct {
	Entry  *wire.Entry
	Belief Belief
	Count  wire.Count // at a node of a quorum: what the claim's end tells the node

	node *Node
	ear  hub.Ear
	wake clock.Signal

	// A question is an acquire or a vote, or a release that queues this claim's entry: each may put
	// the entry into Redis.

	// unanswered counts the questions that may still run though their caller has left. While there are
	// any, the sweeper comes back, until a lease has passed.
	unanswered atomic.Int32
	// known is set once a question was answered: Redis may know of the entry.
	known atomic.Bool
	// longest is the longest lease that Redis was asked for, in nanoseconds, if it is longer than the
	// entry's own; else 0.
	longest atomic.Int64

	stage atomic.Int32
	late  atomic.Bool // a question came back after the claim began to end: the entry may stand again
}

// The stages of a claim, in their order.
const (
	stageRuns = iota
	stageEnds // a release may be out
	stageOver // no caller waits for an answer
)

// Start makes c the claim of an entry. Nothing is sent, and no message comes for it before Enter.
func (c *Claim) Start(n *Node, e *wire.Entry, wake clock.Signal) {
	c.node, c.Entry, c.wake = n, e, wake
}

// Enter makes the claim known to the hub. It must come before the first question: a message may be
// faster than the answer.
func (c *Claim) Enter() {
	c.ear.Register(c.node.hub, c.Entry, c.wake, c.node.cfg.Votes)
}

// Ear returns the claim's ear, which hears the messages to its entry.
func (c *Claim) Ear() *hub.Ear { return &c.ear }

// Ask asks a Redis that decides alone for the lock. If another entry has it, this one is queued,
// unless ticket is wire.NoTicket. The stamp is when the question was sent.
func (c *Claim) Ask(ctx context.Context, ticket string) (wire.Answer, clock.Stamp, error) {
	way, err := c.node.route(ctx, c.Entry.Names)
	if err != nil {
		return wire.Answer{}, clock.Stamp{}, err
	}
	sent := clock.Now()
	c.Belief.Begin(sent)
	turn, _ := c.ear.Turns()
	a, err := c.node.wire.Acquire(ctx, way, c.Entry, ticket, turn, c)
	c.Noted(err)
	if err == nil {
		c.Belief.Answered(&a, c.Entry, false, sent)
	}
	return a, sent, err
}

// HandOver lets a handle's field have the lock of the entry, for stays from now on. It returns false if the entry
// did not have the lock any more, by the grant that is believed. The caller then calls Released.
func (c *Claim) HandOver(ctx context.Context, handle string, stays time.Duration) (bool, error) {
	way, err := c.node.route(ctx, c.Entry.Names)
	if err != nil {
		return false, err
	}
	c.stage.Store(stageEnds)
	a, _, err := c.node.wire.Move(ctx, way, c.Entry, c.Entry.ID, handle, stays, 0, c.Belief.Number, nil)
	return a.Mine, err
}

// TakeOver asks a Redis that decides alone for the lock that a handle's field has. The answer is believed as
// that to a question is. If the handle has no lock, why is what Redis knows of the lock: see Move.
func (c *Claim) TakeOver(ctx context.Context, handle string) (mine bool, why string, err error) {
	way, err := c.node.route(ctx, c.Entry.Names)
	if err != nil {
		return false, "", err
	}
	sent := clock.Now()
	c.Belief.Begin(sent)
	a, why, err := c.node.wire.Move(ctx, way, c.Entry, handle, c.Entry.ID, c.Entry.Lease, c.Entry.Block, 0, c)
	c.Noted(err)
	if err != nil || !a.Mine {
		return false, why, err
	}
	c.Belief.Answered(&a, c.Entry, false, sent)
	c.Belief.Fresh = false // a hold from a handle does not outlast its leases: others may wait, unheard
	return true, "", nil
}

// Noted is told what became of each question. A question that comes back after the claim began to end
// may have put the entry into Redis after the release ran. Then the claim must be ended again.
func (c *Claim) Noted(err error) {
	switch {
	case !link.Unanswered(err):
		c.known.Store(true)
	case link.MayHaveRun(err):
		c.unanswered.Add(1)
	default:
		return // it never ran
	}
	c.cameLate()
}

// cameLate is called when a question comes back. It returns false while the claim runs. Otherwise it
// notes that the claim must be ended again. If the claim is over, it starts the sweep for that. If a
// release is out, over starts the sweep later: a sweep that overtook the release would end the lock,
// and the release would report it as lost.
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

// Refill asks, in the background, for the tokens of another block. If the entry holds the lock, and
// no other entry waits for it, Refill calls done with them: they are as good as those of a new
// grant.
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

// Told takes the grant that a message told of, if one came, and reports whether it is believed.
func (c *Claim) Told(now clock.Stamp) bool {
	given, _ := c.ear.Heard()
	return given.First > 0 && c.Belief.Told(given, c.Entry, now)
}

// Vote asks a node of a quorum. Unlike Ask it may be called by any goroutine, since it touches
// nothing of the claim: the caller has to tell Belief and Noted of the answer.
func (c *Claim) Vote(ctx context.Context, b wire.Ballot) (wire.Answer, error) {
	return c.node.wire.Vote(ctx, c.Entry, b, c)
}

// SetCount writes the hold count and lengthens the lease. It returns false if the entry does not
// hold the lock any more.
func (c *Claim) SetCount(ctx context.Context, count int, lease time.Duration) (bool, error) {
	return c.node.wire.SetCount(ctx, c.Entry, count, lease)
}

// Raise raises the fencing counter of a node where the entry holds the lock. It returns false if
// the entry does not hold it.
func (c *Claim) Raise(ctx context.Context, counter int64) (bool, error) {
	return c.node.wire.Raise(ctx, c.Entry, counter)
}

// Counter returns the fencing counter of a node where the entry holds the lock, else 0.
func (c *Claim) Counter(ctx context.Context) (int64, error) { return c.node.wire.Counter(ctx, c.Entry) }

// Seed tells a node that forgot its locks how far the others have counted. It does nothing if the
// node has restarted since, and so is not the incarnation born any more.
func (c *Claim) Seed(ctx context.Context, born string, counter int64) error {
	_, err := c.node.wire.Seed(ctx, c.Entry, born, counter)
	return err
}

// Asks notes that Redis is about to be asked to keep the lock for lease. It remembers the longest
// lease that is longer than the entry's own: the claim may stand in Redis for as long.
func (c *Claim) Asks(lease time.Duration) {
	for {
		longest := c.longest.Load()
		if lease <= c.Entry.Lease || int64(lease) <= longest || c.longest.CompareAndSwap(longest, int64(lease)) {
			return
		}
	}
}

// route returns how messages about a lock travel. It asks a Cluster for that until the Cluster has
// answered once.
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
