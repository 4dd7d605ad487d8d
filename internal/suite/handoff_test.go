package suite_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/rueidis"
	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/relock-go/relock/internal/wire"
	"github.com/stretchr/testify/require"
)

// With strict order nobody who runs overtakes one who sleeps in the line, however short the lock is held.
func TestStrictOrderIsStrict(t *testing.T) {
	inFakeTime(t, func(t *testing.T, c *relock.Client, s *scripted) {
		m := c.Mutex("k", relock.WithStrictOrder(), relock.WithLocalHandoff(1000, time.Hour))
		var order []int
		take := func(who int) *relock.Lease {
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
	const passes = 3 // too few for a next block, with which a hold would go on
	m := newClient(t, ownRedis(t)).Mutex("k", relock.WithLocalHandoff(passes, time.Hour))
	var tokens []int64 // this and passed are written by who holds the lock
	passed := make(map[heldBy]int)
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
				passed[holdOf(l)]++
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
	inFakeTime(t, func(t *testing.T, c *relock.Client, s *scripted) {
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
					if err != nil && !errors.Is(err, relock.ErrLost) {
						t.Error(err)
					}
				})
			}
			synctest.Wait()
			wg.Go(func() { lose(l) })
			if err := l.Unlock(context.Background()); err != nil {
				requireLost(t, relock.ErrLost, err)
			}
			wg.Wait()
			require.Zero(t, gatesOf(c).Len())
		}
	})
}

// Whoever waits, of relock's or of Redisson's, is why there is no next block; and one who holds the lock no more has none.
func TestNobodyRefillsWhatOthersWant(t *testing.T) {
	s := redistest.Start(t)
	c := newClient(t, s.Client(), relock.WithLease(time.Minute))
	m := c.Mutex("k")
	l, err := m.Lock(t.Context())
	require.NoError(t, err)
	n := arbiterOf(c).Nodes()[0]
	refill := func() int64 {
		got, err := n.Debug().Wire.Refill(t.Context(), wire.Plain, entryOf(l))
		require.NoError(t, err)
		return got.First
	}
	first := refill()
	require.Greater(t, first, l.Token()+int64(entryOf(l).Block)-1)
	require.Greater(t, refill(), first+int64(entryOf(l).Block)-1, "sent again it reserves more")

	s.Do("ZADD", "relock_queue:{k}", "1", "30000:1:other:1:")
	require.Zero(t, refill(), "somebody is in the queue")
	s.Do("DEL", "relock_queue:{k}")
	stop := subscribed(t, s.Client(), "redisson_lock__channel:{k}")
	require.Zero(t, refill(), "Redisson listens")
	stop()
	require.Eventually(t, func() bool { return refill() > 0 }, patience, time.Millisecond)
	s.Do("DEL", "k")
	require.Zero(t, refill(), "it is held no more")
	s.Do("HSET", "k", "other:1", "1")
	require.Zero(t, refill(), "another has it")
}

// subscribed is somebody who listens to a channel and is no relock client.
func subscribed(t *testing.T, rdb rueidis.Client, channel string) (stop func()) {
	t.Helper()
	conn, cancel := rdb.Dedicate()
	conn.SetPubSubHooks(rueidis.PubSubHooks{OnMessage: func(rueidis.PubSubMessage) {}})
	require.NoError(t, conn.Do(t.Context(), conn.B().Subscribe().Channel(channel).Build()).Error())
	return cancel
}

// Who waits at the gate inherits the place in Redis's queue of the one before, who gave up.
func TestPlaceInTheQueueIsInherited(t *testing.T) {
	s := redistest.Start(t)
	holder, c := newClient(t, s.Client()), newClient(t, s.Client())
	l, err := holder.Mutex("k").Lock(context.Background())
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	first := make(chan error, 1)
	go func() {
		_, err := c.Mutex("k").Lock(ctx)
		first <- err
	}()
	queued(t, s, "k", 1)
	place := s.Do("ZRANGE", "relock_queue:{k}", "0", "-1", "WITHSCORES")
	second := waitFor(t, c, "k")
	lined(t, c, "k")
	cancel()
	require.ErrorIs(t, within(t, first), context.Canceled)
	require.Equal(t, place, s.Do("ZRANGE", "relock_queue:{k}", "0", "-1", "WITHSCORES"))
	require.NoError(t, l.Unlock(context.Background()))
	require.NoError(t, within(t, second).Unlock(context.Background()))
}

func TestLocalHandOffIsBounded(t *testing.T) {
	inFakeTime(t, func(t *testing.T, c *relock.Client, s *scripted) {
		m := c.Mutex("k", relock.WithLocalHandoff(3, time.Hour))
		require.Equal(t, []int64{1, 2, 3, 1, 2, 3, 1}, tokensOf(t, m, 7), "the arbiter always grants 1: each 1 went through it")
	})
}

func TestLocalHandOffIsBoundedInTime(t *testing.T) {
	inFakeTime(t, func(t *testing.T, c *relock.Client, s *scripted) {
		m := c.Mutex("k", relock.WithLocalHandoff(100, 2500*time.Millisecond))
		require.Equal(t, []int64{1, 2, 3, 1, 2}, tokensOf(t, m, 5))
	})
}
