package relock

import (
	"context"
	"time"

	"github.com/relock-go/relock/internal/clock"
)

// putOff sets when to ask a node again that did not answer, or refused: after pause, or when it said that it would not.
func (l *leg) putOff(err error, pause time.Duration, now clock.Stamp) {
	// The node told that by a clock which may be set right since, and it is to keep our place in its queue.
	l.due = now.Add(max(pause, min(refusal(err).left, l.lease/3)))
}

// hear notes what an answered vote told of the node's memory. Whatever a node that forgot had counted was counted before
// it said so, and all that relied on that is over: its quarantine is. So what others are asked from then on is enough to
// tell it, and what they answered before is not.
func (l *leg) hear(v vote, now clock.Stamp) {
	if unknown(v.err) {
		return
	}
	l.told = v.sent
	r := refusal(v.err)
	if v.err == nil || r.born != "" || r.left > 0 {
		l.failing.reset()
	}
	switch {
	case r.born == "":
		l.doubter = ""
	case r.born != l.doubter:
		l.doubter, l.doubted = r.born, now
	}
}

// reseed seeds the nodes that forgot, once enough of the others have told how far they counted since. Those that have
// not are asked.
func (e *election) reseed(now clock.Stamp) {
	for _, l := range e.legs {
		if l.err == nil || l.seeded {
			continue
		}
		r := refusal(l.err)
		if r.born == "" {
			continue
		}
		if reached, known := e.recall(l, r); known {
			if e.seed(l, reached) {
				l.due = now.Add(e.tau)
			}
			continue
		}
		for _, other := range e.legs {
			if other.err == nil && !other.pending && !l.doubted.Before(other.told) {
				other.due = now
			}
		}
	}
}

// recall returns how far enough of the others have counted. Enough is so many that no quorum's counter can have been only
// on the rest. Where more nodes have forgotten than a quorum survives, it is the most that any node knows: the clocks, and
// the quarantine, see to it that tokens rise. It returns false while that is unknown.
func (e *election) recall(l *leg, r refused) (int64, bool) {
	reached := r.counter
	healthy, forgot := 0, 0
	for _, other := range e.legs {
		if other == l || !l.doubted.Before(other.told) {
			continue
		}
		n := max(other.counter, other.own)
		theirs := refusal(other.err)
		switch {
		case theirs.born != "":
			reached = max(reached, theirs.counter)
			forgot++
		case (other.err == nil || other.err == errAstray) && n >= 0:
			reached = max(reached, n+int64(l.block))
			healthy++
		}
	}
	others := len(e.legs) - 1
	if healthy < min(len(e.legs)-e.q.need+1, others) {
		if forgot+healthy < others {
			return 0, false // somebody may still know
		}
	}
	return reached, true
}

// remind seeds the nodes that forgot with what a quorum has reached now. That is above all that they counted: whose
// grants stood on them has lost those, and with another node of this quorum is counted in.
func (e *election) remind(reached int64) {
	for _, l := range e.legs {
		if !l.seeded && refusal(l.err).born != "" {
			e.seed(l, reached)
		}
	}
}

// seed tells a node that forgot how far the others counted.
func (e *election) seed(l *leg, reached int64) bool {
	born := l.doubter
	l.seeded = e.q.crew.start(func() {
		ctx, cancel := context.WithTimeout(e.q.ctx, l.timeout)
		defer cancel()
		_, _ = l.seat.ballots.seed(ctx, &l.names, born, reached)
	})
	return l.seeded
}

// hopeless returns the nodes' errors once too many of them refuse for good. Who waits is refused, too, where no message
// could tell of a grant.
func (e *election) hopeless(waits bool) error {
	final := 0
	for _, l := range e.legs {
		l.deaf = nil
		if waits && l.err == nil && l.own == 0 && !l.pending && !l.asked.IsZero() {
			l.deaf = l.seat.hub.deafness(l.acquisition)
		}
		if l.deaf != nil || l.err != nil && !transient(l.err) {
			final++
		}
	}
	if final <= len(e.legs)-e.q.need {
		return nil
	}
	return e.outcome("acquire")
}
