package relocktest

import (
	"context"
	"fmt"
	"net"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/relock-go/relock"
	"github.com/stretchr/testify/require"
)

func TestHoldIsAnotherOwner(t *testing.T) {
	everywhere(t, func(t *testing.T, b bed) {
		ctx, locks := t.Context(), b.s.New(t)
		m := locks.Mutex("k")
		held := Hold(t, locks, "k")
		_, err := m.TryLock(ctx)
		var busy *relock.HeldError
		require.ErrorAs(t, err, &busy)
		require.False(t, busy.Local, "it is another process")
		require.Positive(t, busy.TTL)
		_, err = m.TryLock(held.Context())
		require.ErrorIs(t, err, relock.ErrNotAcquired, "the other's context is no ownership of this process")

		granted := make(chan *relock.Lease, 1)
		go func() {
			l, err := m.Lock(ctx)
			if err != nil {
				t.Error(err)
			}
			granted <- l
		}()
		require.Eventually(t, func() bool {
			state, err := m.State(ctx)
			return err == nil && state.Waiters == 1
		}, patient, time.Millisecond)
		require.NoError(t, held.Unlock(ctx))
		mine := within(t, granted)
		require.NotNil(t, mine)
		require.Greater(t, mine.Token(), held.Token())
		require.NoError(t, mine.Unlock(ctx))
	})
}

// What Hold and Want leave behind does not outlive the test that called them.
func TestOthersEndWithTheirTest(t *testing.T) {
	for name, server := range map[string]func(testing.TB) *Server{
		"memory": memoryServer,
		"redis":  func(t testing.TB) *Server { return Redis(t) },
	} {
		t.Run(name, func(t *testing.T) {
			locks := server(t).New(t)
			t.Run("inner", func(t *testing.T) {
				Hold(t, locks, "held")
				l, err := locks.Mutex("wanted").Lock(t.Context())
				require.NoError(t, err)
				granted := Want(t, l)
				require.NoError(t, l.Unlock(t.Context()))
				require.NotNil(t, within(t, granted))
			})
			for _, name := range []string{"held", "wanted"} {
				l, err := locks.Mutex(name).TryLock(t.Context())
				require.NoError(t, err)
				require.NoError(t, l.Unlock(t.Context()))
			}
			t.Run("down", func(t *testing.T) { RedisDown(t, locks) })
			l, err := locks.Mutex("k").TryLock(t.Context())
			require.NoError(t, err)
			require.NoError(t, l.Unlock(t.Context()))
		})
	}
}

func TestLoseEndsTheLeaseAndFreesTheLock(t *testing.T) {
	everywhere(t, func(t *testing.T, b bed) {
		ctx, locks := t.Context(), b.s.New(t)
		m := locks.Mutex("k")
		var lost *relock.Lease
		err := m.Do(ctx, func(ctx context.Context) error {
			lost, _ = relock.FromContext(ctx)
			Lose(t, lost)
			require.Error(t, ctx.Err())
			require.ErrorIs(t, context.Cause(ctx), relock.ErrLost)
			return context.Cause(ctx)
		})
		require.ErrorIs(t, err, relock.ErrLost)
		next, err := m.Lock(ctx)
		require.NoError(t, err)
		require.Greater(t, next.Token(), lost.Token(), "the store refuses what the lost one writes from here on")
		require.NoError(t, next.Unlock(ctx))
	})
}

// A holder that cannot reach Redis finds out by its lease, as it would of any loss.
func TestLoseWhileRedisIsDown(t *testing.T) {
	everywhere(t, func(t *testing.T, b bed) {
		locks := b.s.New(t, b.lease())
		l, err := locks.Mutex("k").Lock(t.Context())
		require.NoError(t, err)
		RedisDown(t, locks)
		until := l.Until()
		Lose(t, l)
		require.False(t, time.Now().Before(until))
		require.ErrorIs(t, context.Cause(l.Context()), relock.ErrLost)
	})
}

// Others wait for the guard as the client does, or they would be granted what it is not.
func TestOthersAreGuarded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locks := New(t, relock.WithStrictRestartGuard(5*time.Second), relock.WithLease(5*time.Second))
		began := time.Now()
		Hold(t, locks, "k")
		require.GreaterOrEqual(t, time.Since(began), 5*time.Second)
	})
}

