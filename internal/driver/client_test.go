package driver

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// over is a Redis with a client, and no more.
type over struct {
	Redis
	client any
}

func (o over) Client() any { return o.client }

func TestMissing(t *testing.T) {
	require.True(t, Missing(nil))
	require.True(t, Missing(over{}))
	require.True(t, Missing(over{client: (*int)(nil)}))
	require.False(t, Missing(over{client: new(int)}))
	require.False(t, Missing(over{client: 1}))
}

func TestSame(t *testing.T) {
	a, b := new(int), new(int)
	require.True(t, Same(over{client: a}, over{client: a}))
	require.False(t, Same(over{client: a}, over{client: b}))
	require.False(t, Same(over{client: a}, over{client: 1}))
	hooked := struct{ hooks []string }{}
	require.False(t, Same(over{client: hooked}, over{client: hooked}), "it cannot be compared")
}
