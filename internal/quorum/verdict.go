package quorum

import (
	"context"
	"time"

	"github.com/relock-go/relock/internal/clock"
	"github.com/relock-go/relock/internal/driver"
	"github.com/relock-go/relock/internal/wire"
)

// gaveUp returns the error of a contender whose ctx has ended. If enough nodes answer, the lock is
// busy. Otherwise the error lists the nodes that failed, and those that have not answered at all.
func (t *contest) gaveUp(ctx context.Context) error {
	if t.answering(clock.Now()) >= t.q.need {
		return wire.ErrBusy
	}
	out := t.refusal()
	for _, v := range t.voters {
		if v.err == nil && v.answeredAt.IsZero() {
			out.Nodes = append(out.Nodes, &wire.NodeError{Op: out.Op, Name: out.Name, Node: v.member.index, Err: wire.ErrNoAnswer})
		}
	}
	out.Cause = wire.CauseOf(ctx)
	return out
}

// report tells the goroutines that wait at the gate whether enough nodes answer, and if not, why. It
// reports nothing before enough nodes have answered, or too many have failed for a quorum: a silence
// that has only begun is no failure.
func (t *contest) report() {
	enough := t.answering(clock.Now()) >= t.q.need
	// Good news is reported once, a failure each time: its nodes and causes may have changed.
	switch {
	case enough && !t.reportedUp:
		t.claim.tellGate(nil)
	case !enough && t.failed() > len(t.voters)-t.q.need:
		t.claim.tellGate(t.refusal())
	}
	t.reportedUp = enough
}

// failed counts the nodes whose last completed vote was not answered, or was refused.
func (t *contest) failed() int { return t.count(func(v *voter) bool { return v.err != nil }) }

// answering counts the nodes that answer: the last completed vote was answered, and no vote has been
// unanswered for longer than a command's timeout. A vote that just began does not make a node silent.
func (t *contest) answering(now clock.Stamp) int {
	return t.count(func(v *voter) bool {
		return v.err == nil && !v.answeredAt.IsZero() && (!v.pending() || now.Since(v.askedAt) <= v.Entry.Timeout)
	})
}

// refusal returns the error that lists the nodes that stood in the way: a node failed or refused, its
// messages cannot reach this process (deaf), or another owner holds the lock there.
func (t *contest) refusal() *wire.QuorumError {
	out := &wire.QuorumError{Op: driver.Acquire, Name: t.claim.Entry.Names.Name, Need: t.q.need, Of: len(t.voters)}
	now := clock.Now()
	for _, v := range t.voters {
		err := v.err
		if err == nil {
			err = v.deaf
		}
		if err == nil && v.Belief.Number == 0 && v.holder != "" {
			err = wire.HeldThere(v.holder)
		}
		if err != nil {
			said := &wire.NodeError{Op: out.Op, Name: out.Name, Node: v.member.index, Err: err}
			// Left is what remained of the quarantine when the node was asked. Time has passed since.
			if left := wire.RefusalOf(err).Left; left > 0 {
				said.Mute = max(left-now.Since(v.answeredAt), time.Millisecond)
			}
			out.Nodes = append(out.Nodes, said)
		}
	}
	return out
}

// hopeless returns the nodes' errors once too many of them refuse for good. For an entry that waits,
// a node whose messages cannot reach it counts as one that refuses: the entry would never be woken
// there. It counts only once a vote there was answered, since a free node grants in its answer and
// needs no message.
func (t *contest) hopeless(waits bool) error {
	final := 0
	for _, v := range t.voters {
		v.deaf = nil
		if waits && v.err == nil && v.Belief.Number == 0 && !v.pending() && !v.askedAt.IsZero() {
			v.deaf = v.Ear().Deafness()
		}
		if v.deaf != nil || v.err != nil && !wire.Transient(v.err) {
			final++
		}
	}
	if final <= len(t.voters)-t.q.need {
		return nil
	}
	return t.refusal()
}
