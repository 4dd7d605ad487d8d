package pool

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestWhatWasUsedLastIsTakenFirst(t *testing.T) {
	var p Pool[string]
	require.Empty(t, p.Take(Any))
	require.False(t, p.HasOther(1))
	p.Add("a", 1)
	p.Add("b", 2)
	p.Add("c", 1)
	require.False(t, p.HasOther(1))
	require.True(t, p.HasOther(3))
	require.Empty(t, p.Take(3))
	require.Equal(t, "c", p.Take(1))
	p.Remove("a")
	p.Remove("a")
	require.Equal(t, 1, p.Len())
	require.True(t, p.HasOther(1))
	require.Equal(t, "b", p.Take(Any))
	require.Zero(t, p.Len())
}
