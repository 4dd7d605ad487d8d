package quorum

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/relock-go/relock/internal/clock"
	"github.com/relock-go/relock/internal/wire"
)

// answers gathers what the nodes answer to one question. Each node adds an answer, in the end a
// timeout, so a waiter needs no time limit of its own.
type answers struct {
	op, name string
	need, of int

	mu        sync.Mutex // guards the rest
	agree     int
	lost      int // answers that the lock is not held there
	errs      []*wire.MemberError
	heardFrom []bool       // by node
	heard     int          // how many of them
	changed   clock.Signal // it says that something changed, not what
}

func (q *Quorum) answers(op, name string) *answers {
	return &answers{
		op: op, name: name, need: q.need, of: len(q.members),
		heardFrom: make([]bool, len(q.members)), changed: clock.NewSignal(),
	}
}

// add takes a node's answer, and wakes the waiter.
func (o *answers) add(m *member, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.heardFrom[m.index-1] {
		o.heardFrom[m.index-1] = true
		o.heard++
	}
	switch {
	case err == nil:
		o.agree++
	case wire.IsLost(err):
		o.lost++
		o.errs = append(o.errs, &wire.MemberError{Node: m.index, Err: wire.ErrNotThere})
	default:
		o.errs = append(o.errs, &wire.MemberError{Node: m.index, Err: err})
	}
	o.changed.Poke()
}

func (o *answers) agreed() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.agree
}

// invalid returns the first error that the nodes are no quorum. No later answer can mend that.
func (o *answers) invalid() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, err := range o.errs {
		if errors.Is(err, wire.ErrInvalidNodes) {
			return err
		}
	}
	return nil
}

// outstanding is how many nodes have not answered.
func (o *answers) outstanding() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.of - o.heard
}

// complete reports whether all nodes have answered.
func (o *answers) complete() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.heard == o.of
}

// gaveUp is the error of a caller that gives up, for cause: what the nodes have answered, and which
// have not. If the nodes have decided in that moment, their decision is returned.
func (o *answers) gaveUp(cause error) error {
	if o.decided() {
		return o.err()
	}
	return o.refusal(cause)
}

// decided reports whether nothing that is still to come can change err: a quorum agreed, no quorum
// can any more since the lock is lost at too many nodes, or all have answered.
func (o *answers) decided() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.agree >= o.need || o.lost > o.of-o.need || o.heard == o.of
}

// wait blocks until the nodes have decided, or ctx ends.
func (o *answers) wait(ctx context.Context) error {
	for !o.decided() {
		select {
		case <-o.changed:
		case <-ctx.Done():
			return o.gaveUp(wire.CauseOf(ctx))
		}
	}
	return o.err()
}

// waitMost waits for all nodes, since each may add to what is known. Once enough is known without
// the rest, it waits no longer than late for them.
func (o *answers) waitMost(ctx context.Context, enough func() bool, late time.Duration) error {
	var over <-chan time.Time
	for !o.complete() {
		if over == nil && enough() {
			t := time.NewTimer(late)
			defer t.Stop()
			over = t.C
		}
		select {
		case <-o.changed:
		case <-over:
			return o.err()
		case <-ctx.Done():
			if enough() {
				return o.err()
			}
			return o.refusal(wire.CauseOf(ctx))
		}
	}
	return o.err()
}

// err is nil when a quorum agreed, ErrLost when none can hold the lock any more, else what the
// nodes said.
func (o *answers) err() error {
	o.mu.Lock()
	agree, lost := o.agree, o.lost
	o.mu.Unlock()
	switch {
	case agree >= o.need:
		return nil
	case lost > o.of-o.need:
		return wire.ErrLost
	}
	return o.refusal(nil)
}

// refusal is the error of the nodes that did not agree. With a cause, for which the caller gave up,
// it also names the nodes that have not answered.
func (o *answers) refusal(cause error) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	said := slices.Clone(o.errs)
	for i, noted := range o.heardFrom {
		if !noted && cause != nil {
			said = append(said, &wire.MemberError{Node: i + 1, Err: wire.ErrNoAnswer})
		}
	}
	slices.SortStableFunc(said, func(a, b *wire.MemberError) int { return a.Node - b.Node })
	return &wire.QuorumError{Op: o.op, Name: o.name, Need: o.need, Of: o.of, Nodes: said, Cause: cause}
}