// Re-entries are lost together, and a waiter gets the lock.
func TestLoseHandsOver(t *testing.T) {
	everywhere(t, func(t *testing.T, b bed) {
		locks := b.s.New(t)
		outer, err := locks.Mutex("k").Lock(t.Context())
		require.NoError(t, err)
		inner, err := locks.Mutex("k").Lock(outer.Context())
		require.NoError(t, err)
		granted := Want(t, inner)
		Lose(t, outer)
		next := within(t, granted)
		require.Greater(t, next.Token(), outer.Token())
		require.ErrorIs(t, context.Cause(inner.Context()), relock.ErrLost)
		require.ErrorIs(t, inner.Unlock(t.Context()), relock.ErrLost)
	})
}

func TestRedisDownAndUp(t *testing.T) {
	everywhere(t, func(t *testing.T, b bed) {
		locks := b.s.New(t, b.lease())
		held, err := locks.Mutex("held").Lock(t.Context())
		require.NoError(t, err)
		RedisDown(t, locks)
		_, err = locks.Mutex("k").TryLock(t.Context())
		var down *relock.NodeError
		require.ErrorAs(t, err, &down)
		var dial *net.OpError
		require.ErrorAs(t, err, &dial)
		require.Equal(t, "dial", dial.Op)
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		defer cancel()
		_, err = locks.Mutex("k").Lock(ctx)
		require.ErrorAs(t, err, &down, "not that another has it")
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.NotErrorIs(t, err, relock.ErrNotAcquired)

		within(t, held.Context().Done())
		require.ErrorIs(t, context.Cause(held.Context()), relock.ErrLost, "it can be renewed no longer")

		late := Beside(t, locks)
		_, err = late.Mutex("k").TryLock(t.Context())
		require.ErrorAs(t, err, &down, "down for clients to come too")

		waiting := make(chan *relock.Lease, 1)
		go func() {
			l, err := locks.Mutex("k").Lock(t.Context())
			if err != nil {
				t.Error(err)
			}
			waiting <- l
		}()
		RedisUp(t, locks)
		require.NoError(t, within(t, waiting).Unlock(t.Context()), "a Lock waits out that Redis is down")
		// Messages flow again.
		l, err := locks.Mutex("k").Lock(t.Context())
		require.NoError(t, err)
		granted := Want(t, l)
		require.NoError(t, l.Unlock(t.Context()))
		within(t, granted)
	})
}

// An outage shorter than a lease costs no lock.
func TestAShortOutageLosesNothing(t *testing.T) {
	everywhere(t, func(t *testing.T, b bed) {
		locks := b.s.New(t, relock.WithLease(30*time.Second))
		l, err := locks.Mutex("k").Lock(t.Context())
		require.NoError(t, err)
		RedisDown(t, locks)
		if b.fake {
			time.Sleep(15 * time.Second)
		}
		RedisUp(t, locks)
		if b.fake {
			time.Sleep(time.Minute)
		}
		require.NoError(t, l.Context().Err())
		require.NoError(t, l.Unlock(t.Context()))
	})
}

func TestCrashReleasesNothing(t *testing.T) {
	everywhere(t, func(t *testing.T, b bed) {
		first := b.s.New(t, b.lease(), relock.WithLinger(time.Hour))
		second := Beside(t, first)
		l, err := first.Mutex("held").Lock(t.Context())
		require.NoError(t, err)
		linger(t, first, "idle")
		until := l.Until()
		Crash(t, first)
		require.ErrorIs(t, context.Cause(l.Context()), relock.ErrClosed)
		_, err = first.Mutex("other").Lock(t.Context())
		require.ErrorIs(t, err, relock.ErrClosed)
		require.Error(t, l.Unlock(context.Background()))

		for _, name := range []string{"held", "idle"} {
			state, err := second.Mutex(name).State(t.Context())
			require.NoError(t, err)
			if b.fake { // else the machine may have been busy for that long
				require.True(t, state.Held, "%s: Redis keeps it until its lease ends", name)
			}
		}
		for _, name := range []string{"held", "idle"} {
			next, err := second.Mutex(name).Lock(t.Context())
			require.NoError(t, err)
			require.False(t, time.Now().Before(until), name)
			require.NoError(t, next.Unlock(t.Context()))
		}
		RedisDown(t, second)
		RedisUp(t, second)
		_, err = processOf(t, "Crash", first).wire.passes()
		require.Error(t, err, "the dead do not come back with Redis")
	})
}

