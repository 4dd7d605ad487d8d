package driver

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// The slots are those that CLUSTER KEYSLOT of Redis 7.0 tells. Package redistest asks its own servers.
func TestSlot(t *testing.T) {
	for key, slot := range map[string]uint16{
		"": 0, "123456789": 12739, "k": 7629, "foo": 12182, "orders:42": 11414, "ключ": 10303,
		"{a}b": 15495, "x{a}b": 15495, "{}a": 10875, "{": 4092, "a{b": 13340, "}{a}{b}": 15495, "x{}{a}": 15756,
		"{user1000}.following": 3443,
	} {
		require.Equal(t, slot, Slot(key), "%q", key)
	}
}

func BenchmarkSlot(b *testing.B) {
	for b.Loop() {
		Slot("{orders:42}:lock")
	}
}
