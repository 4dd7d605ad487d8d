package gate

import (
	"context"
	"math/rand/v2"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/relock-go/relock/internal/clock"
	"github.com/stretchr/testify/require"
)

const key = "k"

// heard is what waits in a waiter's channel, taken out as the waiter would.
func heard(t *testing.T, w *waiter[int]) signal[int] {
	t.Helper()
	require.Len(t, w.signals, 1)
	return <-w.signals
}

// lineOf is a gate that is taken, and n waiters there.
func lineOf(t *testing.T, n int) (*Gates[int], []*waiter[int]) {
	t.Helper()
	g := New[int]()
	_, free := g.TryEnter(key)
	require.True(t, free)
	var waiters []*waiter[int]
	for range n {
		_, w := g.join(key)
		require.NotNil(t, w)
		waiters = append(waiters, w)
	}
	return g, waiters
}

func TestOfferIsForTheFirstToCome(t *testing.T) {
	t.Run("the called one", func(t *testing.T) {
		g, ws := lineOf(t, 2)
		require.True(t, g.Offer(key, 7, 0))
		require.Equal(t, signal[int]{}, heard(t, ws[0]))
		require.Equal(t, signal[int]{given: true, baton: 7}, g.answerCall(key, ws[0]))
		require.Empty(t, ws[1].signals)
		_, w := g.join(key)
		require.NotNil(t, w, "the gate is taken")
	})
	t.Run("a goroutine that runs", func(t *testing.T) {
		g, ws := lineOf(t, 2)
		require.True(t, g.Offer(key, 7, 0))
		_, free := g.TryEnter(key)
		require.False(t, free, "there is a waiter")
		baton, w := g.join(key)
		require.Nil(t, w)
		require.Equal(t, 7, baton)
		heard(t, ws[0])
		require.False(t, g.answerCall(key, ws[0]).given, "it was overtaken")
		require.True(t, g.Waiting(key))
	})
	t.Run("no waiter", func(t *testing.T) {
		g, _ := lineOf(t, 0)
		require.False(t, g.Offer(key, 7, 0))
		g.Leave(key)
		require.Zero(t, g.Len())
	})
}

// waits counts how often it is told of a wait.
type waits struct{ n int }

func (w *waits) Waits() { w.n++ }

func TestOnlyAWaiterIsSeenWaiting(t *testing.T) {
	for overtaken := false; !overtaken; { // as fast as this goroutine is, the called one may be faster
		synctest.Test(t, func(t *testing.T) {
			g, first, second, got := New[int](), &waits{}, &waits{}, make(chan int, 1)
			_, err := g.Enter(t.Context(), key, second)
			require.NoError(t, err)
			require.Zero(t, second.n, "the gate was free")
			go func() {
				baton, err := g.Enter(t.Context(), key, first)
				if err != nil {
					t.Error(err)
				}
				got <- baton
			}()
			synctest.Wait()
			require.Equal(t, 1, first.n)
			require.True(t, g.Offer(key, 7, clock.Mono()))
			soon, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			if _, err := g.Enter(soon, key, second); err == nil {
				overtaken = true
				require.Zero(t, second.n, "it was offered")
				synctest.Wait()
				require.True(t, g.Pass(key, 8))
			}
			require.Equal(t, map[bool]int{true: 8, false: 7}[overtaken], <-got)
			require.Equal(t, 1, first.n, "however often it was called")
			g.Leave(key)
			require.Zero(t, g.Len())
		})
	}
}

// At a gate that is left by LayDown, a goroutine may overtake the called one, as by Offer. No baton lies there then.
func TestLayDownIsAnOfferToAWaiter(t *testing.T) {
	g, ws := lineOf(t, 1)
	require.False(t, g.LayDown(key, 1, 2, true, 0))
	baton, w := g.join(key)
	require.Nil(t, w)
	require.Equal(t, 1, baton, "the gate was offered")
	require.Equal(t, signal[int]{}, heard(t, ws[0]))
	require.False(t, g.answerCall(key, ws[0]).given, "it was overtaken")
	require.False(t, g.LayDown(key, 3, 4, true, 0))
	require.Equal(t, signal[int]{given: true, baton: 3}, heard(t, ws[0]))
	g.Leave(key)
	require.Zero(t, g.Len())
}

