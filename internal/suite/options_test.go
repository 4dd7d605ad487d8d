package suite_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/wire"
	"github.com/stretchr/testify/require"
)

func TestUnusableOptions(t *testing.T) {
	_, err := relock.New(nil)
	require.ErrorIs(t, err, relock.ErrInvalidOption)
	rdb := ownRedis(t)
	for _, c := range []struct {
		option relock.ClientOption
		why    string
	}{
		{relock.WithLease(99 * time.Millisecond), "WithLease"},
		{relock.WithLease(-time.Second), "WithLease"},
		{relock.WithLease(400 * 24 * time.Hour), "WithLease"},
		{relock.WithFixedLease(0), "WithFixedLease"},
		{relock.WithMaxHold(time.Nanosecond), "WithMaxHold"},
		{relock.WithWait(0), "use TryLock"},
		{relock.WithWait(-time.Second), "WithWait"},
		{relock.WithLocalHandoff(0, time.Second), "WithLocalHandoff"},
		{relock.WithLocalHandoff(1, -time.Second), "no negative time"},
		{relock.WithCommandTimeout(0), "WithCommandTimeout"},
		{relock.WithCommandTimeout(time.Minute), "a third of it at most"},
		{nil, "a nil option"},
		{relock.WithNamePrefix(strings.Repeat("x", 1024)), "1024 bytes"},
		{relock.WithLogger(nil), "the logger is nil"},
	} {
		_, err := relock.New(rdb, c.option)
		require.ErrorIs(t, err, relock.ErrInvalidOption)
		require.ErrorContains(t, err, c.why)
	}
	locks := newClient(t, rdb)
	_, err = locks.Mutex("k", nil).Lock(context.Background())
	require.EqualError(t, err, "relock: invalid option: a nil option")
	_, err = locks.Mutex("k", relock.WithLease(time.Millisecond)).TryLock(context.Background())
	require.ErrorIs(t, err, relock.ErrInvalidOption)
	l, err := locks.Mutex("k").Lock(context.Background())
	require.NoError(t, err)
	require.ErrorIs(t, l.Extend(context.Background(), -time.Second), relock.ErrInvalidOption)
	require.NoError(t, l.Unlock(context.Background()))
}

// What the guard waits is the user's word where it was given, and follows the lease only where it was not.
func TestRestartGuardOption(t *testing.T) {
	nodes := []rueidis.Client{ownRedis(t)}
	open := func(opts ...relock.ClientOption) error {
		c, err := relock.NewRedlock(nodes, opts...)
		if err == nil {
			c.Close()
		}
		return err
	}
	require.NoError(t, open(relock.WithoutRestartGuard()))
	require.NoError(t, open(relock.WithoutRestartGuard(), relock.WithLease(time.Hour)))
	require.NoError(t, open(relock.WithLease(time.Minute)))
	require.NoError(t, open(relock.WithLease(time.Minute), relock.WithRestartGuard(time.Minute)))
	for _, longest := range []time.Duration{29 * time.Second, 30 * time.Second, 31 * time.Second} {
		require.ErrorIs(t, open(relock.WithLease(time.Minute), relock.WithRestartGuard(longest)), relock.ErrInvalidOption, longest)
	}
	require.ErrorIs(t, open(relock.WithRestartGuard(0)), relock.ErrInvalidOption)
	require.ErrorIs(t, open(relock.WithLease(time.Minute), relock.WithoutRestartGuard(), relock.WithRestartGuard(30*time.Second)), relock.ErrInvalidOption)
	require.NoError(t, open(relock.WithLease(time.Minute), relock.WithRestartGuard(30*time.Second), relock.WithoutRestartGuard()), "the last one counts")
}

