package gate_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/relock-go/relock/internal/clock"
	"github.com/relock-go/relock/internal/gate"
	"github.com/stretchr/testify/require"
)

func TestGateIsFirstComeFirstServed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := gate.New[int]()
		_, err := g.Enter(t.Context(), "k", nil)
		require.NoError(t, err)
		var order []int
		for i := range 5 {
			go func() {
				baton, err := g.Enter(t.Context(), "k", nil)
				if err != nil || baton != 10*i {
					t.Errorf("waiter %d got %d, %v", i, baton, err)
				}
				order = append(order, i)
				if !g.Pass("k", baton+10) {
					g.Leave("k")
				}
			}()
			synctest.Wait()
		}
		require.True(t, g.Waiting("k"))
		require.True(t, g.Pass("k", 0))
		synctest.Wait()
		require.Equal(t, []int{0, 1, 2, 3, 4}, order)
		require.Zero(t, g.Len())
	})
}

func TestGivingUpLeavesTheLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := gate.New[int]()
		_, free := g.TryEnter("k")
		require.True(t, free)
		_, free = g.TryEnter("k")
		require.False(t, free)
		cause := errors.New("enough")
		ctx, cancel := context.WithCancelCause(t.Context())
		errs := make(chan error)
		for range 3 {
			go func() {
				_, err := g.Enter(ctx, "k", nil)
				errs <- err
			}()
		}
		synctest.Wait()
		cancel(cause)
		for range 3 {
			require.ErrorIs(t, <-errs, cause)
		}
		require.False(t, g.Waiting("k"))
		require.False(t, g.Pass("k", 1))
		g.Leave("k")
		require.Zero(t, g.Len())
	})
}

func TestCloseTurnsWaitersAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := gate.New[int]()
		_, free := g.TryEnter("k")
		require.True(t, free)
		got := make(chan error)
		go func() {
			_, err := g.Enter(t.Context(), "k", nil)
			got <- err
		}()
		synctest.Wait()
		g.Close()
		require.ErrorIs(t, <-got, gate.ErrClosed)
		g.Leave("k")
		require.Zero(t, g.Len())
	})
}

// Batons are neither lost nor doubled when waiters give up at the very moment one is passed.
func TestBatonsSurviveGivingUp(t *testing.T) {
	g := gate.New[int]()
	var (
		wg     sync.WaitGroup
		inside atomic.Int32
		passed atomic.Int32
	)
	for range 16 {
		wg.Go(func() {
			for range 500 {
				ctx, cancel := context.WithTimeout(context.Background(), rand.N(100*time.Microsecond))
				_, err := g.Enter(ctx, "k", nil)
				cancel()
				if err != nil {
					continue
				}
				if n := inside.Add(1); n != 1 {
					t.Errorf("%d at the gate", n)
				}
				inside.Add(-1)
				passed.Add(1)
				handOver := g.Pass
				if rand.N(2) == 0 {
					handOver = func(key string, baton int) bool { return g.Offer(key, baton, clock.Mono()) }
				}
				if !handOver("k", 1) {
					g.Leave("k")
				}
			}
		})
	}
	wg.Wait()
	require.Zero(t, g.Len())
	require.Positive(t, passed.Load())
}

func BenchmarkEnterLeave(b *testing.B) {
	g := gate.New[int]()
	b.ReportAllocs()
	for b.Loop() {
		if _, err := g.Enter(b.Context(), "k", nil); err != nil {
			b.Fatal(err)
		}
		g.Leave("k")
	}
}

func TestABatonLiesAtTheGate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := gate.New[int]()
		_, free := g.TryEnter("k")
		require.True(t, free)
		require.True(t, g.LayDown("k", 6, 7, true, clock.Mono()))
		g.Withdraw("k", 8)
		require.Equal(t, 1, g.Len(), "another baton lies there")
		baton, free := g.TryEnter("k")
		require.True(t, free)
		require.Equal(t, 7, baton)
		g.Withdraw("k", 7)
		require.Equal(t, 1, g.Len(), "a goroutine took it")

		got := make(chan int)
		go func() {
			baton, err := g.Enter(t.Context(), "k", nil)
			if err != nil {
				t.Error(err)
			}
			got <- baton
		}()
		synctest.Wait()
		require.False(t, g.LayDown("k", 9, 8, false, 0))
		require.Equal(t, 9, <-got, "the waiter is given it")

		require.True(t, g.LayDown("k", 9, 10, false, 0))
		baton, err := g.Enter(t.Context(), "k", nil)
		require.NoError(t, err)
		require.Equal(t, 10, baton)
		require.True(t, g.LayDown("k", 9, 11, false, 0))
		g.Withdraw("k", 11)
		require.Zero(t, g.Len())
	})
}
