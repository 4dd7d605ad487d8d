package lazyctx_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/lazyctx"
)

var (
	errOver = errors.New("over")
	past    = time.Unix(0, 0)
)

// However it is asked, and in whatever order, a context that ended by End has that cause and stays ended.
func TestEndsByItsCause(t *testing.T) {
	for name, asked := range map[string]bool{"asked before": true, "asked after": false} {
		t.Run(name, func(t *testing.T) {
			parent, cancel := context.WithCancel(t.Context())
			c := lazyctx.Ctx{Parent: parent}
			require.NoError(t, c.Err())
			if asked {
				require.NoError(t, c.Context().Err())
			}
			c.End(lazyctx.By(errOver))
			c.End(lazyctx.By(errors.New("later")))
			cancel()
			require.ErrorIs(t, c.Err(), context.Canceled)
			<-c.Context().Done()
			require.Equal(t, errOver, context.Cause(c.Context()))
			require.Same(t, c.Context(), c.Context())
		})
	}
}

// A context that ended with its parent says so for ever, whether it was asked before or not, and though End comes after.
func TestEndsWithItsParent(t *testing.T) {
	for name, asked := range map[string]bool{"asked before": true, "asked after": false} {
		t.Run(name, func(t *testing.T) {
			parent, cancel := context.WithDeadlineCause(t.Context(), past, errOver)
			defer cancel()
			c := lazyctx.Ctx{Parent: parent}
			if asked {
				require.ErrorIs(t, c.Err(), context.DeadlineExceeded)
			}
			c.End(lazyctx.By(errors.New("later")))
			require.ErrorIs(t, c.Err(), context.DeadlineExceeded)
			require.Equal(t, errOver, context.Cause(c.Context()))
		})
	}
}

// One end serves many contexts, and an end that no caller looks at costs no memory but the Ctx's own.
func TestEndsWithoutMemory(t *testing.T) {
	end, parent := lazyctx.By(errOver), t.Context()
	require.LessOrEqual(t, testing.AllocsPerRun(100, func() {
		c := lazyctx.Ctx{Parent: parent}
		c.End(end)
	}), 1.0)
}

// Goroutines that ask and end at once see one context and one cause.
func TestAskedAndEndedAtOnce(t *testing.T) {
	for range 200 {
		c := lazyctx.Ctx{Parent: t.Context()}
		var all sync.WaitGroup
		for range 4 {
			all.Go(func() {
				<-c.Context().Done()
				if cause := context.Cause(c.Context()); cause != errOver {
					t.Error(cause)
				}
			})
			all.Go(func() { c.End(lazyctx.By(errOver)) })
		}
		all.Wait()
	}
}
