package quorum

import (
	"context"
	"fmt"
	"math"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/relock-go/relock/internal/claim"
	"github.com/relock-go/relock/internal/clock"
	"github.com/relock-go/relock/internal/driver"
	"github.com/relock-go/relock/internal/faults"
	"github.com/relock-go/relock/internal/node"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/relock-go/relock/internal/wire"
	"github.com/stretchr/testify/require"
)

// forgets makes a node one that was emptied a minute ago, so that its quarantine is over, but that was not yet told how far
// the others have counted.
func forgets(t *testing.T, s *redistest.Server) {
	t.Helper()
	s.Do("DEL", "redisson_lock_token:{k}", "k", "relock_queue:{k}")
	s.Do("HSET", "relock_incarnation", "born", strconv.FormatInt(time.Now().Add(-time.Minute).UnixMilli(), 10))
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
	_, err := holder.newClaim(entry(t, holder)).Wait(context.Background(), nil)
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
	e.takeVote(got)
	require.False(t, v.seeded(), "by votes of before")
	for _, other := range e.voters[1:] {
		require.Equal(t, called, other.phase, "they are asked at once")
	}
	voteAt(t, e, 1)
	require.False(t, v.seeded(), "node 3 may know more")
	voteAt(t, e, 2)
	require.Equal(t, called, v.phase, "it is told, and asked, at once")
	voteAt(t, e, 0)
	reaches(t, nodes[0], reached)
	for range 6 { // it was full, and refused to be told
		v.phase = voting
		e.takeVote(vote{voter: v, err: got.err, sent: clock.Now()})
	}
	require.Greater(t, v.due.Until(clock.Now()), 6*firstPause, "it is asked less and less often")
}

// A winner without the node that forgot tells it too: a lock that always passes quickly leaves no time to ask the
// others.
func TestWinnerTellsTheForgetfulNode(t *testing.T) {
	nodes := masters(t, 3)
	q := quorumOf(t, nodes)
	before := q.newClaim(entry(t, q))
	_, err := before.Wait(context.Background(), nil)
	require.NoError(t, err)
	require.NoError(t, before.release(nil))
	forgets(t, nodes[0])
	c := contender(t, q)
	defer c.Abandon()
	e := c.contest
	v, now := e.voters[0], clock.Now()
	e.takeVote(sendAt(e, 0))
	require.False(t, v.seeded())
	for _, other := range e.voters[1:] {
		other.phase = voting
		e.takeVote(vote{voter: other, sent: now, Answer: wire.Answer{Mine: true, Number: 1 << 52}})
	}
	g, won := e.win()
	require.True(t, won)
	require.True(t, v.seeded())
	reaches(t, nodes[0], g.Token)
}

