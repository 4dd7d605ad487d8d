package relock

import (
	"context"

	"github.com/relock-go/relock/internal/claim"
	"github.com/relock-go/relock/internal/gate"
	"github.com/relock-go/relock/internal/wire"
)

// errWaited is the cause when WithWait's time is up.
var errWaited error = waited{}

type waited struct{}

func (waited) Error() string { return "the time to wait is up" }

// Unwrap makes it match what it would be had the caller's own time been up.
func (waited) Unwrap() error { return context.DeadlineExceeded }

// refused is the error for a ctx that had ended before anything was done. Redis was not asked, so it must
// not say that another owner has the lock.
func (lk *lock) refused(ctx context.Context, op string) error {
	if op == "acquire" && lk.enclosingLost(ctx) {
		return ErrLost
	}
	return lk.k.arbiter.Silence(op, lk.names.Name, context.Cause(ctx))
}

// explain makes the error of a caller that gave up tell what it waited for.
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

// leftTheLine is the error of a caller that gave up behind others of this process. Where the one at
// the gate does not reach Redis, or has heard nothing for as long as the caller waited, Redis is
// not there; else the lock is busy.
func (lk *lock) leftTheLine(err error) error {
	left, ok := err.(*gate.Left)
	switch {
	case !ok:
		return ErrClosed
	case left.Report == gate.ErrUnreported && left.Stood >= min(left.Waited, lk.cfg.commandTimeout):
		return lk.k.arbiter.Silence("acquire", lk.names.Name, left.Cause)
	case left.Report != nil && left.Report != gate.ErrUnreported:
		return wire.GivenUp("acquire", lk.names.Name, left.Report, left.Cause)
	}
	return &wire.HeldError{Name: lk.names.Name, Local: true, Cause: left.Cause}
}
