package relock

import (
	"context"
	"strconv"
	"testing"
	"time"

	"github.com/relock-go/relock/internal/clock"
	"github.com/stretchr/testify/require"
)

// voteAt sends one vote of an election and takes its answer.
func voteAt(t *testing.T, e *election, i int) {
	t.Helper()
	l, now := e.legs[i], clock.Now()
	l.base, l.asked, l.pending = now, now, true
	v := e.send(l, now, 0, toWait)
	require.NoError(t, v.err)
	e.count(v)
}

// contender makes an acquisition of c for the lock k, with its election.
func contender(t *testing.T, c *Client) *acquisition {
	t.Helper()
	nm, err := namesOf("", "k")
	require.NoError(t, err)
	a := c.newAcquisition(nm, "", &c.cfg)
	a.election = newElection(c.arb.(*quorum), a)
	return a
}

// Two contenders own a node each and the third node is down: neither can have a quorum. The later one gives back.
func TestSplitVoteIsGivenBack(t *testing.T) {
	nodes := masters(t, 3)
	c, d := newRedlock(t, nodes), newRedlock(t, nodes)
	ctx := context.Background()
	require.NoError(t, c.arb.(*quorum).prepare(ctx))
	require.NoError(t, d.arb.(*quorum).prepare(ctx))
	nodes[2].Kill()
	a, b := contender(t, c), contender(t, d)
	if a.election.ticket > b.election.ticket {
		a, b, c, d = b, a, d, c
	}
	voteAt(t, a.election, 0)
	voteAt(t, b.election, 1)
	require.Positive(t, a.election.legs[0].own)
	require.Positive(t, b.election.legs[1].own)

	type result struct {
		a   *acquisition
		g   grant
		err error
	}
	won := make(chan result, 2)
	for who, by := range map[*acquisition]*Client{a: c, b: d} {
		go func() {
			g, err := by.arb.contend(ctx, who)
			won <- result{who, g, err}
		}()
	}
	first := await(t, won, 5*time.Second) // a poll comes after 10 s
	require.NoError(t, first.err)
	require.Same(t, a, first.a, "the lower ticket wins")
	_, _, err := c.arb.release(ctx, a, nil)
	require.NoError(t, err)
	second := await(t, won, 5*time.Second)
	require.NoError(t, second.err)
	require.Greater(t, second.g.token, first.g.token)
	_, _, err = d.arb.release(ctx, b, nil)
	require.NoError(t, err)
}

// A token must be above all before it even where the quorums of two holders share one node only, and that node counted
// less than the others: it is written back before anybody sees it.
func TestTokenIsWrittenBack(t *testing.T) {
	nodes := masters(t, 3)
	c := newRedlock(t, nodes)
	ctx := context.Background()
	require.NoError(t, c.arb.(*quorum).prepare(ctx))
	ahead := time.Now().Add(time.Hour).UnixMicro() // as node 3 counts, whose clock was wrong
	nodes[2].Do("SET", "redisson_lock_token:{k}", strconv.FormatInt(ahead, 10))
	a := contender(t, c)
	voteAt(t, a.election, 0)
	voteAt(t, a.election, 2)
	g, won := a.election.win()
	for !won {
		a.election.note(within(t, a.election.raised))
		g, won = a.election.win()
	}
	require.Equal(t, ahead+1, g.token)
	require.Equal(t, 32, a.passes, "the block that node 3 cut")
	for _, i := range []int{0, 2} {
		require.Equal(t, strconv.FormatInt(ahead+32, 10), nodes[i].Do("GET", "redisson_lock_token:{k}"), "node %d", i+1)
	}
	// The next holder's quorum is nodes 1 and 2: it learns of the token at node 1 alone.
	nodes[2].Kill()
	c.arb.abandon(a)
	second, err := newRedlock(t, nodes[:2]).Mutex("k").Lock(ctx)
	require.NoError(t, err)
	require.Greater(t, second.Token(), g.token)
	require.NoError(t, second.Unlock(ctx))
}

// A vote that is answered while the release is out must not be swept before the release has run there: it would find
// nothing and call the lock lost.
func TestLateVoteDoesNotOvertakeTheRelease(t *testing.T) {
	nodes := masters(t, 1)
	c := newRedlock(t, nodes)
	ctx := context.Background()
	a := contender(t, c)
	g, err := c.arb.contend(ctx, a)
	require.NoError(t, err)
	require.Positive(t, g.token)
	l := a.election.legs[0]
	sweeping := func() bool {
		l.seat.sweeper.mu.Lock()
		defer l.seat.sweeper.mu.Unlock()
		return l.seat.sweeper.all[l.id] != nil
	}

	scripts := func() int64 { n := nodes[0].CommandCounts(); return n["evalsha"] + n["eval"] }

	answered := l.ask(clock.Now()) // a poll, whose answer is slow
	l.settle(time.Millisecond)
	a.election.cast(vote{leg: l}, answered)
	require.False(t, sweeping())
	out, before := newOutcome("release", "k", c.arb.(*quorum)), scripts()
	_, err = c.arb.(*quorum).releaseAt(l, nil, out)
	require.NoError(t, err)
	require.NoError(t, out.wait(), "the release is the first to end it")
	// The poll may have run after the release, so the node is swept behind it.
	const first = 2 // the server learns each of the two scripts from it
	require.Eventually(t, func() bool { return scripts() == before+2*first }, patience, time.Millisecond)
}

// News that comes while a vote is out may be younger than what the vote finds: it is asked about once more.
func TestNewsDuringAVoteIsAskedAbout(t *testing.T) {
	nodes := masters(t, 1)
	holder, c := newRedlock(t, nodes), newRedlock(t, nodes)
	ctx := context.Background()
	_, err := holder.Mutex("k").Lock(ctx)
	require.NoError(t, err)
	a := contender(t, c)
	defer c.arb.abandon(a)
	e := a.election
	l, now := e.legs[0], clock.Now()
	l.base, l.asked, l.pending = now, now, true
	v := e.send(l, now, 0, toWait)
	l.seat.hub.mu.Lock()
	l.news()
	l.seat.hub.mu.Unlock()
	e.collect(clock.Now())
	e.count(v)
	require.True(t, l.due.Reached(clock.Now()))
}

// A grant that is given back while a vote is out is given back as soon as that is answered, not with the next poll.
func TestYieldDuringAVoteIsSentNext(t *testing.T) {
	nodes := masters(t, 1)
	holder, c := newRedlock(t, nodes), newRedlock(t, nodes)
	ctx := context.Background()
	_, err := holder.Mutex("k").Lock(ctx)
	require.NoError(t, err)
	a := contender(t, c)
	defer c.arb.abandon(a)
	e := a.election
	l, now := e.legs[0], clock.Now()
	l.base, l.asked, l.pending = now, now, true
	v := e.send(l, now, 0, toWait) // finds the holder
	require.NoError(t, v.err)
	l.own, l.sent = v.number+1, now // the grant came by message, before the answer
	l.give(now)
	e.count(v)
	require.Equal(t, v.number+1, l.yield)
	require.True(t, l.due.Reached(clock.Now()))
}
