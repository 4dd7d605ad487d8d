package node

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/relock-go/relock/internal/driver"
	"github.com/relock-go/relock/internal/faults"
	"github.com/relock-go/relock/internal/wire"
	"github.com/stretchr/testify/require"
)

const unknownShards = "ERR Unknown subcommand or wrong number of arguments for 'SHARDNUMSUB'. Try PUBSUB HELP."

// refusal is the answer to a command that the server refuses.
func refusal(text string) driver.Value { return driver.Error(&driver.ReplyError{Text: text}) }

// cluster is a Cluster that grants every lock, and answers the question for sharded channels as answer does.
func cluster(answer func() (driver.Value, error)) *faults.Stub {
	return &faults.Stub{
		Slots: true,
		OnDo:  func(context.Context, []string) (driver.Value, error) { return answer() },
		OnRun: func(context.Context, *driver.Script, []string, []string) (driver.Value, error) {
			return driver.List(driver.Int(1), driver.Int(1), driver.Int(1)), nil
		},
	}
}

// The question which channels a Cluster has is asked once, and no caller waits for its answer longer than its context lives.
func TestModeIsAskedOnceAndWaitedForByOwnContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked, free := 0, make(chan struct{})
		n, closes := nodeOf(cluster(func() (driver.Value, error) {
			asked++
			<-free
			return refusal(unknownShards), nil
		}))
		defer closes()
		tried := make(chan error, 6)
		ask := func(ctx context.Context, number int) {
			c := claimOf(t, n, "k", number, time.Minute)
			_, _, err := c.Ask(ctx, wire.NoTicket)
			c.Forget()
			tried <- err
		}
		for i := range 5 {
			go ask(t.Context(), i)
		}
		ctx, cancel := context.WithCancel(t.Context())
		go ask(ctx, 5)
		synctest.Wait()
		require.Equal(t, 1, asked)
		require.Empty(t, tried)
		require.Zero(t, n.mode.Load())
		cancel()
		require.ErrorIs(t, <-tried, context.Canceled)
		synctest.Wait()
		require.Empty(t, tried)
		close(free)
		for range 5 {
			require.NoError(t, <-tried)
		}
		require.Equal(t, 1, asked)
		require.EqualValues(t, modeRaceOnly, n.mode.Load())
		go ask(t.Context(), 6)
		require.NoError(t, <-tried)
		require.Equal(t, 1, asked)
	})
}

// Only an answer that sharded channels are unknown decides against them.
func TestAnswersToTheQuestionForChannels(t *testing.T) {
	for _, c := range []struct {
		answer driver.Value
		err    error
		want   int32
	}{
		{driver.List(), nil, modeSharded},
		{refusal(unknownShards), nil, modeRaceOnly},
		{refusal("ERR unknown command 'PUBSUB'"), nil, modeRaceOnly},
		{refusal("Unknown PUBSUB subcommand"), nil, modeRaceOnly},
		{refusal("NOPERM this user has no permissions to run the 'pubsub' command or its subcommand"), nil, modeRaceOnly},
		{refusal("NOPERM User app has no permissions to run the 'pubsub|shardnumsub' command"), nil, 0},
		{refusal("LOADING Redis is loading the dataset in memory"), nil, 0},
		{refusal("CLUSTERDOWN The cluster is down"), nil, 0},
		{driver.Value{}, errors.New("no connection"), 0},
		{driver.Value{}, context.DeadlineExceeded, 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			asked := 0
			n, closes := nodeOf(cluster(func() (driver.Value, error) { asked++; return c.answer, c.err }))
			defer closes()
			for range 2 {
				_, err := n.route(t.Context(), entryOf(t, "k", 1, time.Minute).Names)
				require.Equal(t, c.want == 0, err != nil, "%v", err)
			}
			require.Equal(t, c.want, n.mode.Load())
			require.Equal(t, map[bool]int{true: 2, false: 1}[c.want == 0], asked, "what decided nothing is asked again")
		})
	}
}

// What the user says is not asked for.
func TestModeOfTheUser(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, closes := nodeOf(cluster(func() (driver.Value, error) { panic("asked") }), func(c *Config) { c.Plain = true })
		defer closes()
		way, err := n.route(t.Context(), entryOf(t, "k", 1, time.Minute).Names)
		require.NoError(t, err)
		require.Equal(t, int32(modeRaceOnly), n.mode.Load())
		require.Equal(t, wire.Route{Publish: "PUBLISH"}, way)
	})
}

// A question that is asked as the client closes is answered with that.
func TestModeOfAClosedNode(t *testing.T) {
	n, closes := nodeOf(cluster(func() (driver.Value, error) { panic("asked") }))
	closes()
	_, err := n.route(t.Context(), entryOf(t, "k", 1, time.Minute).Names)
	require.ErrorIs(t, err, wire.ErrClosed)
}