func TestOvertakingIsBounded(t *testing.T) {
	for name, c := range map[string]struct {
		bound func(g *Gates[int], first *waiter[int]) // makes the next Offer the last
		now   time.Duration
		heard bool // the first has heard its call by then
	}{
		"in count": {bound: func(g *Gates[int], _ *waiter[int]) {
			for range maxOvertakes - 1 {
				g.Offer(key, 1, Soon)
				g.join(key)
			}
		}},
		"in time": {bound: func(*Gates[int], *waiter[int]) {}, now: Soon + 1},
		"by the called one, which has come": {bound: func(g *Gates[int], first *waiter[int]) {
			<-first.signals
			g.answerCall(key, first)
		}, heard: true},
	} {
		t.Run(name, func(t *testing.T) {
			g, ws := lineOf(t, 2)
			require.True(t, g.Offer(key, 1, 0))
			_, w := g.join(key)
			require.Nil(t, w)
			c.bound(g, ws[0])
			require.Equal(t, !c.heard, len(ws[0].signals) == 1)
			require.True(t, g.Offer(key, 7, c.now))
			_, w = g.join(key)
			require.NotNil(t, w, "it is not overtaken any more")
			require.Equal(t, signal[int]{given: true, baton: 7}, heard(t, ws[0]))
			require.True(t, g.Offer(key, 8, c.now), "each has bounds of its own")
			require.Equal(t, signal[int]{}, heard(t, ws[1]))
		})
	}
}

// A waiter that hears the call while the gate is passed to it finds the baton.
func TestPassOvertakesACall(t *testing.T) {
	g, ws := lineOf(t, 1)
	require.True(t, g.Offer(key, 1, 0))
	_, w := g.join(key)
	require.Nil(t, w)
	heard(t, ws[0])
	require.True(t, g.Pass(key, 7))
	require.Equal(t, signal[int]{given: true, baton: 7}, g.answerCall(key, ws[0]))
}

// A waiter that gives up while the gate is offered to it returns with the baton: else the baton is lost.
func TestGivingUpTakesTheOffer(t *testing.T) {
	for name, hears := range map[string]bool{"before the call is heard": false, "after": true} {
		t.Run(name, func(t *testing.T) {
			g, ws := lineOf(t, 2)
			require.True(t, g.Offer(key, 7, 0))
			if hears {
				heard(t, ws[0])
			}
			told, left := g.giveUp(key, ws[0])
			require.Nil(t, left)
			require.Equal(t, signal[int]{given: true, baton: 7}, told)
			require.True(t, g.Offer(key, 8, 0))
			require.Equal(t, signal[int]{}, heard(t, ws[1]))
		})
	}
	t.Run("overtaken", func(t *testing.T) {
		g, ws := lineOf(t, 2)
		require.True(t, g.Offer(key, 7, 0))
		g.join(key)
		told, left := g.giveUp(key, ws[0])
		require.NotNil(t, left)
		require.False(t, told.given)
		require.True(t, g.Offer(key, 8, 0))
		require.Equal(t, signal[int]{}, heard(t, ws[1]), "the next one is called")
	})
	t.Run("behind the called one", func(t *testing.T) {
		g, ws := lineOf(t, 2)
		require.True(t, g.Offer(key, 7, 0))
		_, left := g.giveUp(key, ws[1])
		require.NotNil(t, left)
		heard(t, ws[0])
		require.Equal(t, 7, g.answerCall(key, ws[0]).baton)
	})
}

// What was offered may be lost before a goroutine takes it. The first in the line then comes with nothing.
func TestLeaveTakesTheOfferBack(t *testing.T) {
	g, ws := lineOf(t, 1)
	require.True(t, g.Offer(key, 7, 0))
	g.Leave(key)
	require.Equal(t, signal[int]{given: true}, heard(t, ws[0]))
	_, w := g.join(key)
	require.NotNil(t, w, "the gate is taken, and nothing lies there")
	g.giveUp(key, w)
	g.Leave(key)
	require.Zero(t, g.Len())
}

// A goroutine that has the mutex of one key does not hold up those that want most other keys.
func TestKeysHaveMutexesOfTheirOwn(t *testing.T) {
	g := New[int]()
	taken, _ := g.lock(key)
	defer taken.mu.Unlock()
	met := 0
	for i := range 1000 {
		other := strconv.Itoa(i)
		if !g.shardOf(other).mu.TryLock() {
			met++
			continue
		}
		g.shardOf(other).mu.Unlock()
		_, free := g.TryEnter(other)
		require.True(t, free)
		g.Leave(other)
	}
	require.Less(t, met, 100)
}

