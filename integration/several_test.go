//go:build unix

package integration

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/relock-go/relock"
	"github.com/relock-go/relock/integration/faultproxy"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

// mutexes are those of the names.
func (p *performer) mutexes(names []string) []relock.Locker { return mutexesOf(p.locks, names) }

func mutexesOf(c *relock.Client, names []string) (parts []relock.Locker) {
	for _, name := range names {
		parts = append(parts, c.Mutex(name))
	}
	return parts
}

// some returns n of the names, in any order.
func some(names []string, n int) []string {
	names = slices.Clone(names)
	rand.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
	return names[:n]
}

// several takes n of the locks at once, others each time, and holds them for up to hold. What is written of all of them has
// the name, and the number of the call for a token.
func (p *performer) several(name string, names []string, n, who int, hold, pause time.Duration) {
	for call := int64(1); p.ctx.Err() == nil; call++ {
		chosen := some(names, n)
		p.write(now(), want, name, who, call, "")
		l, err := leaseUntil(p.ctx, relock.All(p.mutexes(chosen)...).Lock)
		switch at := now(); {
		case err == nil:
			p.write(at, granted, name, who, call, "")
		case p.ctx.Err() != nil && errors.Is(err, context.Cause(p.ctx)):
			p.write(at, gaveUp, name, who, call, "")
			return
		default:
			p.write(at, failed, name, who, call, fmt.Sprintf("Lock: %v", err))
			continue
		}
		for end := now() + rand.N(hold); p.lookAt(l, name, chosen, who, call) && now() < end; {
			time.Sleep(min(hold/4, time.Millisecond))
		}
		p.write(now(), unlocking, name, who, call, "")
		err = l.Unlock(context.Background())
		if l.Context().Err() == nil {
			p.write(now(), failed, name, who, call, "the context outlives Unlock")
		}
		note := "ok"
		for _, err := range joinedIn(err) {
			var of *relock.LostError
			switch {
			case errors.As(err, &of) && slices.Contains(chosen, of.Name):
				note = "lost"
			case errors.Is(err, relock.ErrUnavailable):
				note = "unanswered"
			default:
				p.write(now(), failed, name, who, call, fmt.Sprintf("Unlock: %v", err))
			}
		}
		p.write(now(), unlocked, name, who, call, note)
		time.Sleep(rand.N(pause))
	}
}

// lookAt writes a point of each lock if the lease of all is trusted.
func (p *performer) lookAt(l *relock.MultiLease, name string, chosen []string, who int, call int64) bool {
	at := now() // before asking: see span
	if l.Context().Err() != nil {
		cause := context.Cause(l.Context())
		var of *relock.LostError
		if !errors.As(cause, &of) || !slices.Contains(chosen, of.Name) {
			p.write(now(), failed, name, who, call, fmt.Sprintf("the context does not say which lock was lost: %v", cause))
		}
		p.write(now(), lost, name, who, call, fmt.Sprint(cause))
		return false
	}
	for _, one := range chosen {
		p.write(at, trusted, one, who, l.Token(one), "")
	}
	return true
}

// joinedIn returns the errors that err joins.
func joinedIn(err error) []error {
	var joined interface{ Unwrap() []error }
	switch {
	case err == nil:
		return nil
	case errors.As(err, &joined):
		return joined.Unwrap()
	}
	return []error{err}
}

// numberedFrom are so many names.
func numberedFrom(name string, n int) (names []string) {
	for i := range n {
		names = append(names, numbered(name, i))
	}
	return names
}

// shares returns how often each of the workers had what it wanted.
func shares(workers []*worker, events []event, wanted func(event) bool) (counts []int) {
	for _, w := range workers {
		counts = append(counts, len(only(events, func(e event) bool { return wanted(e) && w.owns(e) })))
	}
	return counts
}

