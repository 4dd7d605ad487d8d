package suite_test

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/faults"
	"github.com/relock-go/relock/internal/presence"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/relock-go/relock/internal/wire"
	"github.com/relock-go/relock/lua"
	"github.com/stretchr/testify/require"
)

// cardKey is where a client says who it is.
func cardKey(c *relock.Client) string { return wire.ClientKey(c.ID()) }

// stands waits until a client says who it is on all servers.
func stands(t *testing.T, c *relock.Client, servers ...*redistest.Server) {
	t.Helper()
	for _, s := range servers {
		require.Eventually(t, func() bool { return s.Do("EXISTS", cardKey(c)) == "1" }, patience, time.Millisecond)
	}
}

// fades waits until no client says who it is.
func fades(t *testing.T, servers ...*redistest.Server) {
	t.Helper()
	for _, s := range servers {
		require.Eventually(t, func() bool { return s.Do("KEYS", wire.ClientPrefix+"*") == "" }, patience, 10*time.Millisecond)
	}
}

// timed requires that what a client says ends by itself, within limit.
func timed(t *testing.T, s *redistest.Server, key string, limit time.Duration) {
	t.Helper()
	left, err := strconv.Atoi(s.Do("PTTL", key))
	require.NoError(t, err)
	require.NotEqual(t, -1, left, "nothing ends it")
	require.LessOrEqual(t, time.Duration(left)*time.Millisecond, limit)
}

// A client with a name is known by it to others that have one, on one Redis and on a quorum, from its first hold until it
// is closed.
func TestClientSaysWhoItIs(t *testing.T) {
	for name, n := range map[string]int{"one": 1, "quorum": 3} {
		t.Run(name, func(t *testing.T) {
			servers := masters(t, n)
			open := func(opts ...relock.ClientOption) *relock.Client {
				if n > 1 {
					return newRedlock(t, servers, opts...)
				}
				return newClient(t, servers[0].Client(), opts...)
			}
			before := time.Now().Add(-time.Millisecond)
			c, other, nameless := open(relock.WithClientName("billing")), open(relock.WithClientName("ops")), open()
			require.Zero(t, stateOf(t, other.Mutex("k")).Client)
			require.Equal(t, "free", stateOf(t, other.Mutex("k")).String())
			l, err := c.Mutex("k").Lock(t.Context())
			require.NoError(t, err)
			stands(t, c, servers...)
			host, err := os.Hostname()
			require.NoError(t, err)
			st := stateOf(t, other.Mutex("k"))
			require.Regexp(t, "^"+c.ID()+":1", st.Holder)
			require.WithinRange(t, st.Client.Started, before, time.Now())
			require.Equal(t, relock.ClientInfo{Name: "billing", Host: host, PID: os.Getpid(), Started: st.Client.Started, Version: presence.Version()}, st.Client)
			require.Equal(t, fmt.Sprintf("billing on %s (pid %d)", host, os.Getpid()), st.Client.String())
			require.Equal(t, fmt.Sprintf("held by %v, %v left", st.Client, st.TTL), st.String())
			require.Equal(t, st.Client, stateOf(t, c.Mutex("k")).Client, "its own")
			require.Zero(t, stateOf(t, nameless.Mutex("k")).Client)
			for _, s := range servers {
				timed(t, s, cardKey(c), defaultLease)
				require.Equal(t, "0", s.Do("EXISTS", cardKey(other)), "it holds nothing")
			}
			require.NoError(t, l.Unlock(t.Context()))
			c.Close()
			fades(t, servers...)
		})
	}
}

// Without a name nothing is written, and nothing is asked for.
func TestNamelessClientsAskNobody(t *testing.T) {
	s := redistest.Start(t)
	c, nameless := newClient(t, s.Client(), relock.WithClientName("billing")), newClient(t, s.Client())
	_, err := c.Mutex("k").Lock(t.Context())
	require.NoError(t, err)
	stands(t, c, s)
	calls := func() int64 { return s.CommandCounts()["hgetall"] }
	_ = stateOf(t, nameless.Mutex("k"))
	for _, nobody := range []*relock.Client{nameless, newClient(t, s.Client(), relock.WithClientName(""))} {
		before := calls()
		_ = stateOf(t, nobody.Mutex("k"))
		require.Equal(t, before+1, calls(), "the lock's")
	}
}

