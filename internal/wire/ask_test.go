package wire

import (
	"testing"
	"time"

	"github.com/relock-go/relock/internal/driver"
	"github.com/stretchr/testify/require"
)

// entryOf is a try for a mutex, as a client makes it.
func entryOf(t *testing.T, name, id string) *Entry {
	t.Helper()
	n, err := Mutex.Names("", name)
	require.NoError(t, err)
	return &Entry{Names: n, ID: id, Lease: time.Second, Block: 256, Timeout: time.Second}
}

// A grant in one word is read, and nothing else is.
func TestAGrantInOneWord(t *testing.T) {
	a, err := parseTokens(driver.String("1795331819046123:256"))
	require.NoError(t, err)
	require.Equal(t, Answer{Mine: true, Number: 1795331819046123, Count: 256}, a)
	for _, odd := range []driver.Value{
		{}, driver.Int(1), driver.String(""), driver.String("5"), driver.String("5:"), driver.String("0:1"), driver.String("5:0"),
		driver.String("5:1:own"), driver.String("x:1"), driver.Error(&driver.ReplyError{Text: "OOM"}),
	} {
		_, err := parseTokens(odd)
		require.Error(t, err)
	}
}
