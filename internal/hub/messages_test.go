package hub

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/relock-go/relock/internal/faults"
	"github.com/relock-go/relock/internal/wire"
	"github.com/stretchr/testify/require"
)

// Messages that are none of ours are counted and skipped.
func TestStrayMessagesAreSkipped(t *testing.T) {
	h := New(&faults.Stub{}, "c", quiet, noOrphan(t))
	defer h.Close()
	h.rooms["u"] = &room{}
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

// What comes over the channels and means nothing is written to the logger, but not each time.
func TestSkippedMessagesAreLogged(t *testing.T) {
	var out bytes.Buffer
	h := New(&faults.Stub{}, "c", slog.New(slog.NewTextHandler(&out, nil)), noOrphan(t))
	defer h.Close()
	n, err := wire.NamesOf("", "k")
	require.NoError(t, err)
	h.rooms[n.Unlock] = &room{names: n, empty: time.Now()}
	for range 100 {
		h.Message(n.Unlock, strings.Repeat("9", 1000))
	}
	h.Message(n.Listen, "soon")
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	require.Len(t, lines, 2)
	require.Contains(t, lines[0], n.Unlock)
	require.Contains(t, lines[0], "skipped=1")
	require.Less(t, len(lines[0]), 300)
	require.Contains(t, lines[1], "message=soon")
	require.Contains(t, lines[1], "skipped=101")
}
