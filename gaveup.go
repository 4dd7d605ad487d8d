package relock

import (
	"context"
	"errors"

	"github.com/relock-go/relock/internal/claim"
	"github.com/relock-go/relock/internal/gate"
	"github.com/relock-go/relock/internal/link"
	"github.com/relock-go/relock/internal/wire"
)

// errWaited is the cause when WithWait's time is up.
var errWaited error = waited{}

type waited struct{}

func (waited) Error() string { return "the time to wait is up" }

// Unwrap makes it match what ends a context whose own time is up.
func (waited) Unwrap() error { return context.DeadlineExceeded }

// refused is the error of a call whose ctx had ended before it began. Redis was not asked, so the
// error does not say that another owner has the lock.
func (lk *lock) refused(ctx context.Context, op string) error {
	if op == "acquire" && lk.enclosingLost(ctx) {
		return ErrLost
	}
	return lk.k.arbiter.Silence(op, lk.names.Name, wire.ErrNotAsked, context.Cause(ctx))
}

// explain turns the error of a caller that gave up, of claim c, into one that says what it waited
// for: another owner, or Redis. Other errors stay.
func (lk *lock) explain(ctx context.Context, err error, c claim.Claim) error {
	switch {
	case err == wire.ErrBusy:
		holder, ttl := c.Seen()
		return &wire.HeldError{Name: lk.names.Name, Holder: holder, TTL: ttl, Cause: wire.CauseOf(ctx)}
	case ctx.Err() != nil && wire.FromRedis(err):
		return wire.GivenUp("acquire", lk.names.Name, err, wire.CauseOf(ctx))
	}
	return err
}

// leftTheLine is the error of a caller that gave up in the line of this process, by what the
// goroutine at the gate has reported. If that one cannot reach Redis, or has heard nothing for as
// long as the caller waited or a command may take, Redis is not there. Else the lock is busy.
func (lk *lock) leftTheLine(err error) error {
	left, ok := err.(*gate.Left)
	switch {
	case !ok:
		return ErrClosed
	case left.Report == gate.ErrUnreported && left.Stood >= min(left.Waited, lk.cfg.commandTimeout):
		return lk.k.arbiter.Silence("acquire", lk.names.Name, wire.ErrNoAnswer, left.Cause)
	case left.Report != nil && left.Report != gate.ErrUnreported:
		return wire.GivenUp("acquire", lk.names.Name, left.Report, left.Cause)
	}
	return &wire.HeldError{Name: lk.names.Name, Local: true, Cause: left.Cause}
}

// outward is the error of an internal package as the caller sees it. A node that was silent is said to
// be so, with what it failed with shortly before, where this client knows that.
func (k *core) outward(err error) error { return outward(k.explained(err)) }

// explained is err with what is known of nodes that were silent. In a NodeError of one Redis it also
// tells the caller that left from the command that ran out of time.
func (k *core) explained(err error) error {
	switch e := err.(type) {
	case *wire.NodeError:
		told := *e
		if left := new(link.Left); e.Cause == nil && errors.As(e.Err, &left) {
			told.Err = wire.ErrNoAnswer
			if left.Cause != wire.ErrNoAnswer { // else the time of the command was up, and not the caller's
				told.Cause = left.Cause
			}
		}
		if nodes := k.arbiter.Nodes(); k.cfg.nodes == 0 && len(nodes) == 1 {
			told.Err = nodes[0].Explained(told.Err)
		}
		return &told
	case *wire.QuorumError:
		told, nodes := *e, k.arbiter.Nodes()
		told.Nodes = make([]*wire.NodeError, len(e.Nodes))
		for i, said := range e.Nodes {
			of := *said
			of.Err = nodes[said.Node-1].Explained(said.Err)
			told.Nodes[i] = &of
		}
		return &told
	case *wire.HeldError:
		if e.Cause != nil {
			told := *e
			told.Cause = k.explained(e.Cause)
			return &told
		}
	}
	return err
}