// Processes want three of ten locks each, others each time, in any order: none waits for ever, none is worse off than others,
// no lock has two holders, and nothing is left.
func TestAllOfManyProcesses(t *testing.T) {
	begin(t)
	const lease = 10 * time.Second
	s := redistest.Start(t)
	jl, locks := newJournal(), numberedFrom("stock", 10)
	var workers []*worker
	for id := range rounds(12, 50) {
		workers = append(workers, startWorker(t, jl, id, jobFor(s.Option(), lease)))
	}
	began := now()
	for _, w := range workers {
		w.order("all stock 3 5ms 1ms %s", strings.Join(locks, " "))
	}
	time.Sleep(time.Duration(rounds(4, 60)) * time.Second) // what is counted
	ended := now()
	finish(t, workers...)
	events := jl.all()
	judgeSeveral(t, events, locks)
	require.Empty(t, only(events, func(e event) bool { return e.kind == lost || e.kind == unlocked && e.note != "ok" }))
	counts := shares(workers, events, func(e event) bool { return e.kind == granted && e.at > began && e.at < ended })
	worst, best := slices.Min(counts), slices.Max(counts)
	t.Logf("%d processes had three of ten locks %d to %d times; waits: %v", len(workers), worst, best, figures(waits(events, "stock")))
	require.GreaterOrEqual(t, rounds(3, 2)*worst, best) // in a short time chance has more of a say
	absent(t, soon, s, locks...)
}

// judgeSeveral checks that nothing failed, and that no lock had two holders or a token that did not rise.
func judgeSeveral(t *testing.T, events []event, locks []string) {
	t.Helper()
	nothingFailed(t, events)
	for _, lock := range locks {
		sorted := spans(events, lock)
		require.NotEmpty(t, sorted, lock)
		require.Empty(t, overlaps(sorted), lock)
		require.Empty(t, disorder(sorted), lock)
	}
}

// One of three locks is forced open, or is gone from Redis: the context of all ends by the next renewal and says which, and
// the two others are given back. The line is cut: it ends before anyone else has one of them.
func TestAllOneLost(t *testing.T) {
	begin(t)
	s := redistest.Start(t)
	t.Run("taken by one command", func(t *testing.T) {
		oneLost(t, s, func(c *relock.Client) []relock.Locker { return mutexesOf(c, numberedFrom("stock", 3)) })
	})
	t.Run("taken one by one", func(t *testing.T) {
		oneLost(t, s, func(c *relock.Client) []relock.Locker {
			return append(mutexesOf(c, numberedFrom("stock", 2)), c.RWMutex("books"))
		})
	})
}

// oneLost has one of three locks lost in each round.
func oneLost(t *testing.T, s *redistest.Server, parts func(*relock.Client) []relock.Locker) {
	const lease, slack = 900 * time.Millisecond, 50 * time.Millisecond
	line := faultproxy.New(t, s.Addr())
	rdb, err := rueidis.NewClient(through(s.Option(), line))
	require.NoError(t, err)
	defer rdb.Close()
	holder, err := relock.New(rdb, relock.WithLease(lease))
	require.NoError(t, err)
	defer holder.Close()
	outside := parts(open(t, s.Option()))
	all, others := relock.All(parts(holder)...), relock.All(outside...)
	took := make(map[string]figures)
	machine := startDrag(t)
	for i := range rounds(9, 150) {
		l, err := all.Lock(t.Context())
		require.NoError(t, err)
		which := outside[rand.IntN(len(outside))]
		time.Sleep(rand.N(lease / 3)) // anywhere between two renewals
		how := []string{"forced", "gone", "cut"}[i%3]
		at := now()
		switch how {
		case "forced":
			_, err := which.(interface {
				ForceUnlock(context.Context) (bool, error)
			}).ForceUnlock(t.Context())
			require.NoError(t, err)
		case "gone":
			s.Do("DEL", which.Name())
		case "cut":
			line.Cut()
			next, err := others.Lock(t.Context())
			require.NoError(t, err)
			require.Error(t, l.Context().Err(), "another one has what is trusted")
			require.NoError(t, next.Unlock(t.Context()))
		}
		select {
		case <-l.Context().Done():
		case <-time.After(soon):
			t.Fatal("the loss is not told")
		}
		took[how] = append(took[how], now()-at)
		var of *relock.LostError
		require.ErrorAs(t, context.Cause(l.Context()), &of)
		require.ErrorIs(t, of, relock.ErrLost)
		if how == "cut" {
			line.Heal()
		} else {
			require.Equal(t, which.Name(), of.Name)
		}
		require.ErrorIs(t, l.Unlock(t.Context()), relock.ErrLost)
		next, err := others.Lock(t.Context())
		require.NoError(t, err)
		require.NoError(t, next.Unlock(t.Context()))
	}
	held := machine.end()
	t.Logf("until the context of three ended, lease %v: %v (machine held up %v)", lease, took, held)
	for _, how := range []string{"forced", "gone"} {
		require.LessOrEqual(t, took[how].max(), lease/3+slack+3*held, how)
	}
	for _, one := range outside {
		absent(t, soon, s, one.Name())
	}
}