// Where too many forgot, and another does not answer, all of them are told, in whichever order they say so, and though one
// was told before: with that one as a node that remembers, nothing would be known for the next.
func TestAllThatForgotAreTold(t *testing.T) {
	begun := func() (e *contest, says func(v *voter, err error)) {
		e = contender(t, stubs(t, 3, unsaid)).contest
		says = func(v *voter, err error) {
			v.phase = voting
			e.takeVote(vote{voter: v, err: err, sent: clock.Now()})
		}
		says(e.voters[2], context.DeadlineExceeded)
		return e, says
	}
	unseeded := func(born int) error { return &driver.ReplyError{Text: fmt.Sprintf("UNSEEDED %d 7", born)} }
	remembers := func(e *contest, v *voter) {
		e.takeVote(vote{voter: v, sent: clock.Now(), Answer: wire.Answer{Mine: true, Number: 1 << 52}})
	}
	t.Run("one after the other", func(t *testing.T) {
		e, says := begun()
		first, second := e.voters[0], e.voters[1]
		says(first, unseeded(1000))
		says(second, unseeded(1001)) // sent after the first had said so, and not the other way round
		require.False(t, first.seeded(), "the second could not be told any more")
		require.False(t, second.seeded())
		require.Equal(t, called, first.phase, "it is asked whether that is still so")
		says(first, unseeded(1000))
		require.True(t, first.seeded())
		require.True(t, second.seeded())
	})
	t.Run("a seed is lost", func(t *testing.T) {
		e, says := begun()
		first, second := e.voters[0], e.voters[1]
		for range 2 {
			says(first, unseeded(1000))
			says(second, unseeded(1001))
		}
		require.True(t, second.seeded())
		says(second, context.DeadlineExceeded)
		remembers(e, first)
		require.False(t, second.seeded())
		says(second, unseeded(1001))
		require.True(t, second.seeded(), "though the first one remembers now")
		says(second, unseeded(1002))
		remembers(e, first)
		require.False(t, second.seeded(), "it forgot once more, and the third may know what the first does not")
	})
	t.Run("one is quarantined for longer", func(t *testing.T) {
		e, says := begun()
		first, second := e.voters[0], e.voters[1]
		for range 2 {
			says(first, unseeded(1000))
			says(second, &driver.ReplyError{Text: "QUARANTINED 1001 3000"})
		}
		require.False(t, first.seeded(), "the two alone make a quorum")
		for range 2 {
			says(second, unseeded(1001))
			says(first, unseeded(1000))
		}
		require.True(t, first.seeded())
		require.True(t, second.seeded())
	})
	t.Run("all forgot, and one falls silent after it was heard", func(t *testing.T) {
		e, says := begun()
		first, second, third := e.voters[0], e.voters[1], e.voters[2]
		quarantined := func(born int) error { return &driver.ReplyError{Text: fmt.Sprintf("QUARANTINED %d 3000", born)} }
		for range 2 {
			says(first, unseeded(1000))
			says(second, quarantined(1001))
			says(third, quarantined(1002))
		}
		require.False(t, first.seeded(), "the second could not be told any more, were the third silent then")
		says(third, context.DeadlineExceeded)
		for range 2 {
			says(second, unseeded(1001))
			says(first, unseeded(1000))
		}
		require.True(t, first.seeded())
		require.True(t, second.seeded())
	})
	t.Run("all forgot, and a vote is out", func(t *testing.T) {
		e, says := begun()
		first, second, third := e.voters[0], e.voters[1], e.voters[2]
		says(first, unseeded(1000))
		says(second, unseeded(1001))
		says(third, unseeded(1002))
		second.phase = voting
		says(third, unseeded(1002))
		says(first, unseeded(1000)) // all others have answered since it forgot, but the third is not to be told yet
		require.False(t, first.seeded())
		says(second, unseeded(1001))
		require.True(t, first.seeded())
		require.True(t, second.seeded())
	})
	t.Run("the clock of one is off", func(t *testing.T) {
		e := contender(t, stubs(t, 5, unsaid)).contest
		for _, v := range e.voters {
			v.member.clock.Store(&reading{})
		}
		remembering, first, second, off := e.voters[0], e.voters[1], e.voters[2], e.voters[3]
		off.member.clock.Store(&reading{ahead: time.Hour.Microseconds()})
		say := func(v *voter, err error) { e.takeVote(vote{voter: v, err: err, sent: clock.Now()}) }
		say(e.voters[4], context.DeadlineExceeded)
		say(second, &driver.ReplyError{Text: "QUARANTINED 1002 3000"})
		for range 2 {
			say(first, unseeded(1001))
			say(off, unseeded(1003))
			say(second, &driver.ReplyError{Text: "QUARANTINED 1002 3000"})
			remembers(e, remembering)
		}
		require.False(t, first.seeded(), "only two of the three count, and the second could not be told any more")
		for range 2 {
			for _, v := range e.voters[1:4] {
				say(v, unseeded(1000+v.member.index))
			}
			remembers(e, remembering)
		}
		require.True(t, first.seeded())
		require.True(t, second.seeded())
		require.True(t, off.seeded(), "it may be set right")
	})
	t.Run("one forgot alone", func(t *testing.T) {
		e, says := begun()
		remembers(e, e.voters[0])
		says(e.voters[1], unseeded(1001))
		remembers(e, e.voters[0])
		require.False(t, e.voters[1].seeded(), "the third may know more")
	})
}

