package quorum

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/redis/rueidis"
	"github.com/relock-go/relock/internal/driver"
	"github.com/relock-go/relock/internal/driver/overrueidis"
	"github.com/relock-go/relock/internal/faults"
	"github.com/relock-go/relock/internal/wire"
	"github.com/stretchr/testify/require"
)

// born is when a node's incarnation was noticed, "0" where it was declared new, "" where it has no marker.
const born = "relock_incarnation"

// A node that becomes another process while it is being declared new is not: what it forgot may still be relied on.
func TestDeclaresOnlyTheProcessThatItFound(t *testing.T) {
	nodes := masters(t, 3)
	q, taps := tapped(t, nodes)
	taps[0].Filter(faults.Next(faults.Script("declare"), faults.Hold))
	prepared := make(chan error, 1)
	go func() { prepared <- q.prepare(context.Background()) }()
	within(t, taps[0].Told())
	nodes[0].RestartEmpty()
	taps[0].Release()
	require.NoError(t, within(t, prepared))
	require.Empty(t, nodes[0].Do("HGET", born, "born"), "its guard decides")
	require.Equal(t, "0", nodes[1].Do("HGET", born, "born"))
}

// Two callers declare nodes new at once, and one node is restarted meanwhile. To the caller that looks last, the new
// process is the one that the other caller noted. Neither declares it: it may have forgotten what a third client locked.
func TestDeclaresNoProcessThatAnotherCallerFound(t *testing.T) {
	for when, heldUp := range map[string]int{"after the own look": 2, "before the own look": 0} {
		t.Run(when, func(t *testing.T) {
			nodes := make([]freshNode, 3)
			var redises []driver.Redis
			for i := range nodes {
				nodes[i].told = make(chan struct{}, 10)
				nodes[i].run.Store(fmt.Sprint("process ", i))
				redises = append(redises, &nodes[i])
			}
			q := over(t, redises)
			for i, m := range q.members {
				require.NoError(t, q.check(t.Context(), m))
				within(t, nodes[i].told)
			}
			declared := make(chan error, 2)
			declare := func() { declared <- q.declare(t.Context()) }
			require.NoError(t, q.members[heldUp].beginCheck(t.Context())) // as if the looks at this node took long
			go declare()
			looked := func() {
				for i := range nodes {
					if i != heldUp {
						within(t, nodes[i].told)
					}
				}
			}
			looked()
			if heldUp != 0 {
				nodes[0].run.Store("another process")
			}
			go declare()
			looked()
			nodes[0].run.Store("another process")
			q.members[heldUp].endCheck()
			require.NoError(t, within(t, declared))
			require.NoError(t, within(t, declared))
			require.NotEqual(t, "another process", nodes[0].declared.Load())
		})
	}
}

// freshNode is a node without a marker. A test says which process it is.
type freshNode struct {
	faults.Stub
	run, declared atomic.Value  // run ids; declared only of the process that was asked
	told          chan struct{} // one for each time that the node told which process it is
}

func (n *freshNode) Do(context.Context, ...[]string) ([]driver.Value, error) {
	run := n.run.Load().(string)
	n.told <- struct{}{}
	return []driver.Value{
		driver.List(driver.String("1800000000"), driver.String("0")), driver.Int(0),
		driver.String("run_id:" + run + "\r\n"), driver.String("role:master\r\n"),
	}, nil
}

func (n *freshNode) Run(_ context.Context, s *driver.Script, _, args []string) (driver.Value, error) {
	if args[0] != n.run.Load() {
		return driver.Int(0), nil
	}
	n.declared.Store(args[0])
	return driver.Int(1), nil
}

// Nodes were found fresh, but by now another client has declared them new, and may hold a lock that one of them forgot
// since: that one is not declared new again.
func TestDeclaresNothingWhereAnotherClientWasFaster(t *testing.T) {
	nodes := masters(t, 3)
	late, taps := tapped(t, nodes)
	taps[2].Filter(faults.Next(faults.Command("TIME"), faults.Pass, faults.Hold)) // the second question to node 3
	done := make(chan error, 1)
	go func() { done <- late.prepare(context.Background()) }()
	within(t, taps[2].Told())
	prepared(t, nodes)
	nodes[0].Do("FLUSHALL")
	taps[2].Release()
	require.NoError(t, within(t, done))
	require.Empty(t, nodes[0].Do("HGET", born, "born"))
}

// A node that does not say who it is was not asked to vote: nothing of that may come late, and nothing is swept.
func TestNodeThatIsNotKnownWasNotAsked(t *testing.T) {
	q, taps := tapped(t, masters(t, 1))
	taps[0].Filter(faults.All(faults.Command("TIME"), faults.LoseCall))
	c := contender(t, q)
	got := sendAt(c.contest, 0)
	require.Error(t, got.err)
	require.False(t, c.contest.voters[0].MayRunLate())
	c.Abandon()
	require.Zero(t, q.members[0].Debug().Sweeping)
}

// A server that may not be asked which process it is might be any: it is no node, now or later. Restarts of it would not be
// noticed.
func TestNodeThatMayNotBeAskedIsNone(t *testing.T) {
	for _, n := range []int{1, 3} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			servers := masters(t, n)
			var nodes []driver.Redis
			for _, s := range servers {
				rdb, err := rueidis.NewClient(s.AddUser("app", "secret", "~*", "&*", "+@all", "-info"))
				require.NoError(t, err)
				t.Cleanup(rdb.Close)
				nodes = append(nodes, overrueidis.New(rdb))
			}
			q := over(t, nodes)
			require.Error(t, q.check(t.Context(), q.members[0]), "it is not even asked to vote")
			_, err := q.newClaim(entry(t, q)).Wait(t.Context(), nil)
			require.Error(t, err)
			require.Regexp(t, "(?i)info|the user executing the script", err.Error())
			require.False(t, wire.Transient(err))
			right := func(info string) {
				for _, s := range servers {
					s.Do("ACL", "SETUSER", "app", info)
				}
			}
			right("+info")
			c := q.newClaim(entry(t, q))
			_, err = c.Wait(t.Context(), nil)
			require.NoError(t, err)
			require.NoError(t, c.release(nil))
			right("-info")
			_, err = q.newClaim(entry(t, q)).Try(t.Context())
			require.Error(t, err)
			require.Regexp(t, "(?i)info|the user executing the script", err.Error())
			require.False(t, wire.Transient(err))
		})
	}
}

// A server that has no run id to tell is a node. That its restarts are not noticed is told once.
func TestNodeWithoutRunIDIsToldOfOnce(t *testing.T) {
	for name, info := range map[string]driver.Value{
		"none": driver.String("# Clients\r\n"), "no such section": driver.Error(&driver.ReplyError{Text: "section (server) is not supported"}),
	} {
		t.Run(name, func(t *testing.T) {
			var told []string
			q := over(t, []driver.Redis{&faults.Stub{
				OnDo: func(_ context.Context, command []string) (driver.Value, error) {
					switch command[0] {
					case "TIME":
						return driver.List(driver.String("1800000000"), driver.String("0")), nil
					case "EXISTS":
						return driver.Int(1), nil
					}
					return info, nil
				},
			}}, func(c *setup) {
				c.Impaired = func(node int, cause error) { told = append(told, fmt.Sprint(node, cause)) }
			})
			for range 3 {
				require.NoError(t, q.prepare(t.Context()))
				require.NoError(t, q.check(t.Context(), q.members[0]))
			}
			require.Len(t, told, 1, told)
		})
	}
}
