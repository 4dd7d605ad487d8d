package gate

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A baton goes past the gate to the first waiter, which is not at the gate: the goroutine there stays.
func TestABatonGoesPastTheGate(t *testing.T) {
	g, ws := lineOf(t, 2)
	require.True(t, g.PassBeside(key, 7))
	require.Equal(t, signal[int]{given: true, baton: 7}, heard(t, ws[0]))
	require.True(t, g.Pass(key, 8), "the gate is still its goroutine's to give")
	require.Equal(t, signal[int]{given: true, baton: 8}, heard(t, ws[1]))
	require.False(t, g.PassBeside(key, 9), "none waits")
	require.False(t, g.OfferBeside(key, 9, 0))
	g.Leave(key)
	require.False(t, g.PassBeside(key, 9), "the gate is free")
	require.Zero(t, g.Len())
}

// A baton that lies beside the gate is taken by the called waiter, or by a goroutine that comes first; not by one that only tries.
func TestABatonLiesBesideTheGate(t *testing.T) {
	g, ws := lineOf(t, 2)
	require.True(t, g.OfferBeside(key, 7, 0))
	_, free := g.TryEnter(key)
	require.False(t, free)
	baton, w := g.join(key)
	require.Nil(t, w)
	require.Equal(t, 7, baton)
	heard(t, ws[0])
	require.False(t, g.answerCall(key, ws[0]).given, "it was overtaken")
	require.True(t, g.OfferBeside(key, 8, 0))
	require.Equal(t, signal[int]{given: true, baton: 8}, heard(t, ws[0]), "it came in vain, and is not overtaken again")
	require.True(t, g.OfferBeside(key, 9, 0))
	require.False(t, g.OfferBeside(key, 10, 0), "there is a baton for each waiter")
	require.False(t, g.PassBeside(key, 10))
	g.Leave(key)
	require.Equal(t, signal[int]{given: true, baton: 9}, heard(t, ws[1]))
	require.Zero(t, g.Len())
}

// However many batons lie there, a waiter is overtaken three times at most.
func TestOvertakingBesideTheGateIsBounded(t *testing.T) {
	g, ws := lineOf(t, 9)
	for baton := range 8 {
		require.True(t, g.OfferBeside(key, baton+1, 0))
	}
	for range maxOvertakes {
		_, w := g.join(key)
		require.Nil(t, w)
	}
	_, w := g.join(key)
	require.NotNil(t, w)
	for i := range 5 {
		heard(t, ws[i])
		require.True(t, g.answerCall(key, ws[i]).given)
	}
	require.Empty(t, ws[5].signals)
}

// TestNoWaiterSleepsBesideABaton takes random walks, and looks after each step whether the gate's promises hold: no baton is lost, and
// while one lies beside the gate, the first waiter is on its way.
func TestNoWaiterSleepsBesideABaton(t *testing.T) {
	for seed := range uint64(500) {
		dice, g := rand.New(rand.NewPCG(seed, 2)), New[int]()
		var waits, called []*waiter[int]
		hands, contends, next := 0, false, 0 // batons in hands; whether a goroutine is at the gate
		without := func(all []*waiter[int], w *waiter[int]) (rest []*waiter[int]) {
			for _, other := range all {
				if other != w {
					rest = append(rest, other)
				}
			}
			return rest
		}
		comes := func(w *waiter[int], told signal[int]) {
			called = without(called, w)
			if !told.given {
				told = g.answerCall(key, w)
			}
			if told.given {
				waits = without(waits, w)
				if told.baton == 0 {
					contends = true
				} else {
					hands++
				}
			}
		}
		wakes := func() bool {
			for _, w := range waits {
				select {
				case told := <-w.signals:
					if !told.given && dice.IntN(2) == 0 {
						called = append(called, w) // and is slow
					} else {
						comes(w, told)
					}
					return true
				default:
				}
			}
			if len(called) > 0 {
				comes(called[0], signal[int]{})
				return true
			}
			return false
		}
		for step := 0; step < 80 || len(waits) > 0; step++ {
			require.Less(t, step, 2000, "a waiter sleeps, seed %d", seed)
			switch kind := dice.IntN(7); {
			case kind < 2 && step < 80:
				baton, w := g.join(key)
				switch {
				case w != nil:
					waits = append(waits, w)
				case baton == 0:
					contends = true
				default:
					hands++
				}
			case kind == 2 && contends && (next < 6 || step >= 80): // it is granted a hold, and leaves
				if contends = false; next < 6 {
					next, hands = next+1, hands+1
				}
				g.Leave(key)
			case kind == 3 && hands > 0:
				if hands--; !g.OfferBeside(key, 1, time.Duration(dice.IntN(2*int(Soon)))) {
					next-- // it ends
				}
			case kind == 4 && hands > 0:
				if hands--; !g.PassBeside(key, 1) {
					next--
				}
			case kind == 5 && len(waits) > 0:
				w := waits[dice.IntN(len(waits))]
				if told, _ := g.giveUp(key, w); told.given && told.baton == 0 {
					contends = true
				} else if told.given {
					hands++
				}
				waits, called = without(waits, w), without(called, w)
			default:
				wakes()
			}
			s, l := g.lock(key)
			given, lie := 0, 0
			for _, w := range waits {
				require.LessOrEqual(t, w.overtaken, maxOvertakes)
				if len(w.signals) == 1 {
					told := <-w.signals
					w.signals <- told
					if told.given && told.baton > 0 {
						given++
					}
				}
			}
			if l != nil {
				lie = len(l.beside)
				require.LessOrEqual(t, lie, l.waiting, "seed %d", seed)
				if lie > 0 {
					pending := len(l.first.signals) == 1
					for _, w := range called {
						pending = pending || w == l.first
					}
					require.True(t, pending, "the first was called and is on its way, seed %d", seed)
				}
			}
			s.mu.Unlock()
			require.Equal(t, next, hands+given+lie, "no baton is lost, seed %d step %d", seed, step)
		}
	}
}
