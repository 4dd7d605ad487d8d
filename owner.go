package relock

import (
	"context"

	"github.com/relock-go/relock/internal/wire"
)

type ownerKey struct{}

// leaseKey is the key by which FromContext asks for the innermost lease, of whichever lock.
type leaseKey struct{}

// ownerCtx names the owner of locks taken under it, and hides the leases above it.
type ownerCtx struct {
	context.Context
	owner string
	err   error // why no lock can be taken under it
}

func (c *ownerCtx) Value(key any) any {
	switch key.(type) {
	case *known, leaseKey:
		return nil
	case ownerKey:
		return c
	default:
		return c.Context.Value(key)
	}
}

// WithOwner returns a context whose locks belong to the owner named id, for a workflow that moves
// between processes. All contexts with one id, in this process and in others, are one owner: they
// hold the lock together, and a Lock under one re-enters what another holds.
//
//   - On one Redis they get the same fencing token. On a quorum each gets one of its own, above
//     those of all earlier owners and below those of all later ones.
//   - An id has up to 256 bytes. It is not empty, not "mode", and does not start with "relock:", else
//     each Lock under it fails with ErrInvalidOwner. It must not be an id that other software uses,
//     such as Redisson's <uuid>:<thread>.
//   - An RWMutex, a Semaphore and Flight.Do refuse such a context, with errors.ErrUnsupported.
//
// Without WithOwner every Lock is its own owner, and only the lease's own context re-enters.
func WithOwner(ctx context.Context, id string) context.Context {
	c := detached(ctx)
	c.owner = id
	if c.err == nil {
		c.err = wire.ValidOwner(id)
	}
	return c
}

// Detach returns a context that carries no ownership: a Lock under it waits for the locks that ctx
// holds instead of re-entering them. Cancellation, deadline and other values stay. Use it for a
// goroutine that must not share what its parent holds.
func Detach(ctx context.Context) context.Context { return detached(ctx) }

func detached(ctx context.Context) *ownerCtx {
	if ctx == nil {
		return &ownerCtx{Context: context.Background(), err: errNilContext}
	}
	c := &ownerCtx{Context: ctx}
	if was, _ := ctx.Value(ownerKey{}).(*ownerCtx); was != nil && was.err == errNilContext {
		c.err = errNilContext // the outer owner is hidden, but not that the context was nil
	}
	return c
}

// ownerOf returns the owner id that WithOwner put into ctx, "" when there is none.
func ownerOf(ctx context.Context) (string, error) {
	c, _ := ctx.Value(ownerKey{}).(*ownerCtx)
	if c == nil {
		return "", nil
	}
	return c.owner, c.err
}
