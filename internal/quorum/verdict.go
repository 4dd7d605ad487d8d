package quorum

import (
	"context"
	"time"

	"github.com/relock-go/relock/internal/clock"
	"github.com/relock-go/relock/internal/wire"
)

// gaveUp is the error of a contender when its ctx has ended. If enough nodes answer, the lock is
// busy. Else the error names the nodes, with those that have not answered at all.
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

// report tells the goroutines that wait at the gate whether enough nodes answer, and why not, as
// long as they do not. Before enough nodes have answered, or so many have failed that a quorum
// cannot answer, it reports nothing new: silence that is only beginning is no failure.
func (t *contest) report() {
	enough := t.answering(clock.Now()) >= t.q.need
	// Good news is reported once, and a failure each time: its nodes and causes may be others.
	switch {
	case enough && !t.reportedUp:
		t.claim.tellGate(nil)
	case !enough && t.failed() > len(t.voters)-t.q.need:
		t.claim.tellGate(t.refusal())
	}
	t.reportedUp = enough
}

// failed counts the nodes of which the last completed vote was not answered, or was refused.
func (t *contest) failed() int { return t.count(func(v *voter) bool { return v.err != nil }) }

// answering counts the nodes that answer: the last completed vote was answered, and none is out for
// longer than a command may take. A vote that just began does not make a node silent.
func (t *contest) answering(now clock.Stamp) int {
	return t.count(func(v *voter) bool {
		return v.err == nil && !v.answeredAt.IsZero() && (!v.pending() || now.Since(v.askedAt) <= v.Entry.Timeout)
	})
}

// refusal is the error that lists the nodes which stood in the way: a node failed or refused, its
// messages cannot reach this process (deaf), or another owner holds the lock there.
func (t *contest) refusal() *wire.QuorumError {
	out := &wire.QuorumError{Op: "acquire", Name: t.claim.Entry.Names.Name, Need: t.q.need, Of: len(t.voters)}
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
			// Left is for how long the node stays in quarantine, as of its answer. Time has passed since.
			if left := wire.RefusalOf(err).Left; left > 0 {
				said.Mute = max(left-now.Since(v.answeredAt), time.Millisecond)
			}
			out.Nodes = append(out.Nodes, said)
		}
	}
	return out
}

// hopeless returns the nodes' errors once too many of them refuse for good. For an entry that
// waits, a node where no message could tell it of a grant counts as one that refuses: it would wait
// there without ever being woken. That counts only once a vote there was answered, since a free
// node grants in its answer and needs no message.
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
