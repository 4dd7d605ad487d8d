package relock

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/rueidis"
	"github.com/relock-go/relock/internal/faults"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/relock-go/relock/internal/wire"
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
	const passes = 3 // too few for a next block, with which a hold would go on
	m := newClient(t, ownRedis(t)).Mutex("k", WithLocalHandoff(passes, time.Hour))
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
					if err != nil && !errors.Is(err, ErrLost) {
						t.Error(err)
					}
				})
			}
			synctest.Wait()
			wg.Go(func() { lose(l) })
			if err := l.Unlock(context.Background()); err != nil {
				requireLost(t, ErrLost, err)
			}
			wg.Wait()
			require.Zero(t, gatesOf(c).Len())
		}
	})
}

// relay passes a lock on from goroutine to goroutine of c, so many times, one waiting always, as far as a round trip to
// Redis takes no time. Each that holds it calls turn first, and the first so many wait until a block that was asked for
// is granted. It returns the tokens.
func relay(t *testing.T, c *Client, passes, answered int, turn func(i int), opts ...Option) (tokens []int64) {
	t.Helper()
	m := c.Mutex("k", opts...)
	next := waitWith(t.Context(), t, m)
	for i := range passes {
		l := within(t, next)
		tokens = append(tokens, l.Token())
		tripOf(l, 0)
		turn(i)
		next = waitWith(t.Context(), t, m)
		require.Eventually(t, func() bool { return gatesOf(c).Waiting(namesOf(wire.Mutex, m.Name()).Gate(1)) }, patience, 10*time.Microsecond)
		require.Eventually(t, func() bool {
			l.h.mu.Lock()
			defer l.h.mu.Unlock()
			return i >= answered || !l.h.block.Awaited()
		}, patience, 10*time.Microsecond)
		require.NoError(t, l.Unlock(t.Context()))
	}
	l := within(t, next)
	require.NoError(t, l.Unlock(t.Context()))
	return append(tokens, l.Token())
}

// tripOf makes l's hold take d for how long Redis needs to answer.
func tripOf(l *Lease, d time.Duration) {
	l.h.mu.Lock()
	defer l.h.mu.Unlock()
	l.h.block.Trip = d
}

func rise(t *testing.T, tokens []int64) {
	t.Helper()
	for i := 1; i < len(tokens); i++ {
		require.Greater(t, tokens[i], tokens[i-1], "token %d", i)
	}
}

// blocks counts the scripts that begin, end and lengthen what a process may pass on of the lock k.
func blocks(c *faults.Client) map[string]int {
	seen := make(map[string]int)
	c.Filter(func(call *faults.Call) faults.Fate {
		if name := call.ScriptName(); call.Script != "" && call.Has("k") {
			seen[name]++
		}
		return faults.Pass
	})
	return seen
}

// A lock that nobody else wants is not given back between two blocks of tokens.
func TestBlocksFollowEachOther(t *testing.T) {
	rdb := faulty(redistest.Start(t))
	c := newClient(t, rdb)
	lockAndUnlock(t, c.Mutex("k"))
	seen := blocks(rdb)
	rise(t, relay(t, c, 100, 100, func(int) {}, WithLocalHandoff(16, time.Hour)))
	require.Equal(t, 1, seen["acquire"])
	require.Equal(t, 1, seen["release"])
	require.InDelta(t, 100/12, seen["refill"], 2)
}

// A block that is over before the next one could be there asks for none: its tokens would be lost.
func TestShortBlocksAreNotFollowed(t *testing.T) {
	rdb := faulty(redistest.Start(t))
	c := newClient(t, rdb)
	lockAndUnlock(t, c.Mutex("k"))
	seen := blocks(rdb)
	m, passes := c.Mutex("k", WithLocalHandoff(16, time.Hour)), 100
	next := waitWith(t.Context(), t, m)
	for range passes {
		l := within(t, next)
		tripOf(l, time.Hour)
		next = waitWith(t.Context(), t, m)
		require.Eventually(t, func() bool { return gatesOf(c).Waiting(namesOf(wire.Mutex, m.Name()).Gate(1)) }, patience, 10*time.Microsecond)
		require.NoError(t, l.Unlock(t.Context()))
	}
	require.NoError(t, within(t, next).Unlock(t.Context()))
	require.Zero(t, seen["refill"])
	require.Equal(t, passes/16+1, seen["release"])
}

