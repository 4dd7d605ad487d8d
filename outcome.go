package relock

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/relock-go/relock/internal/clock"
)

// errIdle stands for the answer of a node that was not asked, because it did not answer the questions before.
var errIdle = errors.New("not asked: it did not answer lately")

// QuorumError tells why a quorum could not be had: what each node said that did not agree. It wraps those errors, each a
// *SeatError.
type QuorumError struct {
	Op    string
	Name  string // the lock, "" when it concerned the nodes themselves
	Need  int    // nodes that had to agree
	Of    int    // nodes in all
	Nodes []error
	Cause error // why the caller gave up; nil where the nodes alone ended the call
}

// Error names the operation and each node's answer.
func (e *QuorumError) Error() string {
	said := make([]string, len(e.Nodes))
	for i, err := range e.Nodes {
		said[i] = err.Error()
	}
	msg := fmt.Sprintf("relock: %s %q: no quorum of %d of %d nodes: %s", e.Op, e.Name, e.Need, e.Of, strings.Join(said, "; "))
	if e.Cause != nil {
		msg += fmt.Sprintf(": gave up waiting: %v", e.Cause)
	}
	return msg
}

// Unwrap returns the nodes' errors, and the cause where the caller gave up.
func (e *QuorumError) Unwrap() []error {
	if e.Cause == nil {
		return e.Nodes
	}
	return append(slices.Clone(e.Nodes), e.Cause)
}

// ifAny is e unless no node had anything to say.
func (e *QuorumError) ifAny() error {
	if len(e.Nodes) == 0 {
		return nil
	}
	return e
}

// SeatError is what one node of a quorum answered, or the failure to reach it.
type SeatError struct {
	Node int // its place in NewRedlock's list, from 1
	Err  error
}

// Error names the node.
func (e *SeatError) Error() string { return fmt.Sprintf("node %d: %v", e.Node, e.Err) }

// Unwrap returns the node's error.
func (e *SeatError) Unwrap() error { return e.Err }

// outcomes gathers what the nodes answer to one question.
type outcomes struct {
	op, name string
	need, of int

	mu    sync.Mutex // guards the rest
	agree int
	lost  int // answers that the lock is not held there
	said  []error
	noted map[*seat]bool
	news  chan struct{} // one slot
}

func newOutcome(op, name string, q *quorum) *outcomes {
	return &outcomes{op: op, name: name, need: q.need, of: len(q.seats), noted: make(map[*seat]bool), news: make(chan struct{}, 1)}
}

func (o *outcomes) note(s *seat, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.noted[s] = true
	switch {
	case err == nil:
		o.agree++
	case errors.Is(err, ErrLost):
		o.lost++
		o.said = append(o.said, &SeatError{Node: s.index, Err: ErrNotHeld})
	default:
		o.said = append(o.said, &SeatError{Node: s.index, Err: err})
	}
	select {
	case o.news <- struct{}{}:
	default:
	}
}

func (o *outcomes) answered() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.agree
}

// invalid returns the first error of a node that makes no quorum with the others.
func (o *outcomes) invalid() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, err := range o.said {
		if errors.Is(err, ErrInvalidNodes) {
			return err
		}
	}
	return nil
}

// complete reports whether all nodes have noted something.
func (o *outcomes) complete() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.noted) == o.of
}

// leave returns what was said so far, and cause for the nodes that are still out.
func (o *outcomes) leave(q *quorum, cause error) error {
	for _, s := range q.seats {
		o.mu.Lock()
		out := !o.noted[s]
		o.mu.Unlock()
		if out {
			o.note(s, cause)
		}
	}
	return o.err()
}

// decided reports whether nothing that is still to come can change err.
func (o *outcomes) decided() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.agree >= o.need || o.lost > o.of-o.need || len(o.noted) == o.of
}

// wait blocks until the nodes have decided. Each of them notes an outcome, in the end a timeout.
func (o *outcomes) wait() error {
	for !o.decided() {
		<-o.news
	}
	return o.err()
}

// err is nil when a quorum agreed, ErrLost when none can hold the lock any more, else what the nodes said.
func (o *outcomes) err() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	switch {
	case o.agree >= o.need:
		return nil
	case o.lost > o.of-o.need:
		return ErrLost
	}
	return &QuorumError{Op: o.op, Name: o.name, Need: o.need, Of: o.of, Nodes: append([]error(nil), o.said...)}
}

// ballot asks every node and returns at once; what they say is noted as it comes.
func (q *quorum) ballot(ctx context.Context, out *outcomes, do func(context.Context, *seat) error) {
	ctx = context.WithoutCancel(ctx)
	for i, idle := range q.idle(q.seats) {
		s := q.seats[i]
		if idle {
			out.note(s, errIdle)
			continue
		}
		if !q.crew.start(func() { out.note(s, do(ctx, s)) }) {
			out.note(s, ErrClosed)
		}
	}
}

// gaveUp is the error of a contender whose ctx has ended: too few nodes have answered, or the lock is busy.
func (e *election) gaveUp(ctx context.Context) error {
	if e.heard(clock.Now()) < e.q.need {
		out := e.outcome("acquire")
		for _, l := range e.legs {
			if l.err == nil && l.told.IsZero() {
				out.Nodes = append(out.Nodes, &SeatError{Node: l.seat.index, Err: errNoAnswer})
			}
		}
		out.Cause = causeOf(ctx)
		return out
	}
	return errBusy
}

func (q *quorum) silence(name string, cause error) error {
	out := &QuorumError{Op: "acquire", Name: name, Need: q.need, Of: len(q.seats), Cause: cause}
	for _, s := range q.seats {
		out.Nodes = append(out.Nodes, &SeatError{Node: s.index, Err: errNoAnswer})
	}
	return out
}

// remark tells those who wait at the gate whether enough nodes answer. Until as many have answered or failed as that takes
// it tells nothing new.
func (e *election) remark() {
	enough := e.heard(clock.Now()) >= e.q.need
	switch {
	case enough && !e.answered:
		e.a.polled(nil)
	case !enough && e.failed() > len(e.legs)-e.q.need && (e.answered || e.a.failure == nil):
		e.a.polled(e.outcome("acquire"))
	}
	e.answered = enough
}

// failed counts the nodes whose last vote that ended was not answered, or refused.
func (e *election) failed() int {
	n := 0
	for _, l := range e.legs {
		if l.err != nil {
			n++
		}
	}
	return n
}

// heard counts the nodes that answer: the last vote that ended was answered, and none is out for longer than it may be.
func (e *election) heard(now clock.Stamp) int {
	n := 0
	for _, l := range e.legs {
		if l.err == nil && !l.told.IsZero() && (!l.pending || now.Since(l.asked) <= l.timeout) {
			n++
		}
	}
	return n
}

// outcome is what the nodes said that did not vote for the election's candidate.
func (e *election) outcome(op string) *QuorumError {
	out := &QuorumError{Op: op, Name: e.a.names.name, Need: e.q.need, Of: len(e.legs)}
	for _, l := range e.legs {
		switch {
		case l.err != nil:
			out.Nodes = append(out.Nodes, &SeatError{Node: l.seat.index, Err: l.err})
		case l.deaf != nil:
			out.Nodes = append(out.Nodes, &SeatError{Node: l.seat.index, Err: l.deaf})
		case l.own == 0 && l.blocker.holder != "":
			out.Nodes = append(out.Nodes, &SeatError{Node: l.seat.index, Err: fmt.Errorf("held by %s", l.blocker.holder)})
		}
	}
	return out
}
