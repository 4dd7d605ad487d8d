package suite_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/claim"
	"github.com/relock-go/relock/internal/faults"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/relock-go/relock/internal/wire"
	"github.com/stretchr/testify/require"
)

// The lock moves from one client to another, and a waiter of a third gets it behind both.
func TestHandOver(t *testing.T) {
	s := redistest.Start(t)
	ctx := t.Context()
	giver, taker, third := newClient(t, s.Client(), relock.WithClientName("api")), newClient(t, s.Client()), newClient(t, s.Client())
	l := taken(t, giver.Mutex("k").Lock)
	next := waitFor(t, third, "k")
	queued(t, s, "k", 1)
	here := waitFor(t, giver, "k")
	lined(t, giver, "k")

	handle, err := l.HandOver(ctx, time.Minute)
	require.NoError(t, err)
	require.Equal(t, relock.ErrHandedOver, context.Cause(l.Context()))
	require.ErrorIs(t, relock.ErrHandedOver, relock.ErrMisuse)
	require.Zero(t, l.Count())
	require.Equal(t, relock.ErrNotHeld, l.Unlock(ctx))
	_, err = l.HandOver(ctx, time.Minute)
	require.Equal(t, relock.ErrNotHeld, err)
	st := stateOf(t, third.Mutex("k"))
	require.Equal(t, wire.HandleField(handle), st.Holder)
	require.InDelta(t, time.Minute, st.TTL, float64(10*time.Second))
	queued(t, s, "k", 2) // the goroutine of the giver's process stands in line by itself

	work, err := taker.Mutex("k").TakeOver(ctx, handle)
	require.NoError(t, err)
	require.Greater(t, work.Token(), l.Token())
	require.Equal(t, 1, work.Count())
	inner := taken(t, func(context.Context) (*relock.Lease, error) { return taker.Mutex("k").Lock(work.Context()) })
	require.Equal(t, work.Token(), inner.Token())
	_, err = third.Mutex("k").TakeOver(ctx, handle)
	require.ErrorIs(t, err, relock.ErrLost, "a handle is used once")
	select {
	case <-next:
		t.Fatal("the lock was free in between")
	case <-here:
		t.Fatal("the lock was free in between")
	default:
	}
	unlocked(t, inner, work)
	for _, waiter := range []<-chan *relock.Lease{next, here} {
		l := within(t, waiter)
		require.Greater(t, l.Token(), work.Token())
		unlocked(t, l)
	}
	requireNothingLeft(t, s)
}

// A handle that no process takes over frees the lock when its time is up, for a waiter that was told of a longer lease too.
func TestHandleEnds(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	giver, other := newClient(t, s.Client(), relock.WithLease(time.Hour)), newClient(t, s.Client(), relock.WithLease(time.Hour))
	l := taken(t, giver.Mutex("k").Lock)
	next := waitFor(t, other, "k")
	queued(t, s, "k", 1)
	listening(t, s, other)
	handle, err := l.HandOver(t.Context(), 300*time.Millisecond)
	require.NoError(t, err)
	late := within(t, next) // else it asks again after minutes
	_, err = other.Mutex("k").TakeOver(t.Context(), handle)
	require.ErrorIs(t, err, relock.ErrLost)
	require.NoError(t, late.Unlock(t.Context()))
	requireNothingLeft(t, s)
}

// While the holder hands over, its lease ends, and a late copy of its acquire takes the free lock anew. That grant is not the one to
// hand over: another may have held the lock in between.
func TestAnotherGrantIsNotHandedOver(t *testing.T) {
	s := redistest.Start(t)
	rdb := faulty(s)
	c := newClient(t, rdb)
	l := taken(t, c.Mutex("k").Lock)
	rdb.Filter(faults.All(faults.Script("move"), faults.Pass.Held()))
	failed := make(chan error, 1)
	go func() {
		_, err := l.HandOver(t.Context(), time.Minute)
		failed <- err
	}()
	within(t, rdb.Told())
	s.Do("DEL", "k")
	s.Do("HSET", "k", entryOf(l).ID, "1", "relock:first", strconv.FormatInt(l.Token()+1, 10)+":256")
	rdb.Release()
	require.ErrorIs(t, within(t, failed), relock.ErrLost)
}

