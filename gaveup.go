package relock

import (
	"context"

	"github.com/relock-go/relock/internal/claim"
	"github.com/relock-go/relock/internal/gate"
	"github.com/relock-go/relock/internal/node"
	"github.com/relock-go/relock/internal/wire"
)

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
func (k *core) outward(err error) error {
	if err == nil {
		return nil // most often: and the nodes are a slice
	}
	return outward(node.Explained(err, k.arbiter.Nodes(), k.cfg.nodes > 0))
}