// Two nodes that forgot are told together, since the third is silent, and one of the seeds is lost. The contender leaves, and
// the next one could not tell that node any more: the seed is sent again without a contender. A node that never answers is
// sent its seed ever less often, and no longer than for a lease.
func TestLostSeedIsSentAgain(t *testing.T) {
	for name, lost := range map[string]int{"once": 1, "several times": 4, "always": math.MaxInt} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var mu sync.Mutex
				told, sent := make([]bool, 3), []clock.Stamp(nil) // the stamps are those of seeds to node 2
				q := stubs(t, 3, func(i int, c *faults.Call) (driver.Value, error) {
					time.Sleep(time.Millisecond) // what is sent later has a later stamp
					mu.Lock()
					defer mu.Unlock()
					switch c.ScriptName() {
					case "vote":
						if i == 2 {
							return driver.Value{}, faults.ErrNoAnswer
						} else if !told[i] {
							return driver.Value{}, &driver.ReplyError{Text: "UNSEEDED 1000 7"}
						}
						return driver.List(driver.Int(1), driver.Int(8), driver.Int(1), driver.Int(5000), driver.String("us"),
							driver.Int(time.Now().UnixMicro()), driver.Int(1)), nil
					case "fence":
						if i == 1 {
							if sent = append(sent, clock.Now()); len(sent) <= lost {
								return driver.Value{}, faults.ErrNoAnswer
							}
						}
						told[i] = true
						return driver.Int(1), nil
					}
					return swept()
				}, func(c *setup) { c.Timeout = time.Second })
				_, err := q.newClaim(entry(t, q)).Try(t.Context())
				require.Error(t, err)
				time.Sleep(2 * q.cfg.Lease)
				synctest.Wait()
				if lost < math.MaxInt {
					require.Len(t, sent, lost+1)
					_, err = q.newClaim(entry(t, q)).Try(t.Context())
					require.NoError(t, err)
					return
				}
				require.Greater(t, len(sent), 5)
				require.Less(t, len(sent), 20)
				last := sent[len(sent)-1]
				require.Greater(t, last.Since(sent[len(sent)-2]), q.cfg.Lease/5)
				require.Less(t, last.Since(sent[0]), 3*q.cfg.Lease/2)
			})
		})
	}
}

// A node that forgot tells no time when it refuses. Where its clock was off it is asked for that: as long as the clock is
// taken to be off, the node may be told nothing.
func TestClockOfAForgetfulNodeIsReadAgain(t *testing.T) {
	var nodes []driver.Redis
	for range 3 {
		nodes = append(nodes, &faults.Stub{
			OnRun: func(context.Context, *driver.Script, []string, []string) (driver.Value, error) {
				return driver.Value{}, &driver.ReplyError{Text: "UNSEEDED 1000 7"}
			},
			OnDo: func(_ context.Context, command []string) (driver.Value, error) {
				switch now := time.Now(); command[0] {
				case "TIME":
					return driver.List(driver.String(strconv.FormatInt(now.Unix(), 10)), driver.String("0")), nil
				case "EXISTS":
					return driver.Int(1), nil
				default:
					return driver.String("run_id:" + command[1] + "\r\nrole:master\r\n"), nil
				}
			},
		})
	}
	q := over(t, nodes)
	e := contender(t, q).contest
	for _, m := range q.members {
		m.identity.Store(&identity{run: fmt.Sprint("run ", m.index), marked: true})
		_, err := m.identify(t.Context())
		require.NoError(t, err)
	}
	m := q.members[0]
	m.clock.Store(&reading{ahead: m.clock.Load().ahead + time.Hour.Microseconds()})
	require.True(t, q.clockOff(m))
	require.ErrorContains(t, sendAt(e, 0).err, "UNSEEDED")
	require.False(t, q.clockOff(m))
}

