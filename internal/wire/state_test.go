package wire

import (
	"testing"
	"time"

	"github.com/relock-go/relock/internal/driver"
	"github.com/stretchr/testify/require"
)

// Where the grant does not name the owner, as an older client's and Redisson's do not, the owner is the field that no
// client made.
func TestHolderOfAnOlderGrant(t *testing.T) {
	const one, two = "00000000-0000-4000-8000-000000000000:1", "00000000-0000-4000-8000-000000000000:2"
	for want, fields := range map[string][]string{
		"job":     {one, "1", "job", "1"},
		"order 7": {one, "1", two, "1", "order 7", "2", "relock:vote", "5:6"},
		one:       {one, "3"},
		"":        {},
		"a: b:c":  {"relock:first", "17:1:a: b:c", one, "1", "a: b:c", "1"},
		"write":   {"mode", "write", "write", "1"},
	} {
		var st State
		readHash(&st, fields)
		require.Equal(t, want, st.Holder)
		require.Equal(t, want != "", st.Held)
	}
}

// What is no answer of inspect's is told in plain words, and a server's error stays one.
func TestStateOfAnotherShape(t *testing.T) {
	refused := &driver.ReplyError{Text: "WRONGTYPE Operation against a key"}
	hash := func(fields ...driver.Value) driver.Value {
		return driver.List(driver.Int(500), driver.Int(2), driver.Int(17), driver.List(fields...))
	}
	for _, c := range []struct {
		answer driver.Value
		want   string
	}{
		{driver.Value{}, "inspect: the answer is nil, not a list"},
		{driver.Error(refused), "inspect: WRONGTYPE Operation against a key"},
		{driver.List(), "inspect: an answer of 0 parts"},
		{hash(driver.String("c:1")), "inspect: a hash of 1 parts"},
		{driver.List(driver.Int(1), driver.Int(2), driver.Int(3), driver.Int(4)), "inspect: the answer is not a list"},
	} {
		_, err := parseState(c.answer, Mutex)
		require.EqualError(t, err, c.want)
	}
	_, err := parseState(driver.Error(refused), Mutex)
	require.ErrorIs(t, err, refused)

	st, err := parseState(hash(driver.String("c:1"), driver.String("3"), driver.String(firstField), driver.String("16:4")), Mutex)
	require.NoError(t, err)
	require.Equal(t, State{
		Held: true, Holder: "c:1", Count: 3, TTL: 500 * time.Millisecond, Waiters: 2, Token: 17, HolderToken: 16,
	}, st)
	st, err = parseState(hash(), Mutex)
	require.NoError(t, err)
	require.Equal(t, State{Waiters: 2, Token: 17}, st, "no lease without a holder")
}
