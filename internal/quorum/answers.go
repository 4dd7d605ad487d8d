package quorum

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/relock-go/relock/internal/wire"
)

// answers gathers what the nodes answer to one question.
type answers struct {
	op, name string
	need, of int

	mu    sync.Mutex // guards the rest
	agree int
	lost  int // answers that the lock is not held there
	said  []*wire.MemberError
	noted []bool        // by node
	count int           // of them
	news  chan struct{} // one slot
}

func (q *Quorum) answers(op, name string) *answers {
	return &answers{
		op: op, name: name, need: q.need, of: len(q.members),
		noted: make([]bool, len(q.members)), news: make(chan struct{}, 1),
	}
}

func (o *answers) note(m *member, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.noted[m.index-1] {
		o.noted[m.index-1] = true
		o.count++
	}
	switch {
	case err == nil:
		o.agree++
	case wire.IsLost(err):
		o.lost++
		o.said = append(o.said, &wire.MemberError{Node: m.index, Err: wire.ErrNotThere})
	default:
		o.said = append(o.said, &wire.MemberError{Node: m.index, Err: err})
	}
	select {
	case o.news <- struct{}{}:
	default:
	}
}

func (o *answers) agreed() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.agree
}

// invalid returns the first error of a node that makes no quorum with the others.
func (o *answers) invalid() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, err := range o.said {
		if errors.Is(err, wire.ErrInvalidNodes) {
			return err
		}
	}
	return nil
}

// left is how many nodes have not noted anything.
func (o *answers) left() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.of - o.count
}

// complete reports whether all nodes have noted something.
func (o *answers) complete() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.count == o.of
}

// leave is the error of a caller that gives up, by cause: what was said so far, and that the other
// nodes are still out. It is nil, or ErrLost, where the nodes have decided in that moment.
func (o *answers) leave(cause error) error {
	if o.decided() {
		return o.err()
	}
	return o.refusal(cause)
}

// decided reports whether nothing that is still to come can change err.
func (o *answers) decided() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.agree >= o.need || o.lost > o.of-o.need || o.count == o.of
}

// wait blocks until the nodes have decided, or ctx ends. Each of them notes an answer, in the end a
// time-out.
func (o *answers) wait(ctx context.Context) error {
	for !o.decided() {
		select {
		case <-o.news:
		case <-ctx.Done():
			return o.leave(wire.CauseOf(ctx))
		}
	}
	return o.err()
}

// waitMost is wait for what a node may still tell when enough is known without it: that is waited
// for no longer than an answer may take.
func (o *answers) waitMost(ctx context.Context, enough func() bool, late time.Duration) error {
	var over <-chan time.Time
	for !o.complete() {
		if over == nil && enough() {
			t := time.NewTimer(late)
			defer t.Stop()
			over = t.C
		}
		select {
		case <-o.news:
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

// refusal is what the nodes said that did not agree. With a cause, for which the caller gave up, the
// nodes that are still out are among them.
func (o *answers) refusal(cause error) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	said := slices.Clone(o.said)
	for i, noted := range o.noted {
		if !noted && cause != nil {
			said = append(said, &wire.MemberError{Node: i + 1, Err: wire.ErrNoAnswer})
		}
	}
	slices.SortStableFunc(said, func(a, b *wire.MemberError) int { return a.Node - b.Node })
	return &wire.QuorumError{Op: o.op, Name: o.name, Need: o.need, Of: o.of, Nodes: said, Cause: cause}
}
