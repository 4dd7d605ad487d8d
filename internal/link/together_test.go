package link_test

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/redis/rueidis"
	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/faults"
	"github.com/relock-go/relock/internal/locktest"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

// Locks of different names that are asked for at one moment go together: one that cannot be had takes no other along,
// and answers that are lost are waited for by asking again.
func TestManyLocksGoTogether(t *testing.T) {
	s := redistest.Start(t)
	s.Do("SET", "lock-77", "no lock")
	s.Do("HSET", "redisson_lock_token:{lock-177}", "no", "counter")
	tap := locktest.Faulty(s)
	c := locktest.Client(t, tap)
	warm, err := c.Mutex("warm").Lock(t.Context())
	require.NoError(t, err)
	require.NoError(t, warm.Unlock(t.Context()))

	leases, errs := faults.Together(t, tap, func(name string) (*relock.Lease, error) { return c.Mutex(name).Lock(t.Context()) })
	var wg sync.WaitGroup
	for i, err := range errs {
		if i == 77 || i == 177 {
			require.ErrorContains(t, err, "WRONGTYPE")
			continue
		}
		require.NoError(t, err)
		require.Positive(t, leases[i].Token())
		require.NoError(t, leases[i].Context().Err())
		require.Equal(t, "1", s.Do("EXISTS", fmt.Sprintf("lock-%d", i)))
	}

	require.Equal(t, "no\ncounter", s.Do("HGETALL", "redisson_lock_token:{lock-177}"), "what is no counter is not written over")
	require.Equal(t, "0", s.Do("EXISTS", "lock-177"))

	s.Do("SCRIPT", "FLUSH") // an answer that is no answer: what ran for none is sent with its text
	tap.Filter(faults.Next(faults.Script("many"), faults.LoseReply, faults.LoseCall))
	for i, l := range leases {
		if l != nil {
			wg.Go(func() { errs[i] = l.Unlock(context.Background()) })
		}
	}
	wg.Wait()
	for i, l := range leases {
		if l != nil {
			require.NoError(t, errs[i])
			require.Equal(t, "0", s.Do("EXISTS", fmt.Sprintf("lock-%d", i)))
		}
	}
}

// A lock that the user has no right to is refused by itself, though Redis refuses the whole command for it.
func TestOneForbiddenLockAmongMany(t *testing.T) {
	s := redistest.Start(t)
	rdb, err := rueidis.NewClient(s.AddUser("app", "secret", "~warm", "~*{warm}", "~lock-?", "~*{lock-?}", "~lock-??", "~*{lock-??}",
		"~lock-1[0-8]?", "~*{lock-1[0-8]?}", "+@all", "allchannels"))
	require.NoError(t, err)
	t.Cleanup(rdb.Close)
	tap := faults.NewClient(rdb)
	c := locktest.Client(t, tap)
	warm, err := c.Mutex("warm").Lock(t.Context())
	require.NoError(t, err)
	require.NoError(t, warm.Unlock(t.Context()))
	leases, errs := faults.Together(t, tap, func(name string) (*relock.Lease, error) { return c.Mutex(name).Lock(t.Context()) })
	for i, err := range errs {
		if i >= 190 {
			require.ErrorContains(t, err, "NOPERM")
			continue
		}
		require.NoError(t, err)
		require.NoError(t, leases[i].Unlock(t.Context()))
	}
}
