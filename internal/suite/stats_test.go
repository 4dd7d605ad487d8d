package suite_test

import (
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/faults"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

// sentFor is what a client counted of one kind of command, at all nodes together.
func sentFor(c *relock.Client, command relock.Command) (sum relock.CommandStats) {
	for _, s := range c.Stats().Commands {
		if s.Command == command {
			sum.Answered += s.Answered
			sum.Refused += s.Refused
			sum.Unanswered += s.Unanswered
		}
	}
	return sum
}

func TestCommandsAreCounted(t *testing.T) {
	s := redistest.Start(t)
	c := newClient(t, s.Client(), relock.WithLease(time.Minute), relock.WithCommandTimeout(patience))
	m := c.Mutex("k")
	l, err := m.Lock(t.Context())
	require.NoError(t, err)
	inner, err := m.Lock(l.Context())
	require.NoError(t, err)
	require.NoError(t, inner.Unlock(t.Context()))
	_, err = m.State(t.Context())
	require.NoError(t, err)
	require.NoError(t, l.Unlock(t.Context()))
	for command, n := range map[relock.Command]uint64{
		"acquire": 1, "recount": 2, "inspect": 1, "release": 1, "renew": 0, "force": 0,
	} {
		require.Equal(t, relock.CommandStats{Answered: n}, sentFor(c, command), command)
	}
	s.Do("SET", "stranger", "no lock")
	_, err = c.Mutex("stranger").TryLock(t.Context())
	require.Error(t, err)
	require.Equal(t, relock.CommandStats{Answered: 1, Refused: 1}, sentFor(c, "acquire"))
	require.Eventually(t, func() bool { return sentFor(c, "subscribe").Answered > 0 }, patience, time.Millisecond)
	c.Close()
	require.Equal(t, relock.CommandStats{Answered: 1, Refused: 1}, sentFor(c, "acquire"), "a closed client tells too")
}

func TestCommandsThatGoUnansweredAreCounted(t *testing.T) {
	rdb := faulty(redistest.Start(t))
	c := newClient(t, rdb, relock.WithLease(time.Minute), relock.WithCommandTimeout(100*time.Millisecond))
	rdb.Filter(faults.All(faults.AnyScript, faults.LoseCall))
	_, err := c.Mutex("k").TryLock(t.Context())
	require.Error(t, err)
	require.Eventually(t, func() bool { return sentFor(c, "acquire").Unanswered == 1 }, patience, time.Millisecond)
	require.Zero(t, sentFor(c, "acquire").Answered)
	rdb.Filter(nil)
	require.Eventually(t, func() bool { return sentFor(c, "sweep").Answered > 0 }, patience, time.Millisecond)
}

// Callers whose commands go together are counted as what was sent.
func TestWhatGoesTogetherCountsOnce(t *testing.T) {
	const callers = 512
	s := redistest.Start(t)
	c := newClient(t, s.Client(), relock.WithLease(time.Minute), relock.WithCommandTimeout(patience))
	s.Pause() // until all have asked, and more than a few wait for one another
	var wg sync.WaitGroup
	for i := range callers {
		wg.Go(func() {
			l, err := c.Mutex("k" + string(rune('a'+i%26)) + string(rune('a'+i/26))).Lock(t.Context())
			if err != nil || l.Unlock(t.Context()) != nil {
				t.Error(err)
			}
		})
	}
	require.Eventually(t, func() bool { return callsOf(c).UnderWay() == callers }, patience, time.Millisecond)
	s.Resume()
	wg.Wait()
	got := sentFor(c, "acquire")
	require.NotZero(t, got.Answered)
	require.Less(t, got.Answered, uint64(callers))
}

func TestCommandsAreCountedByNode(t *testing.T) {
	var nodes []rueidis.Client
	for range 3 {
		nodes = append(nodes, redistest.Start(t).Client())
	}
	c, err := relock.NewRedlock(nodes)
	require.NoError(t, err)
	t.Cleanup(c.Close)
	l, err := c.Mutex("k").Lock(t.Context())
	require.NoError(t, err)
	require.NoError(t, l.Unlock(t.Context()))
	c.Close()
	voted, checked := map[int]uint64{}, map[int]uint64{}
	for _, s := range c.Stats().Commands {
		switch s.Command {
		case "acquire":
			voted[s.Node] = s.Answered
		case "check":
			checked[s.Node] = s.Answered
		}
	}
	for n := 1; n <= 3; n++ {
		require.NotZero(t, checked[n], "node %d", n)
	}
	require.Len(t, voted, 3)
	require.GreaterOrEqual(t, voted[1]+voted[2]+voted[3], uint64(2))
}

// Nobody has to be told of events for that.
func TestStatsTellWhatIsDown(t *testing.T) {
	s := redistest.Start(t)
	c := newClient(t, s.Client(), relock.WithCommandTimeout(200*time.Millisecond))
	require.Empty(t, c.Stats().Down)
	s.Pause()
	_, err := c.Mutex("k").TryLock(t.Context())
	require.Error(t, err)
	require.Eventually(t, func() bool { return len(c.Stats().Down) > 0 }, patience, time.Millisecond)
	require.Equal(t, []int{0}, c.Stats().Down)
	s.Resume()
	require.Eventually(t, func() bool {
		_, _ = c.Mutex("other").TryLock(t.Context())
		return len(c.Stats().Down) == 0
	}, patience, time.Millisecond)
}

func TestStatsOfNoClient(t *testing.T) {
	var c *relock.Client
	require.Empty(t, c.Stats().Commands)
	require.Empty(t, new(relock.Client).Stats().Commands)
}

// acquainted is an observer that knows its clients.
type acquainted struct {
	seen
	clients map[*relock.Client]bool // false once closed
}

func (a *acquainted) ObserveClient(c *relock.Client) (closed func()) {
	a.clients[c] = true
	return func() { a.clients[c] = false }
}

func TestObserversKnowTheirClients(t *testing.T) {
	s := redistest.Start(t)
	o := &acquainted{clients: map[*relock.Client]bool{}}
	for _, opts := range [][]relock.ClientOption{{relock.WithObserver(o)}, {relock.WithObserver(o), relock.WithLogger(slog.New(slog.DiscardHandler))}} {
		c := newClient(t, s.Client(), opts...)
		require.True(t, o.clients[c])
		c.Close()
		require.False(t, o.clients[c])
	}
	require.Len(t, o.clients, 2)
	newClient(t, s.Client(), relock.WithObserver(&seen{}))
}
