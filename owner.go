package relock

import "context"

// leaseKey finds the innermost lease of a lock that a context carries.
type leaseKey struct {
	client *Client
	name   string
}

type ownerKey struct{}

// ownerCtx names the owner of what is locked under it, and hides the leases above it.
type ownerCtx struct {
	context.Context
	owner string
}

func (c ownerCtx) Value(key any) any {
	switch key.(type) {
	case leaseKey:
		return nil
	case ownerKey:
		return c.owner
	default:
		return c.Context.Value(key)
	}
}

// WithOwner returns a context whose locks belong to the owner named id. Whoever uses the same id, in this process or in
// another, is the same owner and re-enters its locks: use it for a workflow that moves between processes. All who share
// an owner id hold the lock together and get the same fencing token. An id must not be empty and must not be used for
// something else's owner, such as Redisson's <uuid>:<thread>.
//
// Without WithOwner every Lock is its own owner, and only the lease's own context re-enters.
func WithOwner(ctx context.Context, id string) context.Context {
	return ownerCtx{Context: ctx, owner: id}
}

// Detach returns a context that carries no ownership: a Lock under it waits for the locks that ctx holds instead of
// re-entering them. Cancellation, deadline and other values stay. Use it for a goroutine that must not share what its
// parent holds.
func Detach(ctx context.Context) context.Context { return ownerCtx{Context: ctx} }

// ownerOf returns the owner id that WithOwner put into ctx, "" when there is none.
func ownerOf(ctx context.Context) string {
	owner, _ := ctx.Value(ownerKey{}).(string)
	return owner
}
