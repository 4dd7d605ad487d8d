package quorum

import (
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/relock-go/relock/internal/clock"
	"github.com/relock-go/relock/internal/driver"
	"github.com/relock-go/relock/internal/faults"
	"github.com/relock-go/relock/internal/wire"
	"github.com/stretchr/testify/require"
)

// dialed is the error of a connection that was refused.
var dialed = driver.Unsent(errors.New("dial tcp: connection refused"))

// diary notes what happens at a node.
type diary struct {
	mu   sync.Mutex
	said []string
	news chan string
}

func newDiary() *diary { return &diary{news: make(chan string, 1000)} }

func (d *diary) note(what string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.said = append(d.said, what)
	d.news <- what
}

func (d *diary) has(what string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Contains(d.said, what)
}

// swept is a sweep's answer that it ended a claim.
func swept() (driver.Value, error) { return driver.List(driver.Int(1)), nil }

// An abandoned claim is swept at each node that may know of it, and only there: not where no connection was to be had,
// and nothing was asked.
func TestAbandonedClaimIsSweptWhereItMayStand(t *testing.T) {
	for name, tc := range map[string]struct {
		votes []error // what the votes fail with, in turn
		swept bool
	}{
		"nothing was asked":            {nil, false},
		"refused":                      {[]error{dialed}, false},
		"refused twice":                {[]error{dialed, dialed}, false},
		"not answered":                 {[]error{faults.ErrNoAnswer}, true},
		"not answered, then refused":   {[]error{faults.ErrNoAnswer, dialed}, true},
		"refused, then not answered":   {[]error{dialed, faults.ErrNoAnswer}, true},
		"the node refuses":             {[]error{&driver.ReplyError{Text: "OOM no room"}}, true},
		"the node refuses, then it is": {[]error{&driver.ReplyError{Text: "OOM no room"}, dialed}, true},
		"answered":                     {[]error{nil}, true},
		"answered, then refused":       {[]error{nil, dialed}, true},
	} {
		t.Run(name, func(t *testing.T) {
			d, left := newDiary(), tc.votes
			q := stubs(t, 1, func(_ int, c *faults.Call) (driver.Value, error) {
				d.note(c.ScriptName())
				if c.ScriptName() != "vote" {
					return swept()
				}
				if err := left[0]; err != nil {
					return driver.Value{}, err
				}
				return driver.List(driver.Int(0), driver.Int(7), driver.Int(1), driver.Int(5000), driver.String("another"),
					driver.Int(1_800_000_000_000_000), driver.Int(0)), nil
			}, func(c *setup) { c.Timeout = 4 * patience })
			c := contender(t, q)
			e := c.contest
			for range tc.votes {
				e.voters[0].due, e.voters[0].votePause = clock.Stamp{}, e.voters[0].writeBackPause
				e.takeVote(sendAt(e, 0))
				left = left[1:]
			}
			c.Abandon()
			q.members[0].LastSweep() // what was to be swept has been tried now
			require.Equal(t, tc.swept, d.has("sweep"), d.said)
		})
	}
}

// A node that the contest never asked, since the others were enough, may have been taken for the claim by a renewal: it is
// swept, however the claim ends.
func TestClaimIsSweptWhereARenewalTookIt(t *testing.T) {
	for name, ends := range map[string]func(q *Quorum, c *Claim){
		"abandoned": func(_ *Quorum, c *Claim) { c.Abandon() },
		"released while the node is left alone": func(q *Quorum, c *Claim) {
			_, err := q.members[0].Do(t.Context(), []string{"PING"})
			require.Error(t, err)
			require.True(t, q.members[0].Idle())
			_ = c.release(nil) // the others have nothing of it
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := newDiary()
				q := stubs(t, 3, func(i int, c *faults.Call) (driver.Value, error) {
					if i == 0 {
						d.note(c.ScriptName())
					}
					if c.ScriptName() != "vote" {
						return swept()
					}
					return driver.List(driver.Int(1), driver.Int(8), driver.Int(1), driver.Int(5000), driver.String("us"),
						driver.Int(1_800_000_000_000_000), driver.Int(1)), nil
				}, func(c *setup) { c.Timeout = 4 * patience })
				c := contender(t, q)
				v, found := c.contest.voters[0], clock.Now()
				v.missingSince.Store(&found)
				(&renewalRound{q: q, sent: found.Add(q.cfg.Timeout)}).repair(v)
				require.Equal(t, "vote", within(t, d.news))
				synctest.Wait()
				require.True(t, v.MayStand())
				ends(q, c)
				require.Equal(t, "sweep", within(t, d.news))
			})
		})
	}
}

