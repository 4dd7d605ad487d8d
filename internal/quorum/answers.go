package quorum

import (
	"errors"
	"slices"
	"sync"

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
		o.said = append(o.said, &wire.MemberError{Node: m.index, Err: wire.ErrNotHeld})
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

// complete reports whether all nodes have noted something.
func (o *answers) complete() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.count == o.of
}

// leave returns what was said so far, and cause for the nodes that are still out. It is no answer
// of theirs, even where it tells that some other lock was lost.
func (o *answers) leave(q *Quorum, cause error) error {
	o.mu.Lock()
	for _, m := range q.members {
		if !o.noted[m.index-1] {
			o.said = append(o.said, &wire.MemberError{Node: m.index, Err: cause})
		}
	}
	o.mu.Unlock()
	return o.err()
}

// decided reports whether nothing that is still to come can change err.
func (o *answers) decided() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.agree >= o.need || o.lost > o.of-o.need || o.count == o.of
}

// wait blocks until the nodes have decided. Each of them notes an answer, in the end a time-out.
func (o *answers) wait() error {
	for !o.decided() {
		<-o.news
	}
	return o.err()
}

// err is nil when a quorum agreed, ErrLost when none can hold the lock any more, else what the
// nodes said.
func (o *answers) err() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	switch {
	case o.agree >= o.need:
		return nil
	case o.lost > o.of-o.need:
		return wire.ErrLost
	}
	return &wire.QuorumError{Op: o.op, Name: o.name, Need: o.need, Of: o.of, Nodes: slices.Clone(o.said)}
}