// three are locks in the slots of three masters.
func three(t *testing.T, c *redistest.Cluster) (locks []string) {
	t.Helper()
	of := make(map[*redistest.Server]bool)
	for i := 0; len(locks) < 3; i++ {
		if name := numbered("stock", i); !of[c.MasterFor(name)] {
			of[c.MasterFor(name)] = true
			locks = append(locks, name)
		}
	}
	return locks
}

// On a Cluster All takes locks of one slot by one command, and locks of several slots one by one. A master of three is killed:
// all processes go on at the next one.
func TestAllInCluster(t *testing.T) {
	begin(t)
	cluster := redistest.StartCluster(t)
	apart := three(t, cluster)
	asked := func(locks []string) (sent int64) {
		all := relock.All(mutexesOf(open(t, cluster.Option()), locks)...)
		for range 2 { // the first time brings the scripts
			sent = 0
			for _, lock := range locks {
				cluster.MasterFor(lock).ResetCommandCounts()
			}
			l, err := all.Lock(t.Context())
			require.NoError(t, err)
			of := make(map[*redistest.Server]bool)
			for _, lock := range locks {
				if master := cluster.MasterFor(lock); !of[master] {
					of[master] = true
					sent += master.CommandCounts()["evalsha"]
				}
			}
			require.NoError(t, l.Unlock(t.Context()))
		}
		return sent
	}
	require.EqualValues(t, 1, asked(numberedFrom("{slot}", 10)))
	require.EqualValues(t, len(apart), asked(apart))

	jl := newJournal()
	var workers []*worker
	for id := range 4 {
		workers = append(workers, startWorker(t, jl, id, jobFor(cluster.Option(), crowdLease)))
		workers[id].order("all stock 3 10ms 10ms %s", strings.Join(apart, " "))
	}
	served := func(since time.Duration) {
		for _, w := range workers {
			jl.await(t, crowdLease+soon, since, "a grant", func(e event) bool { return e.kind == granted && w.owns(e) })
		}
	}
	served(0)
	fault := now()
	old := cluster.KillMasterFor(apart[1])
	cluster.WaitFailover(apart[1], old)
	back := now()
	served(back)
	t.Logf("%v after a master was killed every process had all three again, %v after the failover", now()-fault, now()-back)
	time.Sleep(2 * time.Second) // rueidis asks once more which nodes there are, and its Close does not end that
	finish(t, workers...)
	events := jl.all()
	nothingFailed(t, events)
	for _, lock := range apart {
		judgeAcross(t, events, lock, fault, back)
		absent(t, 2*crowdLease, cluster.MasterFor(lock), lock)
	}
}

// A node of a quorum of five is killed: processes go on, and lose nothing.
func TestAllOnQuorum(t *testing.T) {
	begin(t)
	const lease = 2 * time.Second
	var nodes []*redistest.Server
	j := job{Lease: lease, Quorum: &quorumJob{Longest: lease}}
	for range 5 {
		nodes = append(nodes, redistest.Start(t))
		j.Addrs = append(j.Addrs, nodes[len(nodes)-1].Addr())
	}
	jl, locks := newJournal(), numberedFrom("stock", 6)
	var workers []*worker
	for id := range 4 {
		workers = append(workers, startWorker(t, jl, id, j))
		workers[id].order("all stock 3 10ms 10ms %s", strings.Join(locks, " "))
	}
	served := func(times int) {
		for range times {
			since := now()
			for _, w := range workers {
				jl.await(t, soon, since, "a grant", func(e event) bool { return e.kind == granted && w.owns(e) })
			}
		}
	}
	served(5)
	nodes[2].Kill()
	served(rounds(10, 200))
	finish(t, workers...)
	events := jl.all()
	judgeSeveral(t, events, locks)
	require.Empty(t, only(events, func(e event) bool { return e.kind == lost }))
	for _, s := range []*redistest.Server{nodes[0], nodes[1], nodes[3], nodes[4]} {
		absent(t, soon, s, locks...)
	}
}
