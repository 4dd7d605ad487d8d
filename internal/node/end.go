package node

import (
	"context"

	"github.com/relock-go/relock/internal/clock"
	"github.com/relock-go/relock/internal/link"
	"github.com/relock-go/relock/internal/wire"
)

// Late hears what became of a question, or of a release that queued the entry, after its caller has
// left and so noted it as unanswered. It ends what is not known of the claim. It may come before the
// caller has noted that: only the sum matters.
func (c *Claim) Late(err error) {
	if link.MayHaveRun(err) {
		return
	}
	if err == nil {
		c.known.Store(true)
	}
	c.unanswered.Add(-1)
	if err != nil || !c.cameLate() {
		c.node.sweeper.answered(c)
	}
	c.wake.Poke()
}

// MayRunLate reports whether a question may still be executed.
func (c *Claim) MayRunLate() bool { return c.unanswered.Load() > 0 }

// MayStand reports whether Redis may know of the entry: it does not where every connection was
// refused.
func (c *Claim) MayStand() bool { return c.known.Load() || c.MayRunLate() }

// Ending notes that the claim is to end. With out, a question is out for so long that it counts as
// one that ran, as far as can be told now.
func (c *Claim) Ending(out bool) {
	if out {
		c.known.Store(true)
	}
	c.stage.Store(stageEnds)
}

// Release ends the claim at a Redis that decides alone. With a next claim that is queued in the
// same step if this one did hold the lock; the answer is next's, the zero Answer where next has to
// ask for itself.
func (c *Claim) Release(ctx context.Context, next *Claim) (held bool, a wire.Answer, err error) {
	way, err := c.node.route(ctx, c.Entry.Names)
	if err != nil {
		return false, a, err
	}
	c.stage.Store(stageEnds)
	turns := c.ear.TurnDue()
	if next == nil {
		return c.node.wire.Release(ctx, way, c.Entry, turns, nil, nil)
	}
	sent := clock.Now()
	next.Belief.Begin(sent)
	held, a, err = c.node.wire.Release(ctx, way, c.Entry, turns, next.Entry, next)
	next.Noted(err)
	if err == nil && a != (wire.Answer{}) {
		next.Belief.Answered(&a, next.Entry, false, sent)
	}
	return held, a, err
}

// Unvote ends the claim at a node of a quorum, and queues next there, by its ticket, if there is
// one.
func (c *Claim) Unvote(ctx context.Context, next *Claim, ticket string) (held bool, a wire.Answer, err error) {
	if next == nil {
		return c.node.wire.Unvote(ctx, c.Entry, c.Count, nil, "", nil)
	}
	return c.node.wire.Unvote(ctx, c.Entry, c.Count, next.Entry, ticket, next)
}

// Released ends the claim after its release: held as an answer said, or err where there was none.
func (c *Claim) Released(held bool, err error) {
	c.ear.Close() // before it is asked: a grant that comes from here on is an orphan, and ended as such
	c.over(err != nil || !held && c.ear.Regranted())
}

// Forget ends the claim here and leaves its lease in Redis to run out.
func (c *Claim) Forget() { c.ear.Close() }

// End ends the claim here. With open, Redis may not know yet that it is over. The entry is swept
// where it may still stand or be queued, or where a question may come late and put it back.
func (c *Claim) End(open bool) {
	c.ear.Close() // first: a sweep that a late answer begins must find no ear in use
	c.over(open)
}

// over is End once the ear is closed.
func (c *Claim) over(open bool) {
	c.stage.Store(stageOver)
	late := c.late.Load()
	if late || open && c.MayStand() || c.MayRunLate() {
		c.node.sweeper.sweep(c, !open && !late)
	}
}

// end is the sweeper's: one release for each of a batch, without callers.
func (n *Node) end(ctx context.Context, batch []*Claim) ([]bool, error) {
	var s wire.Sweep
	for _, c := range batch {
		if n.cfg.Votes {
			s.Unvote(c.Entry, wire.Count{Reached: c.Count.Reached})
			continue
		}
		way, err := n.route(ctx, c.Entry.Names)
		if err != nil {
			return nil, err
		}
		s.Release(way, c.Entry, true)
	}
	return n.wire.Sweep(ctx, &s)
}
