package world

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// story makes a history of leases with tokens, each from its grant to its end.
func story(tokens []int64, spans [][2]time.Duration) *history {
	h := &history{}
	for i, token := range tokens {
		l := &Held{Token: token, at: spans[i][0]}
		h.begins(l, spans[i][0]-1)
		h.ends(l, spans[i][1], spans[i][1]+1)
	}
	return h
}

func strangers(_, _ *Held) bool { return false }

// A made-up history fails where two hold at once, or a token does not rise; each beside one that is
// sound.
func TestHistories(t *testing.T) {
	const one, two, three, four = time.Second, 2 * time.Second, 3 * time.Second, 4 * time.Second
	after, across := [][2]time.Duration{{one, two}, {three, four}}, [][2]time.Duration{{one, three}, {two, four}}
	require.True(t, story([]int64{1, 2}, after).sound(strangers))
	require.False(t, story([]int64{1, 2}, across).sound(strangers), "two holders")
	require.False(t, story([]int64{2, 1}, after).sound(strangers), "a token below an earlier one")
	require.True(t, story([]int64{1, 1}, across).sound(func(a, b *Held) bool { return a.Token == b.Token }))
}

// A grant that is told late may have come before what was told meanwhile, and an Unlock may be done
// before it returns.
func TestHistoriesOfCallsUnderWay(t *testing.T) {
	h := &history{}
	first, second := &Held{Token: 1, at: 3}, &Held{Token: 2, at: 10}
	h.begins(first, 1)
	h.ends(first, 5, 20)
	h.begins(second, 2)
	require.True(t, h.sound(strangers))
}
