package quorum

import (
	"context"
	"time"

	"github.com/relock-go/relock/internal/clock"
	"github.com/relock-go/relock/internal/link"
	"github.com/relock-go/relock/internal/wire"
)

// noteIfForgot notes that a vote was answered, and whether the node said in its answer that it forgot
// how far the lock was counted.
//
// A node says that it forgot only after its quarantine. By then every lock that relied on its lost
// counter is over. So the other nodes' answers to votes that are sent from then on tell how far the
// lock was counted. An older answer does not: after it, the node that forgot may have counted further.
func (v *voter) noteIfForgot(got vote, now clock.Stamp) {
	if link.Unanswered(got.err) {
		return
	}
	v.answeredAt = got.sent
	if born := wire.RefusalOf(got.err).Born; born != v.forgotBorn {
		v.forgotBorn, v.forgotAt, v.timesSeeded = born, now, 0
	}
}

// planSeeds plans to tell each node that forgot, with its next vote, how far the lock was counted.
// The other nodes must have told how far they counted since that node said that it forgot. Nodes that
// have not told it yet are asked.
//
// If enough of the others remember, a node is told alone. If too many forgot, nodes are told only
// once they and the nodes that remember are a quorum together. The reason: a node that was told
// counts as one that remembers. If one were told before the others, and another then fell silent,
// too few nodes would have forgotten for the others to be told without the silent one: the lock would
// be granted nowhere. A node whose clock is off does not count for the quorum, and is told along with
// it.
//
// A node that was told, and says again that it forgot, has lost its seed. It may be told again in
// such a quorum, even if the other nodes' answers are not enough any more. If its first seed was only
// late, a second one does no further harm.
func (t *contest) planSeeds() {
	able := 0 // nodes whose grants count, as soon as those that forgot are told
	var forgot []*voter
	for _, v := range t.voters {
		switch {
		case v.seeded(), v.err == nil && !v.answeredAt.IsZero():
			able += t.counts(v)
			continue
		case wire.RefusalOf(v.err).Born == "", v.pending():
			continue
		}
		reached, enough, tooMany := t.countedByOthers(v)
		switch {
		case enough:
			v.planSeed(reached)
			able += t.counts(v)
		case tooMany, v.timesSeeded > 0: // told only together with a quorum
			v.seed.reached = max(reached, v.seed.reached)
			forgot = append(forgot, v)
			able += t.counts(v)
		default:
			t.askOthers(v)
		}
	}
	if able >= t.q.need {
		for _, v := range forgot {
			v.planSeed(v.seed.reached)
		}
	}
}

// counts returns 0 for a node whose clock is off: its grants do not count, told or not. Any other
// node counts 1.
func (t *contest) counts(v *voter) int {
	if t.q.clockOff(v.member) {
		return 0
	}
	return 1
}

// planSeed makes the next vote tell a node that forgot how far the lock was counted.
func (v *voter) planSeed(reached int64) {
	v.seed = seed{v.forgotBorn, reached}
	v.timesSeeded++
	if v.phase = resting; v.timesSeeded == 1 { // a node that refuses its seed keeps the pause of a refusal
		v.phase = called
	}
}

// askOthers makes the nodes vote that have not told how far they counted since v said that it forgot.
// A node that failed, other than by a refusal, keeps its pause.
func (t *contest) askOthers(v *voter) {
	for _, other := range t.voters {
		asked := other.err == nil || wire.RefusalOf(other.err) != wire.Refusal{}
		if asked && other != v && !other.pending() && !other.answeredSince(v.forgotAt) {
			other.phase = called
		}
	}
}

// answeredSince reports whether the node has answered a vote that was sent after a moment. A node
// that never answered has not: its zero stamp is not compared.
func (v *voter) answeredSince(moment clock.Stamp) bool {
	return !v.answeredAt.IsZero() && moment.Before(v.answeredAt)
}

