package quorum

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/relock-go/relock/internal/clock"
	"github.com/relock-go/relock/internal/driver"
	"github.com/relock-go/relock/internal/driver/overrueidis"
	"github.com/relock-go/relock/internal/faults"
	"github.com/relock-go/relock/internal/node"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/relock-go/relock/internal/wire"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience is how long tests wait for what must happen. It is no promise of the library.
const patience = 15 * time.Second

// within takes what comes from ch, which must come.
func within[T any](t *testing.T, ch <-chan T) T {
	t.Helper()
	return await(t, ch, patience)
}

// await takes what comes from ch within limit.
func await[T any](t *testing.T, ch <-chan T, limit time.Duration) T {
	t.Helper()
	select {
	case v := <-ch:
		return v
	case <-time.After(limit):
		require.FailNow(t, "nothing came in time")
		panic("unreachable")
	}
}

// masters starts independent servers.
func masters(t *testing.T, n int) []*redistest.Server {
	t.Helper()
	var all []*redistest.Server
	for range n {
		all = append(all, redistest.Start(t))
	}
	return all
}

// over returns a client's quorum of nodes, with what a client says of them by default, but for the time-out: a busy
// machine is no node that is silent.
func over(t *testing.T, nodes []driver.Redis, changes ...func(*setup)) *Quorum {
	t.Helper()
	cfg := setup{retention: 10 * time.Minute, Config: Config{
		Need: len(nodes)/2 + 1, Timeout: 8 * time.Second, Lease: 30 * time.Second,
		Guard: true, Auto: true, Longest: 30 * time.Second, Impaired: func(int, error) {}, Mended: func(int, error) {},
	}}
	for _, change := range changes {
		change(&cfg)
	}
	is := wire.Options{Votes: true, Retention: cfg.retention}
	if cfg.Guard {
		is.Longest = cfg.Longest
	}
	id, all := uuid.NewString(), make([]*node.Node, len(nodes))
	for i, rdb := range nodes {
		all[i] = node.New(rdb, node.Config{
			Options: is, Client: id, Timeout: cfg.Timeout, Impaired: func(cause error) { cfg.Impaired(i+1, cause) },
			Mended: func(cause error) { cfg.Mended(i+1, cause) },
		})
	}
	q := New(all, cfg.Config)
	clients.Store(q, id)
	t.Cleanup(func() {
		q.Stop()
		q.Close()
		clients.Delete(q)
	})
	return q
}

// setup is what a client says of its quorum and its nodes.
type setup struct {
	Config
	retention time.Duration
}

// clients are the uuids of the quorums' clients.
var clients sync.Map

func clientOf(q *Quorum) string {
	id, _ := clients.Load(q)
	return id.(string)
}

// tapped returns a quorum of servers, with connections of its own, and where each has its faults.
func tapped(t *testing.T, servers []*redistest.Server, changes ...func(*setup)) (*Quorum, []*faults.Redis) {
	t.Helper()
	var nodes []driver.Redis
	var taps []*faults.Redis
	for _, s := range servers {
		tap := faults.NewRedis(overrueidis.New(s.Client()))
		nodes, taps = append(nodes, tap), append(taps, tap)
	}
	return over(t, nodes, changes...), taps
}

// quorumOf is tapped where no faults are wanted.
func quorumOf(t *testing.T, servers []*redistest.Server, changes ...func(*setup)) *Quorum {
	t.Helper()
	q, _ := tapped(t, servers, changes...)
	return q
}

// prepared is quorumOf whose nodes have been checked.
func prepared(t *testing.T, servers []*redistest.Server, changes ...func(*setup)) *Quorum {
	t.Helper()
	q := quorumOf(t, servers, changes...)
	require.NoError(t, q.prepare(context.Background()))
	return q
}

// stubs returns a quorum of n nodes whose scripts a test answers. The nodes are known already, so nothing else is sent.
func stubs(t *testing.T, n int, run func(node int, c *faults.Call) (driver.Value, error),
	changes ...func(*setup)) *Quorum {
	t.Helper()
	var nodes []driver.Redis
	for i := range n {
		nodes = append(nodes, &faults.Stub{
			OnRun: func(ctx context.Context, s *driver.Script, keys, args []string) (driver.Value, error) {
				words := append([]string{"EVALSHA", s.SHA, strconv.Itoa(len(keys))}, keys...)
				return run(i, &faults.Call{Context: ctx, Words: append(words, args...), Script: s.Text})
			},
		})
	}
	q := over(t, nodes, changes...)
	for i, m := range q.members {
		m.identity.Store(&identity{run: fmt.Sprint("run ", i), marked: true})
	}
	q.ready.Store(true)
	return q
}

// unsaid answers no script.
func unsaid(int, *faults.Call) (driver.Value, error) { return driver.Value{}, errors.New("unsaid") }

var entries atomic.Int64

// entry makes an entry for the lock k.
func entry(t *testing.T, q *Quorum) *wire.Entry {
	t.Helper()
	names, err := wire.Mutex.Names("", "k")
	require.NoError(t, err)
	return &wire.Entry{
		Names: names, ID: clientOf(q) + ":" + strconv.FormatInt(entries.Add(1), 10),
		Lease: q.cfg.Lease, Block: 256, Timeout: q.cfg.Timeout,
	}
}

// newClaim is Claim for tests, which look into it.
func (q *Quorum) newClaim(e *wire.Entry) *Claim { return q.Claim(*e).(*Claim) }

// release is Release for tests, with no next where that is nil.
func (c *Claim) release(next *Claim) error {
	_, _, err := c.Release(context.Background(), next)
	return err
}

// contender makes a claim of q to the lock k, with its contest.
func contender(t *testing.T, q *Quorum) *Claim {
	t.Helper()
	c := q.newClaim(entry(t, q))
	c.contest = newContest(c)
	return c
}

// settled waits until every node has the lock for c, which holds it, and no vote of c is out: one that runs late takes the lock
// again where a test deletes it.
func settled(t *testing.T, c *Claim, nodes []*redistest.Server) {
	t.Helper()
	for i, v := range c.contest.voters {
		if v.voteDone != nil {
			within(t, v.voteDone)
		}
		require.Eventually(t, func() bool { return nodes[i].Do("HEXISTS", "k", c.Entry.ID) == "1" }, patience, time.Millisecond)
	}
}

// voteAt sends one vote of a contest and takes its answer.
func voteAt(t *testing.T, e *contest, i int) {
	t.Helper()
	got := sendAt(e, i)
	require.NoError(t, got.err)
	e.takeVote(got)
}

// sendAt sends one vote of a contest and leaves its answer to be counted.
func sendAt(e *contest, i int) vote {
	v, now := e.voters[i], clock.Now()
	v.Belief.Base = now
	answered := v.beginVote(now)
	e.deliver(e.send(v, now, wire.Ballot{Ticket: e.ticketText, Yield: e.yieldAt(v), How: wire.ToWait, Least: e.q.proposedToken()}, v.seed), answered)
	return <-e.votes
}
