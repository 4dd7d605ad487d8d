// Package single lets one Redis decide which owner holds a lock: a single server, a Sentinel group or
// a Cluster. Its waiters sleep until a message tells them of their grant, or to look again.
package single

import (
	"context"

	"github.com/relock-go/relock/internal/claim"
	"github.com/relock-go/relock/internal/clock"
	"github.com/relock-go/relock/internal/driver"
	"github.com/relock-go/relock/internal/node"
	"github.com/relock-go/relock/internal/wire"
)

// Single is the arbiter of a client that has one Redis.
type Single struct{ node *node.Node }

// New returns an arbiter over a node, which is its own from here on.
func New(n *node.Node) *Single { return &Single{n} }

// Claim returns the claim of an entry. It sends nothing.
func (s *Single) Claim(e wire.Entry) claim.Claim {
	c := &contender{entry: e, node: s.node, wake: clock.NewSignal()}
	c.Start(s.node, &c.entry, c.wake)
	return c
}

// Renew lengthens leases, and calls settle once for each of them.
func (s *Single) Renew(ctx context.Context, batch []claim.Renewal, settle claim.Settle) {
	sent := clock.Now()
	s.node.Renew(ctx, batch, func(i int, r wire.Result, err error) { settle(i, r, sent, err) })
}

// Silence returns the error of a caller that gave up, for cause, before Redis had answered anything.
// why says why it had not.
func (s *Single) Silence(op driver.Op, name string, why, cause error) error {
	return &wire.NodeError{Op: op, Name: name, Err: why, Cause: cause}
}

// Inspect reads a lock's state.
func (s *Single) Inspect(ctx context.Context, n *wire.Names) (wire.State, error) {
	st, err := s.node.Inspect(ctx, n)
	if err != nil {
		return wire.State{}, &wire.NodeError{Op: driver.Inspect, Name: n.Name, Err: err}
	}
	return st, nil
}

// Force frees a lock. It returns false if the lock had no holder.
func (s *Single) Force(ctx context.Context, n *wire.Names) (bool, error) {
	freed, _, err := s.node.Force(ctx, n)
	if err != nil {
		return false, &wire.NodeError{Op: driver.Force, Name: n.Name, Err: err}
	}
	return freed, nil
}

// Resize says how many permits a semaphore has.
func (s *Single) Resize(ctx context.Context, n *wire.Names, permits int, anew bool) (told bool, err error) {
	if told, err = s.node.Resize(ctx, n, permits, anew); err != nil {
		return false, &wire.NodeError{Op: driver.Resize, Name: n.Name, Err: err}
	}
	return told, nil
}

// TrustNodes has nothing to declare: without the restart guard Redis is trusted not to forget.
func (s *Single) TrustNodes(context.Context) error { return nil }

// Nodes returns the only node.
func (s *Single) Nodes() []*node.Node { return []*node.Node{s.node} }

// Stop makes contenders leave.
func (s *Single) Stop() { s.node.Stop() }

// Close tries once more to end the abandoned claims, then ends everything that runs for the node.
func (s *Single) Close() {
	s.node.LastSweep()
	s.node.Close()
}
