package node

import (
	"context"

	"github.com/relock-go/relock/internal/clock"
	"github.com/relock-go/relock/internal/link"
	"github.com/relock-go/relock/internal/wire"
)

// Late is told what became of a question whose caller has left. The caller tells Noted, before or
// after this call, that the question is unanswered: only the sum in unanswered matters. If the
// question can no longer run, the sweeper can end for good what it may have left in Redis.
func (c *Claim) Late(err error) {
	if link.MayHaveRun(err) {
		return // it stays unanswered
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

// MayRunLate reports whether Redis may still execute a question.
func (c *Claim) MayRunLate() bool { return c.unanswered.Load() > 0 }

// MayStand reports whether Redis may know of the entry. It does not if no question ever ran, as
// when every connection was refused.
func (c *Claim) MayStand() bool { return c.known.Load() || c.MayRunLate() }

// Ending notes that the claim is about to end. If out is set, a question has been unanswered for so
// long that it counts as one that ran.
func (c *Claim) Ending(out bool) {
	if out {
		c.known.Store(true)
	}
	c.stage.Store(stageEnds)
}

// Release sends the release of a claim to a Redis that decides alone. The caller then calls Released.
// held reports whether the claim held the lock. If it did, the same step queues next, unless next is
// nil. a is then the answer to next, as to a question. It is the zero Answer if next was not queued,
// and has to ask for itself.
func (c *Claim) Release(ctx context.Context, next *Claim) (held bool, a wire.Answer, err error) {
	way, err := c.node.route(ctx, c.Entry.Names)
	if err != nil {
		return false, a, err
	}
	c.stage.Store(stageEnds)
	_, turns := c.ear.Turns()
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

// Unvote sends the release of a claim to a node of a quorum. The caller then calls Released. Unvote
// queues next there, by its ticket, unless next is nil.
func (c *Claim) Unvote(ctx context.Context, next *Claim, ticket string) (held bool, a wire.Answer, err error) {
	if next == nil {
		return c.node.wire.Unvote(ctx, c.Entry, c.Count, nil, "", nil)
	}
	return c.node.wire.Unvote(ctx, c.Entry, c.Count, next.Entry, ticket, next)
}

// Released ends the claim after its release, which was answered, or failed with err. The
// sweeper repeats the end if the release failed. It also does if a grant came meanwhile. Redis may have
// granted the lock after the release had run, or by the release, if a late command had queued the entry
// once more.
func (c *Claim) Released(err error) {
	c.ear.Close() // before Regranted: a grant that comes from here on is an orphan, and ended as such
	c.over(err != nil || c.ear.Regranted())
}

// Forget ends the claim only in this process: in Redis its lease ends it.
func (c *Claim) Forget() { c.ear.Close() }

// End ends the claim without a release by the caller. If open is set, Redis may not know yet that the
// claim is over, and the sweeper tells it.
func (c *Claim) End(open bool) {
	c.ear.Close() // first: a sweep that a late answer begins must find no ear in use
	c.over(open)
}

// over is the part of End after the ear is closed. The sweeper ends the entry if it may stand in
// Redis, or if a question may still run and put it back. In stageOver, cameLate starts the sweep
// itself: so over sets the stage before it reads late.
func (c *Claim) over(open bool) {
	c.stage.Store(stageOver)
	late := c.late.Load()
	if late || open && c.MayStand() || c.MayRunLate() {
		c.node.sweeper.sweep(c, !open && !late)
	}
}

// end releases a batch of claims with one command, for the sweeper. It reports for each claim whether
// Redis ended it.
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