// A vote that ends once its claim was abandoned may have put that back: it is swept once more, behind the vote.
func TestLateVoteIsSwept(t *testing.T) {
	for name, late := range map[string]error{"answered": nil, "not answered": faults.ErrNoAnswer} {
		t.Run(name, func(t *testing.T) {
			d, release := newDiary(), make(chan struct{})
			q := stubs(t, 1, func(_ int, c *faults.Call) (driver.Value, error) {
				d.note(c.ScriptName())
				if c.ScriptName() != "vote" {
					return swept()
				}
				<-release
				d.note("vote ends")
				if late != nil {
					return driver.Value{}, late
				}
				return driver.List(driver.Int(1), driver.Int(8), driver.Int(1), driver.Int(5000), driver.String("us"),
					driver.Int(1_800_000_000_000_000), driver.Int(1)), nil
			}, func(c *setup) { c.Timeout = 4 * patience })
			c := contender(t, q)
			c.contest.ask(wire.ToWait)
			require.Equal(t, "vote", within(t, d.news))
			c.Abandon()
			require.Equal(t, "sweep", within(t, d.news), "it may have run already")
			close(release)
			for within(t, d.news) != "vote ends" {
			}
			require.Equal(t, "sweep", within(t, d.news))
		})
	}
}

// Those who abandon a claim may have other locks to care for, and must not wait for a vote that is out.
func TestAbandonWaitsForNoVote(t *testing.T) {
	d, release := newDiary(), make(chan struct{})
	q := stubs(t, 1, func(_ int, c *faults.Call) (driver.Value, error) {
		d.note(c.ScriptName())
		if c.ScriptName() != "vote" {
			return swept()
		}
		<-release
		d.note("vote ends")
		return driver.List(driver.Int(1), driver.Int(8), driver.Int(1), driver.Int(5000), driver.String("us"),
			driver.Int(1_800_000_000_000_000), driver.Int(1)), nil
	}, func(c *setup) { c.Timeout, c.Lease = time.Hour, 30*time.Hour })
	q.rtt.Store(int64(time.Hour)) // a vote that is out for an hour may still be answered
	let := sync.OnceFunc(func() { close(release) })
	defer let()
	c := contender(t, q)
	c.contest.ask(wire.ToWait)
	require.Equal(t, "vote", within(t, d.news))
	abandoned := make(chan struct{})
	go func() {
		defer close(abandoned)
		c.Abandon()
	}()
	within(t, abandoned)
	let()
	require.Equal(t, "vote ends", within(t, d.news))
	require.Equal(t, "sweep", within(t, d.news))
}

// What a contender has seen is what the nodes answered last, not the longest lease that it ever heard of.
func TestSeenIsOfTheLastAnswers(t *testing.T) {
	q := stubs(t, 3, unsaid)
	c := contender(t, q)
	answers := func(holder string, left ...time.Duration) {
		for i, ttl := range left {
			v := c.contest.voters[i]
			c.contest.takeVote(vote{voter: v, sent: clock.Now(), Answer: wire.Answer{Number: 1, Holder: holder, TTL: ttl}})
		}
	}
	seen := func(holder string, ttl time.Duration) {
		t.Helper()
		gotHolder, gotTTL := c.Seen()
		require.Equal(t, holder, gotHolder)
		require.Equal(t, ttl, gotTTL)
	}
	seen("", 0)
	answers("one", 20*time.Second, 30*time.Second, 10*time.Second)
	seen("one", 30*time.Second)
	answers("two", 5*time.Second, 6*time.Second, 7*time.Second)
	seen("two", 7*time.Second)
}

// A hold may linger once its process hears a quorum of the nodes: a waiter that is queued at a quorum is then queued at one of
// them.
func TestAttendTakesAQuorumOfInboxes(t *testing.T) {
	q, taps := tapped(t, masters(t, 3))
	for _, tap := range taps[1:] {
		tap.Filter(faults.All(faults.Command("SUBSCRIBE"), faults.Hold))
	}
	c := q.newClaim(entry(t, q))
	_, err := c.Wait(t.Context(), nil)
	require.NoError(t, err)
	defer c.Abandon()
	hears := func(i int) func() bool { return c.contest.voters[i].Ear().Attend }
	require.Eventually(t, hears(0), patience, time.Millisecond)
	require.False(t, c.Attend(), "two of three inboxes are not subscribed")
	taps[1].Filter(nil)
	taps[1].Release()
	require.Eventually(t, hears(1), patience, time.Millisecond)
	require.True(t, c.Attend())
}
