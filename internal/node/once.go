package node

import (
	"context"
	"time"

	"github.com/relock-go/relock/internal/wire"
)

// Result reads the result of a run, as [wire.Redis.Result] does.
func (n *Node) Result(ctx context.Context, names *wire.Names) (result string, found bool, err error) {
	return n.wire.Result(ctx, names)
}

// KeepResult leaves the result of a run, as [wire.Redis.KeepResult] does.
func (n *Node) KeepResult(ctx context.Context, e *wire.Entry, result string, stays time.Duration) (wire.Kept, error) {
	return n.wire.KeepResult(ctx, e, result, stays)
}

// ForgetResult takes the result of a run away, as [wire.Redis.ForgetResult] does.
func (n *Node) ForgetResult(ctx context.Context, names *wire.Names) error {
	return n.wire.ForgetResult(ctx, names)
}