// Who has a lock under WithOwner is told where one client has it alone; a lock of Redisson's costs no question.
func TestWhoseSharedLocksAre(t *testing.T) {
	s := redistest.Start(t)
	rdb := s.Client()
	c, d := newClient(t, rdb, relock.WithClientName("first")), newClient(t, rdb, relock.WithClientName("second"))
	ctx := relock.WithOwner(t.Context(), "order 7")
	one, err := c.Mutex("k").Lock(ctx)
	require.NoError(t, err)
	again, err := c.Mutex("k").Lock(ctx)
	require.NoError(t, err)
	stands(t, c, s)
	st := stateOf(t, d.Mutex("k"))
	require.Equal(t, "order 7", st.Holder)
	require.Equal(t, "first", st.Client.Name)
	require.Equal(t, fmt.Sprintf("held by %v 2 times, %v left", st.Client, st.TTL), st.String())
	two, err := d.Mutex("k").Lock(ctx)
	require.NoError(t, err)
	require.Zero(t, stateOf(t, d.Mutex("k")).Client, "both have it")
	require.NoError(t, one.Unlock(ctx))
	require.NoError(t, again.Unlock(ctx))
	stands(t, d, s)
	require.Equal(t, "second", stateOf(t, c.Mutex("k")).Client.Name)
	require.NoError(t, two.Unlock(ctx))

	s.Do("HSET", "java", c.ID()+":57", "1")
	s.Do("PEXPIRE", "java", "60000")
	asked := s.CommandCounts()["hgetall"]
	require.Zero(t, stateOf(t, d.Mutex("java")).Client)
	require.Equal(t, asked+1, s.CommandCounts()["hgetall"])
	require.Contains(t, stateOf(t, d.Mutex("java")).String(), "held by "+c.ID()+":57, ")
}

// What a client says is kept by rounds of the watchdog as long as it holds something, also where nothing is renewed, and
// ends by itself once it holds nothing.
func TestNameIsKeptWhileThereAreHolds(t *testing.T) {
	s := redistest.Start(t)
	w := faulty(s)
	w.Filter(faults.All(faults.Script("introduce"), faults.Tell))
	const lease = 400 * time.Millisecond
	c := newClient(t, w, relock.WithClientName("billing"), relock.WithLease(lease))
	l, err := c.Mutex("k", relock.WithFixedLease(time.Hour)).Lock(t.Context())
	require.NoError(t, err)
	within(t, w.Told())
	within(t, w.Told())
	began, gap := time.Now(), patience
	const glance = time.Second // of the watchdog
	for gap > glance/2 {       // a busy machine makes some of them late, not all
		require.Less(t, time.Since(began), patience, "it comes only when the watchdog looks by itself")
		last := time.Now()
		within(t, w.Told())
		gap = time.Since(last)
	}
	s.Do("DEL", cardKey(c))
	stands(t, c, s)
	timed(t, s, cardKey(c), lease)
	require.NoError(t, l.Unlock(t.Context()))
	fades(t, s)
}

// A lock that is renewed, or lies idle, keeps the name too, and a Redis that lost its memory is told anew.
func TestNameIsWrittenAnew(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	const lease = 6 * time.Second // it is written each third of it
	c := newClient(t, s.Client(), relock.WithClientName("billing"), relock.WithLease(lease), relock.WithLinger(time.Hour))
	l, err := c.Mutex("k").Lock(t.Context())
	require.NoError(t, err)
	anew := func() {
		stands(t, c, s)
		timed(t, s, cardKey(c), lease)
	}
	anew()
	s.Do("DEL", cardKey(c))
	anew()
	require.NoError(t, l.Unlock(t.Context()))
	hears(t, c)
	lockAndUnlock(t, c.Mutex("idle"))
	require.Equal(t, 1, idleAt(c))
	s.Do("DEL", cardKey(c))
	anew()
	s.RestartEmpty()
	_, err = c.Mutex("again").Lock(t.Context())
	require.NoError(t, err)
	anew()
}

