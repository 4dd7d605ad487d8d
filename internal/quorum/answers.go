package quorum

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/relock-go/relock/internal/clock"
	"github.com/relock-go/relock/internal/wire"
)

// answers gathers what the nodes answer to one question. Each node adds an answer, in the end a
// timeout, so a waiter needs no time limit of its own.
type answers struct {
	op, name string
	need     int
	changed  clock.Signal // says that something changed, not what

	mu   sync.Mutex // guards from
	from []answer   // by node
}

// answer is a node's, with no error if it agreed.
type answer struct {
	heard bool
	err   error
}

func (q *Quorum) newAnswers(op, name string) *answers {
	return &answers{op: op, name: name, need: q.need, changed: clock.NewSignal(), from: make([]answer, len(q.members))}
}

// add takes a node's answer, and wakes the waiter.
func (o *answers) add(m *member, err error) {
	o.mu.Lock()
	o.from[m.index-1] = answer{true, err}
	o.mu.Unlock()
	o.changed.Poke()
}

// count tells how many nodes agreed, how many answered that the lock is not held there, and how
// many have not answered.
func (o *answers) count() (agree, lost, out int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, a := range o.from {
		switch {
		case !a.heard:
			out++
		case a.err == nil:
			agree++
		case wire.IsLost(a.err):
			lost++
		}
	}
	return agree, lost, out
}

// agreed returns what the nodes that agreed have said, and how many nodes have not answered. said is
// by node.
func agreed[T any](o *answers, said []T) (seen []T, out int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for i, a := range o.from {
		switch {
		case !a.heard:
			out++
		case a.err == nil:
			seen = append(seen, said[i])
		}
	}
	return seen, out
}

// invalid returns the first error that the nodes are no quorum. No later answer can mend that.
func (o *answers) invalid() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	for i, a := range o.from {
		if errors.Is(a.err, wire.ErrInvalidNodes) {
			return &wire.NodeError{Op: o.op, Name: o.name, Node: i + 1, Err: a.err}
		}
	}
	return nil
}

// complete reports whether all nodes have answered.
func (o *answers) complete() bool {
	_, _, out := o.count()
	return out == 0
}

// decided reports whether nothing that is still to come can change err: a quorum agreed, no quorum
// can any more since the lock is lost at too many nodes, or all have answered.
func (o *answers) decided() bool {
	agree, lost, out := o.count()
	return agree >= o.need || lost > len(o.from)-o.need || out == 0
}

// wait blocks until the nodes have decided, or ctx ends.
func (o *answers) wait(ctx context.Context) error { return o.waitMost(ctx, o.decided, 0) }

// waitMost waits for all nodes, since each may add to what is known, and returns err. Once enough
// is known without the rest, it waits no longer than late for them. If ctx ends before, it fails.
func (o *answers) waitMost(ctx context.Context, enough func() bool, late time.Duration) error {
	var over <-chan time.Time
	for !o.complete() {
		if over == nil && enough() {
			if late == 0 {
				return o.err()
			}
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
			return o.unheard(wire.CauseOf(ctx))
		}
	}
	return o.err()
}

// err is nil when a quorum agreed, ErrLost when none can hold the lock any more, else what the
// nodes said.
func (o *answers) err() error {
	agree, lost, _ := o.count()
	switch {
	case agree >= o.need:
		return nil
	case lost > len(o.from)-o.need:
		return wire.ErrLost
	}
	return o.refusal(nil)
}

// errOf is err of nodes that were asked under the context of a caller: of one that has left it says why.
func (o *answers) errOf(ctx context.Context) error {
	err := o.err()
	if of, is := err.(*wire.QuorumError); is && ctx.Err() != nil {
		of.Cause = wire.CauseOf(ctx)
	}
	return err
}

// unheard is the refusal where a wait ended before all nodes had answered. If the time of a command was
// over, and not the caller's, the error names no cause.
func (o *answers) unheard(cause error) error {
	err := o.refusal(cause)
	if cause == wire.ErrNoAnswer {
		err.Cause = nil
	}
	return err
}

// refusal is the error of the nodes that did not agree. With a cause, for which the caller gave up,
// it also names the nodes that have not answered.
func (o *answers) refusal(cause error) *wire.QuorumError {
	o.mu.Lock()
	defer o.mu.Unlock()
	out := &wire.QuorumError{Op: o.op, Name: o.name, Need: o.need, Of: len(o.from), Cause: cause}
	for i, a := range o.from {
		switch {
		case !a.heard && cause != nil:
			a.err = wire.ErrNoAnswer
		case wire.IsLost(a.err):
			a.err = wire.ErrNotThere
		}
		if a.err != nil {
			out.Nodes = append(out.Nodes, &wire.NodeError{Op: out.Op, Name: out.Name, Node: i + 1, Err: a.err})
		}
	}
	return out
}
