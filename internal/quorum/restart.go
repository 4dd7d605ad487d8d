package quorum

import (
	"context"

	"github.com/relock-go/relock/internal/clock"
	"github.com/relock-go/relock/internal/link"
	"github.com/relock-go/relock/internal/wire"
)

// hear notes what an answered vote told of the node's memory. Whatever a node that forgot had
// counted was counted before it said so, and all that relied on that is over: its quarantine is. So
// what others are asked from then on is enough to tell it, and what they answered before is not.
func (v *voter) hear(got vote, now clock.Stamp) {
	if link.Unanswered(got.err) {
		return
	}
	v.told = got.sent
	r := wire.RefusalOf(got.err)
	switch {
	case r.Born == "":
		v.doubter, v.seeds = "", 0
	case r.Born != v.doubter:
		v.doubter, v.doubted, v.seeds = r.Born, now, 0
	}
}

// reseed has the nodes that forgot be told with their next vote, once enough of the others have told
// how far they counted since. Those that have not are asked.
//
// Where too many forgot, nodes are told once they make a quorum with those that remember. Were one
// told before, it would count as one that remembers, and beside a node that does not answer nothing
// would be known for the next. What was told once is told again: it may not have arrived, and then
// it might as well come late.
func (t *contest) reseed() {
	able := 0 // to grant, as far as it is about memory
	var forgot []*voter
	for _, v := range t.voters {
		r := wire.RefusalOf(v.err)
		switch {
		case v.seeded, v.err == nil && !v.told.IsZero():
			able++
			continue
		case r.Born == "", v.pending:
			continue
		}
		reached, known, tooMany := t.recall(v, r)
		switch {
		case known && !tooMany:
			v.tell(reached)
			able++
		case known, v.seeds > 0:
			v.reached = max(reached, v.reached)
			forgot = append(forgot, v)
		default:
			t.askOthers(v)
		}
	}
	if able+len(forgot) >= t.q.need {
		for _, v := range forgot {
			v.tell(v.reached)
		}
	}
}

// tell has a node that forgot be told with its next vote.
func (v *voter) tell(reached int64) {
	v.seeded, v.reached = true, reached
	v.seeds++
	v.anew = v.seeds == 1 // one that refuses to be told leaves the pause of other refusals
}

// askOthers asks those that have not told how far they counted since v said that it forgot.
func (t *contest) askOthers(v *voter) {
	for _, other := range t.voters {
		asked := other.err == nil || wire.RefusalOf(other.err) != wire.Refusal{}
		if asked && other != v && !other.pending && !other.toldSince(v.doubted) {
			other.anew = true
		}
	}
}

// toldSince reports whether the node has answered a vote that was sent after a moment. One that never answered has not,
// wherever this process's clock begins.
func (v *voter) toldSince(moment clock.Stamp) bool { return !v.told.IsZero() && moment.Before(v.told) }

// recall returns how far the others have counted, as far as they told that, and whether enough of
// them did. Enough is so many that no quorum's counter can have been only on the rest. Where more
// nodes have forgotten than a quorum survives, it is the most that any node knows: the clocks, and
// the quarantine, see to it that tokens rise. A node that does not answer is not waited for then,
// nor one that is quarantined: else a lock would be granted nowhere as long as that is so. It tells
// whether that alone made it enough.
func (t *contest) recall(v *voter, r wire.Refusal) (reached int64, known, tooMany bool) {
	reached = r.Counter
	healthy, forgot, silent := 0, 0, 0
	for _, other := range t.voters {
		n := max(other.Belief.Counter, other.Belief.Number)
		theirs := wire.RefusalOf(other.err)
		switch {
		case other == v:
		case !other.pending && link.Unanswered(other.err) && other.err != errAstray:
			silent++
		case !other.toldSince(v.doubted):
		case theirs != wire.Refusal{}:
			reached = max(reached, theirs.Counter)
			forgot++
		case (other.err == nil || other.err == errAstray) && n >= 0:
			reached = max(reached, n+int64(v.Entry.Block))
			healthy++
		}
	}
	others, survived := len(t.voters)-1, len(t.voters)-t.q.need
	if healthy >= min(survived+1, others) || forgot+healthy >= others {
		return reached, true, false
	}
	tooMany = forgot >= survived && forgot+healthy+silent >= others // with v; else another node may still know
	return reached, tooMany, tooMany
}

// kept asks the nodes that keep the lock how far they have counted. A holder may tell that to a node
// that said before that it forgot, where a quorum keeps the lock. Its own tokens would not do: by
// then it may have been stopped for long, or forced, and another one have had more. It may be called
// from any goroutine.
func (t *contest) kept(ctx context.Context) (reached int64, known bool) {
	keep := 0
	for _, v := range t.voters {
		if n, err := v.member.Wire.Counter(ctx, v.Entry); err == nil && n > 0 {
			reached = max(reached, n)
			keep++
		}
	}
	return reached, keep >= t.q.need
}

// remind seeds the nodes that forgot with what a quorum has reached now. That is above all that
// they counted: a client whose grants stood on them has lost those, and with another node of this
// quorum is counted in.
func (t *contest) remind(reached int64) {
	for _, v := range t.voters {
		if told := v.seeded && v.pending; !told && wire.RefusalOf(v.err).Born != "" {
			v.seeded = true
			s := seed{v.doubter, reached}
			t.q.crew.Start(func() { _ = v.plant(t.q.ctx, s) })
		}
	}
}

// seed is what a node that forgot is told. The zero seed is nothing.
type seed struct {
	born    string // the incarnation that forgot
	reached int64  // how far the lock was counted
}

// seed is what the node is to be told with its next vote.
func (v *voter) seed() seed {
	if !v.seeded {
		return seed{}
	}
	return seed{v.doubter, v.reached}
}

// plant tells a node that forgot how far the others counted. It may be called from any goroutine.
func (v *voter) plant(ctx context.Context, s seed) error {
	if s.born == "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, v.Entry.Timeout)
	defer cancel()
	_, err := v.member.Wire.Seed(ctx, v.Entry, s.born, s.reached)
	return err
}