// A handle that stands for less than its giver's lease had left is told to all waiters: to relock's, and to all threads of a JVM.
func TestShorterLeaseIsTold(t *testing.T) {
	s := redistest.Start(t)
	c, messages := newClient(t, s.Client()), make(chan string, 9)
	conn, stop := s.Client().Dedicate()
	defer stop()
	conn.SetPubSubHooks(rueidis.PubSubHooks{OnMessage: func(m rueidis.PubSubMessage) { messages <- m.Message }})
	require.NoError(t, conn.Do(t.Context(), conn.B().Subscribe().Channel("redisson_lock__channel:{k}").Build()).Error())
	told := func(shorter bool) {
		if shorter {
			require.Equal(t, "0", within(t, messages))
			require.Equal(t, "1", within(t, messages))
		}
		require.Empty(t, messages)
	}
	for _, stays := range []time.Duration{time.Hour, 10 * time.Second} {
		l := taken(t, c.Mutex("k").Lock)
		handle, err := l.HandOver(t.Context(), stays)
		require.NoError(t, err)
		told(stays < defaultLease)
		work, err := c.Mutex("k").TakeOver(t.Context(), handle)
		require.NoError(t, err)
		told(stays > defaultLease)
		unlocked(t, work)
		require.Equal(t, "0", within(t, messages))
	}
}

// A waiter does not take the messages of a hand-over for rubbish.
func TestShorterLeaseRaisesNoAlarm(t *testing.T) {
	s := redistest.Start(t)
	o := &seen{}
	c, other := newClient(t, s.Client()), newClient(t, s.Client(), relock.WithLease(time.Hour), relock.WithObserver(o))
	l := taken(t, c.Mutex("k").Lock)
	next := waitFor(t, other, "k")
	settled(t, other, "k")
	handle, err := l.HandOver(t.Context(), 10*time.Second)
	require.NoError(t, err)
	work, err := c.Mutex("k").TakeOver(t.Context(), handle)
	require.NoError(t, err)
	unlocked(t, work)
	unlocked(t, within(t, next)) // its message came behind those of the hand-over
	require.Empty(t, o.of(relock.EventNodeImpaired))
}

// A forced unlock ends a handle too.
func TestHandleIsForced(t *testing.T) {
	s := redistest.Start(t)
	c := newClient(t, s.Client())
	handle, err := taken(t, c.Mutex("k").Lock).HandOver(t.Context(), time.Minute)
	require.NoError(t, err)
	freed, err := c.Mutex("k").ForceUnlock(t.Context())
	require.NoError(t, err)
	require.True(t, freed)
	_, err = c.Mutex("k").TakeOver(t.Context(), handle)
	require.ErrorIs(t, err, relock.ErrLost)
	requireNothingLeft(t, s)
}

// What State, HeldError and Redis show of a holder is no handle, and the holder keeps its lock. Nor does the script move it.
func TestHolderIsNoHandle(t *testing.T) {
	s := redistest.Start(t)
	giver, other := newClient(t, s.Client()), newClient(t, s.Client())
	ctx := t.Context()
	refused := func(name string) {
		t.Helper()
		held := stateOf(t, other.Mutex(name))
		_, err := other.Mutex(name).TakeOver(ctx, held.Holder)
		require.ErrorIs(t, err, relock.ErrLost)
		require.ErrorContains(t, err, `"`+name+`" is not taken over: it is the id of a holder`)
		if c := arbiterOf(other).Claim(newEntry(other, wire.Mutex, name)).(claim.Movable); !wire.IsHandleField(held.Holder) {
			_, err = c.TakeOver(ctx, held.Holder)
			require.ErrorIs(t, err, relock.ErrLost, "the script refuses it too")
		}
		require.Equal(t, held.Holder, stateOf(t, other.Mutex(name)).Holder)
	}
	l := taken(t, giver.Mutex("k").Lock)
	refused("k")
	require.NoError(t, l.Extend(ctx, time.Minute))
	s.Do("HSET", "java", "0b5a6d6e-0000-4000-8000-000000000001:37", "2")
	s.Do("PEXPIRE", "java", "30000")
	refused("java")

	handle, err := l.HandOver(ctx, time.Minute)
	require.NoError(t, err)
	refused("k")
	require.NotContains(t, s.Do("HGETALL", "k"), handle[len(handle)-26:], "the secret")
	_, err = other.Mutex("k").TryLock(ctx)
	require.ErrorIs(t, err, relock.ErrNotAcquired)
	require.NotContains(t, err.Error(), handle[len(handle)-26:])
	work, err := other.Mutex("k").TakeOver(ctx, handle)
	require.NoError(t, err)
	refused("k")
	unlocked(t, work)
}

