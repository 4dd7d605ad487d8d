package relock

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// With strict order nobody who runs overtakes one who sleeps in the line, however short the lock is held.
func TestStrictOrderIsStrict(t *testing.T) {
	inFakeTime(t, func(t *testing.T, c *Client, s *scripted) {
		m := c.Mutex("k", WithStrictOrder(), WithLocalHandoff(1000, time.Hour))
		var order []int
		take := func(who int) *Lease {
			l, err := m.Lock(context.Background())
			if err != nil {
				t.Error(err)
				return nil
			}
			order = append(order, who)
			return l
		}
		for range 100 {
			order = nil
			l := take(0)
			var wg sync.WaitGroup
			for who := range 2 {
				wg.Go(func() {
					if err := take(who + 1).Unlock(context.Background()); err != nil {
						t.Error(err)
					}
				})
				synctest.Wait()
			}
			require.NoError(t, l.Unlock(t.Context()))
			require.NoError(t, take(3).Unlock(t.Context()))
			wg.Wait()
			require.Equal(t, []int{0, 1, 2, 3}, order)
		}
	})
}

// Those who overtake get tokens that rise, and count as passes.
func TestOvertakersCountAsPasses(t *testing.T) {
	const passes = 7
	m := newClient(t, ownRedis(t)).Mutex("k", WithLocalHandoff(passes, time.Hour))
	var tokens []int64 // this and passed are written by who holds the lock
	passed := make(map[*hold]int)
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			for range rounds(50, 5000) {
				l, err := m.Lock(context.Background())
				if err != nil {
					t.Error(err)
					return
				}
				tokens = append(tokens, l.Token())
				passed[l.h]++
				if err := l.Unlock(context.Background()); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	require.IsIncreasing(t, tokens)
	for _, n := range passed {
		require.LessOrEqual(t, n, passes)
	}
}

// A hold that is lost while it is offered leaves the gate to the next, and no lease.
func TestOfferedHoldIsLost(t *testing.T) {
	inFakeTime(t, func(t *testing.T, c *Client, s *scripted) {
		for range 100 {
			m := c.Mutex("k")
			l, err := m.Lock(t.Context())
			require.NoError(t, err)
			var wg sync.WaitGroup
			for range 3 {
				wg.Go(func() {
					next, err := m.Lock(context.Background())
					if err == nil {
						err = next.Unlock(context.Background())
					}
					if err != nil && err != ErrLost {
						t.Error(err)
					}
				})
			}
			synctest.Wait()
			wg.Go(func() { l.h.lose(ErrLost) })
			if err := l.Unlock(context.Background()); err != nil {
				require.Equal(t, ErrLost, err)
			}
			wg.Wait()
			require.Zero(t, c.core.gates.Len())
		}
	})
}
