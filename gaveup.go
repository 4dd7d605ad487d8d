package relock

import (
	"context"
	"errors"
	"time"

	"github.com/relock-go/relock/internal/claim"
	"github.com/relock-go/relock/internal/clock"
	"github.com/relock-go/relock/internal/gate"
	"github.com/relock-go/relock/internal/node"
	"github.com/relock-go/relock/internal/wire"
)

// refused returns the error of a call whose ctx had ended before the call. Redis was not asked, so the
// error does not say that another owner has the lock.
func (lk *lock) refused(ctx context.Context, op string) error {
	if op == "acquire" && lk.enclosingLost(ctx) {
		return lk.enclosing(ctx).h.why()
	}
	return lk.k.arbiter.Silence(op, lk.names.Name, wire.ErrNotAsked, context.Cause(ctx))
}

// unheard returns err, with which a call ended that has asked Redis before. If err says that Redis was not
// asked, since ctx had ended by then, the call is told what Redis failed with when it was asked, or that it
// gave no answer in time.
func (lk *lock) unheard(ctx context.Context, err, failed error) error {
	switch {
	case !errors.Is(err, ErrNotAsked):
		return err
	case failed != nil:
		return lk.outward(wire.GivenUp("acquire", lk.names.Name, failed, wire.CauseOf(ctx)))
	}
	return lk.outward(lk.k.arbiter.Silence("acquire", lk.names.Name, wire.ErrNoAnswer, wire.CauseOf(ctx)))
}

// explain turns the error of a caller that gave up into one that says what it waited for: another owner,
// as claim c has seen, or Redis. Other errors stay.
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

// leftTheLine returns the error of a caller that gave up in the line of this process. It blames Redis if
// the goroutine at the gate has reported a failure, or has heard nothing for the caller's whole wait, or
// for a command timeout. Otherwise the lock is busy.
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

// inTheWay returns for how long the owner that e names has been in the way of this client, and fills in that
// owner if the caller was refused without a question to Redis: then it is the hold that this process has
// or, if it has none, the one that the goroutine at the gate has met.
func (lk *lock) inTheWay(e *HeldError) (age time.Duration) {
	ours := lk.lasts.ours.Load()
	switch {
	case ours != nil && (e.Local || e.Holder == ours.entry.ID):
		now := clock.Now()
		ours.mu.Lock()
		defer ours.mu.Unlock()
		if began := ours.term.Began(); !began.IsZero() { // else no lease has begun yet
			e.age = now.Since(began)
		}
		if e.Local {
			e.Holder, e.TTL, e.Client = ours.entry.ID, max(0, ours.term.Left(now)), ClientInfo(lk.k.presence.Known(ours.entry.ID))
		}
		return e.age
	case e.Local:
		e.Holder, age, e.TTL = lk.lasts.InWay()
		e.Client = ClientInfo(lk.k.presence.Known(e.Holder))
		return age
	}
	return lk.lasts.Met(e.Holder, e.TTL)
}

// outward turns an error of an internal package into the one that the caller sees. Of a silent node, it
// also says how that node failed shortly before, if this client knows.
func (k *core) outward(err error) error {
	if err == nil {
		return nil // the usual case, which is not to allocate the slice of nodes
	}
	return outward(node.Explained(err, k.arbiter.Nodes(), k.cfg.nodes > 0))
}
