package suite_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/faults"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

// What waiting cannot heal is returned at once, by name, with what to do.
func TestRefusalsAreReturnedAtOnce(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	s.Do("SET", "string", "x")
	s.Do("SET", "redisson_lock_token:{counter}", "not a number")
	s.Do("SET", "relock_queue:{queue}", "x")
	s.Do("HSET", "queue", "java:1", "1")
	nobody := s.AddUser("nobody", "secret", "+evalsha", "+eval", "+subscribe")
	open := func(opt rueidis.ClientOption) *relock.Client {
		rdb, err := rueidis.NewClient(opt)
		require.NoError(t, err)
		t.Cleanup(rdb.Close)
		return newClient(t, rdb)
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for _, c := range []struct {
		client    *relock.Client
		name      string
		code, why string
	}{
		{open(s.Option()), "string", "WRONGTYPE", "choose another lock name"},
		{open(s.Option()), "queue", "WRONGTYPE", "choose another lock name"},
		{open(s.Option()), "counter", "not an integer", ""},
		{open(nobody), "k", "NOPERM", "docs/wire.md"},
	} {
		_, err := c.client.Mutex(c.name).Lock(ctx)
		var node *relock.NodeError
		require.ErrorAs(t, err, &node, c.name)
		require.Equal(t, c.name, node.Name)
		require.ErrorContains(t, err, c.code)
		require.ErrorContains(t, err, c.why)
		require.NoError(t, ctx.Err())
		require.NotErrorIs(t, err, relock.ErrNotAcquired)
	}
	require.Equal(t, "0", s.Do("EXISTS", "counter"), "refused before anything was held")

	loggedOut := open(s.AddUser("leaver", "secret", "allkeys", "allchannels", "allcommands"))
	require.NoError(t, loggedOut.Mutex("k").Do(ctx, func(context.Context) error { return nil }))
	s.Do("ACL", "DELUSER", "leaver")
	_, err := loggedOut.Mutex("k", relock.WithWait(500*time.Millisecond)).Lock(ctx)
	require.ErrorContains(t, err, "WRONGPASS")
	require.ErrorContains(t, err, "check the client's user name and password")
}

// What Redis answered stands in the errors as the client library has it, whose own functions then know it.
func TestErrorsHoldTheClientsOwn(t *testing.T) {
	s := redistest.Start(t)
	s.Do("SET", "string", "x")
	c, d := newClient(t, s.Client()), newRedlock(t, []*redistest.Server{s})
	_, err := c.Mutex("string").Lock(t.Context())
	var node *relock.NodeError
	require.ErrorAs(t, err, &node)
	_, known := rueidis.IsRedisErr(node.Err)
	require.True(t, known, "%T", node.Err)
	require.ErrorContains(t, err, "choose another lock name")
	_, err = d.Mutex("string").Lock(t.Context())
	require.ErrorAs(t, err, &node)
	_, known = rueidis.IsRedisErr(node.Err)
	require.True(t, known, "%T", node.Err)
}

// Why the caller left is the caller's own, which errors.As finds.
func TestErrorsHoldWhyTheCallerLeft(t *testing.T) {
	s := redistest.Start(t)
	alone, node := faulty(s), faulty(s)
	c := newClient(t, alone)
	d, err := relock.NewRedlock([]rueidis.Client{node})
	require.NoError(t, err)
	t.Cleanup(d.Close)
	for what, left := range map[*faults.Client]func(context.Context) error{
		alone: func(ctx context.Context) error { _, err := c.Mutex("k").TryLock(ctx); return err },
		node:  func(ctx context.Context) error { _, err := d.Mutex("k").State(ctx); return err },
	} {
		what.Filter(faults.Next(faults.AnyScript, faults.Hold))
		ctx, cancel := context.WithCancelCause(t.Context())
		failed := make(chan error, 1)
		go func() { failed <- left(ctx) }()
		within(t, what.Told())
		cancel(&net.AddrError{Err: "moved"})
		var moved *net.AddrError
		require.ErrorAs(t, within(t, failed), &moved)
		what.Release()
	}
}

// A Redis that cannot be reached is waited for, until the caller's time is up.
func TestUnreachableRedisIsWaitedFor(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c := newClient(t, s.Client())
	s.Kill()
	ctx, cancel := context.WithTimeout(context.Background(), 300*time.Millisecond)
	defer cancel()
	_, err := c.Mutex("k").Lock(ctx)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	_, err = c.Mutex("k").TryLock(context.Background())
	var node *relock.NodeError
	require.ErrorAs(t, err, &node)
	var refused *net.OpError
	require.ErrorAs(t, err, &refused)

	granted := waitFor(t, c, "k")
	s.Restart()
	require.NoError(t, within(t, granted).Unlock(context.Background()))
}

func TestErrorsSayWhatHappened(t *testing.T) {
	held := &relock.HeldError{Name: "k", Holder: "c:1", TTL: time.Second, Cause: context.Canceled}
	require.Equal(t, `relock: lock "k" not acquired: held by c:1 for another 1s unless renewed: `+
		`gave up waiting: context canceled`, held.Error())
	require.ErrorIs(t, held, relock.ErrNotAcquired)
	require.ErrorIs(t, held, context.Canceled)
	require.Equal(t, `relock: lock "k" not acquired`, (&relock.HeldError{Name: "k"}).Error())
	require.Equal(t, `relock: lock "k" not acquired: held by c:1 without an end`,
		(&relock.HeldError{Name: "k", Holder: "c:1", TTL: -time.Millisecond}).Error())
	node := &relock.NodeError{Op: "acquire", Name: "k", Err: fmt.Errorf("dial: %w", net.ErrClosed)}
	require.ErrorIs(t, node, net.ErrClosed)
	require.True(t, strings.HasPrefix(node.Error(), `relock: acquire "k": dial: `))
}

// What other clients wrote stands in errors and states so that it cannot pass for anything else.
func TestOwnersOfOthersAreEscaped(t *testing.T) {
	const forged = "x\n\x1b[2Jlevel=ERROR msg=forged"
	for name, servers := range map[string][]*redistest.Server{"one Redis": masters(t, 1), "quorum": masters(t, 3)} {
		open := func() *relock.Client {
			if len(servers) > 1 {
				return newRedlock(t, servers)
			}
			return newClient(t, servers[0].Client())
		}
		c, other := open(), open()
		l, err := other.Mutex("k").Lock(relock.WithOwner(t.Context(), forged))
		require.NoError(t, err, name)
		onAll(t, servers, "k")
		_, err = c.Mutex("k").TryLock(t.Context())
		var held *relock.HeldError
		require.ErrorAs(t, err, &held, name)
		require.Equal(t, forged, held.Holder, "programs are told it as it is")
		texts := []string{err.Error(), stateOf(t, c.Mutex("k")).String()}
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		_, err = c.Mutex("k").Lock(ctx)
		cancel()
		for _, text := range append(texts, err.Error()) {
			require.Contains(t, text, `"x\n\x1b[2Jlevel=ERROR msg=forged"`, name)
			require.NotContains(t, text, "\n", name)
			require.NotContains(t, text, "\x1b", name)
		}
		require.NoError(t, l.Unlock(t.Context()))
	}
}

// Why the caller left is said once.
func TestWhyTheCallerLeftIsSaidOnce(t *testing.T) {
	for name, open := range map[string]func() (*relock.Client, []*faults.Client){
		"one Redis": func() (*relock.Client, []*faults.Client) {
			w := faulty(redistest.Start(t))
			return newClient(t, w, relock.WithCommandTimeout(300*time.Millisecond)), []*faults.Client{w}
		},
		"quorum": func() (*relock.Client, []*faults.Client) {
			return tapped(t, masters(t, 3), relock.WithCommandTimeout(300*time.Millisecond))
		},
	} {
		c, taps := open()
		lockAndUnlock(t, c.Mutex("warm"))
		for _, w := range taps {
			w.Filter(faults.All(faults.AnyScript, faults.LoseCall.Hanging()))
		}
		for _, wait := range []time.Duration{10 * time.Millisecond, time.Second} { // before and after a time-out
			ctx, cancel := context.WithTimeout(t.Context(), wait)
			_, err := c.Mutex("k").Lock(ctx)
			cancel()
			require.ErrorIs(t, err, context.DeadlineExceeded, name)
			require.NotErrorIs(t, err, relock.ErrNotAcquired, name)
			require.Equal(t, 1, strings.Count(err.Error(), "context deadline exceeded"), "%s: %v", name, err)
			require.Regexp(t, "no answer|did not answer", err.Error(), name)
			require.Contains(t, err.Error(), ": gave up waiting: context deadline exceeded", name)
		}
		for _, w := range taps {
			w.Filter(nil)
		}
	}
}

// A Redis that may have forgotten locks is said to, and for how long: in what a Lock and a TryLock return, in the event of
// a Lock that waits, at once, and in the log, in one line.
func TestAQuarantineIsSaid(t *testing.T) {
	for name, open := range map[string]func(opts ...relock.ClientOption) *relock.Client{
		"one Redis": func(opts ...relock.ClientOption) *relock.Client {
			return newClient(t, ownRedis(t), append(opts, relock.WithStrictRestartGuard(time.Minute))...)
		},
		"a quorum of fresh nodes with one down": func(opts ...relock.ClientOption) *relock.Client {
			servers := masters(t, 3)
			c := newRedlock(t, servers, append(opts, relock.WithRestartGuard(time.Minute))...)
			servers[2].Kill()
			return c
		},
	} {
		t.Run(name, func(t *testing.T) {
			log, p := logAt(slog.LevelInfo)
			o := &seen{}
			c := open(relock.WithObserver(o), relock.WithLogger(log))
			said := regexp.MustCompile(`node [12]: QUARANTINED \d+ \d+ \(it may have forgotten locks and grants none for another ([0-9.ms]+), see WithRestartGuard\)`)
			require.Eventually(t, func() bool { // a first answer may come late on a busy machine
				_, err := c.Mutex("k").TryLock(t.Context())
				return said.MatchString(err.Error())
			}, patience, time.Millisecond)
			ctx, cancel := context.WithCancel(t.Context())
			var waiting sync.WaitGroup
			for i := range 5 {
				waiting.Go(func() {
					_, err := c.Mutex(fmt.Sprint("k", i)).Lock(ctx)
					if !said.MatchString(err.Error()) {
						t.Error(err)
					}
					var quorum *relock.QuorumError
					if errors.As(err, &quorum) {
						var node *relock.NodeError
						if !errors.As(quorum.Nodes[0], &node) || node.Quarantine <= 0 || node.Quarantine > time.Minute {
							t.Error(node)
						}
					}
				})
			}
			require.Eventually(t, func() bool {
				told := 0
				for _, e := range o.of(relock.EventWaiting) {
					if e.Cause != nil {
						told++
						require.Regexp(t, said, e.Cause.Error())
					}
				}
				return told == 5
			}, patience, time.Millisecond)
			cancel()
			waiting.Wait()
			require.Len(t, p.with("Lock waits for Redis itself"), 1)
			require.Contains(t, p.with("Lock waits for Redis itself")[0], "it may have forgotten locks")
		})
	}
}

// Where the context has ended before the call no node is asked, so nothing is said of the holder, and no lock is freed.
func TestEndedContextAsksNothing(t *testing.T) {
	for _, n := range []int{1, 3} {
		servers := masters(t, n)
		moved := &net.AddrError{Err: "moved"}
		ctx, cancel := context.WithCancelCause(context.Background())
		cancel(moved)
		c, taps := tapped(t, servers)
		m := c.Mutex("k")
		mine, err := c.Mutex("mine").Lock(t.Context()) // so that the nodes are known, too
		require.NoError(t, err)
		var asked []*atomic.Int64
		for _, tap := range taps {
			asked = append(asked, commands(tap, "k"))
		}
		held, err := another(t, servers).Mutex("k").Lock(context.Background())
		require.NoError(t, err)
		for name, call := range map[string]func(ctx context.Context) error{
			"Lock":        func(ctx context.Context) error { _, err := m.Lock(ctx); return err },
			"TryLock":     func(ctx context.Context) error { _, err := m.TryLock(ctx); return err },
			"Do":          func(ctx context.Context) error { return m.Do(ctx, func(context.Context) error { return nil }) },
			"State":       func(ctx context.Context) error { _, err := m.State(ctx); return err },
			"ForceUnlock": func(ctx context.Context) error { _, err := m.ForceUnlock(ctx); return err },
			"Extend":      func(ctx context.Context) error { return mine.Extend(ctx, time.Minute/2) },
		} {
			err := call(ctx)
			require.ErrorIs(t, err, moved, name)
			require.NotErrorIs(t, err, relock.ErrNotAcquired, name)
			require.ErrorIs(t, err, relock.ErrNotAsked, name)
			require.NotErrorIs(t, err, relock.ErrRefused, name)
			require.Regexp(t, `^relock: [a-z ]+ "(k|mine)": Redis was not asked: gave up waiting: .*moved$`, err.Error(), name)
			var node *relock.NodeError
			var nodes *relock.QuorumError
			require.True(t, n == 1 && errors.As(err, &node) || n == 3 && errors.As(err, &nodes), "%s: %v", name, err)
		}
		_, err = m.State(context.Background()) // what is sent behind a caller has been sent by then
		require.NoError(t, err)
		for _, asked := range asked {
			require.Eventually(t, func() bool { return asked.Load() > 0 }, patience, time.Millisecond)
			require.EqualValues(t, 1, asked.Load())
		}
		require.NoError(t, held.Context().Err())
		require.NoError(t, held.Unlock(context.Background()))
		require.NoError(t, mine.Unlock(t.Context()))
		require.ErrorIs(t, mine.Extend(ctx, time.Minute/2), relock.ErrNotHeld, "that is known without Redis")
	}
}

// A client library may try for longer than a caller waits, and only then say what is wrong. What the client has heard
// meanwhile, over its connection for messages or of another command, its callers are told: whichever of them asked, and
// those that wait behind another.
func TestSilenceSaysWhatWasHeard(t *testing.T) {
	t.Parallel()
	for _, n := range []int{1, 3} {
		servers := masters(t, n)
		c, taps := tapped(t, servers, relock.WithCommandTimeout(2*time.Second), relock.WithLease(time.Minute))
		held, err := c.Mutex("held").Lock(t.Context())
		require.NoError(t, err)
		onAll(t, servers, "held")
		for _, s := range servers {
			require.Eventually(t, func() bool { return s.Do("PUBSUB", "CHANNELS", "relock_inbox:*") != "" }, patience, time.Millisecond)
		}
		for _, tap := range taps {
			tap.Filter(faults.All(faults.AnyScript, faults.LoseCall.Hanging()))
		}
		for _, s := range servers {
			s.Kill()
		}
		m := c.Mutex("k")
		for name, call := range map[string]func(ctx context.Context) error{
			"Lock":    func(ctx context.Context) error { _, err := m.Lock(ctx); return err },
			"TryLock": func(ctx context.Context) error { _, err := m.TryLock(ctx); return err },
			"State":   func(ctx context.Context) error { _, err := m.State(ctx); return err },
			"Extend":  func(ctx context.Context) error { return held.Extend(ctx, time.Minute) },
			"WithWait": func(context.Context) error {
				_, err := c.Mutex("k", relock.WithWait(200*time.Millisecond)).Lock(t.Context())
				return err
			},
		} {
			require.Eventually(t, func() bool {
				ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
				defer cancel()
				second := make(chan error, 1)
				go func() { second <- call(ctx) }()
				for _, err := range []error{call(ctx), within(t, second)} {
					require.NotErrorIs(t, err, relock.ErrNotAcquired, name)
					var dial *net.OpError
					if !strings.Contains(err.Error(), "connection refused") || !errors.As(err, &dial) {
						t.Log(n, name, err)
						return false
					}
				}
				return true
			}, patience, time.Millisecond, name)
		}
		for _, tap := range taps {
			tap.Filter(nil)
		}
	}
}

// hollow is a client that somebody forgot to make.
type hollow struct{ rueidis.Client }

// Misuse is told, by name; nothing panics and nothing is left locked.
func TestMisuseIsTold(t *testing.T) {
	var none context.Context
	ctx := context.Background()
	_, err := relock.New((*hollow)(nil))
	require.ErrorIs(t, err, relock.ErrInvalidOption)
	rdb := ownRedis(t)
	_, err = relock.NewRedlock([]rueidis.Client{rdb, (*hollow)(nil)})
	require.ErrorIs(t, err, relock.ErrInvalidOption)
	c := newClient(t, rdb)
	m := c.Mutex("k")

	calls := map[string]func(*relock.Mutex, context.Context) error{
		"Lock":        func(m *relock.Mutex, ctx context.Context) error { _, err := m.Lock(ctx); return err },
		"TryLock":     func(m *relock.Mutex, ctx context.Context) error { _, err := m.TryLock(ctx); return err },
		"Held":        func(m *relock.Mutex, ctx context.Context) error { _, err := m.Held(ctx); return err },
		"State":       func(m *relock.Mutex, ctx context.Context) error { _, err := m.State(ctx); return err },
		"ForceUnlock": func(m *relock.Mutex, ctx context.Context) error { _, err := m.ForceUnlock(ctx); return err },
		"Do": func(m *relock.Mutex, ctx context.Context) error {
			return m.Do(ctx, func(context.Context) error { return errors.New("it ran") })
		},
	}
	for name, call := range calls {
		t.Run(name, func(t *testing.T) {
			require.ErrorIs(t, call(m, none), relock.ErrMisuse)
			require.ErrorContains(t, call(m, none), "the context is nil")
			for _, zero := range []*relock.Mutex{nil, {}} {
				require.EqualError(t, call(zero, ctx), "relock: misuse: Mutex made without a Client; use Client.Mutex")
				require.Empty(t, zero.Name())
			}
			for _, zero := range []*relock.Client{nil, {}} {
				require.EqualError(t, call(zero.Mutex("k"), ctx), "relock: misuse: Client made without New or NewRedlock")
			}
		})
	}
	require.ErrorIs(t, m.Do(ctx, nil), relock.ErrMisuse)
	require.ErrorIs(t, calls["Lock"](m, relock.Detach(none)), relock.ErrMisuse)
	require.ErrorIs(t, calls["TryLock"](m, relock.WithOwner(none, "x")), relock.ErrMisuse)
	require.ErrorIs(t, calls["Lock"](m, relock.WithOwner(relock.Detach(none), "x")), relock.ErrMisuse)
	require.ErrorIs(t, calls["TryLock"](m, relock.Detach(relock.WithOwner(none, "x"))), relock.ErrMisuse)
	require.ErrorIs(t, c.TrustNodes(none), relock.ErrMisuse)
	for _, zero := range []*relock.Client{nil, {}} {
		zero.Close()
		require.ErrorIs(t, zero.TrustNodes(ctx), relock.ErrMisuse)
	}
	for _, zero := range []*relock.Lease{nil, {}} {
		require.ErrorIs(t, zero.Unlock(ctx), relock.ErrNotHeld)
		require.ErrorIs(t, zero.Extend(ctx, time.Second), relock.ErrNotHeld)
		require.ErrorIs(t, context.Cause(zero.Context()), relock.ErrNotHeld)
		require.Zero(t, zero.Token())
		require.Zero(t, zero.Count())
		require.True(t, zero.Until().IsZero())
		require.Empty(t, zero.Name())
	}

	l, err := m.Lock(ctx)
	require.NoError(t, err)
	require.ErrorIs(t, l.Extend(none, time.Minute), relock.ErrMisuse)
	require.NoError(t, l.Unlock(none), "it unlocks")
	l, err = m.TryLock(ctx)
	require.NoError(t, err, "nothing of all that holds the lock")
	require.NoError(t, l.Unlock(ctx))
}

// What a function under the lock returns of its context's end is not said twice.
func TestDoTellsOfALossOnce(t *testing.T) {
	inFakeTime(t, func(t *testing.T, c *relock.Client, _ *scripted) {
		m := c.Mutex("k", relock.WithMaxHold(time.Minute))
		for _, own := range []error{nil, errors.New("own")} {
			err := m.Do(t.Context(), func(ctx context.Context) error {
				<-ctx.Done()
				return errors.Join(own, context.Cause(ctx))
			})
			require.ErrorIs(t, err, relock.ErrMaxHold)
			require.Equal(t, 1, strings.Count(err.Error(), "lock lost"), err.Error())
		}
		err := m.Do(t.Context(), func(ctx context.Context) error {
			<-ctx.Done()
			return ctx.Err()
		})
		require.ErrorIs(t, err, relock.ErrMaxHold)
		require.ErrorIs(t, err, context.Canceled)
	})
}

func TestTryLockTellsWhoHolds(t *testing.T) {
	s := redistest.Start(t)
	c, d := newClient(t, s.Client()), newClient(t, s.Client())
	l, err := c.Mutex("k").Lock(context.Background())
	require.NoError(t, err)
	_, err = d.Mutex("k").TryLock(context.Background())
	var held *relock.HeldError
	require.ErrorAs(t, err, &held)
	require.Equal(t, "k", held.Name)
	require.True(t, strings.HasPrefix(held.Holder, c.ID()+":"))
	require.Greater(t, held.TTL, 25*time.Second)
	require.ErrorContains(t, err, held.Holder)
	require.NoError(t, l.Unlock(context.Background()))
}

func TestGivingUpTellsWhyAndWhoWasInTheWay(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c, d := newClient(t, s.Client()), newClient(t, s.Client())
	l, err := c.Mutex("k").Lock(context.Background())
	require.NoError(t, err)
	patient := errors.New("enough")
	ctx, cancel := context.WithTimeoutCause(context.Background(), time.Second, patient)
	defer cancel()
	_, err = d.Mutex("k").Lock(ctx)
	var held *relock.HeldError
	require.ErrorAs(t, err, &held)
	require.ErrorIs(t, err, relock.ErrNotAcquired)
	require.ErrorIs(t, err, patient)
	require.Equal(t, stateOf(t, c.Mutex("k")).Holder, held.Holder)
	_, err = d.Mutex("k", relock.WithWait(time.Second)).Lock(context.Background())
	require.ErrorIs(t, err, relock.ErrNotAcquired)
	queued(t, s, "k", 0)
	require.NoError(t, l.Unlock(context.Background()))
	require.Equal(t, "0", s.Do("EXISTS", "k"))
}