// countedByOthers returns how far the nodes other than v have counted, by what they told since v said
// that it forgot. Whether v may be told that, the other results say:
//
// enough: so many of the others remember that the rest, with v, are too few for a quorum. Then no
// counter was on the rest alone.
//
// tooMany: more nodes forgot, v among them, than a quorum survives. Then nothing better can be
// learned, and the clocks and the quarantine make tokens rise all the same. Nodes that do not answer
// or are quarantined are not waited for then: otherwise the lock would be granted nowhere for as long.
// Once all others have told, enough or tooMany is true.
func (t *contest) countedByOthers(v *voter) (reached int64, enough, tooMany bool) {
	reached = wire.RefusalOf(v.err).Counter
	healthy, forgot, silent := 0, 0, 0
	for _, other := range t.voters {
		n := max(other.Belief.Counter, other.Belief.Number)
		theirs := wire.RefusalOf(other.err)
		switch {
		case other == v:
		case !other.pending() && link.Unanswered(other.err) && other.err != errClockOff:
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
	enough = healthy >= min(survived+1, others) // a single node has no others
	// If fewer forgot, a node that does not answer may still remember. If all others told, and too
	// few of them remember, then this many forgot.
	tooMany = forgot >= survived && forgot+healthy+silent >= others
	return reached, enough, tooMany
}

// askHolders asks the nodes that keep the lock how far they have counted. known says that they are a
// quorum: then a holder may tell that to a node that had said before that it forgot. The holder's own
// tokens would not do: the holder may have been stopped for long, or its lock forced, and another
// owner may have had higher tokens since. Any goroutine may call it.
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

// seedRest tells the nodes that forgot how far a quorum has counted now. No token that was given
// out before is above that: the quorum that had counted it shares a node with ours (see win). If too
// many nodes forgot for that, the clocks make tokens rise (see countedByOthers). The seeds are sent
// in the background: the lock is ours without these nodes.
func (t *contest) seedRest(reached int64) {
	for _, v := range t.voters {
		// A vote that is out with a seed tells the node already.
		if told := v.seeded() && v.pending(); !told && wire.RefusalOf(v.err).Born != "" {
			s := seed{v.forgotBorn, reached}
			v.seed = s
			t.q.crew.Start(func() { _ = v.sendSeed(s) })
		}
	}
}

// seed tells a node that forgot how far the lock was counted. It names the incarnation that forgot.
// If the node has restarted since, it must not take the seed: more may have been counted by then.
type seed struct {
	born    string // the incarnation that forgot; "" where there is nothing to tell
	reached int64  // how far the lock was counted
}

// seeded reports whether the node was told since its last answer, or will be with the next vote.
func (v *voter) seeded() bool { return v.seed.born != "" }

// sendSeed tells a node that forgot how far the others counted. Any goroutine may call it.
//
// A seed that is not answered is sent again in the background, even when its contender has left.
// Other nodes may have been told together with this one (see planSeeds). From then on they count as
// nodes that remember, and these may be too few for the next contender to tell this one.
func (v *voter) sendSeed(s seed) error {
	if s.born == "" {
		return nil
	}
	err := v.sendSeedOnce(s)
	if link.Unanswered(err) {
		v.contest.q.crew.Start(func() { v.sendSeedAgain(s) })
	}
	return err
}

// sendSeedAgain sends a seed ever less often until it is answered, for a lease at most. To a node
// that is silent it sends only the probe of its breaker.
func (v *voter) sendSeedAgain(s seed) {
	began, pause := clock.Now(), clock.Backoff{Least: 20 * time.Millisecond, Most: v.Entry.Lease / 3}
	for clock.Now().Since(began) < v.Entry.Lease && clock.Sleep(v.contest.q.ctx, pause.Next()) {
		if !v.member.Idle() && !link.Unanswered(v.sendSeedOnce(s)) {
			return
		}
	}
}

// sendSeedOnce sends a seed and waits for the answer.
func (v *voter) sendSeedOnce(s seed) error {
	ctx, cancel := context.WithTimeout(v.contest.q.ctx, v.Entry.Timeout)
	defer cancel()
	return v.Seed(ctx, s.born, s.reached)
}