// A crashed waiter stands in no one's way, though it was the next in the queue.
func TestACrashedWaiterIsPassedOver(t *testing.T) {
	everywhere(t, func(t *testing.T, b bed) {
		first := b.s.New(t)
		second := Beside(t, first)
		held := Hold(t, first, "k")
		failed := make(chan error, 1)
		go func() {
			_, err := first.Mutex("k").Lock(context.Background())
			failed <- err
		}()
		require.Eventually(t, func() bool {
			state, err := second.Mutex("k").State(t.Context())
			return err == nil && state.Waiters == 1
		}, patient, time.Millisecond)
		Crash(t, first)
		require.ErrorIs(t, within(t, failed), relock.ErrClosed)
		require.NoError(t, held.Unlock(t.Context()))
		l, err := second.Mutex("k").Lock(t.Context())
		require.NoError(t, err)
		require.NoError(t, l.Unlock(t.Context()))
	})
}

func TestWantIsTold(t *testing.T) {
	everywhere(t, func(t *testing.T, b bed) {
		locks := b.s.New(t)
		l, err := locks.Mutex("k").Lock(t.Context())
		require.NoError(t, err)
		select {
		case <-l.Wanted():
			require.Fail(t, "no one wants it yet")
		default:
		}
		granted := Want(t, l)
		select {
		case <-l.Wanted():
		default:
			require.Fail(t, "it was not told")
		}
		require.Empty(t, granted)
		require.NoError(t, l.Unlock(t.Context()))
		other := within(t, granted)
		require.Greater(t, other.Token(), l.Token())
		_, err = locks.Mutex("k").TryLock(t.Context())
		require.ErrorIs(t, err, relock.ErrNotAcquired)
		require.NoError(t, other.Unlock(t.Context()))
		mine, err := locks.Mutex("k").TryLock(t.Context())
		require.NoError(t, err)
		require.NoError(t, mine.Unlock(t.Context()))
	})
}

// A lock that lingers is given up for Hold.
func TestHoldTakesWhatLingers(t *testing.T) {
	everywhere(t, func(t *testing.T, b bed) {
		locks := b.s.New(t, relock.WithLinger(time.Hour))
		linger(t, locks, "k")
		Hold(t, locks, "k")
		_, err := locks.Mutex("k").TryLock(t.Context())
		require.ErrorIs(t, err, relock.ErrNotAcquired)
	})
}

// Others agree with the client in what is in Redis: the prefix of names, the guard, the lease.
func TestOthersAgreeWithTheClient(t *testing.T) {
	var told told
	for name, opts := range map[string][]relock.ClientOption{
		"prefix":   {relock.WithNamePrefix("app:")},
		"guard":    {relock.WithRestartGuard(5 * time.Second), relock.WithLease(5 * time.Second)},
		"named":    {relock.WithClientName("billing")},
		"observed": {relock.WithObserver(&told)},
		"for ever": {relock.WithTokenRetention(0)},
		"bounded":  {relock.WithFixedLease(time.Minute), relock.WithWait(time.Second), relock.WithMaxHold(time.Hour)},
	} {
		t.Run(name, func(t *testing.T) {
			everywhere(t, func(t *testing.T, b bed) {
				locks := b.s.New(t, opts...)
				held := Hold(t, locks, "k")
				before := told.n.Load()
				_, err := locks.Mutex("k").TryLock(t.Context())
				require.ErrorIs(t, err, relock.ErrNotAcquired)
				if name == "observed" {
					require.EqualValues(t, 1, told.n.Load()-before, "the test's own calls only")
				}
				require.NoError(t, held.Unlock(t.Context()))
				l, err := locks.Mutex("k").Lock(t.Context())
				require.NoError(t, err)
				granted := Want(t, l)
				Lose(t, l)
				within(t, granted)
			})
		})
	}
	require.LessOrEqual(t, told.n.Load(), int64(3*6), "others are observed by no one")
}

// told counts what ends a try for a lock.
type told struct{ n atomic.Int64 }

func (o *told) Observe(e relock.Event) {
	if e.Kind == relock.EventAbandoned || e.Kind == relock.EventAcquired {
		o.n.Add(1)
	}
}

