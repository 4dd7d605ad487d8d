package quorum

import (
	"context"

	"github.com/relock-go/relock/internal/clock"
	"github.com/relock-go/relock/internal/link"
	"github.com/relock-go/relock/internal/wire"
)

// noteMemory notes what an answered vote told of the node's memory. A node says that it forgot only
// after its quarantine. What it had counted was counted before that, and every lock that relied on
// it is over. So what the others answer from then on is enough to tell it. An older answer is not:
// the node may have counted further after it, and then have forgotten that.
func (v *voter) noteMemory(got vote, now clock.Stamp) {
	if link.Unanswered(got.err) {
		return
	}
	v.answeredAt = got.sent
	if born := wire.RefusalOf(got.err).Born; born != v.forgotBorn {
		v.forgotBorn, v.forgotAt, v.timesSeeded = born, now, 0
	}
}

// planSeeds plans to tell each node that forgot, with its next vote, how far the lock was counted.
// That is done once enough of the other nodes have told their counters since the node forgot. Other
// nodes that have not told theirs are asked.
//
// If too many forgot, be it all of them, a node is told only once the nodes to tell and the nodes
// that remember are a quorum together. A node that was told counts as one that remembers. If one
// were told before the others, and a node fell silent then, the others could not be told any more:
// too few would have forgotten for the silent node not to be waited for.
//
// A node that was told once may be told again in such a quorum, even if the other nodes' answers
// are no longer enough. The first seed may not have arrived. Since it may still come late, a second
// seed does no more harm.
func (t *contest) planSeeds() {
	able := 0 // nodes that may grant, as far as memory is concerned
	var forgot []*voter
	for _, v := range t.voters {
		r := wire.RefusalOf(v.err)
		switch {
		case v.seeded, v.err == nil && !v.answeredAt.IsZero():
			able++
			continue
		case r.Born == "", v.pending:
			continue
		}
		reached, known, tooMany := t.reachedElsewhere(v, r)
		switch {
		case known && !tooMany: // the nodes that remember are proof enough
			v.planSeed(reached)
			able++
		case known, v.timesSeeded > 0: // told only together with a quorum
			v.seedValue = max(reached, v.seedValue)
			forgot = append(forgot, v)
		default:
			t.askOthers(v)
		}
	}
	if able+len(forgot) >= t.q.need {
		for _, v := range forgot {
			v.planSeed(v.seedValue)
		}
	}
}

// planSeed makes the next vote tell a node that forgot how far the lock was counted.
func (v *voter) planSeed(reached int64) {
	v.seeded, v.seedValue = true, reached
	v.timesSeeded++
	v.voteNow = v.timesSeeded == 1 // a node that refuses its seed keeps the pause of a refusal
}

// askOthers asks the nodes that have not told how far they counted since v said that it forgot. A
// node that failed, other than by a refusal, keeps its pause.
func (t *contest) askOthers(v *voter) {
	for _, other := range t.voters {
		asked := other.err == nil || wire.RefusalOf(other.err) != wire.Refusal{}
		if asked && other != v && !other.pending && !other.answeredSince(v.forgotAt) {
			other.voteNow = true
		}
	}
}

// answeredSince reports whether the node has answered a vote that was sent after a moment. A node
// that never answered has not, wherever this process's clock begins.
func (v *voter) answeredSince(moment clock.Stamp) bool {
	return !v.answeredAt.IsZero() && moment.Before(v.answeredAt)
}

// reachedElsewhere returns how far the other nodes have counted, and whether enough of them have told
// that. They are enough if those that remember leave too few for a quorum: then no counter was on
// the rest alone.
//
// If more nodes have forgotten than a quorum survives, v among them, so many do not remember. Then
// tooMany is set once each other node has told or does not answer, and reached is the most that
// any of them knows. The clocks, and the quarantine, see to it that tokens rise all the same. A node
// that does not answer is not waited for then, nor one that is quarantined: else the lock would be
// granted nowhere for as long as that is so.
func (t *contest) reachedElsewhere(v *voter, r wire.Refusal) (reached int64, known, tooMany bool) {
	reached = r.Counter
	healthy, forgot, silent := 0, 0, 0
	for _, other := range t.voters {
		n := max(other.Belief.Counter, other.Belief.Number)
		theirs := wire.RefusalOf(other.err)
		switch {
		case other == v:
		case !other.pending && link.Unanswered(other.err) && other.err != errClockOff:
			silent++
		case !other.answeredSince(v.forgotAt): // an answer from before v forgot proves nothing
		case theirs != wire.Refusal{}:
			reached = max(reached, theirs.Counter)
			forgot++
		case (other.err == nil || other.err == errClockOff) && n >= 0:
			reached = max(reached, n+int64(v.Entry.Block)) // n may be the first token of a block
			healthy++
		}
	}
	others, survived := len(t.voters)-1, len(t.voters)-t.q.need
	if healthy >= min(survived+1, others) { // of a single node there are no others
		return reached, true, false
	}
	// If fewer forgot, a node that does not answer may still know. If all others answered, and too
	// few of them remember, so many did forget.
	tooMany = forgot >= survived && forgot+healthy+silent >= others
	return reached, tooMany, tooMany
}

// askHolders asks the nodes that keep the lock how far they have counted. Where a quorum keeps it,
// a holder may tell that to a node that said before that it forgot. The holder's own tokens would
// not do: it may have been stopped for long, or forced, and another owner may have had higher ones
// since. It may be called from any goroutine.
func (t *contest) askHolders(ctx context.Context) (reached int64, known bool) {
	keep := 0
	// Nodes that do not keep the lock answer 0: what they know may be from before they forgot.
	for _, v := range t.voters {
		if n, err := v.Counter(ctx); err == nil && n > 0 {
			reached = max(reached, n)
			keep++
		}
	}
	return reached, keep >= t.q.need
}

// seedRest seeds the nodes that forgot with what a quorum has reached now. That is above all that
// they had counted. Grants that stood on them are lost to their clients. If such a token was
// counted at a node of our quorum, too, ours is above it. The seeds are sent in the background: the
// lock is ours without these nodes.
func (t *contest) seedRest(reached int64) {
	for _, v := range t.voters {
		// A vote that is out with a seed tells the node already.
		if told := v.seeded && v.pending; !told && wire.RefusalOf(v.err).Born != "" {
			v.seeded = true
			s := seed{v.forgotBorn, reached}
			t.q.crew.Start(func() { _ = v.sendSeed(t.q.ctx, s) })
		}
	}
}

// seed is what a node that forgot is told. It names the incarnation that forgot: one that has
// restarted since must not take it, since more may have been counted by then. The zero seed is
// none.
type seed struct {
	born    string // the incarnation that forgot
	reached int64  // how far the lock was counted
}

// nextSeed is what the node is to be told with its next vote.
func (v *voter) nextSeed() seed {
	if !v.seeded {
		return seed{}
	}
	return seed{v.forgotBorn, v.seedValue}
}

// sendSeed tells a node that forgot how far the others counted. It may be called from any
// goroutine.
func (v *voter) sendSeed(ctx context.Context, s seed) error {
	if s.born == "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, v.Entry.Timeout)
	defer cancel()
	return v.Seed(ctx, s.born, s.reached)
}