// A user who has the least rights that locks need locks as without a name. He is refused silently, once in a lease.
func TestForbiddenNamesHarmNothing(t *testing.T) {
	for name, n := range map[string]int{"one": 1, "quorum": 3} {
		t.Run(name, func(t *testing.T) {
			servers := masters(t, n)
			acl := rights(t, "k")
			var nodes []rueidis.Client
			for _, s := range servers {
				rdb, err := rueidis.NewClient(s.AddUser("app", "secret", append(acl[0], acl[2]...)...))
				require.NoError(t, err)
				t.Cleanup(rdb.Close)
				nodes = append(nodes, rdb)
			}
			open := func(nodes []rueidis.Client, name string) *relock.Client {
				if n == 1 {
					return newClient(t, nodes[0], relock.WithClientName(name))
				}
				c, err := relock.NewRedlock(nodes, relock.WithClientName(name))
				require.NoError(t, err)
				t.Cleanup(c.Close)
				return c
			}
			c, other := open(nodes, "billing"), open(clientsOf(servers), "ops")
			l, err := c.Mutex("k").Lock(t.Context())
			require.NoError(t, err)
			refused(t, c, uint64(n))
			theirs, err := other.Mutex("k2").Lock(t.Context())
			require.NoError(t, err)
			stands(t, other, servers...)
			st := stateOf(t, c.Mutex("k2"))
			require.Regexp(t, "^"+other.ID()+":1", st.Holder)
			require.Zero(t, st.Client)
			require.NoError(t, theirs.Unlock(t.Context()))
			require.NoError(t, l.Unlock(t.Context()))
			c.Close()
			require.Equal(t, uint64(n), refusals(c), "none is asked again, or told that it is over")
			other.Close()
			fades(t, servers...)
		})
	}
}

// clientsOf returns a client of each server.
func clientsOf(servers []*redistest.Server) (nodes []rueidis.Client) {
	for _, s := range servers {
		nodes = append(nodes, s.Client())
	}
	return nodes
}

// refused waits until all n of c's Redis have refused to be told. Within a lease none is asked again.
func refused(t *testing.T, c *relock.Client, n uint64) {
	t.Helper()
	require.Eventually(t, func() bool { return refusals(c) == n }, patience, time.Millisecond)
}

// refusals is how often c was refused to say who it is.
func refusals(c *relock.Client) (n uint64) {
	for _, of := range c.Stats().Commands {
		if of.Command == "introduce" {
			n += of.Refused
		}
	}
	return n
}

// A Redis that leaves the name unanswered keeps no Lock and no Unlock waiting.
func TestUnansweredNamesHarmNothing(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	w := faulty(s)
	w.Filter(faults.All(faults.Script("introduce"), faults.LoseCall.Hanging().Telling()))
	c := newClient(t, w, relock.WithClientName("billing"), relock.WithLease(6*time.Second))
	l, err := c.Mutex("k").Lock(t.Context())
	require.NoError(t, err)
	within(t, w.Told())
	for range 100 {
		require.NoError(t, c.Mutex("other").Do(t.Context(), nothing))
	}
	require.NoError(t, l.Unlock(t.Context()))
	c.Close()
}

// A write that is late, behind Close, stands for a lease at most.
func TestNameThatComesLateEndsByItself(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	w := faulty(s)
	w.Filter(faults.Next(faults.Script("introduce"), faults.Late.Telling()))
	const lease = 2 * time.Second
	c := newClient(t, w, relock.WithClientName("billing"), relock.WithLease(lease))
	l, err := c.Mutex("k").Lock(t.Context())
	require.NoError(t, err)
	within(t, w.Told())
	_ = l.Unlock(t.Context()) // it may be lost where the machine stands still for a lease
	c.Close()
	fades(t, s)
	began := time.Now()
	w.Flush()
	stood := s.Do("EXISTS", cardKey(c)) == "1"
	require.True(t, stood || time.Since(began) > lease)
	timed(t, s, cardKey(c), lease)
	fades(t, s)
}

// Close leaves the name of who leaves a lock behind. It ends as the lock does.
func TestCloseLeavesTheNameBesideALock(t *testing.T) {
	s := redistest.Start(t)
	c, other := newClient(t, s.Client(), relock.WithClientName("billing")), newClient(t, s.Client(), relock.WithClientName("ops"))
	_, err := c.Mutex("k").Lock(t.Context())
	require.NoError(t, err)
	stands(t, c, s)
	c.Close()
	require.Equal(t, "billing", stateOf(t, other.Mutex("k")).Client.Name)
	timed(t, s, cardKey(c), defaultLease)
}

