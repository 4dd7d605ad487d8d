package quorum

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/relock-go/relock/internal/claim"
	"github.com/relock-go/relock/internal/clock"
	"github.com/relock-go/relock/internal/driver"
	"github.com/relock-go/relock/internal/faults"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/relock-go/relock/internal/wire"
	"github.com/stretchr/testify/require"
)

// round is one renewal of a lock: when it was sent, in command time-outs, and what became of it at each node.
type round struct {
	sent float64
	said []wire.Result
}

const (
	kept   = wire.Renewed
	lost   = wire.Lost
	silent = wire.Unanswered
)

// A node that lost a lock is taken again only by a renewal that was sent a command time-out after one that found the
// loss, and only while the lock stands on a quorum.
func TestRepair(t *testing.T) {
	for name, tc := range map[string]struct {
		rounds  []round
		votes   []int // how many each node is asked for
		settled wire.Result
	}{
		"nothing is lost": {[]round{{0, []wire.Result{kept, kept, kept}}}, []int{0, 0, 0}, wire.Renewed},
		"it was found just now": {
			[]round{{0, []wire.Result{lost, kept, kept}}}, []int{0, 0, 0}, wire.Renewed,
		},
		"it was found too lately": {
			[]round{{0, []wire.Result{lost, kept, kept}}, {0.99, []wire.Result{lost, kept, kept}}},
			[]int{0, 0, 0}, wire.Renewed,
		},
		"it was found a time-out ago": {
			[]round{{0, []wire.Result{lost, kept, kept}}, {1, []wire.Result{lost, kept, kept}}},
			[]int{1, 0, 0}, wire.Renewed,
		},
		"it was found several times": {
			[]round{
				{0, []wire.Result{lost, kept, kept}}, {0.6, []wire.Result{lost, kept, kept}},
				{1.2, []wire.Result{lost, kept, kept}},
			},
			[]int{1, 0, 0}, wire.Renewed,
		},
		"it is found by no answer": {
			[]round{{0, []wire.Result{lost, kept, kept}}, {9, []wire.Result{silent, kept, kept}}},
			[]int{0, 0, 0}, wire.Renewed,
		},
		"no answer ends no loss": {
			[]round{
				{0, []wire.Result{lost, kept, kept}}, {0.6, []wire.Result{silent, kept, kept}},
				{1.2, []wire.Result{lost, kept, kept}},
			},
			[]int{1, 0, 0}, wire.Renewed,
		},
		"it was ours again meanwhile": {
			[]round{
				{0, []wire.Result{lost, kept, kept}}, {0.6, []wire.Result{kept, kept, kept}},
				{1.2, []wire.Result{lost, kept, kept}},
			},
			[]int{0, 0, 0}, wire.Renewed,
		},
		"it is repaired until it is ours": {
			[]round{
				{0, []wire.Result{lost, kept, kept}}, {1, []wire.Result{lost, kept, kept}},
				{2, []wire.Result{lost, kept, kept}}, {3, []wire.Result{kept, kept, kept}},
			},
			[]int{2, 0, 0}, wire.Renewed,
		},
		"each node has its own time": {
			[]round{
				{0, []wire.Result{lost, kept, kept, kept, kept}}, {0.9, []wire.Result{lost, lost, kept, kept, kept}},
				{1.5, []wire.Result{lost, lost, kept, kept, kept}}, {2, []wire.Result{lost, lost, kept, kept, kept}},
			},
			[]int{2, 1, 0, 0, 0}, wire.Renewed,
		},
		"a quorum is lost": {
			[]round{{0, []wire.Result{lost, lost, kept}}, {9, []wire.Result{lost, lost, kept}}},
			[]int{0, 0, 0}, wire.Lost,
		},
		"no quorum answers": {
			[]round{{0, []wire.Result{lost, silent, kept}}, {9, []wire.Result{lost, silent, kept}}},
			[]int{0, 0, 0}, wire.Unanswered,
		},
	} {
		t.Run(name, func(t *testing.T) {
			var mu sync.Mutex
			votes := make([]int, len(tc.votes))
			q := stubs(t, len(votes), func(i int, c *faults.Call) (driver.Value, error) {
				mu.Lock()
				defer mu.Unlock()
				if c.ScriptName() == "vote" && c.Has(wire.ToTry) {
					votes[i]++
				}
				return driver.Value{}, &driver.ReplyError{Text: "ERR no matter"}
			}, func(c *setup) { c.Timeout = 4 * patience })
			c, began := contender(t, q), clock.Now()
			for _, r := range tc.rounds {
				settled := renewed(c, began.Add(time.Duration(r.sent*float64(q.cfg.Timeout))), r.said)
				require.Equal(t, []wire.Result{tc.settled}, settled)
			}
			q.crew.End(context.Background())
			require.Equal(t, tc.votes, votes)
		})
	}
}