// Goroutines of two processes exclude each other, and leave nothing behind.
func TestProcessesExcludeEachOther(t *testing.T) {
	everywhere(t, func(t *testing.T, b bed) {
		const goroutines, rounds = 6, 20
		first := b.s.New(t)
		var (
			wg     sync.WaitGroup
			inside int // guarded by the lock under test alone
			last   int64
		)
		for _, locks := range []*relock.Client{first, Beside(t, first, relock.WithLinger(time.Second))} {
			for range goroutines {
				wg.Go(func() {
					for range rounds {
						err := locks.Mutex("k").Do(t.Context(), func(ctx context.Context) error {
							if token := relock.Token(ctx); token <= last {
								return fmt.Errorf("token %d after %d", token, last)
							}
							last = relock.Token(ctx)
							inside++
							return nil
						})
						if err != nil {
							t.Error(err)
							return
						}
					}
				})
			}
		}
		wg.Wait()
		require.Equal(t, 2*goroutines*rounds, inside)
	})
}

// A lease is renewed for as long as its process lives, and the fake clock is the server's too.
func TestALongHoldInABubble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locks := New(t)
		l, err := locks.Mutex("k").Lock(t.Context())
		require.NoError(t, err)
		time.Sleep(6 * time.Hour)
		require.NoError(t, l.Context().Err())
		Crash(t, locks)
		second := Beside(t, locks)
		_, err = second.Mutex("k").TryLock(t.Context())
		require.ErrorIs(t, err, relock.ErrNotAcquired)
		began := time.Now()
		next, err := second.Mutex("k").Lock(t.Context())
		require.NoError(t, err)
		require.InDelta(t, 30*time.Second, time.Since(began), float64(10*time.Second))
		require.NoError(t, next.Unlock(t.Context()))
	})
}

// failing is a TB whose Fatalf ends the goroutine and keeps the message.
type failing struct {
	testing.TB
	message string
}

func (f *failing) Fatalf(format string, args ...any) {
	f.message = fmt.Sprintf(format, args...)
	runtime.Goexit()
}

// fatal returns the message with which run fails its test.
func fatal(t *testing.T, run func(testing.TB)) string {
	t.Helper()
	tb, done := &failing{TB: t}, make(chan struct{})
	go func() {
		defer close(done)
		run(tb)
	}()
	<-done
	require.NotEmpty(t, tb.message, "did not fail")
	return tb.message
}

// What cannot be done fails the test, and says why.
func TestMisuseIsTold(t *testing.T) {
	var gone *relock.Client
	t.Run("ended", func(t *testing.T) { gone = New(t) })
	synctest.Test(t, func(t *testing.T) {
		locks := New(t)
		l, err := locks.Mutex("k").Lock(t.Context())
		require.NoError(t, err)
		owned, err := locks.Mutex("owned").Lock(relock.WithOwner(t.Context(), "someone"))
		require.NoError(t, err)
		over, err := locks.Mutex("over").Lock(t.Context())
		require.NoError(t, err)
		require.NoError(t, over.Unlock(t.Context()))
		for want, run := range map[string]func(testing.TB){
			"relocktest: Hold: relock: lock \"k\" not acquired": func(t testing.TB) { Hold(t, locks, "k") },
			"relocktest: Hold: relock: invalid lock name":       func(t testing.TB) { Hold(t, locks, "") },
			"relocktest: relock: invalid option":                func(t testing.TB) { New(t, relock.WithLease(0)) },
			"Hold: no client of this package, or one whose":     func(t testing.TB) { Hold(t, gone, "k") },
			"Crash: no client of this package":                  func(t testing.TB) { Crash(t, nil) },
			"RedisDown: no client of this package":              func(t testing.TB) { RedisDown(t, new(relock.Client)) },
			"Lose: no client of this package":                   func(t testing.TB) { Lose(t, nil) },
			"LosePermit: no client of this package":             func(t testing.TB) { LosePermit(t, nil) },
			"Want: no client of this package":                   func(t testing.TB) { Want(t, new(relock.Lease)) },
			"Lose: the lease of \"over\" is over":               func(t testing.TB) { Lose(t, over) },
			"Want: the lease of \"over\" is over":               func(t testing.TB) { Want(t, over) },
			"Want: the holder of \"owned\" was not told with":   func(t testing.TB) { Want(t, owned) },
		} {
			require.Contains(t, fatal(t, run), want)
		}
		require.NoError(t, l.Context().Err())
		require.NoError(t, owned.Unlock(t.Context()))
	})
}

func TestAddrIsTheServers(t *testing.T) {
	conn, err := net.Dial("tcp", Redis(t).Addr())
	require.NoError(t, err)
	require.NoError(t, conn.Close())
}
