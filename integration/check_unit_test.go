//go:build unix

package integration

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// told makes events of lock "l" from short hand.
func told(kind, who string, token int64, ats ...time.Duration) []event {
	out := make([]event, 0, len(ats))
	for _, at := range ats {
		out = append(out, event{at: at, kind: kind, who: who, lock: "l", token: token})
	}
	return out
}

func join(parts ...[]event) []event {
	j := newJournal()
	for _, part := range parts {
		for _, e := range part {
			j.add(e)
		}
	}
	return j.all()
}

func TestCheckerAcceptsTurns(t *testing.T) {
	got := spans(join(
		told(trusted, "a", 1, 10, 20, 30), told(trusted, "b", 2, 31, 40), told(trusted, "a", 3, 50),
		[]event{{at: 35, kind: trusted, who: "c", lock: "another", token: 9}},
	), "l")
	require.Len(t, got, 3)
	require.Empty(t, overlaps(got))
	require.Empty(t, disorder(got))
}

func TestCheckerTellsGrantsOfOneTokenApart(t *testing.T) {
	events := join(
		told(granted, "a", 1, 9), told(trusted, "a", 1, 10, 20), told(trusted, "b", 2, 25), // then the counter is lost
		told(granted, "a", 1, 29), told(trusted, "a", 1, 30, 40),
	)
	got := spans(events, "l")
	require.Len(t, got, 3)
	require.Empty(t, overlaps(got))
	require.Equal(t, []int64{1}, repeated(events, "l"))
}

func TestCheckerFindsOverlap(t *testing.T) {
	for name, events := range map[string][]event{
		"a point between":       join(told(trusted, "a", 1, 10, 30), told(trusted, "b", 2, 20)),
		"crossing":              join(told(trusted, "a", 1, 10, 30), told(trusted, "b", 2, 20, 40)),
		"within, no point near": join(told(trusted, "a", 1, 10, 100), told(trusted, "b", 2, 50, 60)),
		"before a third":        join(told(trusted, "a", 1, 10, 90), told(trusted, "b", 2, 95), told(trusted, "c", 3, 80)),
		"one owner, two leases": join(told(trusted, "a", 1, 10, 30), told(trusted, "a", 2, 20, 40)),
	} {
		require.Len(t, overlaps(spans(events, "l")), 1, name)
	}
	long := join(told(trusted, "a", 1, 10, 100), told(trusted, "b", 2, 20, 30), told(trusted, "c", 3, 40, 50))
	require.Len(t, overlaps(spans(long, "l")), 2, "an early long span meets all later ones")
}

// TestCheckerAcceptsTurnsWithinAGrainOfTheClock has turns with equal readings, in both orders that journals may have.
func TestCheckerAcceptsTurnsWithinAGrainOfTheClock(t *testing.T) {
	a, b, c := told(trusted, "a", 1, 10, 20), told(trusted, "b", 2, 20), told(trusted, "c", 3, 20)
	d := told(trusted, "d", 4, 20, 30)
	for _, events := range [][]event{join(a, b, c, d), join(d, c, b, a)} {
		got := spans(events, "l")
		require.Len(t, got, 4)
		require.Empty(t, overlaps(got))
		require.Empty(t, disorder(got))
	}
}

func TestCheckerFindsDisorder(t *testing.T) {
	require.Len(t, disorder(spans(join(told(trusted, "a", 2, 10, 20), told(trusted, "b", 1, 30)), "l")), 1)
	require.Len(t, disorder(spans(join(told(trusted, "a", 2, 10, 20), told(trusted, "b", 2, 30)), "l")), 1)
	require.Equal(t, []int64{2}, repeated(join(told(granted, "a", 2, 10), told(granted, "b", 2, 30)), "l"))
}

// TestCheckerLetsReadersBeTogether has readers of one token, and with a lower one than another reader before. A writer is beside
// none of them, and has the highest token so far.
func TestCheckerLetsReadersBeTogether(t *testing.T) {
	read := func(who string, token int64, ats ...time.Duration) []event {
		events := told(trusted, who, token, ats...)
		for i := range events {
			events[i].note = reads
		}
		return events
	}
	writes := func(token int64, ats ...time.Duration) []event { return told(trusted, "w", token, ats...) }
	fine := join(writes(1, 5, 9), read("a", 3, 10, 30), read("b", 2, 15, 20), read("c", 3, 25, 40), writes(4, 41, 50))
	require.Empty(t, overlaps(spans(fine, "l")))
	require.Empty(t, disorder(spans(fine, "l")))
	granted := told(granted, "a", 2, 10, 11)
	granted[0].note, granted[1].note = reads, reads
	require.Empty(t, repeated(granted, "l"))
	for name, events := range map[string][]event{
		"a writer within":             join(read("a", 1, 10, 30), writes(2, 20)),
		"a reader within":             join(writes(1, 10, 30), read("a", 2, 20)),
		"a writer beside the first":   join(read("a", 1, 10, 30), read("b", 1, 12, 15), writes(2, 20, 25)),
		"a reader behind its reader":  join(writes(1, 10, 30), read("a", 2, 12, 40)),
		"a writer that ends a reader": join(read("a", 1, 10, 30), writes(2, 29, 40)),
	} {
		require.Len(t, overlaps(spans(events, "l")), 1, name)
	}
	for name, events := range map[string][]event{
		"a reader as old as a writer":  join(writes(2, 10, 20), read("a", 2, 30)),
		"a writer as old as a reader":  join(read("a", 2, 10, 20), writes(2, 30)),
		"a writer older than a reader": join(read("a", 3, 10, 20), read("b", 1, 12), writes(2, 30)),
	} {
		require.Len(t, disorder(spans(events, "l")), 1, name)
	}
}

func TestCheckerMeasuresTimes(t *testing.T) {
	events := join(
		told(want, "a", 0, 10), told(granted, "a", 1, 12), // free, wanted for 2
		told(want, "b", 0, 20), told(want, "c", 0, 25), told(unlocking, "a", 1, 30), told(granted, "c", 2, 37), // 7
		told(gaveUp, "b", 0, 40), told(unlocking, "c", 2, 50), // nobody waits
		told(want, "a", 0, 90), told(granted, "a", 3, 91), // 1
	)
	require.Equal(t, []time.Duration{2, 7, 1}, idle(events, "l"))
	require.Equal(t, []time.Duration{2, 12, 1}, waits(events, "l"))
}

func TestJournalKeepsEntries(t *testing.T) {
	e := event{at: 12, kind: failed, who: "w1.2", lock: "orders", token: 7, note: "Lock: two\nlines here"}
	got, err := parseEvent(e.String())
	require.NoError(t, err)
	e.note = "Lock: two; lines here"
	require.Equal(t, e, got)
	for _, line := range []string{"", "1 a b c", "x a b c 1 ", "1 a b c x "} {
		_, err := parseEvent(line)
		require.Error(t, err, line)
	}
}