// knows reports whether v can be told how far the others counted, alone or together with a quorum.
func knows(e *contest, v *voter) bool {
	_, enough, tooMany := e.countedByOthers(v)
	return enough || tooMany
}

// A node that has answered nothing yet has not told how far it counted, though no stamp is no moment of any clock.
func TestNodeThatHasNotAnsweredIsNotRecalled(t *testing.T) {
	e := contender(t, stubs(t, 3, unsaid)).contest
	v := e.voters[0]
	v.err, v.forgotBorn, v.forgotAt = &driver.ReplyError{Text: "UNSEEDED 1000 7"}, "1000", clock.At(-1, -1)
	for _, other := range e.voters[1:] {
		other.phase = voting
	}
	known := knows(e, v)
	require.False(t, known)
}

// Once all other nodes have told, it is known how far they counted, whichever of them forgot. Then either so many of them
// remember that they are proof alone, or so many forgot, with the one to be told, that a quorum is told together.
func TestWhatAllOthersToldIsEnough(t *testing.T) {
	refusal := &driver.ReplyError{Text: "UNSEEDED 1000 7"}
	for nodes := 1; nodes <= 7; nodes++ {
		for need := nodes/2 + 1; need <= nodes; need++ {
			e := contender(t, stubs(t, nodes, unsaid, func(s *setup) { s.Need = need })).contest
			for remember := range nodes {
				now := clock.Now()
				v := e.voters[0]
				v.forgotAt, v.err = now, refusal
				for i, other := range e.voters[1:] {
					other.answeredAt, other.err, other.Belief.Counter = now.Add(time.Millisecond), refusal, -1
					if i < remember {
						other.err, other.Belief.Counter = nil, 42
					}
				}
				_, enough, tooMany := e.countedByOthers(v)
				what := fmt.Sprintf("%d nodes, of which %d are needed and %d remember", nodes, need, remember)
				require.True(t, enough || tooMany, what)
				require.Equal(t, remember > nodes-need || nodes == 1, enough, what)
			}
		}
	}
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
			v.forgotAt, v.err = now, refusal
			for i, other := range e.voters[1:] {
				other.askedAt, other.answeredAt = now.Add(time.Millisecond), now.Add(time.Millisecond)
				if i+1 < tc.forgot {
					other.err = refusal
				} else {
					other.Belief.Counter = 42
				}
			}
			last := e.voters[tc.nodes-1]
			last.answeredAt, last.Belief.Counter = clock.Stamp{}, -1
			require.Equal(t, int64(7), wire.RefusalOf(refusal).Counter)
			last.phase = voting
			known := knows(e, v)
			require.False(t, known, "its answer is still out")
			last.phase, last.err = resting, context.DeadlineExceeded
			known = knows(e, v)
			require.Equal(t, tc.known, known)
			last.err = node.ErrIdle
			known = knows(e, v)
			require.Equal(t, tc.known, known, "it is left alone, since it did not answer")
		})
	}
}

// A node that is quarantined counts as one that forgot: it is not waited for where too many did. What it said before the
// doubt counts for nothing: it may have been told since, and have counted on.
func TestQuarantinedNodeIsNotWaitedFor(t *testing.T) {
	for name, tc := range map[string]struct {
		said  string
		since bool // after the doubt was heard
		known bool
	}{
		"quarantined":        {"QUARANTINED 1000 7", true, true},
		"quarantined before": {"QUARANTINED 1000 7", false, false},
		"unseeded":           {"UNSEEDED 1000 7", true, true},
		"unseeded before":    {"UNSEEDED 1000 7", false, false},
		"full":               {"OOM command not allowed", true, false},
	} {
		t.Run(name, func(t *testing.T) {
			e := contender(t, stubs(t, 3, unsaid)).contest
			now := clock.Now()
			v, other, healthy := e.voters[0], e.voters[1], e.voters[2]
			v.err, v.forgotBorn, v.forgotAt = &driver.ReplyError{Text: "UNSEEDED 900 6"}, "900", now
			other.err = &driver.ReplyError{Text: tc.said}
			other.answeredAt, healthy.answeredAt, healthy.Belief.Counter = now.Add(time.Millisecond), now.Add(time.Millisecond), 42
			if !tc.since {
				other.answeredAt = now.Add(-time.Millisecond)
			}
			known := knows(e, v)
			require.Equal(t, tc.known, known)
			e.planSeeds()
			require.Equal(t, tc.known, v.seeded())
			require.Equal(t, !tc.since, other.phase == called)
			require.Equal(t, resting, healthy.phase)
		})
	}
}