// On a quorum one node that is down, and one that forbids the name, leave it to the third.
func TestOneNodeIsEnoughToBeKnown(t *testing.T) {
	servers := masters(t, 3)
	open := func(name string) *relock.Client {
		var nodes []rueidis.Client
		for _, s := range servers {
			rdb, err := rueidis.NewClient(s.AddUser("app", "secret", "~*", "&*", "+@all"))
			require.NoError(t, err)
			t.Cleanup(rdb.Close)
			nodes = append(nodes, rdb)
		}
		c, err := relock.NewRedlock(nodes, relock.WithClientName(name), relock.WithoutRestartGuard())
		require.NoError(t, err)
		t.Cleanup(c.Close)
		return c
	}
	c, other := open("billing"), open("ops")
	servers[0].Do("ACL", "SETUSER", "app", "resetkeys", "~k", "~*:{k}", "~relock_incarnation")
	servers[1].Kill()
	l, err := c.Mutex("k").Lock(t.Context())
	require.NoError(t, err)
	stands(t, c, servers[2])
	require.Equal(t, "billing", stateOf(t, other.Mutex("k")).Client.Name)
	require.Equal(t, "0", servers[0].Do("EXISTS", cardKey(c)))
	require.NoError(t, l.Unlock(t.Context()))
}

// On a Cluster the name is in a slot of its own, follows it to another master, and is found there.
func TestNameOnACluster(t *testing.T) {
	t.Parallel()
	g := redistest.StartCluster(t)
	const lease = 6 * time.Second // it is written each third of it
	c := newClient(t, g.Client(), relock.WithClientName("billing"), relock.WithLease(lease))
	other := newClient(t, g.Client(), relock.WithClientName("ops"))
	l, err := c.Mutex("k").Lock(t.Context())
	require.NoError(t, err)
	stands(t, c, g.MasterFor(cardKey(c)))
	require.Equal(t, "billing", stateOf(t, other.Mutex("k")).Client.Name)
	to := g.MoveSlot(cardKey(c))
	to.Do("DEL", cardKey(c))
	stands(t, c, to)
	timed(t, to, cardKey(c), lease)
	require.NoError(t, l.Unlock(t.Context()))
	c.Close()
	require.Equal(t, "0", to.Do("EXISTS", cardKey(c)))
}

// Nothing is left of 100,000 clients, and at no time is there a key that nothing ends.
func TestNoNameIsLeftBehind(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	rdb := s.Client()
	text, err := lua.Scripts{}.Text("introduce")
	require.NoError(t, err)
	script := rueidis.NewLuaScript(text)
	const batch = 5000
	for from := 0; from < 100_000; from += batch {
		calls := make([]rueidis.LuaExec, batch)
		for i := range calls {
			key := wire.ClientKey(fmt.Sprint("client ", from+i))
			calls[i] = rueidis.LuaExec{Keys: []string{key}, Args: []string{"1500", "name", "billing", "pid", "12"}}
		}
		for _, said := range script.ExecMulti(context.Background(), rdb, calls...) {
			require.NoError(t, said.Error())
		}
		requireTimed(t, s)
	}
	require.Eventually(t, func() bool { return s.Do("DBSIZE") == "0" }, 2*patience, 10*time.Millisecond)
}

// requireTimed requires that all keys of a server end by themselves.
func requireTimed(t *testing.T, s *redistest.Server) {
	t.Helper()
	for line := range strings.Lines(s.Do("INFO", "keyspace")) {
		var db, keys, expires int
		if n, _ := fmt.Sscanf(line, "db%d:keys=%d,expires=%d", &db, &keys, &expires); n == 3 {
			require.Equal(t, keys, expires)
		}
	}
}

// A user who may write and not expire, or not delete, leaves nothing behind either.
func TestNoRightLeavesANameBehind(t *testing.T) {
	s := redistest.Start(t)
	text, err := lua.Scripts{}.Text("introduce")
	require.NoError(t, err)
	script := rueidis.NewLuaScript(text)
	for _, missing := range []string{"-pexpire", "-hset", "-del"} {
		t.Run(missing, func(t *testing.T) {
			rdb, err := rueidis.NewClient(s.AddUser("app", "secret", "~*", "+@all", missing))
			require.NoError(t, err)
			defer rdb.Close()
			key := wire.ClientKey(missing)
			write := func(args ...string) error { return script.Exec(t.Context(), rdb, []string{key}, args).Error() }
			err = write("60000", "name", "billing")
			if missing != "-del" {
				require.Error(t, err)
				require.Equal(t, "0", s.Do("EXISTS", key))
				return
			}
			require.NoError(t, err)
			require.Error(t, write("0"))
			timed(t, s, key, time.Minute)
		})
	}
	rdb := s.Client()
	write := func(args ...string) error { return script.Exec(t.Context(), rdb, []string{"late"}, args).Error() }
	require.NoError(t, write("0"))
	require.NoError(t, write("60000", "name", "billing"))
	require.NoError(t, write("0"))
	require.Equal(t, "0", s.Do("EXISTS", "late"))
	require.NoError(t, write("60000", "name", "billing"))
	timed(t, s, "late", time.Minute)
}