// The error of a handle that has no lock names the lock, and why as far as Redis knows that.
func TestNotTakenOverSaysWhy(t *testing.T) {
	s := redistest.Start(t)
	c := newClient(t, s.Client())
	handOver := func(l *relock.Lease) string {
		handle, err := l.HandOver(t.Context(), time.Minute)
		require.NoError(t, err)
		return handle
	}
	handle := handOver(taken(t, c.Mutex("k").Lock))
	says := func(name, why string) {
		t.Helper()
		_, err := c.Mutex(name).TakeOver(t.Context(), handle)
		require.ErrorIs(t, err, relock.ErrLost)
		require.EqualError(t, err, `relock: lock lost: "`+name+`" is not taken over: `+why)
	}
	says("other", "it is the handle of another lock")
	work, err := c.Mutex("k").TakeOver(t.Context(), handle)
	require.NoError(t, err)
	says("k", "the handle was used, and the lock is held since")
	unlocked(t, work)
	says("k", "no process holds the lock; the handle was used, its time is over, or the lock was forced open")
	l := taken(t, c.Mutex("k").Lock)
	says("k", "another holder has the lock; the handle was used, its time is over, or the lock was forced open")
	unlocked(t, l)

	_, err = c.Mutex("k").TakeOver(t.Context(), handle[:len(handle)-1])
	require.ErrorIs(t, err, relock.ErrMisuse)
	require.NotContains(t, err.Error(), handle[len(handle)-20:len(handle)-1], "most of the secret")
}

// A hand-over whose command never ran leaves the lock to its sweeper, long before the lease's end.
func TestUnansweredHandOverIsFreedSoon(t *testing.T) {
	s := redistest.Start(t)
	rdb := faulty(s)
	c, other := newClient(t, rdb, relock.WithLease(time.Hour), relock.WithCommandTimeout(100*time.Millisecond)), newClient(t, s.Client())
	l := taken(t, c.Mutex("k").Lock)
	rdb.Filter(faults.All(faults.Script("move"), faults.LoseCall))
	_, err := l.HandOver(t.Context(), time.Hour)
	require.ErrorIs(t, err, relock.ErrUnavailable)
	unlocked(t, within(t, waitFor(t, other, "k")))
}

// A taker has not heard of those that waited before. So its lock does not linger beside them, and its grant is no fresh one.
func TestTakenOverDoesNotLingerBesideWaiters(t *testing.T) {
	s := redistest.Start(t)
	giver, taker, other := newClient(t, s.Client()), newClient(t, s.Client(), relock.WithLinger(time.Hour)), newClient(t, s.Client(), relock.WithLease(time.Hour))
	unlocked(t, taken(t, taker.Mutex("warm").Lock))
	listening(t, s, taker)
	l := taken(t, giver.Mutex("k").Lock)
	next := waitFor(t, other, "k")
	settled(t, other, "k")
	handle, err := l.HandOver(t.Context(), time.Hour)
	require.NoError(t, err)
	work, err := taker.Mutex("k", relock.WithLease(time.Hour)).TakeOver(t.Context(), handle)
	require.NoError(t, err)
	unlocked(t, work)
	l = within(t, next) // it would ask after five minutes
	handle, err = l.HandOver(t.Context(), time.Hour)
	require.NoError(t, err)
	c := arbiterOf(taker).Claim(newEntry(taker, wire.Mutex, "k")).(claim.Movable)
	g, err := c.TakeOver(t.Context(), wire.HandleField(handle))
	require.NoError(t, err)
	require.False(t, g.Fresh)
	c.Abandon()
}

