package quorum

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/relock-go/relock/internal/clock"
	"github.com/relock-go/relock/internal/driver"
	"github.com/relock-go/relock/internal/wire"
)

// answers gathers the nodes' answers to one question. Each node adds one, at the latest a timeout,
// so a waiter needs no time limit of its own.
type answers struct {
	op      driver.Op
	name    string
	need    int
	changed clock.Signal // an answer was added

	mu   sync.Mutex // guards from
	from []answer   // by node
}

// answer is one node's answer. err is nil if the node agreed.
type answer struct {
	heard bool
	err   error
}

func (q *Quorum) newAnswers(op driver.Op, name string) *answers {
	return &answers{op: op, name: name, need: q.need, changed: clock.NewSignal(), from: make([]answer, len(q.members))}
}

// add takes a node's answer, and wakes the waiter.
func (o *answers) add(m *member, err error) {
	o.mu.Lock()
	o.from[m.index-1] = answer{true, err}
	o.mu.Unlock()
	o.changed.Poke()
}

// count returns how many nodes agreed, how many answered that the lock is not held there, and how
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

// agreed picks from said, which has an element for each node, those of the nodes that agreed. out is
// how many nodes have not answered.
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

// invalid returns the first answer that is ErrInvalidNodes, nil for none. No later answer can mend
// it.
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

// decided reports whether no further answer can change err: a quorum agreed, the lock is lost at too
// many nodes for a quorum, or all nodes have answered.
func (o *answers) decided() bool {
	agree, lost, out := o.count()
	return agree >= o.need || lost > len(o.from)-o.need || out == 0
}

// wait blocks until the nodes have decided, or ctx ends.
func (o *answers) wait(ctx context.Context) error { return o.waitMost(ctx, o.decided, 0) }

// waitMost waits until all nodes have answered, and returns o.err(). Once enough returns true, it
// waits for the other nodes for late at most. If ctx ends before that, it fails.
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

// err returns nil if a quorum agreed, ErrLost if the lock is lost at too many nodes for a quorum,
// else the errors of the nodes that did not agree.
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

// errOf returns err for nodes that were asked under a caller's ctx. If ctx has ended, the error also
// says why.
func (o *answers) errOf(ctx context.Context) error {
	err := o.err()
	if of, is := err.(*wire.QuorumError); is && ctx.Err() != nil {
		of.Cause = wire.CauseOf(ctx)
	}
	return err
}

// unheard returns the refusal after a wait that cause ended before all nodes had answered. If a
// command's timeout ended it, the caller did not give up, and the error names no cause.
func (o *answers) unheard(cause error) error {
	err := o.refusal(cause)
	if cause == wire.ErrNoAnswer {
		err.Cause = nil
	}
	return err
}

// refusal returns the errors of the nodes that did not agree. If cause is not nil, the caller gave
// up because of it, and the nodes that have not answered are listed too.
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
