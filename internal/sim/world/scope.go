package world

import (
	"context"

	"github.com/relock-go/relock"
)

// scope is what a context carries of locks, as the judge follows it: the leases of those around,
// inside out, and whose the locks under it are.
type scope struct {
	outer *scope // nil where WithOwner or Detach hides what is further out
	held  *Held  // nil for the owner alone
	owner string
}

type scopeKey struct{}

func scopeOf(ctx context.Context) *scope {
	s, _ := ctx.Value(scopeKey{}).(*scope)
	return s
}

// find is the innermost lease of a lock, nil for none.
func (s *scope) find(name string) *Held {
	for ; s != nil; s = s.outer {
		if s.held != nil && s.held.Name == name {
			return s.held
		}
	}
	return nil
}

// whose is the owner of locks under the scope, "" where each is its own.
func (s *scope) whose() string {
	if s == nil {
		return ""
	}
	return s.owner
}

// within is the context of a lease that was taken under ctx.
func within(ctx context.Context, h *Held) context.Context {
	outer := scopeOf(ctx)
	return context.WithValue(h.Lease.Context(), scopeKey{}, &scope{outer: outer, held: h, owner: outer.whose()})
}

// withOwner is relock.WithOwner, and Detach for "".
func withOwner(ctx context.Context, owner string) context.Context {
	ctx = context.WithValue(ctx, scopeKey{}, &scope{owner: owner})
	if owner == "" {
		return relock.Detach(ctx)
	}
	return relock.WithOwner(ctx, owner)
}