// A node that was taken again, or perhaps was, may be lost another time: that loss is not repaired before its own time.
func TestNodeThatIsTakenAgainIsLostAnew(t *testing.T) {
	mine := driver.List(driver.Int(1), driver.Int(7), driver.Int(1), driver.Int(1000), driver.String("x"), driver.Int(1), driver.Int(0))
	for name, answer := range map[string]struct {
		value driver.Value
		err   error
	}{"taken": {mine, nil}, "not answered": {driver.Value{}, context.DeadlineExceeded}} {
		t.Run(name, func(t *testing.T) {
			var votes atomic.Int32
			q := stubs(t, 3, func(_ int, c *faults.Call) (driver.Value, error) {
				if c.ScriptName() == "vote" && c.Has(wire.ToTry) {
					votes.Add(1)
				}
				return answer.value, answer.err
			}, func(c *setup) { c.Timeout = 4 * patience })
			c, began := contender(t, q), clock.Now()
			loses := func(sent float64) {
				settled := renewed(c, began.Add(time.Duration(sent*float64(q.cfg.Timeout))), []wire.Result{lost, kept, kept})
				require.Equal(t, []wire.Result{kept}, settled)
			}
			loses(0)
			loses(1)
			require.Eventually(t, func() bool { return c.contest.voters[0].missingSince.Load() == nil }, patience, time.Millisecond)
			loses(1.2)
			loses(2)
			require.EqualValues(t, 1, votes.Load())
			loses(2.2)
			q.crew.End(context.Background())
			require.EqualValues(t, 2, votes.Load())
		})
	}
}

// renewed has the nodes say what became of one renewal, and returns how it was settled.
func renewed(c *Claim, sent clock.Stamp, said []wire.Result) (settled []wire.Result) {
	tl := &renewalRound{
		q: c.q, sent: sent, batch: []claim.Renewal{{Claim: c}}, answers: make([]renewalAnswers, 1),
		settle: func(_ int, r wire.Result, _ clock.Stamp, _ error) { settled = append(settled, r) },
	}
	for i, result := range said {
		tl.add(c.q.members[i], 0, result, nil)
	}
	tl.finish()
	return settled
}

// Renewals take a node again by themselves, where the lock was deleted behind everybody's back.
func TestRenewalsTakeANodeAgain(t *testing.T) {
	nodes := masters(t, 3)
	q := quorumOf(t, nodes, func(c *setup) { c.Timeout = time.Second })
	c := q.newClaim(entry(t, q))
	_, err := c.Wait(context.Background(), nil)
	require.NoError(t, err)
	batch := []claim.Renewal{{Claim: c, Lease: q.cfg.Lease}}
	everywhere := func() bool {
		q.Renew(context.Background(), batch, func(int, wire.Result, clock.Stamp, error) {})
		return !slices.ContainsFunc(nodes, func(s *redistest.Server) bool {
			return s.Do("HEXISTS", "k", c.Entry.ID) == "0"
		})
	}
	require.Eventually(t, everywhere, patience, 10*time.Millisecond)
	nodes[1].Do("DEL", "k")
	require.Eventually(t, everywhere, patience, 10*time.Millisecond)
	_ = c.release(nil) // on a busy machine it may be left open: then it is swept
	for _, s := range nodes {
		require.Eventually(t, func() bool { return s.Do("EXISTS", "k") == "0" }, patience, time.Millisecond)
	}
}

// A loss that is found is looked at again as soon as it may be repaired, not with the next renewal: by then another node may
// be restarted. Who was unlocked meanwhile is not taken again.
func TestLossIsRepairedBeforeTheNextRenewal(t *testing.T) {
	for _, unlocked := range []bool{false, true} {
		t.Run(fmt.Sprint("unlocked ", unlocked), func(t *testing.T) {
			nodes := masters(t, 3)
			q, taps := tapped(t, nodes, func(c *setup) { c.Timeout = time.Second })
			c := q.newClaim(entry(t, q))
			_, err := c.Wait(t.Context(), nil)
			require.NoError(t, err)
			settled(t, c, nodes)
			nodes[1].Do("DEL", "k")
			taps[1].Filter(faults.All(faults.Script("renew"), faults.Tell))
			batch := []claim.Renewal{{Claim: c, Count: 1, Lease: q.cfg.Lease}}
			q.Renew(t.Context(), batch, func(_ int, r wire.Result, _ clock.Stamp, _ error) { require.Equal(t, wire.Renewed, r) })
			within(t, taps[1].Told())
			if unlocked {
				_ = c.release(nil) // node 2 may say that it is lost
			}
			within(t, taps[1].Told())
			there := map[bool]string{false: "1", true: "0"}[unlocked]
			for _, s := range nodes {
				require.Eventually(t, func() bool { return s.Do("EXISTS", "k") == there }, patience, time.Millisecond)
			}
		})
	}
}

