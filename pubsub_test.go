package relock

import (
	"fmt"
	"log/slog"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestParseGrant(t *testing.T) {
	g, err := parseGrant("257 30000 c:7 4 w 10orders: ü {x}")
	require.NoError(t, err)
	require.Equal(t, grantMessage{token: 257, lease: 30000, id: "c:7", owner: "w 10", name: "orders: ü {x}"}, g)
	for _, bad := range []string{
		"", "0", "1 2 3", "x 30000 c:7 0 k", "1 x c:7 0 k", "1 30000 c:7 x k", "1 30000 c:7 9 k", "1 30000 c:7 -1 k",
		"-1 30000 c:7 0 k", "1 -5 c:7 0 k", "99999999999999999999 1 c:7 0 k", "1 30000 c:7 0 ",
	} {
		_, err := parseGrant(bad)
		require.Error(t, err, bad)
	}
}

// Whatever comes over a channel is a grant that reads back as it was written, or an error.
func FuzzParseGrant(f *testing.F) {
	f.Add("257 30000 c:7 4 w 10orders")
	f.Add("0 0 c:7 0 k")
	f.Add("1 2 3 4 5")
	f.Fuzz(func(t *testing.T, message string) {
		g, err := parseGrant(message)
		if err != nil {
			return
		}
		if g.token < 0 || g.lease < 0 || g.name == "" {
			t.Fatalf("%+v", g)
		}
		back := fmt.Sprintf("%d %d %s %d %s%s", g.token, g.lease, g.id, len(g.owner), g.owner, g.name)
		again, err := parseGrant(back)
		require.NoError(t, err)
		require.Equal(t, g, again)
	})
}

// Messages that are none of ours are counted and skipped.
func TestStrayMessagesAreSkipped(t *testing.T) {
	h := newHub(nil, "c", slog.New(slog.DiscardHandler), func(grantMessage) { t.Error("no orphan here") })
	h.rooms["u"] = &room{}
	for i, message := range []string{"1", "hello", "", "00"} {
		h.receive("u", message)
		require.EqualValues(t, i+1, h.skipped.Load())
	}
	h.receive("elsewhere", "7")
	h.receive(inboxPrefix+"c", "nonsense")
	require.EqualValues(t, 5, h.skipped.Load())
	h.receive(inboxPrefix+"c", "0 0 c:99 0 k") // a deposed holder that is not here any more
	require.EqualValues(t, 5, h.skipped.Load())
	h.cancel()
}
