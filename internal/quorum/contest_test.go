package quorum

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/relock-go/relock/internal/clock"
	"github.com/relock-go/relock/internal/driver"
	"github.com/relock-go/relock/internal/faults"
	"github.com/relock-go/relock/internal/node"
	"github.com/relock-go/relock/internal/wire"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Two contenders own a node each and the third node is down: neither can have a quorum. The later one gives back.
func TestSplitVoteIsGivenBack(t *testing.T) {
	nodes := masters(t, 3)
	ctx := context.Background()
	a, b := contender(t, prepared(t, nodes)), contender(t, prepared(t, nodes))
	nodes[2].Kill()
	if a.contest.ticket > b.contest.ticket {
		a, b = b, a
	}
	voteAt(t, a.contest, 0)
	voteAt(t, b.contest, 1)
	require.Positive(t, a.contest.voters[0].Belief.Number)
	require.Positive(t, b.contest.voters[1].Belief.Number)

	type result struct {
		c   *Claim
		g   node.Grant
		err error
	}
	won := make(chan result, 2)
	for _, c := range []*Claim{a, b} {
		go func() {
			g, err := c.Wait(ctx, nil)
			won <- result{c, g, err}
		}()
	}
	first := await(t, won, 8*time.Second) // a poll comes after 10 s
	require.NoError(t, first.err)
	require.Same(t, a, first.c, "the lower ticket wins")
	require.NoError(t, a.release(nil))
	second := await(t, won, 8*time.Second)
	require.NoError(t, second.err)
	require.Greater(t, second.g.Token, first.g.Token)
	require.NoError(t, b.release(nil))
}

// Two contenders with one ticket own a node each, which granted it to them again before the other was queued there, and the
// third node is down. Both give back, and both nodes grant to the same one: the first by its member in their queues, which is
// not the first by id where leases differ.
func TestEqualTicketsAreDecided(t *testing.T) {
	for _, longer := range []time.Duration{0, time.Second, -time.Second} { // of the contender with the lower id
		t.Run(longer.String(), func(t *testing.T) {
			nodes := masters(t, 3)
			claims := []*Claim{contender(t, prepared(t, nodes)), contender(t, prepared(t, nodes))}
			slices.SortFunc(claims, func(a, b *Claim) int { return strings.Compare(a.Entry.ID, b.Entry.ID) })
			claims[0].Entry.Lease += longer
			nodes[2].Kill()
			for i, c := range claims {
				c.contest.ticket, c.contest.ticketText = 1_700_000_000_000_000, "1700000000000000"
				voteAt(t, c.contest, i)
				v := c.contest.voters[i]
				v.yieldGrant(clock.Now())
				voteAt(t, c.contest, i)
				require.Equal(t, regranted, v.lastYield)
			}
			won := make(chan *Claim, len(claims))
			for _, c := range claims {
				go func() {
					_, err := c.Wait(context.Background(), nil)
					assert.NoError(t, err)
					won <- c
				}()
			}
			first := await(t, won, 8*time.Second) // no poll tells of it
			members := make([]string, len(claims))
			for i, c := range claims {
				members[i] = fmt.Sprintf("%d:%d:%s:", c.Entry.Lease.Milliseconds(), c.Entry.Block, c.Entry.ID)
			}
			want := claims[0]
			if members[1] < members[0] {
				want = claims[1]
			}
			require.Equal(t, want.Entry.ID, first.Entry.ID, "%v", members)
			require.NoError(t, first.release(nil))
			require.NoError(t, await(t, won, 8*time.Second).release(nil))
		})
	}
}

// A nudge that comes while the contest may not give back is remembered until it may. It is forgotten once the contest has
// given back, and where it has nothing to give.
func TestNudgeIsRemembered(t *testing.T) {
	q := stubs(t, 3, unsaid)
	e := contender(t, q).contest
	now, v := clock.Now(), e.voters[0]
	grant := func(number int64) {
		standing{number: number, counter: number - 1, last: regranted}.give(v, now)
		e.retryAt = now.Add(time.Second)
	}
	grant(61)
	e.nudged = true
	require.Equal(t, wire.ToWait, e.yieldOrNudge(now))
	require.Zero(t, v.yield, "the node has just granted it again")
	require.Equal(t, wire.ToNudge, e.yieldOrNudge(now.Add(time.Second)))
	require.EqualValues(t, 61, v.yield)

	grant(71)
	require.Equal(t, wire.ToNudge, e.yieldOrNudge(now.Add(time.Second)))
	require.Zero(t, v.yield, "one nudge gives back once")

	v.disown()
	e.nudged = true
	require.Equal(t, wire.ToWait, e.yieldOrNudge(now))
	grant(81)
	require.Equal(t, wire.ToNudge, e.yieldOrNudge(now.Add(time.Second)))
	require.Zero(t, v.yield, "it was about what the contest had then")
}

