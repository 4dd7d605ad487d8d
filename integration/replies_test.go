//go:build unix

package integration

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/relock-go/relock"
	"github.com/relock-go/relock/integration/faultproxy"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

// answered counts the commands of a client that got an answer.
type answered struct {
	rueidis.Client
	n *atomic.Int64
}

func (c answered) Do(ctx context.Context, cmd rueidis.Completed) rueidis.RedisResult {
	got := c.Client.Do(ctx, cmd)
	if err := got.NonRedisError(); err == nil {
		c.n.Add(1)
	}
	return got
}

// mess is a set of goroutines that do all that can be done with locks while replies are lost.
type mess struct {
	t     *testing.T
	s     *redistest.Server
	names []string
	jl    *journal
	want  int64 // operations, at the least

	ops      atomic.Int64
	answers  atomic.Int64
	over     atomic.Bool // enough was done, and enough replies were lost
	broken   atomic.Bool // something failed, so that going on shows nothing
	mu       sync.Mutex  // guards kinds
	kinds    map[string]int
	repaired figures // guarded by mu; how long a count in Redis was wrong
}

// messLease is so long that no orphan ends by itself: one that is left stands in the way until somebody notices. A holder
// may wait for a count to be repaired, which takes a third of it at the most.
const (
	messLease = time.Minute
	noticed   = 3 * messLease / 4
)

func (m *mess) did(what string) {
	m.ops.Add(1)
	m.note(what)
}

func (m *mess) note(what string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.kinds[what]++
}

func (m *mess) fail(who int, l *relock.Lease, format string, args ...any) {
	m.broken.Store(true)
	var lock string
	if l != nil {
		lock = l.Name()
	}
	m.jl.add(event{at: now(), kind: failed, who: fmt.Sprint(who), lock: lock, note: fmt.Sprintf(format, args...)})
}

// lost returns how many scripts ran without an answer; while the goroutines are at work, those under way count too.
func (m *mess) lost() int64 {
	m.t.Helper()
	answers := m.answers.Load()
	counts := m.s.CommandCounts()
	return counts["evalsha"] + counts["eval"] - answers
}

// run does operations until it is over.
func (m *mess) run(c *relock.Client, who int) {
	for !m.over.Load() && !m.broken.Load() {
		mutex := c.Mutex(m.names[rand.N(len(m.names))])
		asked := now()
		l, err := m.take(mutex)
		if waited := now() - asked; waited > noticed {
			m.fail(who, l, "waited %v behind an orphan", waited)
		}
		switch {
		case err == nil:
			m.use(c, l, who)
		case errors.Is(err, relock.ErrNotAcquired), errors.Is(err, relock.ErrUnavailable):
		default:
			m.fail(who, nil, "taking: %v", err)
		}
	}
}

// take locks in one of three ways: with patience, with little, with none.
func (m *mess) take(mutex *relock.Mutex) (*relock.Lease, error) {
	switch rand.N(4) {
	case 0:
		m.did("try")
		return mutex.TryLock(context.Background())
	case 1:
		m.did("lock with little time")
		ctx, cancel := context.WithCancel(context.Background())
		stop := time.AfterFunc(rand.N(40*time.Millisecond), cancel)
		l, err := lockUntil(ctx, mutex)
		stop.Stop()
		if errors.Is(err, context.Canceled) {
			m.note("gave up")
		}
		return l, err
	default:
		m.did("lock")
		return mutex.Lock(context.Background())
	}
}

// use re-enters up to three times and unlocks again, and looks into Redis after each step.
func (m *mess) use(c *relock.Client, l *relock.Lease, who int) {
	stack := []*relock.Lease{l}
	m.check(c, stack, who)
	for range rand.N(4) {
		m.did("re-enter")
		inner, err := c.Mutex(l.Name()).Lock(stack[len(stack)-1].Context())
		if err != nil {
			m.fail(who, l, "re-entering: %v", err)
			break
		}
		stack = append(stack, inner)
		m.check(c, stack, who)
	}
	for len(stack) > 0 {
		last := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		m.did("unlock")
		if err := last.Unlock(context.Background()); errors.Is(err, relock.ErrUnavailable) {
			m.note("unlock unanswered")
		} else if err != nil {
			m.fail(who, l, "unlocking: %v", err)
		}
		if len(stack) > 0 {
			m.check(c, stack, who)
		}
	}
}

// ownersOf returns who holds a lock in Redis, each followed by the hold count.
func ownersOf(s *redistest.Server, lock string) (owners []string, err error) {
	reply, err := s.Try("HGETALL", lock)
	fields, _ := reply.([]any)
	for i := 0; i+1 < len(fields); i += 2 {
		if fields[i] != "relock:first" { // the grant's tokens
			owners = append(owners, fmt.Sprint(fields[i]), fmt.Sprint(fields[i+1]))
		}
	}
	return owners, err
}

