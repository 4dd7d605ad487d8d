package relock

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/redis/rueidis"
	"github.com/relock-go/relock/internal/clock"
	"github.com/relock-go/relock/internal/faults"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/relock-go/relock/internal/wire"
	"github.com/relock-go/relock/lua"
	"github.com/stretchr/testify/require"
)

// cardKey is where a client says who it is.
func cardKey(c *Client) string { return wire.ClientKey(c.ID()) }

// stands waits until a client says who it is on all servers.
func stands(t *testing.T, c *Client, servers ...*redistest.Server) {
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

// hasten makes what a client says due again. The watchdog looks once a second while there are holds.
func hasten(c *Client) {
	p := c.core.presence
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, at := range p.posts {
		at.due = clock.Stamp{}
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
			open := func(opts ...Option) *Client {
				if n > 1 {
					return newRedlock(t, servers, opts...)
				}
				return newClient(t, servers[0].Client(), opts...)
			}
			before := time.Now().Add(-time.Millisecond)
			c, other, nameless := open(WithClientName("billing")), open(WithClientName("ops")), open()
			require.Zero(t, stateOf(t, other.Mutex("k")).By)
			require.Equal(t, "free", stateOf(t, other.Mutex("k")).String())
			l, err := c.Mutex("k").Lock(t.Context())
			require.NoError(t, err)
			stands(t, c, servers...)
			host, err := os.Hostname()
			require.NoError(t, err)
			st := stateOf(t, other.Mutex("k"))
			require.Regexp(t, "^"+c.ID()+":1", st.Holder)
			require.WithinRange(t, st.By.Started, before, time.Now())
			require.Equal(t, Holder{Name: "billing", Host: host, PID: os.Getpid(), Started: st.By.Started, Version: version()}, st.By)
			require.Equal(t, fmt.Sprintf("billing on %s (pid %d)", host, os.Getpid()), st.By.String())
			require.Equal(t, fmt.Sprintf("held by %v, %v left", st.By, st.TTL), st.String())
			require.Equal(t, st.By, stateOf(t, c.Mutex("k")).By, "its own")
			require.Zero(t, stateOf(t, nameless.Mutex("k")).By)
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
	c, nameless := newClient(t, s.Client(), WithClientName("billing")), newClient(t, s.Client())
	_, err := c.Mutex("k").Lock(t.Context())
	require.NoError(t, err)
	stands(t, c, s)
	calls := func() int64 { return s.CommandCounts()["hgetall"] }
	_ = stateOf(t, nameless.Mutex("k"))
	before := calls()
	_ = stateOf(t, nameless.Mutex("k"))
	require.Equal(t, before+1, calls(), "the lock's")
	require.Nil(t, nameless.core.presence.rounds())
	empty := newClient(t, s.Client(), WithClientName(""))
	require.Nil(t, empty.core.presence)
}

// Who has a lock under WithOwner is told where one client has it alone; a lock of Redisson's costs no question.
func TestWhoseSharedLocksAre(t *testing.T) {
	s := redistest.Start(t)
	rdb := s.Client()
	c, d := newClient(t, rdb, WithClientName("first")), newClient(t, rdb, WithClientName("second"))
	ctx := WithOwner(t.Context(), "order 7")
	one, err := c.Mutex("k").Lock(ctx)
	require.NoError(t, err)
	again, err := c.Mutex("k").Lock(ctx)
	require.NoError(t, err)
	stands(t, c, s)
	st := stateOf(t, d.Mutex("k"))
	require.Equal(t, "order 7", st.Holder)
	require.Equal(t, "first", st.By.Name)
	require.Equal(t, fmt.Sprintf("held by %v 2 times, %v left", st.By, st.TTL), st.String())
	two, err := d.Mutex("k").Lock(ctx)
	require.NoError(t, err)
	require.Zero(t, stateOf(t, d.Mutex("k")).By, "both have it")
	require.NoError(t, one.Unlock(ctx))
	require.NoError(t, again.Unlock(ctx))
	stands(t, d, s)
	require.Equal(t, "second", stateOf(t, c.Mutex("k")).By.Name)
	require.NoError(t, two.Unlock(ctx))

	s.Do("HSET", "java", c.ID()+":57", "1")
	s.Do("PEXPIRE", "java", "60000")
	asked := s.CommandCounts()["hgetall"]
	require.Zero(t, stateOf(t, d.Mutex("java")).By)
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
	c := newClient(t, w, WithClientName("billing"), WithLease(lease))
	l, err := c.Mutex("k", WithFixedLease(time.Hour)).Lock(t.Context())
	require.NoError(t, err)
	within(t, w.Told())
	within(t, w.Told())
	began, gap := time.Now(), patience
	for gap > glance/2 { // a busy machine makes some of them late, not all
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
	s := redistest.Start(t)
	c := newClient(t, s.Client(), WithClientName("billing"), WithLinger(time.Hour))
	l, err := c.Mutex("k").Lock(t.Context())
	require.NoError(t, err)
	anew := func() {
		hasten(c)
		stands(t, c, s)
		timed(t, s, cardKey(c), defaultLease)
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
				rdb, err := redistest.Open(s.AddUser("app", "secret", append(acl[0], acl[2]...)...))
				require.NoError(t, err)
				t.Cleanup(rdb.Close)
				nodes = append(nodes, rdb)
			}
			open := func(nodes []rueidis.Client, name string) *Client {
				if n == 1 {
					return newClient(t, nodes[0], WithClientName(name))
				}
				c, err := NewRedlock(nodes, WithClientName(name))
				require.NoError(t, err)
				t.Cleanup(c.Close)
				return c
			}
			c, other := open(nodes, "billing"), open(clientsOf(servers), "ops")
			l, err := c.Mutex("k").Lock(t.Context())
			require.NoError(t, err)
			refused(t, c)
			theirs, err := other.Mutex("k2").Lock(t.Context())
			require.NoError(t, err)
			stands(t, other, servers...)
			st := stateOf(t, c.Mutex("k2"))
			require.Regexp(t, "^"+other.ID()+":1", st.Holder)
			require.Zero(t, st.By)
			require.NoError(t, theirs.Unlock(t.Context()))
			require.NoError(t, l.Unlock(t.Context()))
			c.Close()
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

// refused waits until all of c's Redis have refused to be told, and requires that none is asked again within a lease.
func refused(t *testing.T, c *Client) {
	t.Helper()
	p := c.core.presence
	until := func(due func(left time.Duration) bool) bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		now := clock.Now()
		return !slices.ContainsFunc(p.posts, func(at *presenceAt) bool { return at.out || at.due.IsZero() || !due(at.due.Until(now)) })
	}
	// One that does not answer in time is asked again after a third.
	require.Eventually(t, func() bool { return until(func(left time.Duration) bool { return left > p.stay*2/3 }) },
		patience, time.Millisecond)
	p.round(clock.Now().Add(p.stay / 2))
	require.True(t, until(func(left time.Duration) bool { return left > p.stay/3 }), "none was asked")
}

// A Redis that leaves the name unanswered keeps no Lock and no Unlock waiting.
func TestUnansweredNamesHarmNothing(t *testing.T) {
	s := redistest.Start(t)
	w := faulty(s)
	w.Filter(faults.All(faults.Script("introduce"), faults.LoseCall.Hanging().Telling()))
	c := newClient(t, w, WithClientName("billing"), WithLease(6*time.Second))
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
	s := redistest.Start(t)
	w := faulty(s)
	w.Filter(faults.Next(faults.Script("introduce"), faults.Late.Telling()))
	const lease = 2 * time.Second
	c := newClient(t, w, WithClientName("billing"), WithLease(lease))
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
	c, other := newClient(t, s.Client(), WithClientName("billing")), newClient(t, s.Client(), WithClientName("ops"))
	_, err := c.Mutex("k").Lock(t.Context())
	require.NoError(t, err)
	stands(t, c, s)
	c.Close()
	require.Equal(t, "billing", stateOf(t, other.Mutex("k")).By.Name)
	timed(t, s, cardKey(c), defaultLease)
}

// On a quorum one node that is down, and one that forbids the name, leave it to the third.
func TestOneNodeIsEnoughToBeKnown(t *testing.T) {
	servers := masters(t, 3)
	open := func(name string) *Client {
		var nodes []rueidis.Client
		for _, s := range servers {
			rdb, err := redistest.Open(s.AddUser("app", "secret", "~*", "&*", "+@all"))
			require.NoError(t, err)
			t.Cleanup(rdb.Close)
			nodes = append(nodes, rdb)
		}
		c, err := NewRedlock(nodes, WithClientName(name), WithRestartGuard(GuardOff, 0))
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
	require.Equal(t, "billing", stateOf(t, other.Mutex("k")).By.Name)
	require.Equal(t, "0", servers[0].Do("EXISTS", cardKey(c)))
	require.NoError(t, l.Unlock(t.Context()))
}

// On a Cluster the name is in a slot of its own, follows it to another master, and is found there.
func TestNameOnACluster(t *testing.T) {
	g := redistest.StartCluster(t)
	c, other := newClient(t, g.Client(), WithClientName("billing")), newClient(t, g.Client(), WithClientName("ops"))
	l, err := c.Mutex("k").Lock(t.Context())
	require.NoError(t, err)
	stands(t, c, g.MasterFor(cardKey(c)))
	require.Equal(t, "billing", stateOf(t, other.Mutex("k")).By.Name)
	to := g.MoveSlot(cardKey(c))
	to.Do("DEL", cardKey(c))
	require.Eventually(t, func() bool { hasten(c); return to.Do("EXISTS", cardKey(c)) == "1" }, patience, 10*time.Millisecond)
	timed(t, to, cardKey(c), defaultLease)
	require.NoError(t, l.Unlock(t.Context()))
	c.Close()
	require.Equal(t, "0", to.Do("EXISTS", cardKey(c)))
}

// Nothing is left of 100,000 clients, and at no time is there a key that nothing ends.
func TestNoNameIsLeftBehind(t *testing.T) {
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
			rdb, err := redistest.Open(s.AddUser("app", "secret", "~*", "+@all", missing))
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
		_, err := New(rdb, WithClientName(name))
		require.ErrorIs(t, err, ErrInvalidOption)
		require.ErrorContains(t, err, why)
	}
	c := newClient(t, rdb, WithClientName("Rechnungen für 7"))
	_, err := c.Mutex("k", WithClientName("x")).TryLock(t.Context())
	require.ErrorIs(t, err, ErrInvalidOption, "it is the client's")
	_, err = c.Mutex(wire.ClientKey(c.ID())).TryLock(t.Context())
	require.ErrorIs(t, err, ErrInvalidName)
}

// State goes into JSON under the names that other languages have, in milliseconds, and comes back as it was.
func TestStateAsJSON(t *testing.T) {
	started := time.UnixMilli(1_763_870_400_123).UTC()
	for text, st := range map[string]State{
		`{"held":false,"count":0,"ttl_ms":0,"waiters":0}`: {},
		`{"held":true,"holder":"c:1","count":2,"ttl_ms":28500,"waiters":3,"reserved":256,"holder_token":1,` +
			`"by":{"name":"billing","host":"pod","pid":12,"started":"2025-11-23T04:00:00.123Z","version":"v1"}}`: {
			Held: true, Holder: "c:1", Count: 2, TTL: 28500 * time.Millisecond, Waiters: 3, Token: 256, HolderToken: 1,
			By: Holder{Name: "billing", Host: "pod", PID: 12, Started: started, Version: "v1"},
		},
		`{"held":true,"holder":"java:1","count":1,"ttl_ms":-1,"waiters":0}`: {
			Held: true, Holder: "java:1", Count: 1, TTL: -time.Millisecond,
		},
	} {
		got, err := json.Marshal(st)
		require.NoError(t, err)
		require.Equal(t, text, string(got))
		var back State
		require.NoError(t, json.Unmarshal(got, &back))
		require.Equal(t, st, back)
	}
	require.Error(t, json.Unmarshal([]byte(`{"ttl_ms":"long"}`), new(State)))
}

// refusedBy returns the error of a TryLock that finds the lock held.
func refusedBy(t *testing.T, c *Client, name string) *HeldError {
	t.Helper()
	_, err := c.Mutex(name).TryLock(t.Context())
	var held *HeldError
	require.ErrorAs(t, err, &held)
	return held
}

// questions is how often a client asked who another is, where it asked for no State.
func questions(c *Client) (n uint64) {
	for _, of := range c.Stats().Commands {
		if of.Command == "inspect" {
			n += of.Answered + of.Refused + of.Unanswered
		}
	}
	return n
}

// answered waits until a client asks nobody any more who he is.
func answered(t *testing.T, c *Client) {
	t.Helper()
	p := c.core.presence
	require.Eventually(t, func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		return len(p.wanted) == 0
	}, patience, time.Millisecond)
}

// turned makes all that a client knows of others older.
func turned(c *Client) {
	p := c.core.presence
	p.mu.Lock()
	defer p.mu.Unlock()
	p.turn = clock.Stamp{}
}

// openers open clients of one Redis, and of a quorum.
func openers(t *testing.T) map[string]func(...Option) (*Client, []*redistest.Server) {
	one, three := masters(t, 1), masters(t, 3)
	return map[string]func(...Option) (*Client, []*redistest.Server){
		"one":    func(o ...Option) (*Client, []*redistest.Server) { return newClient(t, one[0].Client(), o...), one },
		"quorum": func(o ...Option) (*Client, []*redistest.Server) { return newRedlock(t, three, o...), three },
	}
}

// A lock that is not acquired tells its holder's name: what a Lock or TryLock asked for meanwhile or before, in the
// background. Nothing more is asked of whom is known, and a client without a name never asks.
func TestHeldErrorsNameTheHolder(t *testing.T) {
	for topology, open := range openers(t) {
		t.Run(topology, func(t *testing.T) {
			c, servers := open(WithClientName("billing"))
			d, _ := open(WithClientName("ops"))
			waits, _ := open(WithClientName("waits"))
			nameless, _ := open()
			l, err := c.Mutex("k").Lock(t.Context())
			require.NoError(t, err)
			stands(t, c, servers...)
			billing := Holder(c.core.presence.card)

			first := refusedBy(t, d, "k")
			require.Zero(t, first.By, "it is not waited for")
			require.ErrorContains(t, first, "held by "+c.ID()+":1")
			answered(t, d)
			require.NotZero(t, questions(d))
			for range 20 {
				held := refusedBy(t, d, "k")
				require.Equal(t, billing, held.By)
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
			p := waits.core.presence
			require.Eventually(t, func() bool {
				p.mu.Lock()
				defer p.mu.Unlock()
				return p.cards[c.ID()].Name == "billing"
			}, patience, time.Millisecond)
			leave()
			var held *HeldError
			require.ErrorAs(t, within(t, failed), &held)
			require.Equal(t, billing, held.By)

			own := refusedBy(t, c, "k")
			require.Equal(t, billing, own.By, "its own needs no question")
			require.Zero(t, questions(c))
			require.Zero(t, refusedBy(t, nameless, "k").By)
			require.Zero(t, refusedBy(t, nameless, "k").By)
			require.Zero(t, questions(nameless))
			require.NoError(t, l.Unlock(t.Context()))
		})
	}
}

// Of whom there is nothing to know, nothing is asked twice in a turn. What was known stays so while it is asked for anew.
func TestHoldersAreAskedForOnceInATurn(t *testing.T) {
	for topology, open := range openers(t) {
		t.Run(topology, func(t *testing.T) {
			c, servers := open(WithClientName("billing"))
			nameless, _ := open()
			d, _ := open(WithClientName("ops"))
			for name, of := range map[string]*Client{"named": c, "nameless": nameless} {
				_, err := of.Mutex(name).Lock(t.Context())
				require.NoError(t, err)
			}
			_, err := nameless.Mutex("shared").Lock(WithOwner(t.Context(), "order 7"))
			require.NoError(t, err)
			stands(t, c, servers...)
			try := func() (name string) {
				name = refusedBy(t, d, "named").By.Name
				answered(t, d) // on a quorum the others are left alone once enough have answered
				require.Zero(t, refusedBy(t, d, "nameless").By)
				answered(t, d)
				require.Zero(t, refusedBy(t, d, "shared").By)
				return name
			}
			require.Empty(t, try())
			first := questions(d)
			require.NotZero(t, first)
			for range 10 {
				require.Equal(t, "billing", try())
			}
			require.LessOrEqual(t, questions(d), uint64(2*len(servers)), "two clients")
			turned(d)
			require.Equal(t, "billing", try())
			if len(servers) == 1 { // of more, some may have answered late
				require.Equal(t, 2*first, questions(d))
			}
			for _, s := range servers {
				s.Do("DEL", cardKey(c))
			}
			turned(d)
			require.Equal(t, "billing", try(), "it is not read again yet")
			require.Empty(t, try())

			// What State reads is known, too.
			for _, s := range servers {
				s.Do("HSET", cardKey(c), "name", "x\n\x1b[2Jlevel=ERROR")
			}
			require.NotZero(t, stateOf(t, d.Mutex("named")).By)
			text := refusedBy(t, d, "named").Error()
			require.Contains(t, text, "[2Jlevel=ERROR")
			require.NotContains(t, text, "\x1b")
			require.NotContains(t, text, "\n")
		})
	}
}

// However many hold locks, a client asks for so many in a turn, and keeps no more of them.
func TestHoldersThatAreKeptAreBounded(t *testing.T) {
	c := newClient(t, redistest.Start(t).Client(), WithClientName("ops"))
	p := c.core.presence
	for range 3 {
		before := questions(c)
		for range 3 * maxCards {
			p.known(uuid.NewString() + ":1")
		}
		answered(t, c)
		p.mu.Lock()
		require.Len(t, p.cards, maxCards)
		require.LessOrEqual(t, len(p.older), maxCards)
		p.mu.Unlock()
		require.Equal(t, before+maxCards, questions(c))
		require.Empty(t, p.whois(t.Context(), uuid.NewString()).Name)
		require.Len(t, p.cards, maxCards)
		require.Equal(t, before+maxCards+1, questions(c))
		turned(c)
	}
}

// Who is refused the question asks no more for a lease, whoever holds locks meanwhile.
func TestForbiddenQuestionsAreAskedOnceInALease(t *testing.T) {
	s := redistest.Start(t)
	acl := rights(t, "k")
	rdb, err := redistest.Open(s.AddUser("app", "secret", append(acl[0], acl[2]...)...))
	require.NoError(t, err)
	t.Cleanup(rdb.Close)
	c := newClient(t, rdb, WithClientName("ops"))
	for range 10 {
		other := newClient(t, s.Client(), WithClientName("billing"))
		l, err := other.Mutex("k").Lock(t.Context())
		require.NoError(t, err)
		require.Zero(t, refusedBy(t, c, "k").By)
		answered(t, c)
		turned(c)
		require.NoError(t, l.Unlock(t.Context()))
	}
	require.Equal(t, uint64(1), questions(c))
	p := c.core.presence
	p.mu.Lock()
	left := p.rested.Until(clock.Now())
	p.rested = clock.Stamp{}
	p.mu.Unlock()
	require.Greater(t, left, p.stay/2)
	p.known(uuid.NewString() + ":1")
	answered(t, c)
	require.Equal(t, uint64(2), questions(c))
}

// A question that is not answered keeps no TryLock waiting, and is over with Close.
func TestUnansweredQuestionsHarmNothing(t *testing.T) {
	s := redistest.Start(t)
	w := faulty(s)
	w.Filter(faults.All(faults.Script("whois"), faults.LoseCall.Hanging().Telling()))
	c, other := newClient(t, w, WithClientName("ops")), newClient(t, s.Client(), WithClientName("billing"))
	_, err := other.Mutex("k").Lock(t.Context())
	require.NoError(t, err)
	require.Zero(t, refusedBy(t, c, "k").By)
	within(t, w.Told())
	for range 20 {
		require.Zero(t, refusedBy(t, c, "k").By)
	}
	c.Close()
	p := c.core.presence
	p.mu.Lock()
	defer p.mu.Unlock()
	require.Empty(t, p.wanted)
}
