// Package lazyctx has a context that is made only once a caller needs it.
//
// Most contexts of leases end without a goroutine that waits for that. A context of the standard
// library wakes goroutines and ends derived contexts, but costs memory and time from the start.
package lazyctx

import (
	"context"
	"sync/atomic"
)

// Ctx is a context that derives from Parent and ends by End, or with Parent. All methods may be
// called from any goroutine. It must not be copied.
type Ctx struct {
	Parent context.Context     // set before the first call
	state  atomic.Pointer[End] // nil while the context was neither made nor ended
}

// End is the end of a context. Several contexts may share one End: it never changes.
type End struct {
	cause error // set if the context ended before it was made

	// The context that was made, else nil. It ends by cancel.
	made   context.Context
	cancel context.CancelCauseFunc
}

// By returns an end for that cause.
func By(cause error) *End { return &End{cause: cause} }

// Context returns the context of the standard library, and makes it at the first call. It takes no
// mutex: deriving from Parent may come back here, where contexts are nested.
func (c *Ctx) Context() context.Context {
	for {
		was := c.state.Load()
		if was != nil && was.made != nil {
			return was.made
		}
		var is End
		if was == nil {
			is.made, is.cancel = context.WithCancelCause(c.Parent)
		} else { // it has ended by its own cause, and keeps that, even if Parent has ended since
			is.made, is.cancel = context.WithCancelCause(context.WithoutCancel(c.Parent))
			is.cancel(was.cause)
		}
		if c.state.CompareAndSwap(was, &is) {
			return is.made
		}
		is.cancel(nil)
	}
}

// End ends the context, unless it has ended.
func (c *Ctx) End(end *End) {
	for {
		was := c.state.Load()
		switch {
		case was != nil && was.made != nil:
			was.cancel(end.cause)
			return
		case was != nil:
			return
		case c.Parent.Err() != nil:
			// It has ended with Parent already. A context that is made now remembers that. Asking
			// Parent each time would ask every context that this one is nested in, twice.
			c.Context()
			return
		case c.state.CompareAndSwap(nil, end):
			return
		}
	}
}

// Err returns nil while the context lives, and then how it ended, as for every context.
func (c *Ctx) Err() error {
	switch is := c.state.Load(); {
	case is == nil && c.Parent.Err() == nil:
		return nil
	case is != nil && is.made == nil:
		return context.Canceled
	case is != nil && is.made.Err() == nil:
		_ = c.Parent.Err() // Parent may end by being asked, and the made context with it
	}
	return c.Context().Err() // the made context remembers how Parent ended
}
