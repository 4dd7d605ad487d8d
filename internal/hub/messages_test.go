package hub

import (
	"strings"
	"testing"
	"time"

	"github.com/relock-go/relock/internal/faults"
	"github.com/relock-go/relock/internal/wire"
	"github.com/stretchr/testify/require"
)

// Messages that are none of ours are counted and skipped.
func TestStrayMessagesAreSkipped(t *testing.T) {
	h := New(&faults.Stub{}, "c", quiet{}, noOrphan(t))
	defer h.Close()
	h.subs["u"] = &subscription{names: &wire.Names{Kind: wire.Mutex}}
	for i, message := range []string{"1", "hello", "", "00"} {
		h.Message("u", message)
		require.EqualValues(t, i+1, h.skipped.Load())
	}
	h.Message("elsewhere", "7")
	h.Message(wire.InboxPrefix+"c", "nonsense")
	require.EqualValues(t, 5, h.skipped.Load())
	h.Message(wire.InboxPrefix+"c", "0 0 c:99 0 k") // a deposed holder that is not here any more
	require.EqualValues(t, 5, h.skipped.Load())
}

// What comes over the channels and means nothing is told, but not each time.
func TestSkippedMessagesAreTold(t *testing.T) {
	var told []string
	h := New(&faults.Stub{}, "c", quiet{impaired: func(cause error) { told = append(told, cause.Error()) }}, noOrphan(t))
	defer h.Close()
	n, err := wire.Mutex.Names("", "k")
	require.NoError(t, err)
	sub := &subscription{names: n, idleSince: time.Now()}
	h.subs[n.Unlock], h.subs[n.Listen] = sub, sub
	for range 100 {
		h.Message(n.Unlock, strings.Repeat("9", 1000))
	}
	h.Message(n.Listen, "soon")
	require.Len(t, told, 2)
	require.Contains(t, told[0], n.Unlock)
	require.Contains(t, told[0], ", 1 so far")
	require.Less(t, len(told[0]), 300)
	require.Contains(t, told[1], `"soon"`)
	require.Contains(t, told[1], ", 101 so far")
}

// The first message that grants an entry is believed. Another one is not, since by then others may know the entry's id: the
// waiter asks. A node of a quorum may grant again what was given back.
func TestAnotherGrantIsNotBelieved(t *testing.T) {
	for _, c := range []struct {
		voter bool
		told  []string // tokens in messages; "" for Heard
		want  int64    // that Heard gives then
		look  bool
	}{
		{told: []string{"17"}, want: 17},
		{told: []string{"17", "17"}, want: 17},
		{told: []string{"17", "90"}, look: true},
		{told: []string{"17", "90", "90"}, look: true},
		{told: []string{"17", "90", "17"}, look: true},
		{told: []string{"90", "17"}, look: true},
		{told: []string{"17", "", "90"}, look: true},
		{told: []string{"17", "", "17"}},
		{voter: true, told: []string{"17"}, want: 17},
		{voter: true, told: []string{"17", "90"}, look: true},
		{voter: true, told: []string{"17", "", "90"}, want: 90},
		{voter: true, told: []string{"17", "", "90", "99"}, look: true},
	} {
		h := New(&faults.Stub{}, "c", quiet{}, noOrphan(t))
		e := earOf(t, h, "k", 1)
		e.voter = c.voter
		for _, token := range c.told {
			if token == "" {
				e.Heard()
				continue
			}
			h.Message(wire.InboxPrefix+"c", token+":8 30000 c:1 0 k")
			require.Len(t, e.wake, 1, "the waiter looks")
		}
		given, hints := e.Heard()
		require.Equal(t, c.want, given.First, "%+v", c)
		require.Equal(t, Hints{Look: c.look}, hints, "%+v", c)
		e.Close()
		h.Close()
	}
}
