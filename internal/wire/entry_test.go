package wire

import (
	"regexp"
	"strings"
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
			pause := e.LookAgain(c.ttl, 3)
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
		seen[e.LookAgain(-1, 1)] = true
	}
	require.Greater(t, len(seen), 100)
}

// An id is the client's number and random digits, and the clients of before and Redis take it for one of theirs.
func TestIDs(t *testing.T) {
	const client = "8c9f3a52-6f0b-4a44-9f6c-0d3e1f2a7b61"
	was, numbers := make(map[string]bool), regexp.MustCompile(`^:([0-9]+)[1-9][0-9]{15}$`)
	drawn := make(map[string]bool)
	for n, said := range map[uint64]string{1: "1", 2: "2", 256: "256", 99_999_999_999: "99999999999"} {
		for range 1000 {
			id := NewID(client, n)
			require.Regexp(t, sharer, id)
			require.LessOrEqual(t, len(id), 64)
			require.Equal(t, []string{said}, numbers.FindStringSubmatch(strings.TrimPrefix(id, client))[1:])
			require.Equal(t, client+":"+said, WaitingID(client, strings.TrimPrefix(id, client+":")))
			was[id], drawn[id[len(id)-16:]] = true, true
		}
	}
	require.Len(t, was, 4000)
	require.Len(t, drawn, 4000)
	require.Equal(t, client+":17", WaitingID(client, "17"), "of a client of before")
}

func BenchmarkNewID(b *testing.B) {
	b.ReportAllocs()
	n := uint64(0)
	for b.Loop() {
		n++
		NewID("8c9f3a52-6f0b-4a44-9f6c-0d3e1f2a7b61", n)
	}
}

// What tells a holder that its idle lock is wanted is repeated soon: lost twice, it keeps a waiter for a quarter of a lease.
func TestTheFirstLooksAreSooner(t *testing.T) {
	const lease, unknown = 24 * time.Second, -1
	e := &Entry{Lease: lease}
	for answers, pause := range []time.Duration{lease / 12, lease / 12, lease / 6, lease / 3, lease / 3, lease / 3} {
		got := e.LookAgain(unknown, answers)
		require.GreaterOrEqual(t, got, pause, "%d answers", answers)
		require.LessOrEqual(t, got, pause+pause/20, "%d answers", answers)
	}
	require.Equal(t, 11*time.Millisecond, e.LookAgain(10*time.Millisecond, 1))
}

// A crowd that gives way is asked for at once; the pauses of one that does not double, up to a twelfth of the lease, and only
// fewer than ever before begin them anew.
func TestCrowdIsAskedForSoon(t *testing.T) {
	var c Crowd
	for i, step := range []struct {
		untold int
		soon   time.Duration
	}{
		{272, 5}, {144, 5}, {144, 10}, {200, 20}, {16, 5}, {16, 10}, {17, 20}, {16, 40}, {0, 0}, {16, 80}, {16, 0}, {16, 0}, {15, 5},
	} {
		require.Equal(t, step.soon*time.Millisecond, c.Soon(step.untold, 1500*time.Millisecond), "answer %d", i)
	}
}
