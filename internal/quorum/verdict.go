package quorum

import (
	"context"
	"fmt"
	"time"

	"github.com/relock-go/relock/internal/clock"
	"github.com/relock-go/relock/internal/wire"
)

// gaveUp is the error of a contender whose ctx has ended: too few nodes have answered, or the lock
// is busy.
func (t *contest) gaveUp(ctx context.Context) error {
	if t.heard(clock.Now()) >= t.q.need {
		return wire.ErrBusy
	}
	out := t.refusal("acquire")
	for _, v := range t.voters {
		if v.err == nil && v.told.IsZero() {
			out.Nodes = append(out.Nodes, &wire.MemberError{Node: v.member.index, Err: wire.ErrNoAnswer})
		}
	}
	out.Cause = wire.CauseOf(ctx)
	return out
}

// remark tells those who wait at the gate whether enough nodes answer, and as long as they do not,
// why. Until as many have answered or failed as that takes it tells nothing new.
func (t *contest) remark() {
	enough := t.heard(clock.Now()) >= t.q.need
	switch {
	case enough && !t.answered:
		t.claim.polled(nil)
	case !enough && t.failed() > len(t.voters)-t.q.need:
		t.claim.polled(t.refusal("acquire"))
	}
	t.answered = enough
}

// failed counts the nodes whose last vote that ended was not answered, or refused.
func (t *contest) failed() int {
	n := 0
	for _, v := range t.voters {
		if v.err != nil {
			n++
		}
	}
	return n
}

// heard counts the nodes that answer: the last vote that ended was answered, and none is out for
// longer than it may be.
func (t *contest) heard(now clock.Stamp) int {
	n := 0
	for _, v := range t.voters {
		if v.err == nil && !v.told.IsZero() && (!v.pending || now.Since(v.asked) <= v.Entry.Timeout) {
			n++
		}
	}
	return n
}

// refusal is what the nodes said that did not vote for the entry.
func (t *contest) refusal(op string) *wire.QuorumError {
	out := &wire.QuorumError{Op: op, Name: t.claim.Entry.Names.Name, Need: t.q.need, Of: len(t.voters)}
	now := clock.Now()
	for _, v := range t.voters {
		err := v.err
		if err == nil {
			err = v.deaf
		}
		if err == nil && v.Belief.Number == 0 && v.holder != "" {
			err = fmt.Errorf("held by %s", wire.Shown(v.holder))
		}
		if err != nil {
			said := &wire.MemberError{Node: v.member.index, Err: err}
			if left := wire.RefusalOf(err).Left; left > 0 { // when it was asked, which may be a while ago
				said.Mute = max(left-now.Since(v.told), time.Millisecond)
			}
			out.Nodes = append(out.Nodes, said)
		}
	}
	return out
}

// hopeless returns the nodes' errors once too many of them refuse for good. An entry that waits is
// refused, too, where no message could tell of a grant.
func (t *contest) hopeless(waits bool) error {
	final := 0
	for _, v := range t.voters {
		v.deaf = nil
		if waits && v.err == nil && v.Belief.Number == 0 && !v.pending && !v.asked.IsZero() {
			v.deaf = v.Ear().Deafness()
		}
		if v.deaf != nil || v.err != nil && !wire.Transient(v.err) {
			final++
		}
	}
	if final <= len(t.voters)-t.q.need {
		return nil
	}
	return t.refusal("acquire")
}
