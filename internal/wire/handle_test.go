package wire

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A handle, its field in Redis and an acquisition's id are three forms, of which none passes for another.
func TestHandles(t *testing.T) {
	const client = "0b5a6d6e-0000-4000-8000-000000000001"
	here, err := Mutex.Names("", "k")
	require.NoError(t, err)
	there, err := Mutex.Names("app:", "k")
	require.NoError(t, err)
	handle := NewHandle(client, here.Lock)
	field := HandleField(handle)
	require.NotEqual(t, handle, NewHandle(client, here.Lock))
	require.NoError(t, ValidHandle(handle, here))
	require.Len(t, field, 64)
	require.Equal(t, field, HandleField(handle))
	require.NotEqual(t, field, HandleField(handle[:len(handle)-1]+string('A'+(handle[len(handle)-1]-'A'+1)%2)))
	require.True(t, IsHandleField(field))
	require.Equal(t, client, ClientOf(field))
	require.Equal(t, client, ClientIn([]string{field, "1", firstField, "7:0"}))
	for _, text := range []string{field, NewID(client, 1), client + ":37"} {
		require.ErrorIs(t, ValidHandle(text, here), ErrLost, text)
	}
	require.ErrorIs(t, ValidHandle(handle, there), ErrLost, "another lock's")
	for _, text := range []string{"", "order 42", client, handle + "\n", " " + handle, strings.ToLower(handle), field + "0", "mode"} {
		require.ErrorIs(t, ValidHandle(text, here), ErrMisuse, "%q", text)
	}
	for _, text := range []string{handle, NewID(client, 1), client + ":37", client + ":handle:1", "workflow:handle:5js8Izetli0qdyEdB--W"} {
		require.False(t, IsHandleField(text), text)
	}
}
