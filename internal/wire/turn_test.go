package wire_test

import (
	"testing"

	"github.com/redis/rueidis"

	"github.com/relock-go/relock/internal/locktest"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

// A release that may not let the queue of a turn expire leaves no queue that never ends, and fails for no such thing.
func TestTurnWithoutAnEndIsNotLeft(t *testing.T) {
	s := redistest.Start(t)
	rdb, err := rueidis.NewClient(s.AddUser("app", "secret", "~*", "&*", "+@all"))
	require.NoError(t, err)
	t.Cleanup(rdb.Close)
	client := locktest.Over(t, []rueidis.Client{rdb})
	l, err := client.Mutex("k").Lock(t.Context())
	require.NoError(t, err)
	foreign, stop := s.Client().Dedicate() // listens as a waiter of Redisson's does
	defer stop()
	require.NoError(t, foreign.Do(t.Context(), foreign.B().Subscribe().Channel("redisson_lock__channel:{k}").Build()).Error())
	s.Do("ACL", "SETUSER", "app", "-pexpire")
	require.NoError(t, l.Unlock(t.Context()))
	require.Equal(t, "0", s.Do("EXISTS", "k", "relock_queue:{k}"))
}
