package quorum

import (
	"context"
	"strconv"
	"testing"
	"time"

	"github.com/relock-go/relock/internal/clock"
	"github.com/relock-go/relock/internal/driver"
	"github.com/relock-go/relock/internal/node"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/relock-go/relock/internal/wire"
	"github.com/stretchr/testify/require"
)

// forgets makes a node one that was emptied so long ago that its quarantine is over, but that was not yet told how far
// the others have counted.
func forgets(t *testing.T, s *redistest.Server) {
	t.Helper()
	s.Do("DEL", "redisson_lock_token:{k}", "k", "relock_queue:{k}")
	s.Do("HSET", "relock_incarnation", "born", strconv.FormatInt(time.Now().Add(-time.Hour).UnixMilli(), 10))
}

// reaches waits until a node's counter has got as far as reached.
func reaches(t *testing.T, s *redistest.Server, reached int64) {
	t.Helper()
	require.Eventually(t, func() bool {
		n, _ := strconv.ParseInt(s.Do("GET", "redisson_lock_token:{k}"), 10, 64)
		return n >= reached
	}, patience, time.Millisecond)
}

// A contender that was stopped asks on. What it heard of the others before they counted on, and a node forgot, is too
// little to tell that node.
func TestForgetfulNodeIsToldWhatWasAskedSince(t *testing.T) {
	nodes := masters(t, 3)
	holder := quorumOf(t, nodes)
	_, err := holder.Claim(entry(t, holder)).Wait(context.Background(), nil)
	require.NoError(t, err)
	c := contender(t, prepared(t, nodes))
	defer c.Abandon()
	e := c.contest
	for i := range nodes {
		voteAt(t, e, i)
	}
	reached := int64(0)
	for _, s := range nodes[1:] {
		reached, err = strconv.ParseInt(s.Do("INCRBY", "redisson_lock_token:{k}", "5000"), 10, 64)
		require.NoError(t, err)
	}
	forgets(t, nodes[0])

	e.voteTimeout = time.Minute // it has contended for long
	v, got := e.voters[0], sendAt(e, 0)
	require.ErrorContains(t, got.err, "UNSEEDED")
	e.count(got)
	require.False(t, v.seeded, "by votes of before")
	for _, other := range e.voters[1:] {
		require.True(t, other.due.Reached(clock.Now()), "they are asked anew")
	}
	voteAt(t, e, 1)
	require.False(t, v.seeded, "node 3 may know more")
	voteAt(t, e, 2)
	require.True(t, v.seeded)
	require.Less(t, v.due.Until(clock.Now()), time.Second, "it is asked as soon as it was told")
	reaches(t, nodes[0], reached)
	for range 6 { // it was full, and refused to be told
		v.pending = true
		e.count(vote{voter: v, err: got.err, sent: clock.Now()})
	}
	require.Greater(t, v.due.Until(clock.Now()), 6*firstPause, "it is asked less and less often")
}

// A winner without the node that forgot tells it too: a lock that always passes quickly leaves no time to ask the
// others.
func TestWinnerTellsTheForgetfulNode(t *testing.T) {
	nodes := masters(t, 3)
	q := quorumOf(t, nodes)
	before := q.Claim(entry(t, q))
	_, err := before.Wait(context.Background(), nil)
	require.NoError(t, err)
	require.NoError(t, before.Release(nil))
	forgets(t, nodes[0])
	c := contender(t, q)
	defer c.Abandon()
	e := c.contest
	v, now := e.voters[0], clock.Now()
	e.count(sendAt(e, 0))
	require.False(t, v.seeded)
	for _, other := range e.voters[1:] {
		other.pending = true
		e.count(vote{voter: other, sent: now, Answer: wire.Answer{Mine: true, Number: 1 << 52}})
	}
	g, won := e.win()
	require.True(t, won)
	require.True(t, v.seeded)
	reaches(t, nodes[0], g.Token)
}

// Where more nodes have forgotten than a quorum survives, one that does not answer is not waited for. It is where fewer have.
func TestSilentNodeIsNotAskedWhenTooManyForgot(t *testing.T) {
	refusal := &driver.ReplyError{Text: "UNSEEDED 1000 7"}
	for name, tc := range map[string]struct {
		nodes, forgot int // the first ones
		known         bool
	}{
		"two of three": {nodes: 3, forgot: 2, known: true}, "one of three": {nodes: 3, forgot: 1},
		"three of five": {nodes: 5, forgot: 3, known: true}, "two of five": {nodes: 5, forgot: 2},
		"four of five": {nodes: 5, forgot: 4, known: true},
	} {
		t.Run(name, func(t *testing.T) {
			q := stubs(t, tc.nodes, unsaid)
			e := contender(t, q).contest
			now := clock.Now()
			v := e.voters[0]
			v.doubted, v.err = now, refusal
			for i, other := range e.voters[1:] {
				other.asked, other.told = now.Add(time.Millisecond), now.Add(time.Millisecond)
				if i+1 < tc.forgot {
					other.err = refusal
				} else {
					other.Belief.Counter = 42
				}
			}
			last := e.voters[tc.nodes-1]
			last.told, last.Belief.Counter = clock.Stamp{}, -1
			r := wire.RefusalOf(refusal)
			require.Equal(t, int64(7), r.Counter)
			last.pending = true
			_, known := e.recall(v, r)
			require.False(t, known, "its answer is still out")
			last.pending, last.err = false, context.DeadlineExceeded
			_, known = e.recall(v, r)
			require.Equal(t, tc.known, known)
			last.err = node.ErrIdle
			_, known = e.recall(v, r)
			require.Equal(t, tc.known, known, "it is left alone, since it did not answer")
		})
	}
}