// A lock that lingers asks for no more tokens than it has, and uses all of them.
func TestNoRestOfABlockIsThrownAway(t *testing.T) {
	rdb := faulty(redistest.Start(t))
	c := lingeringClient(t, rdb, time.Hour)
	m := c.Mutex("k")
	l, err := m.Lock(t.Context())
	require.NoError(t, err)
	tripOf(l, 0)
	block := l.h.block.Left() + 1
	require.NoError(t, l.Unlock(t.Context()))
	seen := blocks(rdb)
	for i := 1; i < block; i++ {
		require.Equal(t, l.Token()+int64(i), lockAndUnlock(t, m))
	}
	require.Equal(t, map[string]int{"release": 1}, seen)
}

// One of another process that begins to wait just after the next block was granted is not passed over for longer than
// two of them.
func TestTheNextBlockIsTheLastOneForThoseWhoWait(t *testing.T) {
	s := redistest.Start(t)
	c, other := newClient(t, s.Client()), newClient(t, s.Client())
	lockAndUnlock(t, other.Mutex("k"))
	stranger := make(chan int64, 1)
	tokens := relay(t, c, 60, 14, func(i int) {
		if i == 14 { // the next block was granted
			go func() { stranger <- lockAndUnlock(t, other.Mutex("k")) }()
			queued(t, s, "k", 1)
		}
	}, WithLocalHandoff(16, time.Hour))
	rise(t, tokens)
	theirs, before := within(t, stranger), 0
	for _, token := range tokens {
		if token < theirs {
			before++
		}
	}
	require.InDelta(t, 16+12, before, 1)
}

// A Redis that forgot how far it counted, and whose clock was set back, gives a block that counts lower: it is not used, and
// the lock is given back once its own block is over.
func TestBlockThatCountsLowerIsNotUsed(t *testing.T) {
	s := redistest.Start(t)
	rdb := faulty(s)
	c := newClient(t, rdb)
	s.Do("SET", counterOfK, strconv.FormatInt(time.Now().Add(time.Hour).UnixMicro(), 10)) // its clock was so far ahead
	seen := blocks(rdb)
	const block = 16
	tokens := relay(t, c, block+1, block, func(i int) {
		if i == 0 {
			s.Do("DEL", counterOfK)
		}
	}, WithLocalHandoff(block, time.Hour))
	require.Equal(t, 1, seen["refill"], "it was asked for")
	require.Less(t, tokens[block], tokens[0], "no grant knows any more how far the lock was counted")
	for i, token := range tokens[:block] {
		require.Equal(t, tokens[0]+int64(i), token)
	}
	require.Equal(t, 2, seen["release"], "no hold goes on with lower tokens")
}

// Whoever waits, of relock's or of Redisson's, is why there is no next block; and one who holds the lock no more has none.
func TestNobodyRefillsWhatOthersWant(t *testing.T) {
	s := redistest.Start(t)
	c := newClient(t, s.Client(), WithLease(time.Minute))
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

// A block whose answer is lost, or comes when the hold is over, changes nothing: the lock is given back as ever.
func TestLostRefills(t *testing.T) {
	for name, fate := range map[string]faults.Fate{"lost": faults.LoseCall, "unanswered": faults.LoseReply, "late": faults.Stall} {
		t.Run(name, func(t *testing.T) {
			rdb := faulty(redistest.Start(t))
			c := newClient(t, rdb, WithCommandTimeout(defaultLease/3))
			rdb.Filter(faults.All(faults.Script("refill"), fate))
			rise(t, relay(t, c, 60, 0, func(int) {}, WithLocalHandoff(16, time.Hour)))
			rdb.Filter(nil)
			rdb.Release()
			lockAndUnlock(t, c.Mutex("k"))
		})
	}
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
	inFakeTime(t, func(t *testing.T, c *Client, s *scripted) {
		m := c.Mutex("k", WithLocalHandoff(3, time.Hour))
		require.Equal(t, []int64{1, 2, 3, 1, 2, 3, 1}, tokensOf(t, m, 7), "the arbiter always grants 1: each 1 went through it")
	})
}

func TestLocalHandOffIsBoundedInTime(t *testing.T) {
	inFakeTime(t, func(t *testing.T, c *Client, s *scripted) {
		m := c.Mutex("k", WithLocalHandoff(100, 2500*time.Millisecond))
		require.Equal(t, []int64{1, 2, 3, 1, 2}, tokensOf(t, m, 5))
	})
}
