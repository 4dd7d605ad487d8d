package hub

import (
	"strings"
	"testing"
	"time"

	"github.com/relock-go/relock/internal/clock"
	"github.com/relock-go/relock/internal/faults"
	"github.com/relock-go/relock/internal/wire"
	"github.com/stretchr/testify/require"
)

// Messages that are none of ours are counted and skipped.
func TestStrayMessagesAreSkipped(t *testing.T) {
	h := New(&faults.Stub{}, "c", quiet{}, noOrphan(t))
	defer h.Close()
	h.subs["u"] = &subscription{names: &wire.Names{Kind: wire.Mutex}}
	for i, message := range []string{"-1", "hello", "", "00"} {
		h.Message("u", message)
		require.EqualValues(t, i+1, h.skipped.Load())
	}
	h.Message("elsewhere", "7")
	h.Message(wire.InboxPrefix+"c", "nonsense")
	require.EqualValues(t, 5, h.skipped.Load())
	h.Message(wire.InboxPrefix+"c", "0 0 c:99 0 k") // a deposed holder that is not here any more
	require.EqualValues(t, 5, h.skipped.Load())
}

// doubting counts how often it is told that its lock may be lost.
type doubting struct{ doubts int }

func (d *doubting) Doubt()      { d.doubts++ }
func (d *doubting) Wanted(bool) {}

// A message that a lock may be free casts doubt on the hold of a mutex. That permits are free says nothing of those that are held.
func TestFreePermitsCastNoDoubtOnThoseHeld(t *testing.T) {
	for _, c := range []struct {
		kind   *wire.Kind
		doubts int
	}{{wire.Mutex, 1}, {wire.Semaphore, 0}} {
		h := New(&faults.Stub{}, "c", quiet{}, noOrphan(t))
		names, err := c.kind.Names("", "k")
		require.NoError(t, err)
		holder, waiter, wake := new(Ear), new(Ear), clock.NewSignal()
		sub := &subscription{names: names}
		h.subs[names.Unlock] = sub
		holder.Register(h, &wire.Entry{Names: names, ID: "c:1", Lease: time.Minute, Block: 1, Timeout: time.Second}, clock.NewSignal(), false)
		waiter.Register(h, &wire.Entry{Names: names, ID: "c:2", Lease: time.Minute, Block: 1, Timeout: time.Second}, wake, false)
		holder.Granted(wire.Tokens{First: 1, Count: 1})
		told := new(doubting)
		var w Watcher = told
		holder.Watch(&w)
		h.Message(names.Unlock, map[bool]string{true: "3", false: "0"}[c.kind.Permits])
		require.Equal(t, c.doubts, told.doubts, c.kind.Name)
		_, hints := waiter.Heard()
		require.True(t, hints.Look, "a waiter asks")
		holder.Close()
		waiter.Close()
		h.Close()
	}
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