// What cannot be handed over stays as it was.
func TestWhatIsNotHandedOver(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c := newClient(t, s.Client())
	ctx := t.Context()
	l := taken(t, c.Mutex("k").Lock)
	inner := taken(t, func(context.Context) (*relock.Lease, error) { return c.Mutex("k").Lock(l.Context()) })
	owned := taken(t, func(context.Context) (*relock.Lease, error) {
		return c.Mutex("owned").Lock(relock.WithOwner(ctx, "workflow"))
	})
	reader, writer := taken(t, c.RWMutex("rw").RLock), taken(t, c.RWMutex("rw2").Lock)
	guarded := newClient(t, redistest.Start(t).Client(), relock.WithRestartGuard(time.Minute))
	alone := taken(t, guarded.Mutex("k").Lock)
	quorum := taken(t, newRedlock(t, []*redistest.Server{s, redistest.Start(t), redistest.Start(t)}).Mutex("q").Lock)
	for _, one := range []struct {
		l     *relock.Lease
		stays time.Duration
		is    error
	}{
		{l, time.Minute, relock.ErrMisuse}, {inner, time.Minute, relock.ErrMisuse}, {owned, time.Minute, relock.ErrMisuse},
		{inner, 0, relock.ErrInvalidOption}, {inner, -time.Second, relock.ErrInvalidOption},
		{reader, time.Minute, errors.ErrUnsupported}, {writer, time.Minute, errors.ErrUnsupported}, {quorum, time.Minute, errors.ErrUnsupported}, {alone, time.Minute, errors.ErrUnsupported},
	} {
		handle, err := one.l.HandOver(ctx, one.stays)
		require.ErrorIs(t, err, one.is)
		require.Empty(t, handle)
		require.NoError(t, one.l.Context().Err())
	}
	unlocked(t, l)
	handle, err := inner.HandOver(ctx, time.Minute)
	require.NoError(t, err, "it is the only one now")
	_, err = new(relock.Lease).HandOver(ctx, time.Minute)
	require.Equal(t, relock.ErrNotHeld, err)

	for _, one := range []struct {
		ctx    context.Context
		c      *relock.Client
		handle string
		is     error
	}{
		{ctx, c, "", relock.ErrMisuse}, {ctx, c, "order 42", relock.ErrMisuse}, {ctx, c, c.ID(), relock.ErrMisuse}, {ctx, c, c.ID() + ":1;", relock.ErrMisuse},
		{ctx, c, strings.Repeat("x", 300) + ":1", relock.ErrMisuse}, {ctx, c, c.ID() + ":1", relock.ErrLost},
		{relock.WithOwner(ctx, "workflow"), c, handle, relock.ErrMisuse}, {nil, c, handle, relock.ErrMisuse}, {ctx, newRedlock(t, masters(t, 3)), handle, errors.ErrUnsupported},
		{ctx, guarded, handle, errors.ErrUnsupported},
	} {
		_, err := one.c.Mutex("k").TakeOver(one.ctx, one.handle)
		require.ErrorIs(t, err, one.is, "%q", one.handle)
	}
	_, err = c.Mutex("other").TakeOver(ctx, handle)
	require.ErrorIs(t, err, relock.ErrLost, "another lock's")
	work, err := c.Mutex("k").TakeOver(ctx, handle)
	require.NoError(t, err)
	unlocked(t, work, owned, reader, writer, quorum, alone)
}

// The options of the Mutex that takes over hold from then on.
func TestTakenOverByItsOwnOptions(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c := newClient(t, s.Client())
	handOver := func() string {
		handle, err := taken(t, c.Mutex("k").Lock).HandOver(t.Context(), time.Minute)
		require.NoError(t, err)
		return handle
	}
	fixed, err := c.Mutex("k", relock.WithFixedLease(time.Hour)).TakeOver(t.Context(), handOver())
	require.NoError(t, err)
	require.Greater(t, time.Until(fixed.Until()), 50*time.Minute)
	unlocked(t, fixed)
	short, err := c.Mutex("k", relock.WithMaxHold(2*time.Second)).TakeOver(t.Context(), handOver())
	require.NoError(t, err)
	within(t, short.Context().Done())
	requireLost(t, relock.ErrMaxHold, context.Cause(short.Context()))
	requireNothingLeft(t, s)
}

