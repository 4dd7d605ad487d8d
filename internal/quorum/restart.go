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
func (t *contest) reseed() {
	for _, v := range t.voters {
		if v.err == nil || v.seeded || v.pending {
			continue
		}
		r := wire.RefusalOf(v.err)
		if r.Born == "" {
			continue
		}
		if reached, known := t.recall(v, r); known {
			v.seeded, v.reached = true, reached
			v.seeds++
			v.anew = v.seeds == 1 // one that refuses to be told leaves the pause of other refusals
			continue
		}
		for _, other := range t.voters {
			asked := other.err == nil || wire.RefusalOf(other.err) != wire.Refusal{}
			if asked && other != v && !other.pending && !v.doubted.Before(other.told) {
				other.anew = true
			}
		}
	}
}

// recall returns how far enough of the others have counted. Enough is so many that no quorum's
// counter can have been only on the rest. Where more nodes have forgotten than a quorum survives,
// it is the most that any node knows: the clocks, and the quarantine, see to it that tokens rise. A
// node that does not answer is not waited for then, nor one that is quarantined: else a lock would
// be granted nowhere as long as that is so. It returns false while that is unknown.
func (t *contest) recall(v *voter, r wire.Refusal) (int64, bool) {
	reached := r.Counter
	healthy, forgot, silent := 0, 0, 0
	for _, other := range t.voters {
		n := max(other.Belief.Counter, other.Belief.Number)
		theirs := wire.RefusalOf(other.err)
		switch {
		case other == v:
		case !other.pending && link.Unanswered(other.err) && other.err != errAstray:
			silent++
		case !v.doubted.Before(other.told):
		case theirs != wire.Refusal{}:
			reached = max(reached, theirs.Counter)
			forgot++
		case (other.err == nil || other.err == errAstray) && n >= 0:
			reached = max(reached, n+int64(v.Entry.Block))
			healthy++
		}
	}
	others, survived := len(t.voters)-1, len(t.voters)-t.q.need
	if forgot < survived { // and v: it is not too many yet that forgot
		silent = 0
	}
	if healthy < min(survived+1, others) && forgot+healthy+silent < others {
		return 0, false // another node may still know
	}
	return reached, true
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