// A lock that is only tried for is told to the nodes that forgot too, and had at the first try: nobody else might ever ask for it.
func TestTryTellsTheForgetfulNodes(t *testing.T) {
	for name, tc := range map[string]struct {
		nodes, forgot int
		other         bool // another node of those left is not to be had: it grants to a stranger
	}{
		"the only one": {nodes: 1, forgot: 1}, "one of three": {nodes: 3, forgot: 1, other: true},
		"two of three": {nodes: 3, forgot: 2}, "all of three": {nodes: 3, forgot: 3},
		"two of five": {nodes: 5, forgot: 2, other: true}, "three of five": {nodes: 5, forgot: 3}, "all of five": {nodes: 5, forgot: 5},
	} {
		t.Run(name, func(t *testing.T) {
			nodes := masters(t, tc.nodes)
			q := quorumOf(t, nodes)
			before := q.newClaim(entry(t, q))
			old, err := before.Wait(t.Context(), nil)
			require.NoError(t, err)
			require.NoError(t, before.release(nil))
			for _, s := range nodes {
				require.Eventually(t, func() bool { return s.Do("EXISTS", "k") == "0" }, patience, time.Millisecond)
			}
			// A quarantine would last until the clocks have passed the tokens, which begin a little ahead of them.
			require.Eventually(t, func() bool { return time.Now().UnixMicro() > old.Token }, patience, time.Millisecond)
			for _, s := range nodes[:tc.forgot] {
				forgets(t, s)
			}
			if tc.other {
				last := nodes[tc.nodes-1]
				last.Do("HSET", "k", "a stranger", "1")
				last.Do("PEXPIRE", "k", "60000")
			}
			c := q.newClaim(entry(t, q))
			g, err := c.Try(t.Context())
			require.NoError(t, err)
			require.Greater(t, g.Token, old.Token)
			require.NoError(t, c.release(nil))
		})
	}
}

// A try for a lock that is taken is refused as soon as enough nodes have said so, whatever the others forgot. A node that
// cannot be told is asked once more for each that forgot too, once more when it should have been told, and no oftener.
func TestTryOfForgetfulNodesEnds(t *testing.T) {
	for name, tc := range map[string]struct {
		votes []string // what nodes answer to a vote
		most  int64    // times that each is asked
	}{
		"taken": {[]string{"UNSEEDED 1000 7", "taken", "taken"}, 2},
		"full":  {[]string{"UNSEEDED 1000 7", "UNSEEDED 1000 7", "UNSEEDED 1000 7"}, 4},
	} {
		t.Run(name, func(t *testing.T) {
			asked := make([]atomic.Int64, len(tc.votes))
			q := stubs(t, len(tc.votes), func(i int, c *faults.Call) (driver.Value, error) {
				switch c.ScriptName() {
				case "vote":
					asked[i].Add(1)
					if tc.votes[i] != "taken" {
						return driver.Value{}, &driver.ReplyError{Text: tc.votes[i]}
					}
					var said []driver.Value
					for _, n := range []int64{0, 41, 0, 1000} {
						said = append(said, driver.Int(n))
					}
					return driver.List(append(said, driver.String("a stranger"), driver.Int(1), driver.Int(0))...), nil
				case "fence":
					return driver.Value{}, &driver.ReplyError{Text: "OOM command not allowed when used memory > 'maxmemory'."}
				}
				return driver.Value{}, &driver.ReplyError{Text: "ERR no matter"}
			})
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			_, err := q.newClaim(entry(t, q)).Try(ctx)
			require.Error(t, err)
			require.NoError(t, ctx.Err())
			q.crew.End(context.Background())
			for i := range asked {
				require.LessOrEqual(t, asked[i].Load(), tc.most, "node %d", i+1)
			}
		})
	}
}

