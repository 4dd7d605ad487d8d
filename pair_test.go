package relock

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/relock-go/relock/internal/claim"
	"github.com/relock-go/relock/internal/clock"
	"github.com/relock-go/relock/internal/faults"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/relock-go/relock/internal/wire"
	"github.com/stretchr/testify/require"
)

//go:embed testdata/pair/pair.lua
var pairHooks string

// pairs is a kind of lock that two may hold. It is a toy: nothing but this file and its Lua knows of it, so what it can do
// every kind can.
var pairs = wire.Add(&wire.Kind{
	Name: "pair", Hooks: pairHooks, Holders: 2, Acquires: 12, Releases: 12,
	Queue: "relock_pairs:", Line: "relock_pair_line:", Counter: "relock_pair_token:", Further: []string{"relock_pair:{}"},
	Channel: &wire.Channel{
		Unlock: "relock_pair_free:", Listen: "relock_pair_listen:", Frees: func(message string) bool { return message == "free" },
	},
	Read: func(st *wire.State, fields []string) error {
		for i := 0; i+1 < len(fields); i += 2 {
			if !strings.HasPrefix(fields[i], "relock:") {
				st.Held, st.Holder, st.Count = true, fields[i], st.Count+1
			}
		}
		return nil
	},
})

// pair is a lock of that kind, of which a lease takes so much.
type pair struct{ lock }

func (c *Client) pair(name string, amount int, opts ...Option) *pair {
	p := &pair{c.newLock(pairs, name, opts)}
	p.amount = amount
	return p
}

func (p *pair) Lock(ctx context.Context) (*Lease, error) {
	l, err := p.acquire(ctx)
	return l, outward(err)
}

func (p *pair) TryLock(ctx context.Context) (*Lease, error) {
	l, err := p.try(ctx)
	return l, outward(err)
}

// waits has p wait in the background, until Redis has it in line, and returns where the lease will come.
func (p *pair) waits(t *testing.T, s *redistest.Server, line int) <-chan *Lease {
	t.Helper()
	got := make(chan *Lease, 1)
	go func() {
		l, err := p.Lock(t.Context())
		if err != nil {
			t.Error(err)
		}
		got <- l
	}()
	want := strconv.Itoa(line)
	require.Eventually(t, func() bool { return s.Do("ZCARD", p.names.Queue) == want }, patience, time.Millisecond)
	return got
}

// holds takes p, which is free.
func (p *pair) holds(t *testing.T) *Lease {
	t.Helper()
	l, err := p.TryLock(t.Context())
	require.NoError(t, err)
	return l
}

// inboxHeard waits until c hears its inbox.
func inboxHeard(t *testing.T, s *redistest.Server, c *Client) {
	t.Helper()
	inbox := wire.InboxPrefix + c.ID()
	require.Eventually(t, func() bool { return s.Do("PUBSUB", "NUMSUB", inbox) == inbox+"\n1" }, patience, time.Millisecond)
}

func unlocked(t *testing.T, leases ...*Lease) {
	t.Helper()
	for _, l := range leases {
		require.NoError(t, l.Unlock(t.Context()))
	}
}

// TestPair: two hold, of one process or of two; a third waits, hears that it may have the lock, and both who hold hear that it
// is wanted.
func TestPair(t *testing.T) {
	s := redistest.Start(t)
	a, b := newClient(t, s.Client()), newClient(t, s.Client(), WithLease(time.Minute))
	d := newClient(t, s.Client(), WithLease(10*time.Minute)) // with polls so far apart, it has to be told
	one, two := a.pair("k", 1).holds(t), b.pair("k", 1).holds(t)
	require.NotEqual(t, one.Token(), two.Token())
	_, err := d.pair("k", 1).TryLock(t.Context())
	require.ErrorIs(t, err, ErrNotAcquired)
	third := d.pair("k", 1).waits(t, s, 1)
	within(t, one.Wanted())
	within(t, two.Wanted())
	st, err := a.pair("k", 1).inspect(t.Context())
	require.NoError(t, err)
	require.True(t, st.Held)
	require.Equal(t, 2, st.Count)
	require.Equal(t, 1, st.Waiters)
	require.Positive(t, st.TTL)
	require.LessOrEqual(t, st.TTL, defaultLease, "the lease that ends first")

	unlocked(t, one)
	l := within(t, third)
	require.Greater(t, l.Token(), two.Token())
	unlocked(t, two, l)

	var leases []*Lease
	for range 2 {
		leases = append(leases, a.pair("k", 1).holds(t))
	}
	third = a.pair("k", 1).waits(t, s, 1)
	unlocked(t, leases[1])
	unlocked(t, leases[0], within(t, third))
	require.Equal(t, "0", s.Do("EXISTS", "k", "relock_pair:{k}", "relock_pairs:{k}"))
	for _, c := range []*Client{a, b, d} {
		require.Zero(t, c.keeper.arb.Nodes()[0].Debug().Hub.Skipped())
		require.Zero(t, c.keeper.gates.Len())
	}
}