func TestClientNameOption(t *testing.T) {
	rdb := ownRedis(t)
	for why, name := range map[string]string{
		"257 bytes":         strings.Repeat("x", 257),
		"cannot be printed": "a\x1b[2Jb",
		`"\xff" cannot be`:  "\xff",
	} {
		_, err := relock.New(rdb, relock.WithClientName(name))
		require.ErrorIs(t, err, relock.ErrInvalidOption)
		require.ErrorContains(t, err, why)
	}
	c := newClient(t, rdb, relock.WithClientName("Rechnungen für 7"))
	_, err := c.Mutex(wire.ClientKey(c.ID())).TryLock(t.Context())
	require.ErrorIs(t, err, relock.ErrInvalidName)
}

// refusedBy returns the error of a TryLock that finds the lock held.
func refusedBy(t *testing.T, c *relock.Client, name string) *relock.HeldError {
	t.Helper()
	_, err := c.Mutex(name).TryLock(t.Context())
	var held *relock.HeldError
	require.ErrorAs(t, err, &held)
	return held
}

// questions is how often a client asked who another is, where it asked for no State.
func questions(c *relock.Client) (n uint64) {
	for _, of := range c.Stats().Commands {
		if of.Command == "inspect" {
			n += of.Answered + of.Refused + of.Unanswered
		}
	}
	return n
}

// openers open clients of one Redis, and of a quorum.
func openers(t *testing.T) map[string]func(...relock.ClientOption) (*relock.Client, []*redistest.Server) {
	one, three := masters(t, 1), masters(t, 3)
	return map[string]func(...relock.ClientOption) (*relock.Client, []*redistest.Server){
		"one": func(o ...relock.ClientOption) (*relock.Client, []*redistest.Server) {
			return newClient(t, one[0].Client(), o...), one
		},
		"quorum": func(o ...relock.ClientOption) (*relock.Client, []*redistest.Server) {
			return newRedlock(t, three, o...), three
		},
	}
}

// A lock that is not acquired tells its holder's name: what a Lock or TryLock asked for meanwhile or before, in the
// background. Nothing more is asked of whom is known, and a client without a name never asks.
func TestHeldErrorsNameTheHolder(t *testing.T) {
	for topology, open := range openers(t) {
		t.Run(topology, func(t *testing.T) {
			c, servers := open(relock.WithClientName("billing"))
			d, _ := open(relock.WithClientName("ops"))
			waits, _ := open(relock.WithClientName("waits"))
			nameless, _ := open()
			l, err := c.Mutex("k").Lock(t.Context())
			require.NoError(t, err)
			stands(t, c, servers...)
			billing := stateOf(t, c.Mutex("k")).Client

			first := refusedBy(t, d, "k")
			require.Equal(t, billing, first.Client, "it is waited for")
			for range 20 {
				held := refusedBy(t, d, "k")
				require.Equal(t, billing, held.Client)
				require.Equal(t, first.Holder, held.Holder)
				require.ErrorContains(t, held, fmt.Sprintf(": held by %v for another ", billing))
				require.NotContains(t, held.Error(), held.Holder+" for another")
			}
			require.LessOrEqual(t, questions(d), uint64(len(servers)), "a node may answer late")

			ctx, leave := context.WithCancel(t.Context())
			failed := make(chan error, 1)
			go func() {
				_, err := waits.Mutex("k").Lock(ctx)
				failed <- err
			}()
			require.Eventually(t, func() bool { return questions(waits) > 0 }, patience, time.Millisecond)
			require.Eventually(t, func() bool { return refusedBy(t, waits, "k").Client == billing }, patience, time.Millisecond)
			leave()
			var held *relock.HeldError
			require.ErrorAs(t, within(t, failed), &held)
			require.Equal(t, billing, held.Client)

			own := refusedBy(t, c, "k")
			require.Equal(t, billing, own.Client, "its own needs no question")
			require.LessOrEqual(t, questions(c), uint64(len(servers)), "for the lock's state")
			require.Zero(t, refusedBy(t, nameless, "k").Client)
			require.Zero(t, refusedBy(t, nameless, "k").Client)
			require.Zero(t, questions(nameless))
			require.NoError(t, l.Unlock(t.Context()))
		})
	}
}