// A try asks each node once, but for those that a node which forgot makes it ask.
func TestTryAsksAnewForTheForgetfulAlone(t *testing.T) {
	e := contender(t, stubs(t, 3, unsaid)).contest
	now := clock.Now()
	require.Len(t, e.due(now, true), 3)
	for _, v := range e.voters {
		v.askedAt = now
	}
	require.Len(t, e.due(now, false), 3, "who waits asks when it is time to")
	require.Empty(t, e.due(now, true))
	e.voters[1].phase = called
	require.Equal(t, []*voter{e.voters[1]}, e.due(now, true))
	require.Empty(t, e.due(now, true), "once")
}

// A hold that nobody contends for has a node again that was restarted, in every round: else each restart would cost it one more
// for good.
func TestRenewalsTellTheForgetfulNode(t *testing.T) {
	nodes := masters(t, 3)
	q := quorumOf(t, nodes)
	c := q.newClaim(entry(t, q))
	g, err := c.Wait(t.Context(), nil)
	require.NoError(t, err)
	settled(t, c, nodes)
	for i := range 2 * len(nodes) {
		s := nodes[i%len(nodes)]
		forgets(t, s)
		said, now := []wire.Result{kept, kept, kept}, clock.Now()
		said[i%len(nodes)] = lost
		renewed(c, now, said)
		again := time.Now() // renewals go on: a command that a busy machine did not answer in time is sent with the next one
		require.Eventually(t, func() bool {
			if !time.Now().Before(again) {
				now, again = now.Add(q.cfg.Timeout), again.Add(time.Second)
				renewed(c, now, said)
			}
			return s.Do("HEXISTS", "k", c.Entry.ID) == "1"
		}, patience, time.Millisecond, "round %d", i)
		n, err := strconv.ParseInt(s.Do("GET", "redisson_lock_token:{k}"), 10, 64)
		require.NoError(t, err)
		require.Greater(t, n, g.Token, "it counts on from where the others are")
		renewed(c, now, []wire.Result{kept, kept, kept})
	}
	require.NoError(t, c.release(nil))
}

// A holder that was forced, or stopped for long, tells a node that forgot nothing: others may have counted on. What it was
// to tell it asks those nodes that still keep the lock for it.
func TestDeposedHolderTellsNobody(t *testing.T) {
	nodes := masters(t, 3)
	q, taps := tapped(t, nodes)
	c := q.newClaim(entry(t, q))
	_, err := c.Wait(t.Context(), nil)
	require.NoError(t, err)
	forgets(t, nodes[0])
	taps[1].Filter(faults.Next(faults.Script("fence"), faults.Hold)) // how far node 2 has counted
	now := clock.Now()
	renewed(c, now, []wire.Result{lost, kept, kept})
	renewed(c, now.Add(q.cfg.Timeout), []wire.Result{lost, kept, kept})
	within(t, taps[1].Told())
	other := quorumOf(t, nodes)
	_, err = other.Force(t.Context(), c.Entry.Names)
	require.NoError(t, err)
	taps[1].Release()
	q.crew.End(context.Background())
	require.Empty(t, nodes[0].Do("GET", "relock_seed:{k}"))
}

