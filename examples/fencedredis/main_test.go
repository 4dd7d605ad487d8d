package main

import (
	"os"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/relock-go/relock"
	"github.com/relock-go/relock/examples/internal/show"
	"github.com/relock-go/relock/examples/internal/show/showtest"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

func TestMain(m *testing.M) {
	show.Work(example)
	os.Exit(m.Run())
}

func TestLateWrites(t *testing.T) {
	t.Run("embedded", func(t *testing.T) {
		t.Parallel()
		showtest.Run(t, example)
	})
	t.Run("redis", func(t *testing.T) {
		t.Parallel()
		onRedis := example
		onRedis.URL = "redis://" + redistest.Start(t).Addr()
		showtest.Run(t, onRedis)
	})
}

// Re-entries and repeated writes have the same token, so an equal one is taken. Gaps do not matter.
func TestTheScriptTakesTokensThatDoNotFall(t *testing.T) {
	t.Parallel()
	rdb := redis.NewClient(&redis.Options{Addr: redistest.Start(t).Addr()})
	defer rdb.Close()
	// As great as tokens are, and greater: a float holds them up to 2^53.
	for _, token := range []int64{1, 1, 3, 1_800_000_000_000_001, 1_800_000_000_000_002, 1 << 53} {
		require.NoError(t, setState(t.Context(), rdb, "key", "new", token))
		require.NoError(t, setState(t.Context(), rdb, "key", "again", token))
		err := setState(t.Context(), rdb, "key", "old", token-1)
		require.ErrorIs(t, err, errStale)
		require.ErrorIs(t, err, relock.ErrLost)
		require.Equal(t, "again", rdb.HGet(t.Context(), "key", "state").Val())
	}
}
