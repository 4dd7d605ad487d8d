package wire

import (
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestParseGrant(t *testing.T) {
	g, err := ParseGrant("257 30000 c:7 4 w 10orders: ü {x}")
	require.NoError(t, err)
	require.Equal(t, Grant{
		Tokens: Tokens{First: 257}, Lease: 30 * time.Second, ID: "c:7", Owner: "w 10", Name: "orders: ü {x}", Kind: Mutex,
	}, g)
	g, err = ParseGrant("257:16 30000:mutex c:7 0 k")
	require.NoError(t, err)
	require.Equal(t, Grant{Tokens: Tokens{257, 16}, Lease: 30 * time.Second, ID: "c:7", Name: "k", Kind: Mutex}, g)
	for _, bad := range []string{
		"", "0", "1 2 3", "x 30000 c:7 0 k", "1 x c:7 0 k", "1 30000 c:7 x k", "1 30000 c:7 9 k", "1 30000 c:7 -1 k",
		"-1 30000 c:7 0 k", "1 -5 c:7 0 k", "99999999999999999999 1 c:7 0 k", "1 30000 c:7 0 ",
		"1: 30000 c:7 0 k", "1:0 30000 c:7 0 k", "1:-1 30000 c:7 0 k", "1 30000: c:7 0 k", "1 30000:latch c:7 0 k",
		"1 31622400001 c:7 0 k",
	} {
		_, err := ParseGrant(bad)
		require.Error(t, err, bad)
	}
}

// Whatever comes over a channel is a grant that reads back as it was written, or an error.
func FuzzParseGrant(f *testing.F) {
	f.Add("257 30000 c:7 4 w 10orders")
	f.Add("0 0 c:7 0 k")
	f.Add("1 2 3 4 5")
	f.Add("257:16 30000:mutex c:7 4 w 10orders")
	f.Add("0 1 c:7 0 k")
	f.Fuzz(func(t *testing.T, message string) {
		g, err := ParseGrant(message)
		if err != nil {
			return
		}
		if g.Tokens.First < 0 || g.Tokens.Count < 0 || g.Lease < 0 || g.Lease > MaxLease || g.Name == "" || g.Kind == nil {
			t.Fatalf("%+v", g)
		}
		require.Equal(t, g.Tokens.First == 0 && g.Lease > 0, g.Nudge)
		token := strconv.FormatInt(g.Tokens.First, 10)
		if g.Tokens.Count > 0 {
			token += ":" + strconv.Itoa(g.Tokens.Count)
		}
		lease := fmt.Sprintf("%d:%s", g.Lease.Milliseconds(), g.Kind.Name)
		back := fmt.Sprintf("%s %s %s %d %s%s", token, lease, g.ID, len(g.Owner), g.Owner, g.Name)
		again, err := ParseGrant(back)
		require.NoError(t, err)
		require.Equal(t, g, again)
	})
}

func BenchmarkParseGrant(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		if _, err := ParseGrant("257 30000 8c9f3a52-6f0b-4a44-9f6c-0d3e1f2a7b61:7 8 worker-3orders:{42}"); err != nil {
			b.Fatal(err)
		}
	}
}