// Whatever becomes of a command or its answer, at most one client has the lock, and in the end none.
func TestMovesUnderFaults(t *testing.T) {
	for name, fate := range map[string]faults.Fate{
		"twice": faults.Twice, "lost": faults.LoseCall, "its answer lost": faults.LoseReply, "late": faults.Late,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := redistest.Start(t)
			rdb := faulty(s)
			c := newClient(t, rdb)
			for range 20 {
				rdb.Filter(faults.Next(faults.Script("move"), fate))
				l := taken(t, c.Mutex("k").Lock)
				handle, err := l.HandOver(t.Context(), time.Minute)
				require.NoError(t, err)
				rdb.Filter(faults.Next(faults.Script("move"), fate))
				work, err := c.Mutex("k").TakeOver(t.Context(), handle)
				require.NoError(t, err)
				rdb.Flush() // what was late comes now
				require.NoError(t, work.Context().Err())
				require.Equal(t, entryOf(work).ID, stateOf(t, c.Mutex("k")).Holder)
				unlocked(t, work)
				require.Greater(t, work.Token(), l.Token())
				requireNothingLeft(t, s)
			}
		})
	}
}

// A process that never gets an answer has no handle, and no lease. What it left in Redis ends by itself.
func TestMovesThatAreNotAnswered(t *testing.T) {
	const timeout = 100 * time.Millisecond
	for name, fate := range map[string]faults.Fate{"lost": faults.LoseCall, "its answer lost": faults.LoseReply} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := redistest.Start(t)
			rdb := faulty(s)
			c, other := newClient(t, rdb, relock.WithLease(time.Hour), relock.WithCommandTimeout(timeout)), newClient(t, s.Client())

			l := taken(t, c.Mutex("k").Lock)
			rdb.Filter(faults.All(faults.Script("move"), fate))
			handle, err := l.HandOver(t.Context(), 300*time.Millisecond)
			require.ErrorIs(t, err, relock.ErrUnavailable)
			require.Empty(t, handle)
			require.Equal(t, relock.ErrHandedOver, context.Cause(l.Context()))
			unlocked(t, within(t, waitFor(t, other, "k"))) // by the sweeper, or when the handle's time is up

			given, err := taken(t, other.Mutex("k").Lock).HandOver(t.Context(), time.Minute)
			require.NoError(t, err)
			ctx, cancel := context.WithTimeout(t.Context(), 3*timeout)
			defer cancel()
			_, err = c.Mutex("k").TakeOver(ctx, given)
			require.ErrorIs(t, err, relock.ErrUnavailable)
			require.ErrorIs(t, err, context.DeadlineExceeded)
			work, err := other.Mutex("k").TakeOver(t.Context(), given)
			if name == "lost" {
				require.NoError(t, err, "the handle was not used")
				unlocked(t, work)
			} else {
				require.ErrorIs(t, err, relock.ErrLost, "it was used up")
			}
			unlocked(t, within(t, waitFor(t, other, "k"))) // by the sweeper, long before the lease of what the taker asked for ends
			requireNothingLeft(t, s)
		})
	}
}

// Whatever a user may no longer do, a lock that moves keeps an end, and its waiter gets it.
func TestRefusedMoveLeavesNoLockWithoutAnEnd(t *testing.T) {
	for _, command := range []string{"pexpire", "hset", "hdel", "pttl", "set"} {
		t.Run(command, func(t *testing.T) {
			t.Parallel()
			s := redistest.Start(t)
			rdb, err := rueidis.NewClient(s.AddUser("app", "secret", "~*", "&*", "+@all"))
			require.NoError(t, err)
			t.Cleanup(rdb.Close)
			c, other := newClient(t, rdb, relock.WithLease(3*time.Second)), newClient(t, s.Client())
			l := taken(t, c.Mutex("k").Lock)
			given, err := taken(t, c.Mutex("given").Lock).HandOver(t.Context(), 300*time.Millisecond)
			require.NoError(t, err)
			s.Do("ACL", "SETUSER", "app", "-"+command)
			if _, err = l.HandOver(t.Context(), 300*time.Millisecond); err != nil {
				require.ErrorIs(t, err, relock.ErrRefused)
			}
			_, err = c.Mutex("given").TakeOver(t.Context(), given)
			require.ErrorIs(t, err, relock.ErrRefused)
			for _, name := range []string{"k", "given"} {
				require.NotEqual(t, "-1", s.Do("PTTL", name))
				unlocked(t, taken(t, other.Mutex(name).Lock))
			}
		})
	}
}

