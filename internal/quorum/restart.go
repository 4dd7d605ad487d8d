package quorum

import (
	"context"
	"time"

	"github.com/relock-go/relock/internal/clock"
	"github.com/relock-go/relock/internal/link"
	"github.com/relock-go/relock/internal/wire"
)

// noteIfForgot notes that a vote was answered, and whether the node said in it that it forgot how far
// the lock was counted.
//
// A node says that it forgot only after its quarantine. By then every lock that relied on what it had
// counted is over. So the other nodes' answers to votes that are sent from then on say how far the
// lock was counted. An older answer does not: the node may have counted further after it, and then
// have forgotten that.
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
// For that the other nodes must have told how far they counted since the node said that it forgot.
// Those that have not told it are asked.
//
// If enough of the others remember, a node is told alone. If too many forgot, nodes are told only
// once the nodes to tell and the nodes that remember are a quorum together. For a node that was
// told counts as one that remembers. Were one told before the others, and another fell silent, too
// few would have forgotten for the others to be told without the silent one: the lock would be
// granted nowhere. A node whose clock is off is none of the quorum, and is told along with it.
//
// A node that says again that it forgot, though it was told, may be told again in such a quorum,
// even if the other nodes' answers are not enough any more: its seed was lost. If that seed was
// only late, a second one does no more harm.
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

// counts is 1, but 0 for a node whose clock is off: its grants count for nothing, told or not.
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

// askOthers asks the nodes that have not told how far they counted since v said that it forgot. A
// node that failed, other than by a refusal, keeps its pause.
func (t *contest) askOthers(v *voter) {
	for _, other := range t.voters {
		asked := other.err == nil || wire.RefusalOf(other.err) != wire.Refusal{}
		if asked && other != v && !other.pending() && !other.answeredSince(v.forgotAt) {
			other.phase = called
		}
	}
}

// answeredSince reports whether the node has answered a vote that was sent after a moment. A node
// that never answered has not, wherever this process's clock begins.
func (v *voter) answeredSince(moment clock.Stamp) bool {
	return !v.answeredAt.IsZero() && moment.Before(v.answeredAt)
}

// countedByOthers returns how far the nodes other than v have counted, as they told since v said
// that it forgot, and what that is worth.
//
// It is enough if so many of them remember that the rest, with v, is too few for a quorum: then no
// counter was on the rest alone.
//
// It is the most that can be had if tooMany forgot, v among them: more nodes than a quorum
// survives. Then the clocks, and the quarantine, see to it that tokens rise all the same. A node
// that does not answer is not waited for then, nor one that is quarantined: else the lock would be
// granted nowhere for as long as that is so. Once all others have told, it is one or the other.
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
	// If fewer forgot, a node that does not answer may still know. If all others told, and too
	// few of them remember, so many did forget.
	tooMany = forgot >= survived && forgot+healthy+silent >= others
	return reached, enough, tooMany
}

// askHolders asks the nodes that keep the lock how far they have counted. If they are a quorum,
// that is known, and a holder may tell it to a node that had said before that it forgot. The
// holder's own tokens would not do: it may have been stopped for long, or forced, and another owner
// may have had higher ones since. Any goroutine may call it.
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
// out before is above that: a quorum had counted it, which shares a node with ours (see win). If
// too many forgot to say so, the clocks see to it (see countedByOthers). The seeds are sent in the
// background: the lock is ours without these nodes.
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

// seed is what a node that forgot is told. It names the incarnation that forgot. If the node has
// restarted since, it must not take the seed: more may have been counted by then.
type seed struct {
	born    string // the incarnation that forgot; "" where there is nothing to tell
	reached int64  // how far the lock was counted
}

// seeded reports whether the node was told since its last answer, or will be with the next vote.
func (v *voter) seeded() bool { return v.seed.born != "" }

// sendSeed tells a node that forgot how far the others counted. Any goroutine may call it.
//
// A seed that is not answered is sent again in the background, also when its contender has left.
// For other nodes may have been told together with this one (see planSeeds). They count as nodes
// that remember from then on, and so many may be too few for the next contender to tell this one.
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

// sendSeedAgain sends a seed ever less often until it is answered, for a lease at most. While the
// node is silent, it sends only the probe.
func (v *voter) sendSeedAgain(s seed) {
	began, pause := clock.Now(), clock.Backoff{Least: 20 * time.Millisecond, Most: v.Entry.Lease / 3}
	for clock.Now().Since(began) < v.Entry.Lease && clock.Sleep(v.contest.q.ctx, pause.Next()) {
		if !v.member.Idle() && !link.Unanswered(v.sendSeedOnce(s)) {
			return
		}
	}
}

func (v *voter) sendSeedOnce(s seed) error {
	ctx, cancel := context.WithTimeout(v.contest.q.ctx, v.Entry.Timeout)
	defer cancel()
	return v.Seed(ctx, s.born, s.reached)
}
