package suite_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/faults"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

// subscribe listens on a channel as neither relock's nor Redisson's clients do, until the test ends.
func subscribe(t *testing.T, s *redistest.Server, channel string, hear func(message string)) {
	t.Helper()
	conn, release := s.Client().Dedicate()
	t.Cleanup(release)
	before := s.Do("PUBSUB", "NUMSUB", channel)
	conn.SetPubSubHooks(rueidis.PubSubHooks{OnMessage: func(m rueidis.PubSubMessage) { hear(m.Message) }})
	require.NoError(t, conn.Do(context.Background(), conn.B().Subscribe().Channel(channel).Build()).Error())
	require.Eventually(t, func() bool { return s.Do("PUBSUB", "NUMSUB", channel) != before }, patience, time.Millisecond)
}

// withoutTurn picks the releases that do not leave the lock to foreign waiters.
func withoutTurn(c *faults.Call) bool {
	const place = 3 + 5 + 4 // behind the hash and five keys; left out where nothing else has to be said
	return faults.Script("release")(c) && len(c.Words) > place && c.Words[place] == "0"
}

// Foreign waiters that come later than relock's get their share of a lock that relock is eager for, and one that never
// comes costs little.
func TestForeignersGetTheirShare(t *testing.T) {
	s := redistest.Start(t)
	ctx, cancel := context.WithCancel(context.Background())
	taps := []*faults.Client{faulty(s), faulty(s)}
	clients := []*relock.Client{newClient(t, taps[0]), newClient(t, taps[1])}
	var ours, theirs, late atomic.Int64
	free := make(chan struct{}, 1)
	subscribe(t, s, "redisson_lock__channel:{k}", func(string) {
		select {
		case free <- struct{}{}:
		default:
		}
	})
	done := make(chan struct{})
	for _, c := range clients {
		for range 2 {
			go func() {
				defer func() { done <- struct{}{} }()
				for ctx.Err() == nil {
					if c.Mutex("k").Do(ctx, func(context.Context) error { return nil }) == nil {
						ours.Add(1)
					}
				}
			}()
		}
	}
	const take = "return redis.call('EXISTS', KEYS[1]) == 0 and redis.call('HSET', KEYS[1], 'java:1', 1)"
	for began := time.Now(); theirs.Load() < 50; {
		require.Less(t, time.Since(began), patience)
		within(t, free)
		time.Sleep(2 * time.Millisecond) // as a JVM takes to come
		if s.Do("EVAL", take, "1", "k") == "1" {
			theirs.Add(1)
			s.Do("DEL", "k")
			s.Do("PUBLISH", "redisson_lock__channel:{k}", "0")
		} else {
			late.Add(1) // a turn is short, and the machine may be busy
		}
	}
	t.Logf("%d holdings of ours, %d of theirs, %d chances missed", ours.Load(), theirs.Load(), late.Load())
	require.Less(t, ours.Load(), 20*(theirs.Load()+late.Load()))

	// The foreigner sleeps now: a release comes to give no turn although it listens.
	for _, tap := range taps {
		tap.Filter(faults.All(withoutTurn, faults.Tell))
	}
	select {
	case <-taps[0].Told():
	case <-taps[1].Told():
	case <-time.After(patience):
		require.FailNow(t, "it is given turns for ever")
	}
	cancel()
	for range 4 {
		within(t, done)
	}
}
