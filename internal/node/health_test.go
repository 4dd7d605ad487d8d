package node

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A node that is silent rests, once for all that fails together, and is asked by one probe after each rest.
func TestSilentNodeIsProbed(t *testing.T) {
	h := newHealth(time.Second)
	began := time.Now()
	for range 10 {
		h.answered(context.DeadlineExceeded)
	}
	require.True(t, h.idle())
	require.LessOrEqual(t, h.silent.until.Sub(began), time.Since(began)+20*time.Millisecond, "one outage")
	require.Eventually(t, func() bool { return !h.idle() }, patience, time.Millisecond)
	require.True(t, h.idle(), "the probe is out")
	before := time.Now()
	h.answered(context.DeadlineExceeded)
	rest := h.silent.until.Sub(before)
	require.GreaterOrEqual(t, rest, 30*time.Millisecond, "twice the first, less a quarter at most")
	require.LessOrEqual(t, rest, time.Since(before)+40*time.Millisecond)
	h.answered(nil)
	require.False(t, h.idle())
}
