package world

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// had is a lease of a hold: how much it takes, from when until when it was had.
type had struct {
	id       string
	amount   int
	token    int64
	from, to time.Duration
}

func sharedStory(leases ...had) *history {
	h := &history{}
	for _, one := range leases {
		l := &Held{id: one.id, amount: one.amount, Token: one.token, at: one.from}
		h.begins(l, one.from-1)
		h.ends(l, one.to, one.to+1)
	}
	return h
}

// A made-up history of a lock that two may hold fails where more is held, or a token does not rise; each beside one that is
// sound.
func TestHistoriesOfWhatTwoMayHold(t *testing.T) {
	a, b := had{"a", 1, 1, 10, 30}, had{"b", 1, 2, 20, 40}
	require.True(t, sharedStory(a, b).fits(2))
	require.False(t, sharedStory(a, b).fits(1))
	require.True(t, sharedStory(a, b, had{"c", 1, 3, 35, 50}).fits(2))
	require.False(t, sharedStory(a, b, had{"c", 1, 3, 25, 50}).fits(2), "three holders")
	require.False(t, sharedStory(a, had{"b", 2, 2, 20, 40}).fits(2), "one that takes all beside another")
	require.True(t, sharedStory(a, b, had{"a", 1, 1, 22, 28}).fits(2), "a re-entry takes nothing more")
	require.False(t, sharedStory(a, had{"b", 1, 1, 20, 40}).fits(2), "a token twice")
	require.False(t, sharedStory(had{"a", 1, 2, 10, 30}, had{"b", 1, 1, 20, 40}).fits(2), "a token that falls")
}

// What narrows the times of operations changes no answer.
func TestSharedHistoriesAreNarrowedSoundly(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	answers := map[bool]int{}
	for range 10_000 {
		h := &history{}
		for i := range 1 + r.IntN(5) {
			at := time.Duration(10 + 4*i + r.IntN(8))
			l := &Held{id: string(rune('a' + i)), amount: 1 + r.IntN(5)/4, Token: int64(i + 1), at: at}
			asked := at - time.Duration(r.IntN(10))
			if i > 0 && r.IntN(6) == 0 { // enters another again, which was given out before
				other := h.leases[r.IntN(len(h.leases))]
				l.id, l.amount, l.Token = other.id, other.amount, other.Token
				asked = max(asked, other.at)
				l.at = max(at, asked)
				at = l.at
			}
			h.begins(l, asked)
			if over := at + 1 + time.Duration(r.IntN(8)); r.IntN(8) > 0 {
				h.ends(l, over, over+time.Duration(r.IntN(4)))
			}
		}
		want := h.fitsIn(h.told, 2)
		require.Equal(t, want, h.fits(2))
		answers[want]++
	}
	require.Greater(t, answers[true], 1_000)
	require.Greater(t, answers[false], 1_000)
}
