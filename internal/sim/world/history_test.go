package world

import (
	"math/rand/v2"
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

// What narrows the times of operations changes no answer.
func TestHistoriesAreNarrowedSoundly(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	answers := map[bool]int{}
	for range 20_000 {
		h, free, owners := &history{}, time.Duration(10), [5]string{}
		for i := range owners { // the leases of a hold have its owner
			owners[i] = pick(r, []string{"", "", "", "a", "b"})
		}
		for i := range 1 + r.IntN(5) {
			some := func(most int) time.Duration { return time.Duration(r.IntN(most)) }
			l := &Held{Token: int64(i)}
			if r.IntN(4) == 0 {
				l.Token = int64(r.IntN(5))
			}
			l.owner = owners[l.Token]
			granted := max(free+some(3)-some(2), 10)
			l.at = granted + some(4)
			h.begins(l, granted-some(10))
			over := l.at + 1 + some(3) // else the search lets a lease end before its grant
			free = over + some(2)
			if r.IntN(8) > 0 {
				h.ends(l, over, free+some(4))
			}
		}
		want := h.ordered(h.told, Mutexes{}.Together)
		require.Equal(t, want, h.sound(Mutexes{}.Together))
		answers[want]++
	}
	require.Greater(t, answers[true], 2_000)
	require.Greater(t, answers[false], 2_000)
}