// WithMinHold keeps a lock that is unlocked, not one that moves.
func TestHandOverBeforeMinHold(t *testing.T) {
	s := redistest.Start(t)
	c := newClient(t, s.Client())
	handle, err := taken(t, c.Mutex("k", relock.WithMinHold(time.Hour)).Lock).HandOver(t.Context(), time.Minute)
	require.NoError(t, err)
	require.LessOrEqual(t, stateOf(t, c.Mutex("k")).TTL, time.Minute)
	work, err := c.Mutex("k").TakeOver(t.Context(), handle)
	require.NoError(t, err)
	unlocked(t, work)
	requireNothingLeft(t, s)
}

// A client that closes leaves the lock to its handle.
func TestHandleOutlivesItsClient(t *testing.T) {
	s := redistest.Start(t)
	c := newClient(t, s.Client(), relock.WithClientName("api"))
	handle, err := taken(t, c.Mutex("k").Lock).HandOver(t.Context(), time.Minute)
	require.NoError(t, err)
	c.Close()
	taker := newClient(t, s.Client(), relock.WithClientName("worker"))
	require.Equal(t, "api", stateOf(t, taker.Mutex("k")).Client.Name)
	work, err := taker.Mutex("k").TakeOver(t.Context(), handle)
	require.NoError(t, err)
	require.Equal(t, "worker", stateOf(t, taker.Mutex("k")).Client.Name)
	unlocked(t, work)
}

// TestManyMoves passes a lock around among clients, while commands run twice, late or without an answer. At any time at most one
// trusts the lock, tokens rise, and no other client gets the lock by a move. RELOCK_LONG=1 has it move 10,000 times.
func TestManyMoves(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	var clients []*relock.Client
	for range 4 {
		rdb := faults.NewClient(s.Client())
		rdb.Filter(func(c *faults.Call) faults.Fate {
			if !faults.Script("move", "renew")(c) {
				return faults.Pass
			}
			return []faults.Fate{faults.Pass, faults.Pass, faults.Pass, faults.Twice, faults.Twice, faults.LoseCall, faults.LoseReply, faults.Late}[rand.IntN(8)]
		})
		go func() {
			for t.Context().Err() == nil {
				time.Sleep(time.Duration(rand.IntN(int(5 * time.Millisecond))))
				rdb.Flush()
			}
		}()
		clients = append(clients, newClient(t, rdb, relock.WithCommandTimeout(9*time.Second))) // many tries fit in
	}
	outsider := newClient(t, s.Client())
	l, token := taken(t, clients[0].Mutex("k").Lock), int64(0)
	next := waitFor(t, outsider, "k")
	queued(t, s, "k", 1)
	for i := range rounds(300, 10_000) {
		require.Greater(t, l.Token(), token)
		token = l.Token()
		require.NoError(t, l.Context().Err())
		handle, err := l.HandOver(t.Context(), time.Minute)
		require.NoError(t, err, i)
		mutex, won := clients[i%len(clients)].Mutex("k"), make(chan *relock.Lease, 2)
		for range 2 { // of which one finds the handle used
			go func() {
				l, err := mutex.TakeOver(t.Context(), handle)
				if err != nil {
					l = nil
				}
				won <- l
			}()
		}
		first, second := within(t, won), within(t, won)
		require.True(t, (first == nil) != (second == nil), i)
		if l = first; l == nil {
			l = second
		}
	}
	select {
	case <-next:
		t.Fatal("the lock was free in between")
	default:
	}
	unlocked(t, l)
	unlocked(t, within(t, next))
}

// Close ends a TakeOver that Redis does not answer.
func TestCloseEndsTakeOver(t *testing.T) {
	rdb := faulty(redistest.Start(t))
	c := newClient(t, rdb)
	handle, err := taken(t, c.Mutex("k").Lock).HandOver(t.Context(), time.Minute)
	require.NoError(t, err)
	rdb.Filter(faults.All(faults.Script("move"), faults.LoseCall.Telling()))
	failed := make(chan error, 1)
	go func() {
		_, err := c.Mutex("k").TakeOver(context.Background(), handle)
		failed <- err
	}()
	within(t, rdb.Told())
	closed := make(chan struct{})
	go func() {
		c.Close()
		close(closed)
	}()
	require.ErrorIs(t, within(t, failed), relock.ErrClosed)
	within(t, closed)
}