// A vote that takes a node again and is answered once the lock was released is undone.
func TestLateRepairIsUndone(t *testing.T) {
	nodes := masters(t, 3)
	q, taps := tapped(t, nodes)
	c := q.newClaim(entry(t, q))
	_, err := c.Wait(context.Background(), nil)
	require.NoError(t, err)
	settled(t, c, nodes)
	nodes[1].Do("DEL", "k")
	taps[1].Filter(faults.All(faults.Script("vote"), faults.Hold))
	now := clock.Now()
	require.Equal(t, []wire.Result{wire.Renewed}, renewed(c, now, []wire.Result{kept, lost, kept}))
	require.Equal(t, []wire.Result{wire.Renewed}, renewed(c, now.Add(q.cfg.Timeout), []wire.Result{kept, lost, kept}))
	within(t, taps[1].Told())
	taps[1].Filter(faults.All(faults.Script("sweep"), faults.Tell))
	require.NoError(t, c.release(nil))
	for _, i := range []int{0, 2} {
		require.Eventually(t, func() bool { return nodes[i].Do("EXISTS", "k") == "0" }, patience, time.Millisecond)
	}
	taps[1].Release()
	within(t, taps[1].Told())
	require.Eventually(t, func() bool { return nodes[1].Do("EXISTS", "k") == "0" }, patience, time.Millisecond)
}

// A vote that gives a node's grant back may be on its way when its contender gets a quorum elsewhere. Until it runs the
// node has the lock, and says so; then it goes to another contender, or comes back for a lease that is shorter. So that
// node's word does not count for Extend, a re-entry or a renewal, unless they were sent after that vote was answered.
func TestNodeThatMayGiveBackConfirmsNothing(t *testing.T) {
	servers := masters(t, 3)
	q, taps := tapped(t, servers)
	c := q.newClaim(entry(t, q))
	_, err := c.Wait(t.Context(), nil)
	require.NoError(t, err)
	defer c.Abandon()
	e := c.contest
	settled(t, c, servers)
	for e.count(func(v *voter) bool { return v.pending() }) > 0 { // the winner has waited for two of three
		e.takeVote(within(t, e.votes))
	}
	require.True(t, e.voters[0].owns(clock.Now()))

	taps[0].Filter(faults.Next(faults.Script("vote"), faults.Hold))
	e.voters[0].yieldGrant(clock.Now())
	for _, v := range e.voters[1:] { // news that came during a vote has it asked again at once
		v.due = clock.Now().Add(q.cfg.Lease)
	}
	e.ask(wire.ToWait)
	within(t, taps[0].Told())
	taps[2].Filter(faults.All(faults.AnyScript, faults.LoseCall))
	const long = time.Minute
	renews := func() (got wire.Result) {
		q.Renew(t.Context(), []claim.Renewal{{Claim: c, Lease: long}},
			func(_ int, r wire.Result, _ clock.Stamp, _ error) { got = r })
		return got
	}
	_, err = c.SetCount(t.Context(), 1, long)
	var refused *wire.QuorumError
	require.ErrorAs(t, err, &refused, "one node's word and that of one which is about to give back")
	require.ErrorContains(t, err, errYielding.Error())
	require.Equal(t, wire.Unanswered, renews())

	taps[0].Release()
	got := within(t, e.votes)
	require.Equal(t, 1, got.voter.member.index)
	require.NoError(t, got.err)
	e.takeVote(got) // no other contender waits: it is granted to us again, for a lease
	left, err := strconv.Atoi(servers[0].Do("PTTL", "k"))
	require.NoError(t, err)
	require.LessOrEqual(t, time.Duration(left)*time.Millisecond, q.cfg.Lease, "and not for what was asked before")
	require.Eventually(t, func() bool { _, err := c.SetCount(t.Context(), 1, long); return err == nil }, patience, time.Millisecond)
	require.Equal(t, wire.Renewed, renews())
}