// Refusals name the option and what it takes.
func TestRefusedOptionsSayWhatTheyTake(t *testing.T) {
	rdb := ownRedis(t)
	for why, opt := range map[string]relock.ClientOption{
		"WithWait: -1s; it must be positive":              relock.WithWait(-time.Second),
		"WithCommandTimeout: 0s; it must be positive":     relock.WithCommandTimeout(0),
		"WithLocalHandoff: 1 passes in -1s; 1 (none) to":  relock.WithLocalHandoff(1, -time.Second),
		"WithRestartGuard: 0s is out of range":            relock.WithRestartGuard(0),
		"WithStrictRestartGuard: -1s is out of range":     relock.WithStrictRestartGuard(-time.Second),
		"WithLease: 1ms is out of range, between 100ms":   relock.WithLease(time.Millisecond),
		"WithQuorum: it belongs to NewRedlock":            relock.WithQuorum(1),
		"WithLogger: the logger is nil":                   relock.WithLogger(nil),
		"WithLocalHandoff: 0 passes in 0s; 1 (none) to 1": relock.WithLocalHandoff(0, 0),
	} {
		_, err := relock.New(rdb, opt)
		require.ErrorIs(t, err, relock.ErrInvalidOption)
		require.ErrorContains(t, err, why)
	}
}

// A counter outlives the longest lease by far, and whoever gives less is told.
func TestTokenRetentionOption(t *testing.T) {
	rdb := ownRedis(t)
	for _, opts := range [][]relock.ClientOption{
		{relock.WithTokenRetention(0)}, {relock.WithTokenRetention(0), relock.WithLease(wire.MaxLease)}, {relock.WithTokenRetention(time.Minute), relock.WithLease(15 * time.Second)},
		{relock.WithLease(wire.MaxLease)}, {relock.WithTokenRetention(4 * wire.MaxLease), relock.WithLease(wire.MaxLease)},
	} {
		newClient(t, rdb, opts...)
	}
	for why, opts := range map[string][]relock.ClientOption{
		"-1s is out of range":                              {relock.WithTokenRetention(-time.Second)},
		"59s is out of range":                              {relock.WithTokenRetention(59 * time.Second)},
		"needs fencing counters kept for at least 2m0s":    {relock.WithTokenRetention(time.Minute)},
		"needs fencing counters kept for at least 4h0m0s":  {relock.WithTokenRetention(time.Hour), relock.WithLease(time.Hour)},
		"needs fencing counters kept for at least 40h0m0s": {relock.WithTokenRetention(time.Hour), relock.WithFixedLease(10 * time.Hour)},
	} {
		_, err := relock.New(rdb, opts...)
		require.ErrorIs(t, err, relock.ErrInvalidOption)
		require.ErrorContains(t, err, why)
		require.ErrorContains(t, err, "WithTokenRetention")
	}
	c := newClient(t, rdb, relock.WithTokenRetention(time.Hour))
	_, err := c.Mutex("k", relock.WithFixedLease(48*time.Hour)).TryLock(t.Context())
	require.ErrorIs(t, err, relock.ErrInvalidOption)
	require.ErrorContains(t, err, "at least 192h0m0s, not 1h0m0s; see WithTokenRetention")
	for _, c := range []*relock.Client{newClient(t, rdb), newClient(t, rdb, relock.WithTokenRetention(0))} { // it gave no other
		l, err := c.Mutex("k", relock.WithFixedLease(48*time.Hour)).TryLock(t.Context())
		require.NoError(t, err)
		require.NoError(t, l.Unlock(t.Context()))
	}
}

func TestUnusableOwners(t *testing.T) {
	m := newClient(t, ownRedis(t)).Mutex("k")
	for _, id := range []string{"", strings.Repeat("o", 257), "relock:vote"} {
		ctx := relock.WithOwner(context.Background(), id)
		_, err := m.Lock(ctx)
		require.ErrorIs(t, err, relock.ErrInvalidOwner)
		_, err = m.TryLock(ctx)
		require.ErrorIs(t, err, relock.ErrInvalidOwner)
		l, err := m.Lock(relock.Detach(ctx))
		require.NoError(t, err)
		require.NoError(t, l.Unlock(ctx))
	}
}