// A token must be above all before it even where the quorums of two holders share one node only, and that node counted
// less than the others: it is written back before anybody sees it.
func TestTokenIsWrittenBack(t *testing.T) {
	nodes := masters(t, 3)
	q := prepared(t, nodes)
	ahead := time.Now().Add(time.Hour).UnixMicro() // as node 3 counts, whose clock was wrong
	nodes[2].Do("SET", "redisson_lock_token:{k}", strconv.FormatInt(ahead, 10))
	c := contender(t, q)
	voteAt(t, c.contest, 0)
	voteAt(t, c.contest, 2)
	g, won := c.contest.win()
	for !won {
		c.contest.takeWriteBack(within(t, c.contest.writeBacks))
		g, won = c.contest.win()
	}
	require.Equal(t, ahead+1, g.Token)
	require.Equal(t, 32, g.Passes, "the block that node 3 cut")
	for _, i := range []int{0, 2} {
		require.Equal(t, strconv.FormatInt(ahead+32, 10), nodes[i].Do("GET", "redisson_lock_token:{k}"), "node %d", i+1)
	}
	// The next holder's quorum is nodes 1 and 2: it learns of the token at node 1 alone.
	nodes[2].Kill()
	c.Abandon()
	q = quorumOf(t, nodes[:2])
	next := q.newClaim(entry(t, q))
	second, err := next.Wait(context.Background(), nil)
	require.NoError(t, err)
	require.Greater(t, second.Token, g.Token)
	require.NoError(t, next.release(nil))
}

// A vote that is answered while the release is out must not be swept before the release has run there: it would find
// nothing and call the lock lost.
func TestLateVoteDoesNotOvertakeTheRelease(t *testing.T) {
	nodes := masters(t, 1)
	q, taps := tapped(t, nodes)
	c := q.newClaim(entry(t, q))
	g, err := c.Wait(context.Background(), nil)
	require.NoError(t, err)
	require.Positive(t, g.Token)
	v := c.contest.voters[0]
	taps[0].Filter(faults.All(faults.Script("sweep", "unvote"), faults.Tell))

	answered := v.beginVote(clock.Now()) // a poll, whose answer is slow
	v.awaitVote(time.Millisecond)
	c.contest.deliver(vote{voter: v}, answered)
	select {
	case early := <-taps[0].Told():
		require.Fail(t, "it overtook the release", early.ScriptName())
	case <-time.After(50 * time.Millisecond): // a sweep would be sent at once
	}
	out := q.newAnswers(driver.Release, "k")
	_, err = c.releaseAt(v, nil, "", out)
	require.NoError(t, err)
	require.NoError(t, out.wait(context.Background()), "the release is the first to end it")
	// The poll may have run after the release, so the node is swept behind it.
	require.Equal(t, "unvote", within(t, taps[0].Told()).ScriptName())
	require.Equal(t, "sweep", within(t, taps[0].Told()).ScriptName())
}

// busy returns a contest for a lock that another client holds on its one node.
func busy(t *testing.T) *contest {
	t.Helper()
	nodes := masters(t, 1)
	holder := quorumOf(t, nodes)
	_, err := holder.newClaim(entry(t, holder)).Wait(context.Background(), nil)
	require.NoError(t, err)
	c := contender(t, quorumOf(t, nodes))
	t.Cleanup(c.Abandon)
	return c.contest
}

// News that comes while a vote is out may be younger than what the vote finds: it is asked about once more.
func TestNewsDuringAVoteIsAskedAbout(t *testing.T) {
	e := busy(t)
	v := e.voters[0]
	got := sendAt(e, 0)
	require.NoError(t, got.err)
	v.member.Debug().Hub.Subscribed(wire.InboxPrefix + clientOf(e.q)) // messages may have been missed before
	e.takeMessages(clock.Now())
	e.takeVote(got)
	require.True(t, v.due.Reached(clock.Now()))
}

// Where that vote fails, the next one is put off, and is younger than the news: none has to follow it.
func TestNewsDuringAVoteThatFailsIsAskedAboutOnce(t *testing.T) {
	e := busy(t)
	v := e.voters[0]
	got := sendAt(e, 0)
	require.NoError(t, got.err)
	v.member.Debug().Hub.Subscribed(wire.InboxPrefix + clientOf(e.q))
	e.takeMessages(clock.Now())
	e.takeVote(vote{voter: v, sent: got.sent, err: faults.ErrNoAnswer})
	require.False(t, v.due.Reached(clock.Now()), "the node does not answer")
	voteAt(t, e, 0)
	require.False(t, v.due.Reached(clock.Now()))
}

// A grant that is given back while a vote is out is given back as soon as that is answered, not with the next poll.
func TestYieldDuringAVoteIsSentNext(t *testing.T) {
	e := busy(t)
	v := e.voters[0]
	got := sendAt(e, 0) // finds the holder
	require.NoError(t, got.err)
	now := clock.Now()
	v.Belief.Number, v.Belief.Sent = got.Number+1, now // the grant came by message, before the answer
	v.yieldGrant(now)
	e.takeVote(got)
	require.Equal(t, got.Number+1, v.yield)
	require.True(t, v.due.Reached(clock.Now()))
}

// A node that has lost count, and whose clock was set back, grants under numbers that cannot be believed. They are given
// back, and come back where nobody else waits: less and less often.
func TestUnbelievedGrantsAreGivenBackSlowly(t *testing.T) {
	c := contender(t, prepared(t, masters(t, 1)))
	defer c.Abandon()
	v := c.contest.voters[0]
	v.Belief.Counter = 1 << 52
	voteAt(t, c.contest, 0)
	require.True(t, v.due.Reached(clock.Now()), "at once, the first time")
	for range 7 {
		require.Positive(t, v.yield)
		voteAt(t, c.contest, 0)
		require.Zero(t, v.Belief.Number)
	}
	require.Greater(t, v.due.Until(clock.Now()), 6*firstPause)
}
