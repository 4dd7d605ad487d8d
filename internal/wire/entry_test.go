package wire

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A look comes at the end of the holder's lease or after a third of the entry's own, whichever is first, and never so
// soon that looks follow each other without a pause.
func TestLookAgain(t *testing.T) {
	const unknown = -1
	for _, c := range []struct {
		lease, ttl  time.Duration
		least, most time.Duration
	}{
		{30 * time.Second, unknown, 10 * time.Second, 10500 * time.Millisecond},
		{30 * time.Second, -time.Hour, 10 * time.Second, 10500 * time.Millisecond},
		{30 * time.Second, time.Hour, 10 * time.Second, 10500 * time.Millisecond},
		{30 * time.Second, 11 * time.Second, 10 * time.Second, 10500 * time.Millisecond},
		{30 * time.Second, 10*time.Second - 1, 10001*time.Millisecond - 1, 10001*time.Millisecond - 1},
		{30 * time.Second, 5 * time.Second, 5001 * time.Millisecond, 5001 * time.Millisecond},
		{30 * time.Second, 2 * time.Millisecond, 3 * time.Millisecond, 3 * time.Millisecond},
		{30 * time.Second, time.Millisecond, 2 * time.Millisecond, 2 * time.Millisecond},
		{30 * time.Second, 1, 2 * time.Millisecond, 2 * time.Millisecond},
		{30 * time.Second, 0, 2 * time.Millisecond, 2 * time.Millisecond},
		{3 * time.Millisecond, unknown, 2 * time.Millisecond, 2 * time.Millisecond},
		{3 * time.Millisecond, 0, 2 * time.Millisecond, 2 * time.Millisecond},
		{0, unknown, 2 * time.Millisecond, 2 * time.Millisecond},
		{MaxLease, unknown, MaxLease / 3, MaxLease/3 + MaxLease/60},
	} {
		e := &Entry{Lease: c.lease}
		for range 200 {
			pause := e.LookAgain(c.ttl)
			require.GreaterOrEqual(t, pause, c.least, "%v, %v left", c.lease, c.ttl)
			require.LessOrEqual(t, pause, c.most, "%v, %v left", c.lease, c.ttl)
		}
	}
}

// Processes that ask at the same moment do not ask again at the same moment.
func TestLooksAreApart(t *testing.T) {
	e := &Entry{Lease: 30 * time.Second}
	seen := make(map[time.Duration]bool)
	for range 200 {
		seen[e.LookAgain(-1)] = true
	}
	require.Greater(t, len(seen), 100)
}
