package relock

import (
	"context"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/rueidis"
	"github.com/relock-go/relock/internal/calls"
	"github.com/relock-go/relock/internal/clock"
	"github.com/relock-go/relock/internal/faults"
	"github.com/relock-go/relock/internal/node"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/relock-go/relock/internal/tenure"
	"github.com/relock-go/relock/internal/wire"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A re-entry under a lease that is over does not enter the hold, though the hold is live and the next caller has it.
func TestReentryUnderALeaseThatIsOver(t *testing.T) {
	inFakeTime(t, func(t *testing.T, c *Client, _ *scripted) {
		m := c.Mutex("k", WithLocalHandoff(10, time.Hour))
		first, err := m.Lock(t.Context())
		require.NoError(t, err)
		time.AfterFunc(time.Second, func() { _ = first.Unlock(context.Background()) })
		second, err := m.Lock(t.Context())
		require.NoError(t, err)
		require.Same(t, first.h, second.h, "passed on")
		for _, waits := range []bool{true, false} {
			inner := new(Lease)
			inner.begin(t.Context(), m.base(), first.h, HowReentered)
			require.Equal(t, ErrNotHeld, first.h.reenter(t.Context(), inner, &first.share, waits))
		}
		require.Equal(t, 1, second.Count())
	})
}

// A re-entry that waits for its turn finds the enclosing lease unlocked and the hold passed on: it must not enter what is
// a stranger's by then, but queue behind the stranger.
func TestReentryBesideUnlockIsAStrangers(t *testing.T) {
	enter := map[string]func(*Mutex, context.Context) (*Lease, error){"Lock": (*Mutex).Lock, "TryLock": (*Mutex).TryLock}
	for name, enter := range enter {
		t.Run(name, func(t *testing.T) {
			inFakeTime(t, func(t *testing.T, c *Client, _ *scripted) {
				ctx := context.Background()
				m := c.Mutex("k", WithLocalHandoff(10, time.Hour), WithStrictOrder())
				parent, err := m.Lock(ctx)
				require.NoError(t, err)
				stranger := make(chan *Lease, 1)
				go func() {
					l, err := m.Lock(ctx)
					if err != nil {
						t.Error(err)
					}
					stranger <- l
				}()
				synctest.Wait()
				require.NoError(t, parent.h.ops.Lock(ctx)) // an operation of somebody else inside the parent's hold
				unlocked := make(chan error, 1)
				go func() { unlocked <- parent.Unlock(ctx) }()
				synctest.Wait()
				type entry struct {
					l   *Lease
					err error
				}
				child := make(chan entry, 1)
				go func() {
					l, err := enter(m, context.WithoutCancel(parent.Context()))
					child <- entry{l, err}
				}()
				synctest.Wait()
				parent.h.ops.Unlock()
				require.NoError(t, <-unlocked)
				second := <-stranger
				synctest.Wait()
				require.Equal(t, 1, second.Count())
				if name == "TryLock" {
					require.ErrorIs(t, (<-child).err, ErrNotAcquired)
					require.NoError(t, second.Unlock(ctx))
					return
				}
				require.Empty(t, child, "it waits behind the stranger")
				require.NoError(t, second.Unlock(ctx))
				got := <-child
				require.NoError(t, got.err)
				require.Equal(t, second.Token()+1, got.l.Token())
				require.NoError(t, got.l.Unlock(ctx))
			})
		})
	}
}

// An Extend that was not answered may have lengthened the lease. So the hold is neither passed on in this process nor laid down:
// if the process died, the next holder's lock would stand for as long. That goes on once the hold count, which the same command
// wrote, is sure again.
func TestUnansweredExtendLengthens(t *testing.T) {
	const lease, longer = time.Hour, 2 * time.Hour // so that the watchdog does nothing by itself, however slow the machine is
	for name, of := range map[string]func(c *Client, opts ...Option) func(context.Context) (*Lease, error){
		"mutex": func(c *Client, opts ...Option) func(context.Context) (*Lease, error) {
			return c.Mutex("k", opts...).Lock
		},
		"writer": func(c *Client, opts ...Option) func(context.Context) (*Lease, error) {
			return c.RWMutex("k", opts...).Lock
		},
		"reader": func(c *Client, opts ...Option) func(context.Context) (*Lease, error) {
			return c.RWMutex("k", opts...).RLock
		},
	} {
		for _, linger := range []time.Duration{0, time.Hour} {
			t.Run(name+"/"+linger.String(), func(t *testing.T) {
				t.Parallel()
				s := redistest.Start(t)
				rdb := faulty(s)
				c := lingeringClient(t, rdb, time.Hour, WithLease(lease), WithCommandTimeout(2*patience), WithRedissonWatchdog(0))
				lock := of(c, WithLinger(linger))
				first := taken(t, lock)
				rdb.Filter(faults.All(faults.Script("recount"), faults.LoseReply))
				require.Error(t, first.Extend(t.Context(), longer))
				rdb.Filter(nil)
				first.h.mu.Lock()
				first.h.count = tenure.Count{} // as if renewals had confirmed it meanwhile
				first.h.mu.Unlock()
				require.NoError(t, first.Context().Err())
				passedOn := make(chan *Lease, 1)
				if linger == 0 && name != "reader" { // whose hold a second one would share
					go func() { passedOn <- taken(t, lock) }()
					require.Eventually(t, func() bool { return c.core.gates.Waiting(first.h.entry.Names.Gate(1)) }, patience, time.Millisecond)
				}
				unlocked(t, first)
				require.Zero(t, idleAt(c), "it was laid down")
				if linger == 0 && name != "reader" {
					next := within(t, passedOn)
					require.NotSame(t, first.h, next.h, "it was passed on")
					unlocked(t, next)
				}
			})
		}
	}
}

// An Extend that an Unlock of the same lease overtakes says that the lease is over: nothing was lost.
func TestExtendBesideUnlockLosesNothing(t *testing.T) {
	for name, side := range map[string]func(*RWMutex) func(context.Context) (*Lease, error){
		"writer": func(rw *RWMutex) func(context.Context) (*Lease, error) { return rw.Lock },
		"reader": func(rw *RWMutex) func(context.Context) (*Lease, error) { return rw.RLock },
	} {
		t.Run(name, func(t *testing.T) {
			w := faulty(redistest.Start(t))
			l := taken(t, side(newClient(t, w).RWMutex("k")))
			w.Filter(faults.Next(faults.Script("recount"), faults.Hold))
			extended, ended := make(chan error, 1), make(chan error, 1)
			go func() { extended <- l.Extend(t.Context(), 20*time.Second) }()
			within(t, w.Told())
			go func() { ended <- l.Unlock(t.Context()) }()
			if name == "reader" {
				require.NoError(t, within(t, ended))
				w.Release()
				require.Equal(t, ErrNotHeld, within(t, extended))
				return
			}
			require.Eventually(t, l.h.ops.Awaited, patience, time.Millisecond)
			w.Release()
			require.NoError(t, within(t, ended))
			require.NoError(t, within(t, extended))
		})
	}
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
		require.Eventually(t, func() bool { return c.core.gates.Waiting(namesOf(wire.Mutex, m.Name()).Gate(1)) }, patience, 10*time.Microsecond)
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
	t.Parallel()
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
		require.Eventually(t, func() bool { return c.core.gates.Waiting(namesOf(wire.Mutex, m.Name()).Gate(1)) }, patience, 10*time.Microsecond)
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

// A block whose answer is lost, or comes when the hold is over, changes nothing: the lock is given back as ever.
func TestLostRefills(t *testing.T) {
	t.Parallel()
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

// lingering returns a client whose locks linger, once it hears its messages: what is granted before
// does not linger.
func lingeringClient(t *testing.T, rdb rueidis.Client, d time.Duration, opts ...ClientOption) *Client {
	c := newClient(t, rdb, append([]ClientOption{WithLinger(d)}, opts...)...)
	hears(t, c)
	return c
}

// hears waits until locks of c linger.
func hears(t *testing.T, c *Client) {
	m := c.Mutex("warm up")
	require.Eventually(t, func() bool {
		lockAndUnlock(t, m)
		return idleAt(c) > 0
	}, 10*time.Second, time.Millisecond)
	forced, err := m.ForceUnlock(t.Context())
	require.NoError(t, err)
	require.True(t, forced)
	require.Eventually(t, func() bool { return idleAt(c) == 0 }, 10*time.Second, time.Millisecond)
}

// idleAt reports how many holds lie idle in a client.
func idleAt(c *Client) (n int) {
	for i := range uint64(calls.Tallies) {
		n += int(c.core.calls.Of(i).Lingering.Load())
	}
	return n
}

func TestStoppedProcessAsksAnew(t *testing.T) {
	s := redistest.Start(t)
	c := lingeringClient(t, s.Client(), time.Hour, WithLease(10*time.Second))
	m := c.Mutex("k")
	l, err := m.Lock(t.Context())
	require.NoError(t, err)
	h := l.h
	require.NoError(t, l.Unlock(t.Context()))
	require.Equal(t, 1, idleAt(c))
	// As after a stop, time has passed and no timer has run.
	h.mu.Lock()
	h.term.Until = clock.Now().Add(-time.Millisecond)
	h.mu.Unlock()
	again, err := m.Lock(t.Context())
	require.NoError(t, err)
	require.NotSame(t, h, again.h)
	require.Greater(t, again.Token(), l.Token())
	require.NoError(t, again.Context().Err())
	require.NoError(t, again.Unlock(t.Context()))
}

// A hold does not linger that was granted after a wait or by a repeated question, that was lengthened, whose hold count is
// not sure, or that may have been lost.
func TestWhatMayNotLinger(t *testing.T) {
	t.Parallel()
	const lease = time.Hour // so that the watchdog does nothing by itself, however slow the machine is
	lost := func(script string) func() faults.Filter {
		return func() faults.Filter { return faults.All(faults.Script(script), faults.LoseReply) }
	}
	for name, tc := range map[string]struct {
		before, after func() faults.Filter // for each Redis: until it is granted, and from then on
		held          bool                 // by another process, when it is asked for
		do            func(t *testing.T, l *Lease)
		lingers       bool // the next Lock has the same hold
		doubted       bool // it may lie idle all the same, until then
	}{
		"as it is": {lingers: true},
		"granted by a repeated question": {before: func() faults.Filter {
			return faults.Next(faults.Script("acquire", "vote"), faults.LoseReply)
		}},
		"granted after a wait": {held: true},
		"lengthened":           {do: func(t *testing.T, l *Lease) { require.NoError(t, l.Extend(t.Context(), 2*lease)) }},
		"perhaps lengthened": {after: lost("recount"), do: func(t *testing.T, l *Lease) {
			require.Error(t, l.Extend(t.Context(), 2*lease))
		}},
		"re-entered": {do: func(t *testing.T, l *Lease) { lockUnder(t, l) }, lingers: true},
		"perhaps re-entered": {after: lost("recount"), do: func(t *testing.T, l *Lease) {
			_, err := mutexOf(l).TryLock(l.Context())
			require.Error(t, err)
		}},
		"doubted": {after: lost("renew"), do: func(_ *testing.T, l *Lease) { l.h.Doubt() }, doubted: true},
		"doubted and confirmed": {do: func(t *testing.T, l *Lease) {
			l.h.Doubt()
			require.Eventually(t, func() bool {
				l.h.mu.Lock()
				defer l.h.mu.Unlock()
				return !l.h.term.Doubted()
			}, patience, time.Millisecond)
		}, lingers: true},
	} {
		for topology, n := range map[string]int{"one": 1, "quorum": 3} {
			t.Run(name+"/"+topology, func(t *testing.T) {
				servers := masters(t, n)
				opts := []ClientOption{WithLinger(lease), WithLease(2 * lease), WithCommandTimeout(2 * patience)}
				c, taps := tapped(t, servers, opts...)
				hears(t, c)
				m := c.Mutex("k", WithLease(lease))
				filter := func(of func() faults.Filter) {
					for _, w := range taps {
						w.Filter(nil)
						if of != nil {
							w.Filter(of())
						}
					}
				}
				var first *Lease
				if tc.held {
					other, err := another(t, servers, opts...).Mutex("k").Lock(t.Context())
					require.NoError(t, err)
					onAll(t, servers, "k")
					granted := waitWith(t.Context(), t, m)
					for _, s := range servers {
						queued(t, s, "k", 1)
					}
					if n == 1 {
						settled(t, c, "k") // so a message tells it
					}
					require.NoError(t, other.Unlock(t.Context()))
					first = within(t, granted)
				} else {
					filter(tc.before)
					var err error
					first, err = m.Lock(t.Context())
					require.NoError(t, err)
				}
				onAll(t, servers, "k")
				filter(tc.after)
				if tc.do != nil {
					tc.do(t, first)
				}
				require.NoError(t, first.Unlock(t.Context()))
				if !tc.doubted {
					require.Equal(t, tc.lingers, idleAt(c) == 1)
				}
				next, err := m.Lock(t.Context()) // where it was doubted no renewal has been answered yet
				require.NoError(t, err)
				filter(nil)
				require.Equal(t, tc.lingers, next.h == first.h)
				require.Greater(t, next.Token(), first.Token())
				require.NoError(t, next.Unlock(t.Context()))
			})
		}
	}
}

// lockUnder re-enters a lease and unlocks that.
func lockUnder(t *testing.T, l *Lease) {
	inner, err := mutexOf(l).Lock(l.Context())
	require.NoError(t, err)
	require.NoError(t, inner.Unlock(t.Context()))
}

func TestLingeringIsBounded(t *testing.T) {
	s := redistest.Start(t)
	c := lingeringClient(t, s.Client(), time.Hour)
	m := c.Mutex("k")
	m.tally.Lingering.Add(maxLingering / calls.Tallies)
	lockAndUnlock(t, m)
	require.Equal(t, "0", s.Do("EXISTS", "k"))
	m.tally.Lingering.Add(-maxLingering / calls.Tallies)
	lockAndUnlock(t, m)
	require.Equal(t, "1", s.Do("EXISTS", "k"))
}

// whileItHangs runs a test with a client, in fake time, over a Redis that can be made to hang.
func whileItHangs(t *testing.T, test func(t *testing.T, c *Client, r *hanging), opts ...ClientOption) {
	synctest.Test(t, func(t *testing.T) {
		r := &hanging{}
		c := over(t, r, opts...)
		defer c.Close()
		test(t, c, r)
	})
}

// A goroutine is passed the hold in the moment in which its context ends, and Redis hangs: it is back at once, and the hold
// is given back behind it, before Close returns.
func TestLateReceiverOfAHoldIsNotKept(t *testing.T) {
	whileItHangs(t, func(t *testing.T, c *Client, r *hanging) {
		m := c.Mutex("k")
		_, free := c.core.gates.TryEnter(m.names.Gate(1))
		require.True(t, free)
		h := m.newHold(new(hold), m.newClaim(""), node.Grant{Token: 1, Passes: 10, Sent: clock.Now()}, m.cfg, true, clock.Now())
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		resume := r.Hang()
		began := time.Now()
		a := attempt{lock: &m.lock, ctx: ctx, wctx: ctx}
		_, err := a.accept(h, HowLocal, clock.Now())
		require.ErrorIs(t, outward(err), context.Canceled)
		require.Zero(t, time.Since(began))
		resume()
		c.Close()
		require.Zero(t, c.core.gates.Len())
		require.EqualValues(t, 1, r.Released.Load())
	})
}

// Another operation of the hold is out to a Redis that hangs: TryLock and Extend wait a command's time for it and for their
// own command together.
func TestOperationsOfAHoldAreBoundedTogether(t *testing.T) {
	for name, operate := range map[string]func(*Mutex, *Lease) error{
		"TryLock": func(m *Mutex, l *Lease) error { _, err := m.TryLock(l.Context()); return err },
		"Extend":  func(_ *Mutex, l *Lease) error { return l.Extend(context.Background(), time.Minute) },
	} {
		for _, left := range []time.Duration{500 * time.Millisecond, time.Hour} { // after which the other one is answered
			t.Run(name, func(t *testing.T) {
				whileItHangs(t, func(t *testing.T, c *Client, r *hanging) {
					m := c.Mutex("k")
					l, err := m.Lock(context.Background())
					require.NoError(t, err)
					require.NoError(t, l.h.ops.Lock(context.Background()))
					resume := r.Hang()
					other := time.AfterFunc(left, func() { l.h.ops.Unlock() })
					began := time.Now()
					err = operate(m, l)
					require.Equal(t, 2*time.Second, time.Since(began))
					var node *NodeError
					require.ErrorAs(t, err, &node)
					require.NoError(t, node.Cause, "the caller has not given up")
					require.NotErrorIs(t, err, ErrNotAcquired)
					require.ErrorIs(t, err, wire.ErrNoAnswer)
					if other.Stop() {
						l.h.ops.Unlock()
					}
					resume()
					require.NoError(t, l.Unlock(context.Background()))
				}, WithLease(time.Hour))
			})
		}
	}
}

const (
	hungTimeout = time.Second             // of a command, in these tests
	leisure     = 1500 * time.Millisecond // of a busy machine
)

// While Redis answers nothing that was asked before, Unlock and Extend come back within their limits.
func TestUnlockAndExtendAreBounded(t *testing.T) {
	inFakeTime(t, func(t *testing.T, c *Client, s *scripted) {
		m := c.Mutex("k", WithLease(time.Hour), WithCommandTimeout(time.Second))
		outer, err := m.Lock(t.Context())
		require.NoError(t, err)
		inner, err := m.Lock(outer.Context())
		require.NoError(t, err)
		require.NoError(t, outer.h.ops.Lock(t.Context()))
		var node *NodeError
		began := time.Now()
		require.ErrorAs(t, outer.Extend(t.Context(), time.Minute), &node)
		require.Equal(t, time.Second, time.Since(began))
		began = time.Now()
		require.NoError(t, inner.Unlock(t.Context()), "renewals repair the count")
		require.Equal(t, time.Second, time.Since(began))
		require.Equal(t, 1, outer.Count())
		require.True(t, outer.h.count.Unsure())
		next := make(chan error, 1)
		go func() {
			l, err := m.Lock(context.Background())
			if err == nil {
				err = l.Unlock(context.Background())
			}
			next <- err
		}()
		synctest.Wait()
		require.Empty(t, next)
		began = time.Now()
		err = outer.Unlock(t.Context())
		require.ErrorAs(t, err, &node)
		require.NotErrorIs(t, err, ErrLost)
		require.Equal(t, time.Second, time.Since(began))
		require.Equal(t, []string{"k"}, s.Abandoned)
		require.NoError(t, <-next, "the gate is free")
		outer.h.ops.Unlock()
		require.ErrorIs(t, outer.Unlock(t.Context()), ErrNotHeld)
	})
}

// A hold is passed on to a caller with a shorter lease while its count in Redis is unsure: its renewals keep to that lease.
func TestUnsureCountKeepsAShorterLease(t *testing.T) {
	inFakeTime(t, func(t *testing.T, c *Client, s *scripted) {
		long, err := c.Mutex("k").Lock(t.Context())
		require.NoError(t, err)
		next := make(chan *Lease, 1)
		go func() {
			l, err := c.Mutex("k", WithLease(6*time.Second)).Lock(t.Context())
			assert.NoError(t, err)
			next <- l
		}()
		synctest.Wait()
		require.NoError(t, long.Unlock(t.Context()))
		l := <-next
		require.Same(t, long.h, l.h)
		l.h.mu.Lock()
		l.h.count.Missed(clock.Now(), time.Hour)
		l.h.mu.Unlock()
		time.Sleep(5 * time.Minute)
		require.NoError(t, l.Context().Err())
		synctest.Wait()
		require.Less(t, s.Renewed, 200)
	})
}

// A hold has no more goroutines pass through it than its grant has tokens.
func TestCutBlockIsNotOverdrawn(t *testing.T) {
	t.Parallel()
	bothTopologies(t, func(t *testing.T, servers []*redistest.Server, c *Client) {
		ahead := strconv.FormatInt(time.Now().Add(time.Hour).UnixMicro(), 10)
		for _, s := range servers {
			s.Do("SET", counterOfK, ahead)
		}
		last := int64(0)
		for range 3 {
			l, err := c.Mutex("k").Lock(t.Context())
			require.NoError(t, err)
			require.Equal(t, 31, l.h.block.Left())
			require.Greater(t, l.Token(), last)
			st, err := c.Mutex("k").State(t.Context())
			require.NoError(t, err)
			require.GreaterOrEqual(t, st.Reserved, l.Token()+31, "all of them are reserved")
			last = l.Token() + 31
			require.NoError(t, l.Unlock(t.Context()))
		}
	})
}