// One who waits for both parts gets them once both are free, and nobody overtakes it.
func TestPairAmount(t *testing.T) {
	s := redistest.Start(t)
	a, b := newClient(t, s.Client()), newClient(t, s.Client())
	one := a.pair("k", 1).holds(t)
	both := b.pair("k", 2).waits(t, s, 1)
	_, err := a.pair("k", 1).TryLock(t.Context())
	require.ErrorIs(t, err, ErrNotAcquired, "it would overtake")
	behind := a.pair("k", 1).waits(t, s, 2)
	unlocked(t, one)
	l := within(t, both)
	require.Empty(t, behind)
	require.Equal(t, "2", strings.Split(s.Do("HGET", "k", "relock:"+l.h.entry.ID), ":")[0])
	unlocked(t, l)
	unlocked(t, within(t, behind))
}

// A lease is re-entered under its context, each hold by itself.
func TestPairReentry(t *testing.T) {
	s := redistest.Start(t)
	p := newClient(t, s.Client()).pair("k", 1)
	one, two := p.holds(t), p.holds(t)
	inner, err := p.Lock(one.Context())
	require.NoError(t, err)
	require.Equal(t, 2, inner.Count())
	require.Equal(t, 1, two.Count())
	require.Equal(t, "2", s.Do("HGET", "k", one.h.entry.ID))
	unlocked(t, inner, one, two)
}

// Two hundred leases are renewed with one command, by the kind's own hook, and a lost one is noticed.
func TestPairRenewal(t *testing.T) {
	s := redistest.Start(t)
	tap := faulty(s)
	c := newClient(t, tap, WithLease(10*time.Minute)) // it renews nothing by itself meanwhile
	ends := func(name string, l *Lease) float64 {
		at, err := strconv.ParseFloat(s.Do("ZSCORE", "relock_pair:{"+name+"}", l.h.entry.ID), 64)
		require.NoError(t, err)
		return at
	}
	const locks = 200
	var leases [locks]*Lease
	var granted [locks]float64
	var batch []claim.Renewal
	for i := range leases {
		name := "k" + strconv.Itoa(i)
		leases[i] = c.pair(name, 1).holds(t)
		granted[i] = ends(name, leases[i])
		batch = append(batch, claim.Renewal{Claim: leases[i].h.claim, Lease: 20 * time.Minute})
	}
	var words []int
	tap.Filter(func(call *faults.Call) faults.Fate {
		if call.ScriptName() == "renew" {
			words = append(words, len(call.Words))
		}
		return faults.Pass
	})
	results := make(chan wire.Result, locks)
	c.keeper.arb.Renew(t.Context(), batch, func(_ int, got wire.Result, _ clock.Stamp, _ error) { results <- got })
	for i, l := range leases {
		require.Equal(t, wire.Renewed, within(t, results))
		require.Greater(t, ends("k"+strconv.Itoa(i), l), granted[i]+9*60e3)
	}
	require.Equal(t, []int{3 + locks*(6+3)}, words, "one command, with six keys and three arguments for each")

	inboxHeard(t, s, c)
	lost := leases[7]
	s.Do("HDEL", "k7", lost.h.entry.ID)
	s.Do("PUBLISH", wire.InboxPrefix+c.ID(), "0 0 "+lost.h.entry.ID+" 0 k7") // which makes the holder ask
	within(t, lost.Context().Done())
	require.ErrorIs(t, context.Cause(lost.Context()), ErrLost)
}

// ForceUnlock ends both, tells them, and lets in who waits.
func TestPairForceUnlock(t *testing.T) {
	s := redistest.Start(t)
	a, b := newClient(t, s.Client()), newClient(t, s.Client())
	one, two := a.pair("k", 1).holds(t), b.pair("k", 1).holds(t)
	next, last := a.pair("k", 1).waits(t, s, 1), b.pair("k", 1).waits(t, s, 2)
	freed, err := b.pair("k", 1).force(t.Context())
	require.NoError(t, err)
	require.True(t, freed)
	for _, l := range []*Lease{one, two} {
		within(t, l.Context().Done())
		require.ErrorIs(t, context.Cause(l.Context()), ErrLost)
	}
	unlocked(t, within(t, next), within(t, last))
	freed, err = b.pair("k", 1).force(t.Context())
	require.NoError(t, err)
	require.False(t, freed)
}