// actors walk at random through all that can be done at one gate, one step at a time.
type actors struct {
	t      *testing.T
	g      *Gates[int]
	dice   *rand.Rand
	at     int // batons in actors' hands: the gate is theirs
	next   int // baton
	waits  []*waiter[int]
	called []*waiter[int] // that have heard a call and not come yet
}

// TestNoWaiterSleepsBesideAnOffer takes random walks and looks after each step whether the gate's promises hold.
func TestNoWaiterSleepsBesideAnOffer(t *testing.T) {
	for seed := range uint64(200) {
		a := &actors{t: t, g: New[int](), dice: rand.New(rand.NewPCG(seed, 1))}
		for range 60 {
			a.step()
			a.check()
		}
		for steps := 0; a.g.Len() > 0; steps++ {
			require.Less(t, steps, 100, "a waiter sleeps, seed %d", seed)
			a.finish()
			a.check()
		}
		require.Zero(t, a.at)
		require.Empty(t, a.waits)
	}
}

func (a *actors) step() {
	switch a.dice.IntN(6) {
	case 0, 1:
		baton, w := a.g.join(key)
		if w != nil {
			a.waits = append(a.waits, w)
			return
		}
		a.enter(baton)
	case 2:
		if a.at > 0 && a.g.Pass(key, a.next+1) {
			a.hand()
		}
	case 3:
		if a.at > 0 && a.g.Offer(key, a.next+1, time.Duration(a.dice.IntN(2*int(Soon)))) {
			a.hand()
		}
	case 4:
		if len(a.waits) > 0 {
			w := a.waits[a.dice.IntN(len(a.waits))]
			if told, _ := a.g.giveUp(key, w); told.given {
				a.enter(told.baton)
			}
			a.forget(w)
		}
	default:
		a.finish()
	}
}

// finish lets one goroutine go on: a waiter that was told something, else the one at the gate.
func (a *actors) finish() {
	for _, w := range a.waits {
		var told signal[int]
		select {
		case told = <-w.signals:
			if !told.given && a.dice.IntN(2) == 0 {
				a.called = append(a.called, w) // and is slow
				return
			}
		default:
			continue
		}
		a.come(w, told)
		return
	}
	if len(a.called) > 0 {
		a.come(a.called[0], signal[int]{})
	} else if a.at > 0 {
		a.at--
		a.next = 0
		a.g.Leave(key)
	}
}

func (a *actors) come(w *waiter[int], told signal[int]) {
	if !told.given {
		told = a.g.answerCall(key, w)
	}
	if told.given {
		a.enter(told.baton)
		a.forget(w)
		return
	}
	a.drop(w)
}

func (a *actors) hand() {
	a.next++
	a.at--
}

func (a *actors) enter(baton int) {
	a.at++
	require.Equal(a.t, a.next, baton, "the baton that was handed on last")
}

func (a *actors) forget(w *waiter[int]) {
	a.drop(w)
	for i := range a.waits {
		if a.waits[i] == w {
			a.waits = append(a.waits[:i], a.waits[i+1:]...)
			return
		}
	}
}

func (a *actors) drop(w *waiter[int]) {
	for i := range a.called {
		if a.called[i] == w {
			a.called = append(a.called[:i], a.called[i+1:]...)
			return
		}
	}
}

func (a *actors) check() {
	s, l := a.g.lock(key)
	s.mu.Unlock()
	if l == nil {
		require.Empty(a.t, a.waits)
		return
	}
	given := 0
	for _, w := range a.waits {
		require.LessOrEqual(a.t, w.overtaken, maxOvertakes)
		if len(w.signals) == 1 {
			told := <-w.signals
			w.signals <- told
			if told.given {
				given++
			}
		}
	}
	lies := 0
	if l.state == offered {
		lies = 1
		pending := len(l.first.signals) == 1
		for _, w := range a.called {
			pending = pending || w == l.first
		}
		require.True(a.t, pending, "the first was called and is on its way")
	}
	require.Equal(a.t, 1, a.at+given+lies, "one has the gate, or it is offered")
}