// check compares the lock in Redis with the leases held. While the lease is valid the lock must be there, this client's
// alone. Its count may lag only behind an inner Unlock that was not answered, until a renewal has put it right.
func (m *mess) check(c *relock.Client, stack []*relock.Lease, who int) {
	l := stack[0]
	var wrong time.Duration // since when the count is seen to differ
	for {
		at := now()
		fields, err := ownersOf(m.s, l.Name())
		if err != nil {
			m.fail(who, l, "HGETALL: %v", err)
			return
		}
		// Valid after the reading, so valid at the reading: then the lock must stand in Redis.
		if err := l.Context().Err(); err != nil {
			m.fail(who, l, "lost: %v", context.Cause(l.Context()))
			return
		}
		m.jl.add(event{at: at, kind: trusted, who: fmt.Sprint(who), lock: l.Name(), token: l.Token()})
		if len(fields) != 2 || !strings.HasPrefix(fields[0], c.ID()+":") {
			m.fail(who, l, "freed early: in Redis stands %v", fields)
			return
		}
		if fields[1] == strconv.Itoa(len(stack)) {
			break
		}
		if wrong == 0 {
			wrong = at
		} else if at-wrong > messLease/2 {
			m.fail(who, l, "count %v in Redis, %d held", fields[1], len(stack))
			return
		}
		time.Sleep(5 * time.Millisecond)
	}
	m.note("counts compared")
	if wrong > 0 {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.repaired = append(m.repaired, now()-wrong)
	}
}

// Replies are lost though their commands ran: hold counts are right, nothing is freed early, nothing is left behind.
func TestRepliesLost(t *testing.T) {
	begin(t)
	s := redistest.Start(t)
	m := &mess{t: t, s: s, jl: newJournal(), kinds: make(map[string]int), want: int64(rounds(10_000, 100_000))}
	for i := range 6 {
		m.names = append(m.names, fmt.Sprintf("orders:%d", i))
	}
	var all sync.WaitGroup
	var proxies []*faultproxy.Proxy
	for i := range 4 {
		proxies = append(proxies, faultproxy.New(t, s.Addr()))
		rdb, err := rueidis.NewClient(through(s.Option(), proxies[i]))
		require.NoError(t, err)
		defer rdb.Close()
		locks, err := relock.New(answered{rdb, &m.answers},
			relock.WithLease(messLease), relock.WithCommandTimeout(60*time.Millisecond))
		require.NoError(t, err)
		defer locks.Close()
		for n := range 3 {
			all.Go(func() { m.run(locks, 10*i+n) })
		}
	}
	done := make(chan struct{})
	go func() { all.Wait(); close(done) }()
	cuts := m.loseReplies(proxies, done)

	// Much sooner than the leases end, so it was the sweeper that cleaned up.
	swept := now()
	absent(t, messLease/20, s, m.names...)
	swept = now() - swept
	t.Logf("%d operations %v, %d cuts, %d answers lost", m.ops.Load(), m.kinds, cuts, m.lost())
	t.Logf("swept within %v; counts that had to be repaired: %v", swept.Round(time.Millisecond), m.repaired)
	events := m.jl.all()
	nothingFailed(t, events)
	for _, name := range m.names {
		require.Empty(t, overlaps(spans(events, name)))
		require.Empty(t, disorder(spans(events, name)))
	}
	require.Greater(t, m.lost(), m.want/50, "hardly any reply was lost")
}

// loseReplies cuts the way back now here, now there, until all goroutines are done, which they are told to be when
// enough has happened: how much a cut loses is the machine's. It returns how often.
func (m *mess) loseReplies(proxies []*faultproxy.Proxy, done <-chan struct{}) (cuts int) {
	for {
		p := proxies[rand.N(len(proxies))]
		p.LoseReplies()
		time.Sleep(2*time.Millisecond + rand.N(4*time.Millisecond))
		p.Heal()
		cuts++
		if ops := m.ops.Load(); ops >= 50*m.want || ops >= m.want && m.lost() > m.want/40 {
			m.over.Store(true)
		}
		select {
		case <-done:
			return cuts
		case <-time.After(rand.N(8 * time.Millisecond)):
		}
	}
}

// Renewals, which carry no count as a rule, leave the hold count as it is.
func TestRenewalKeepsCount(t *testing.T) {
	begin(t)
	const lease = time.Second // a machine may stand for a while between two renewals
	s := redistest.Start(t)
	locks, err := relock.New(s.Client(), relock.WithLease(lease))
	require.NoError(t, err)
	defer locks.Close()
	outer, err := locks.Mutex("orders").Lock(t.Context())
	require.NoError(t, err)
	inner, err := locks.Mutex("orders").Lock(outer.Context())
	require.NoError(t, err)
	counts := func() string {
		owners, err := ownersOf(s, "orders")
		require.NoError(t, err)
		require.Len(t, owners, 2)
		return owners[1]
	}
	for end := now() + 3*lease; now() < end; time.Sleep(10 * time.Millisecond) {
		require.Equal(t, "2", counts())
	}
	require.NoError(t, inner.Unlock(t.Context()))
	for end := now() + lease; now() < end; time.Sleep(10 * time.Millisecond) {
		require.Equal(t, "1", counts())
	}
	require.NoError(t, outer.Unlock(t.Context()))
	absent(t, lease, s, "orders")
}