// What State reads is known to TryLock, at once. It may be anything: what stands in Redis may be forged.
func TestWhatStateReadsIsKnown(t *testing.T) {
	for topology, open := range openers(t) {
		t.Run(topology, func(t *testing.T) {
			c, servers := open(relock.WithClientName("billing"))
			d, _ := open(relock.WithClientName("ops"))
			_, err := c.Mutex("k").Lock(t.Context())
			require.NoError(t, err)
			stands(t, c, servers...)
			for _, s := range servers {
				s.Do("HSET", cardKey(c), "name", "x\n\x1b[2Jlevel=ERROR")
			}
			require.NotZero(t, stateOf(t, d.Mutex("k")).Client)
			text := refusedBy(t, d, "k").Error()
			require.Contains(t, text, "[2Jlevel=ERROR")
			require.NotContains(t, text, "\x1b")
			require.NotContains(t, text, "\n")
		})
	}
}

// Who is refused the question asks no more for a lease, whoever holds locks meanwhile.
func TestForbiddenQuestionsAreAskedOnceInALease(t *testing.T) {
	s := redistest.Start(t)
	acl := rights(t, "k")
	rdb, err := rueidis.NewClient(s.AddUser("app", "secret", append(acl[0], acl[2]...)...))
	require.NoError(t, err)
	t.Cleanup(rdb.Close)
	c := newClient(t, rdb, relock.WithClientName("ops"))
	for range 10 {
		other := newClient(t, s.Client(), relock.WithClientName("billing"))
		l, err := other.Mutex("k").Lock(t.Context())
		require.NoError(t, err)
		require.Zero(t, refusedBy(t, c, "k").Client)
		require.Eventually(t, func() bool { return questions(c) > 0 }, patience, time.Millisecond)
		require.NoError(t, l.Unlock(t.Context()))
	}
	require.Equal(t, uint64(1), questions(c))
}

// A question that is not answered keeps no TryLock waiting, and is over with Close.
func TestUnansweredQuestionsHarmNothing(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	w := faulty(s)
	w.Filter(faults.All(faults.Script("whois"), faults.LoseCall.Hanging().Telling()))
	c, other := newClient(t, w, relock.WithClientName("ops")), newClient(t, s.Client(), relock.WithClientName("billing"))
	_, err := other.Mutex("k").Lock(t.Context())
	require.NoError(t, err)
	require.Zero(t, refusedBy(t, c, "k").Client)
	within(t, w.Told())
	for range 20 {
		require.Zero(t, refusedBy(t, c, "k").Client)
	}
	c.Close()
}

// The first refusal names the holder, of each kind of lock and whichever client of the process asks first.
func TestTheFirstRefusalNamesTheHolder(t *testing.T) {
	s := redistest.Start(t)
	holder := newClient(t, s.Client(), relock.WithClientName("alpha"))
	for name, take := range map[string]struct {
		lock func(context.Context) (*relock.Lease, error)
		try  func(*relock.Client) func(context.Context) (*relock.Lease, error)
	}{
		"mutex": {holder.Mutex("mutex").Lock, func(c *relock.Client) func(context.Context) (*relock.Lease, error) { return c.Mutex("mutex").TryLock }},
		"reader": {holder.RWMutex("reader").RLock, func(c *relock.Client) func(context.Context) (*relock.Lease, error) {
			return c.RWMutex("reader").TryLock
		}},
		"writer": {holder.RWMutex("writer").Lock, func(c *relock.Client) func(context.Context) (*relock.Lease, error) {
			return c.RWMutex("writer").TryRLock
		}},
	} {
		l, err := take.lock(t.Context())
		require.NoError(t, err, name)
		stands(t, holder, s)
		c := newClient(t, s.Client(), relock.WithClientName("beta"))
		refused := make(chan error, 10)
		for range cap(refused) {
			go func() {
				_, err := take.try(c)(t.Context())
				refused <- err
			}()
		}
		for range cap(refused) {
			var held *relock.HeldError
			require.ErrorAs(t, within(t, refused), &held, name)
			require.Equal(t, "alpha", held.Client.Name, name)
		}
		require.Equal(t, uint64(1), questions(c), name)
		require.NoError(t, l.Unlock(t.Context()))
	}
}
