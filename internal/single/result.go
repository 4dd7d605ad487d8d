package single

import (
	"context"
	"time"

	"github.com/relock-go/relock/internal/clock"
	"github.com/relock-go/relock/internal/driver"
	"github.com/relock-go/relock/internal/wire"
)

// Result reads the result that a run under the lock has left, if one is found. With again it repeats its
// command until Redis answers or ctx ends.
func (s *Single) Result(ctx context.Context, n *wire.Names, again bool) (result string, found bool, err error) {
	err = repeat(ctx, again, driver.Flight, n, func(ctx context.Context) error {
		result, found, err = s.node.Result(ctx, n)
		return err
	})
	return result, found, err
}

// Keep leaves the result of an entry's run for others, if the entry holds the lock by that grant. It sends its command
// even if ctx has ended, and repeats it until Redis answers or ctx ends. Sent again, it finds its own.
func (s *Single) Keep(ctx context.Context, e *wire.Entry, grant int64, result string, stays time.Duration) (kept wire.Kept, err error) {
	err = repeat(ctx, true, driver.Flight, e.Names, func(ctx context.Context) error {
		kept, err = s.node.KeepResult(context.WithoutCancel(ctx), e, grant, result, stays)
		return err
	})
	return kept, err
}

// Forget takes the result of a run away.
func (s *Single) Forget(ctx context.Context, n *wire.Names) error {
	return repeat(ctx, false, driver.Flight, n, func(ctx context.Context) error { return s.node.ForgetResult(ctx, n) })
}

// repeat sends a command once or, again, until Redis answers or ctx ends, and returns its error.
func repeat(ctx context.Context, again bool, op driver.Op, n *wire.Names, send func(context.Context) error) error {
	pause := clock.Backoff{Least: 5 * time.Millisecond, Most: 250 * time.Millisecond}
	for {
		err := send(ctx)
		if err == nil {
			return nil
		}
		if again && wire.Transient(err) && clock.Sleep(ctx, pause.Next()) {
			continue
		}
		err = &wire.NodeError{Op: op, Name: n.Name, Err: err}
		if ctx.Err() != nil {
			err = wire.GivenUp(op, n.Name, err, wire.CauseOf(ctx))
		}
		return err
	}
}
