package relock

import (
	"context"
	"errors"
	"time"

	"github.com/relock-go/relock/internal/clock"
)

// putOff sets when to ask a node again that did not answer, or refused: after pause, or when it said that it would not.
func (l *leg) putOff(err error, pause time.Duration, now clock.Stamp) {
	// The node told that by a clock which may be set right since, and it is to keep our place in its queue.
	l.due = now.Add(max(pause, min(refusal(err).left, l.lease/3)))
}

// reseed seeds the nodes that forgot, once enough of the others have told how far they counted.
func (e *election) reseed(now clock.Stamp) {
	for _, l := range e.legs {
		if l.err == nil || l.seeded {
			continue
		}
		if r := refusal(l.err); r.born != "" && e.seed(l, r) {
			l.seeded, l.due = true, now.Add(e.tau)
		}
	}
}

// seed tells a node that forgot how far enough of the others have counted. Enough is so many that no quorum's counter
// can have been only on the rest. Where more nodes have forgotten than a quorum survives, tokens cannot be told from
// older ones any more: GuardStrict then stops, GuardAuto goes on from the most that any node knows. It returns false when
// nothing was told.
func (e *election) seed(l *leg, r refused) bool {
	reached := r.counter
	healthy, forgot := 0, 0
	for _, other := range e.legs {
		n := max(other.counter, other.own)
		theirs := refusal(other.err)
		switch {
		case other == l:
		case theirs.born != "" || errors.Is(other.err, errForgotten):
			reached = max(reached, theirs.counter)
			forgot++
		case other.err == nil && n >= 0:
			reached = max(reached, n+int64(l.block))
			healthy++
		}
	}
	others := len(e.legs) - 1
	if healthy < min(len(e.legs)-e.q.need+1, others) {
		if forgot+healthy < others {
			return false // somebody may still know
		}
		if e.q.cfg.guard == GuardStrict {
			l.err = errForgotten
			return false
		}
	}
	return e.q.crew.start(func() {
		ctx, cancel := context.WithTimeout(e.q.ctx, l.timeout)
		defer cancel()
		_, err := l.seat.ballots.seed(ctx, &l.names, r.born, reached)
		l.seat.heard(err)
	})
}

// errForgotten is final: tokens that were given cannot be told from new ones.
var errForgotten = errors.New("too many nodes forgot how far this lock's fencing tokens counted; " +
	"Client.Initialize starts anew, once no store relies on the old ones")

// hopeless returns the nodes' errors once too many of them refuse for good.
func (e *election) hopeless() error {
	final := 0
	for _, l := range e.legs {
		if l.err != nil && !healing(l.err) {
			final++
		}
	}
	if final <= len(e.legs)-e.q.need {
		return nil
	}
	return e.outcome("acquire")
}
