package relock

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// Names are kept, few of them, and none is taken for another.
func TestNamesAreKept(t *testing.T) {
	inFakeTime(t, func(t *testing.T, c *Client, s *scripted) {
		require.Same(t, c.Mutex("k").names, c.Mutex("k").names)
		for i := range 4 * maxKnown {
			name := fmt.Sprint("n", i)
			require.Equal(t, name, c.Mutex(name).Name())
			require.Equal(t, name, c.Mutex(name).names.Lock)
		}
		require.ErrorIs(t, c.Mutex("").err, ErrInvalidName)
		require.ErrorIs(t, c.Mutex("").err, ErrInvalidName)
		require.Zero(t, c.Mutex("").Name())
		require.Less(t, testing.AllocsPerRun(100, func() { c.Mutex("k") }), 2.0)
	})
}