// That a node forgot is forgotten when its clock has passed all that was counted before, by the same rule by which counters
// end: then new names cost no more there than elsewhere. Where counters are kept for ever it never is.
func TestForgettingIsForgotten(t *testing.T) {
	for name, tc := range map[string]struct {
		retention, ago time.Duration
		owner          string
		refused        bool
	}{
		"not yet":             {10 * time.Minute, 10*time.Minute + 29*time.Second, "", true},
		"now":                 {10 * time.Minute, 10*time.Minute + 31*time.Second, "", false},
		"not yet, shared":     {10 * time.Minute, 10*time.Minute + 29*time.Second, "o", true},
		"now, shared":         {10 * time.Minute, 10*time.Minute + 31*time.Second, "o", false},
		"counters stay":       {0, 1000 * time.Hour, "", true},
		"quarantined":         {time.Minute, 29 * time.Second, "", true},
		"a longer quarantine": {time.Minute, 61 * time.Second, "", true},
	} {
		t.Run(name, func(t *testing.T) {
			nodes := masters(t, 1)
			c := contender(t, prepared(t, nodes, func(c *setup) { c.retention = tc.retention }))
			defer c.Abandon()
			c.Entry.Owner = tc.owner
			nodes[0].Do("HSET", born, "born", strconv.FormatInt(time.Now().Add(-tc.ago).UnixMilli(), 10))
			got := sendAt(c.contest, 0)
			if tc.refused {
				require.ErrorContains(t, got.err, map[bool]string{true: "QUARANTINED", false: "UNSEEDED"}[tc.ago < 30*time.Second])
				return
			}
			require.NoError(t, got.err)
			require.True(t, got.Mine)
			require.Equal(t, "0", nodes[0].Do("EXISTS", "relock_seed:{k}"), "no key for what needs none")
		})
	}
}

// The quarantine is as long as the longest lease that any client may rely on: that of the marker where it is longer than this
// client's, and this client's where that is longer, which the marker says from then on.
func TestLongestQuarantineCounts(t *testing.T) {
	for _, c := range []struct{ marker, own, ago, left time.Duration }{
		{marker: time.Hour, own: time.Minute, ago: 40 * time.Minute, left: 20 * time.Minute},
		{marker: time.Minute, own: time.Hour, ago: 40 * time.Minute, left: 20 * time.Minute},
		{marker: time.Hour, own: time.Minute, ago: 2 * time.Hour},
		{marker: time.Minute, own: time.Hour, ago: 2 * time.Hour},
	} {
		t.Run(fmt.Sprintf("%v and %v, %v ago", c.marker, c.own, c.ago), func(t *testing.T) {
			s := masters(t, 1)
			q := prepared(t, s, func(cfg *setup) { cfg.Longest = c.own })
			born := strconv.FormatInt(time.Now().Add(-c.ago).UnixMilli(), 10)
			s[0].Do("HSET", "relock_incarnation", "born", born, "longest", wire.MS(c.marker))
			s[0].Do("SET", "relock_seed:{k}", born) // it was told: the quarantine alone is in the way
			claim := contender(t, q)
			defer claim.Abandon()
			got := sendAt(claim.contest, 0)
			if c.left == 0 {
				require.NoError(t, got.err)
				require.True(t, got.Mine)
				return
			}
			require.InDelta(t, c.left, wire.RefusalOf(got.err).Left, float64(patience), "%v", got.err)
			require.Equal(t, wire.MS(time.Hour), s[0].Do("HGET", "relock_incarnation", "longest"))
			require.Equal(t, "0", s[0].Do("EXISTS", "k"))
		})
	}
}

// A node that was restarted with its locks confirms none of them in its quarantine: neither a renewal nor a hold count.
func TestQuarantinedNodeConfirmsNothing(t *testing.T) {
	s := masters(t, 1)
	q := quorumOf(t, s)
	c := q.newClaim(entry(t, q))
	_, err := c.Wait(t.Context(), nil)
	require.NoError(t, err)
	defer c.Abandon()
	renews := func() (got wire.Result) {
		q.Renew(t.Context(), []claim.Renewal{{Claim: c, Lease: time.Minute}},
			func(_ int, r wire.Result, _ clock.Stamp, _ error) { got = r })
		return got
	}
	require.Equal(t, wire.Renewed, renews())
	s[0].Do("HSET", "relock_incarnation", "run", "another")
	require.Equal(t, wire.Unanswered, renews())
	_, err = c.SetCount(t.Context(), 2, time.Minute)
	require.ErrorContains(t, err, "QUARANTINED")
	require.Equal(t, "1", s[0].Do("HGET", "k", c.Entry.ID))
}