// A grant that nobody waits for any more is ended as the kind ends one, and so is an entry whose caller gave up. What a
// dead client held counts no more when its lease is over.
func TestPairOrphans(t *testing.T) {
	s := redistest.Start(t)
	c, other := newClient(t, s.Client()), newClient(t, s.Client())
	kept := other.pair("k", 1).holds(t)
	id := c.ID() + ":99"
	unlocked(t, c.pair("warm", 1).holds(t)) // the inbox is subscribed
	inboxHeard(t, s, c)
	ends := strconv.FormatInt(time.Now().Add(time.Minute).UnixMilli(), 10)
	s.Do("HSET", "k", id, "1", "relock:"+id, "1:5:1")
	s.Do("ZADD", "relock_pair:{k}", ends, id)
	s.Do("PUBLISH", wire.InboxPrefix+c.ID(), "5:1 30000:pair "+id+" 0 k")
	require.Eventually(t, func() bool { return s.Do("ZSCORE", "relock_pair:{k}", id) == "" }, patience, time.Millisecond)
	require.Equal(t, "1", s.Do("HEXISTS", "k", kept.h.entry.ID))

	second := other.pair("k", 1).holds(t)
	ctx, cancel := context.WithCancel(t.Context())
	failed := make(chan error, 1)
	go func() {
		_, err := c.pair("k", 1).Lock(ctx)
		failed <- err
	}()
	require.Eventually(t, func() bool { return s.Do("ZCARD", "relock_pairs:{k}") == "1" }, patience, time.Millisecond)
	cancel()
	require.ErrorIs(t, within(t, failed), context.Canceled)
	require.Eventually(t, func() bool { return s.Do("EXISTS", "relock_pairs:{k}") == "0" }, patience, time.Millisecond)
	unlocked(t, second)

	s.Do("HSET", "k", "dead:1", "1", "relock:dead:1", "1:5:1")
	s.Do("ZADD", "relock_pair:{k}", strconv.FormatInt(time.Now().Add(300*time.Millisecond).UnixMilli(), 10), "dead:1")
	l, err := c.pair("k", 1).Lock(t.Context())
	require.NoError(t, err)
	unlocked(t, l, kept)
}

// Locks of the kind that are asked for at one moment go as one command.
func TestPairsGoTogether(t *testing.T) {
	s := redistest.Start(t)
	tap := faulty(s)
	c := newClient(t, tap)
	unlocked(t, c.pair("warm", 1).holds(t))
	leases, errs := lockTogether(t, tap, func(name string) (*Lease, error) { return c.pair(name, 1).Lock(t.Context()) })
	for i, err := range errs {
		require.NoError(t, err)
		require.Equal(t, "1", s.Do("ZCARD", fmt.Sprintf("relock_pair:{lock-%d}", i)))
	}
	var wg sync.WaitGroup
	for i, l := range leases {
		wg.Go(func() { errs[i] = l.Unlock(context.Background()) })
	}
	wg.Wait()
	for i, err := range errs {
		require.NoError(t, err)
		require.Equal(t, "0", s.Do("EXISTS", fmt.Sprintf("lock-%d", i)))
	}
}

// A right to the kind's own key that is missing is told before anything is held.
func TestPairRights(t *testing.T) {
	s := redistest.Start(t)
	if major, _, valkey := s.Version(); major < 7 && !valkey {
		t.Skip("scripts cannot ask for rights before Redis 7")
	}
	rdb, err := redistest.Open(s.AddUser("app", "secret", "~*", "+@all", "-zrem", "allchannels"))
	require.NoError(t, err)
	t.Cleanup(rdb.Close)
	_, err = newClient(t, rdb).pair("k", 1).TryLock(t.Context())
	require.ErrorContains(t, err, "run the 'zrem' command on relock_pair:{k}")
	require.Equal(t, "0", s.Do("EXISTS", "k"))
}

// A quorum has no shared kinds.
func TestPairOnAQuorum(t *testing.T) {
	c, err := NewRedlock([]rueidis.Client{ownRedis(t)})
	require.NoError(t, err)
	defer c.Close()
	_, err = c.pair("k", 1).TryLock(t.Context())
	require.ErrorIs(t, err, errors.ErrUnsupported)
	require.EqualError(t, err, "relock: a pair over a quorum of nodes: unsupported operation")
}
