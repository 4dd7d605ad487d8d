package quorum

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/relock-go/relock/internal/claim"
	"github.com/relock-go/relock/internal/clock"
	"github.com/relock-go/relock/internal/driver"
	"github.com/relock-go/relock/internal/faults"
	"github.com/relock-go/relock/internal/wire"
	"github.com/stretchr/testify/require"
)

// A lock is forced open at two nodes of three. The first was another contender's, and hands the lock over to the entry that
// the holder has left in its queue. The other was the holder's. The holder is deposed all the same, also where it asks
// between the two.
func TestForcedHolderIsDeposedThoughANodeIsHandedToIt(t *testing.T) {
	for _, shared := range []string{"", "a shared owner"} {
		for _, asks := range []bool{false, true} {
			t.Run(fmt.Sprintf("asks between %v, owner %q", asks, shared), func(t *testing.T) {
				servers := masters(t, 3)
				other := contender(t, prepared(t, servers))
				defer other.Abandon()
				voteAt(t, other.contest, 0)
				q, taps := tapped(t, servers)
				taps[0].Filter(faults.All(faults.Script("vote"), faults.Tell))
				e := entry(t, q)
				e.Owner = shared
				c := q.newClaim(e)
				_, err := c.Wait(t.Context(), nil)
				require.NoError(t, err)
				defer c.Abandon()
				queued := func() bool { return servers[0].Do("ZCARD", "relock_queue:{k}") == "1" }
				require.Eventually(t, queued, patience, time.Millisecond)
				<-c.contest.voters[0].voteDone // its answer is noted

				renews := func() (got wire.Result) {
					q.Renew(t.Context(), []claim.Renewal{{Claim: c, Lease: q.cfg.Lease}},
						func(_ int, r wire.Result, _ clock.Stamp, _ error) { got = r })
					return got
				}
				operator, lines := tapped(t, servers)
				lines[1].Filter(faults.Next(faults.Script("force"), faults.Hold))
				lines[2].Filter(faults.All(faults.Script("force"), faults.LoseCall))
				forced := make(chan error, 1)
				go func() {
					freed, err := operator.Force(context.WithoutCancel(t.Context()), c.Entry.Names)
					if err == nil && !freed {
						err = wire.ErrNotHeld
					}
					forced <- err
				}()
				within(t, lines[1].Told())
				handed := func() bool { return servers[0].Do("HEXISTS", "k", c.Entry.ID) == "1" }
				require.Eventually(t, handed, patience, time.Millisecond, "the node is handed over to the holder")
				if asks {
					require.Equal(t, wire.Renewed, renews())
				}
				lines[1].Release()
				require.NoError(t, within(t, forced))
				require.Equal(t, "0", servers[0].Do("HEXISTS", "k", c.Entry.ID))
				require.Equal(t, "0", servers[1].Do("HEXISTS", "k", c.Entry.ID))
				require.Equal(t, wire.Lost, renews())
			})
		}
	}
}

// A holder that was handed a node, and cannot be ended at a quorum, is not said to be deposed.
func TestForceFailsWhereTheHolderCannotBeEnded(t *testing.T) {
	forces := make([]int, 3)
	var mu sync.Mutex
	q := stubs(t, 3, func(node int, c *faults.Call) (driver.Value, error) {
		mu.Lock()
		defer mu.Unlock()
		forces[node]++
		if node == 2 || forces[node] > 1 {
			return driver.Value{}, errors.New("down")
		}
		return driver.String([]string{"other:1", "holder:1"}[node]), nil
	})
	_, err := q.Force(t.Context(), entry(t, q).Names)
	var failed *wire.QuorumError
	require.ErrorAs(t, err, &failed)
	mu.Lock()
	defer mu.Unlock()
	require.Equal(t, 2, forces[0])
	require.Equal(t, 2, forces[1])
}

// Only an owner that may have had a quorum, and may have one again, is ended once more.
func TestSurvivors(t *testing.T) {
	for name, tc := range map[string]struct {
		owners []string // of the nodes that answered, "" for a node that was free
		of     int
		want   []string
	}{
		"all answer":                      {[]string{"a", "b", "b"}, 3, nil},
		"one had all that answer":         {[]string{"b", "b"}, 3, nil},
		"nobody had any":                  {[]string{"", ""}, 3, nil},
		"two had one each":                {[]string{"a", "b"}, 3, []string{"a", "b"}},
		"one node was free":               {[]string{"", "b"}, 3, []string{"b"}},
		"too few for one":                 {[]string{"a", "b", "b", "b"}, 5, []string{"b"}},
		"too few for any":                 {[]string{"a", "b", "c", "d"}, 5, nil},
		"two nodes that are silent, of 5": {[]string{"a", "b", "c"}, 5, []string{"a", "b", "c"}},
		"a free node and a silent, of 4":  {[]string{"a", "", "b"}, 4, nil},
		"its own node and a silent, of 4": {[]string{"a", "b", "b"}, 4, []string{"b"}},
		"all but one is its own, of 5":    {[]string{"a", "b", "b", "b"}, 5, []string{"b"}},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, tc.want, survivors(tc.owners, tc.of-len(tc.owners), tc.of/2+1))
		})
	}
}

// A contender that hears that it was deposed at a node counts that node no more, whatever an answer says that was on its way.
// It asks the node again: it may have lost its place in the queue.
func TestDeposedContenderCountsTheNodeNoMore(t *testing.T) {
	q := stubs(t, 3, unsaid)
	c := contender(t, q)
	defer c.Abandon()
	now, v := clock.Now(), c.contest.voters[0]
	standing{number: 61, counter: 60, last: regranted}.give(v, now)
	answered := v.beginVote(now)
	close(answered)
	v.member.Debug().Hub.Message(wire.InboxPrefix+clientOf(q), fmt.Sprintf("0 0 %s 0 k", c.Entry.ID))
	c.contest.takeMessages(clock.Now())
	require.Zero(t, v.Belief.Number)
	require.Equal(t, noYield, v.lastYield)

	c.contest.takeVote(vote{voter: v, sent: now, Answer: wire.Answer{Mine: true, Number: 61, Count: 256}})
	require.Zero(t, v.Belief.Number)
	require.True(t, v.due.Reached(clock.Now()))

	answered = v.beginVote(clock.Now())
	close(answered)
	c.contest.takeVote(vote{voter: v, sent: clock.Now(), Answer: wire.Answer{Mine: true, Number: 317, Count: 256}})
	require.EqualValues(t, 317, v.Belief.Number, "it was granted again")
}
