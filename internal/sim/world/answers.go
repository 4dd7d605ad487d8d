package world

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/driver"
)

// Busy is not down. A call says that the lock is busy only if its process heard an answer about the lock while it was made;
// and that Redis is down only if a question about the lock failed meanwhile, was out for long, or was not answered yet.

// questions are what a process has sent about one lock. The world's mutex guards them.
type questions struct {
	out   []*question
	heard [mostNodes]time.Time // when each node last answered one
	asked [mostNodes]question  // the last one that each node answered that asks for the lock
	given time.Time            // when the process last heard that it is granted the lock
}

// question is one command about a lock.
type question struct {
	node           int
	asks           bool // for the lock
	sent, answered time.Time
}

// puts notes a command that is about to be sent. It is called under the world's mutex.
func (p *process) puts(l *line, c *command) {
	if p.foreign || c.lock == "" {
		return
	}
	if c.op == subscribes {
		p.subscribing++
	}
	c.question = &question{node: l.node.index, asks: c.op == "acquire" || c.op == "vote", sent: time.Now()}
	q := p.asks[c.lock]
	if q == nil {
		q = &questions{}
		p.asks[c.lock] = q
	}
	q.out = append(q.out, c.question)
}

// hearsOf notes what became of a command, as the library is about to be told.
func (p *process) hearsOf(c *command, v driver.Value, err error) {
	p.w.mu.Lock()
	defer p.w.mu.Unlock()
	if err != nil || v.Err() != nil {
		p.failed = time.Now() // also where it belongs to no lock, as what asks who a node is
	}
	if c.op == "gather" && err != nil && !errors.Is(err, errRefused) {
		p.w.after(p.w.plan.Longest()/3+2*p.w.soon()+sweepPause, func() { p.w.givenBack(p, c, c.asks) })
	}
	q := p.asks[c.lock]
	if c.question == nil || q == nil {
		return
	}
	if c.op == subscribes {
		p.subscribing--
	}
	q.out = slices.DeleteFunc(q.out, func(one *question) bool { return one == c.question })
	if err != nil || v.Err() != nil {
		return
	}
	one := c.question
	one.answered = time.Now()
	q.heard[one.node] = one.answered
	if one.asks {
		q.asked[one.node] = *one
	}
}

// told demands of the error of a call that it does not take busy for down, nor down for busy.
func (a *Actor) told(ctx context.Context, t Try, p *process, began time.Time, err error) {
	w := a.w
	var held *relock.HeldError
	busy := errors.As(err, &held) && errors.Is(err, relock.ErrNotAcquired)
	down := errors.Is(err, relock.ErrUnavailable) || errors.Is(err, relock.ErrRefused)
	w.mu.Lock()
	defer w.mu.Unlock()
	if p.dead || p.closed || w.plan.Crowded == 1 || scopeOf(ctx).find(t.Name) != nil {
		return
	}
	q := p.asks[t.Name]
	if q == nil {
		q = &questions{}
	}
	switch {
	case busy && !held.Local:
		w.answeredSince(t, p, q, began)
	case down:
		w.silentSince(t, p, q, began, err)
	}
}

// answeredSince demands that enough nodes answered: of those that vote once one, since each of the others may have refused
// for a reason of its own; else as many as are needed. A place in the queue may be handed
// on by another call of the process, which asked for it a third of a lease before.
func (w *World) answeredSince(t Try, p *process, q *questions, began time.Time) {
	heard, since := 0, began.Add(-w.plan.Longest()/3-w.plan.Timeout())
	for _, at := range q.heard {
		if !at.Before(since) {
			heard++
		}
	}
	need := len(w.nodes)/2 + 1
	if t.Once {
		need = 1
	}
	if heard < need {
		w.failed(t.Name, "p%d is told that the lock is busy, and %d of the %d nodes that it takes answered during the call",
			p.index, heard, need)
	}
}

// silentSince demands that some question failed, was out for long, or was not answered, as long as the call was made. The
// last answer to a question for the lock is then younger than a command may take. A call beside others may have been behind
// one of them in the local line. The first holder of a process waits until Redis has answered whether the process may
// subscribe its inbox. Where a node refused another lock of the process, or left it without an answer, all
// its locks ask that node as seldom as one would, and tell what it said.
func (w *World) silentSince(t Try, p *process, q *questions, began time.Time, err error) {
	now, lately := time.Now(), began.Add(-2*w.plan.Timeout())
	if q.given.Equal(now) { // then what the call was to ask next was not sent, since its context has ended
		return
	}
	if p.calls > 1 || len(q.out) > 0 || p.subscribing > 0 || !p.failed.Before(lately) || w.forbade {
		return
	}
	heard, own := 0, w.plan.Timeout() // a lock of a shorter lease has less time for a command
	if t.Lease > 0 {
		own = min(own, time.Duration(float64(own)*float64(t.Lease)/float64(w.plan.Longest())))
	}
	for i, n := range w.nodes {
		one := q.asked[i]
		if one.asks && !one.sent.Before(began) && one.answered.Before(now) && one.answered.Sub(one.sent) < own && !n.off {
			heard++
		}
	}
	if heard == len(w.nodes) {
		w.failed(t.Name, "p%d is told that Redis is down, and it answered all that was asked of the lock since %v: %v", p.index,
			began.Sub(w.trace.start), err)
	}
}
