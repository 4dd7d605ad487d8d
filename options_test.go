package relock

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/wire"
)

func TestUnusableOptions(t *testing.T) {
	_, err := New(nil)
	require.ErrorIs(t, err, ErrInvalidOption)
	rdb := ownRedis(t)
	for _, c := range []struct {
		option ClientOption
		why    string
	}{
		{WithLease(99 * time.Millisecond), "WithLease"},
		{WithLease(-time.Second), "WithLease"},
		{WithLease(400 * 24 * time.Hour), "WithLease"},
		{WithFixedLease(0), "WithFixedLease"},
		{WithMaxHold(time.Nanosecond), "WithMaxHold"},
		{WithWait(0), "use TryLock"},
		{WithWait(-time.Second), "WithWait"},
		{WithLocalHandoff(0, time.Second), "WithLocalHandoff"},
		{WithLocalHandoff(1, -time.Second), "no negative time"},
		{WithCommandTimeout(0), "WithCommandTimeout"},
		{WithCommandTimeout(time.Minute), "a third of it at most"},
		{nil, "a nil option"},
		{WithNamePrefix(strings.Repeat("x", 1024)), "1024 bytes"},
		{WithLogger(nil), "the logger is nil"},
	} {
		_, err := New(rdb, c.option)
		require.ErrorIs(t, err, ErrInvalidOption)
		require.ErrorContains(t, err, c.why)
	}
	locks := newClient(t, rdb)
	_, err = locks.Mutex("k", nil).Lock(context.Background())
	require.EqualError(t, err, "relock: invalid option: a nil option")
	_, err = locks.Mutex("k", WithLease(time.Millisecond)).TryLock(context.Background())
	require.ErrorIs(t, err, ErrInvalidOption)
	l, err := locks.Mutex("k").Lock(context.Background())
	require.NoError(t, err)
	require.ErrorIs(t, l.Extend(context.Background(), -time.Second), ErrInvalidOption)
	require.NoError(t, l.Unlock(context.Background()))
}

// What the guard waits is the user's word where it was given, and follows the lease only where it was not.
func TestRestartGuardOption(t *testing.T) {
	nodes := []rueidis.Client{ownRedis(t)}
	open := func(opts ...ClientOption) error {
		c, err := NewRedlock(nodes, opts...)
		if err == nil {
			c.Close()
		}
		return err
	}
	require.NoError(t, open(WithoutRestartGuard()))
	require.NoError(t, open(WithoutRestartGuard(), WithLease(time.Hour)))
	require.NoError(t, open(WithLease(time.Minute)))
	require.NoError(t, open(WithLease(time.Minute), WithRestartGuard(time.Minute)))
	for _, longest := range []time.Duration{29 * time.Second, 30 * time.Second, 31 * time.Second} {
		require.ErrorIs(t, open(WithLease(time.Minute), WithRestartGuard(longest)), ErrInvalidOption, longest)
	}
	require.ErrorIs(t, open(WithRestartGuard(0)), ErrInvalidOption)
	require.ErrorIs(t, open(WithLease(time.Minute), WithoutRestartGuard(), WithRestartGuard(30*time.Second)), ErrInvalidOption)
	require.NoError(t, open(WithLease(time.Minute), WithRestartGuard(30*time.Second), WithoutRestartGuard()), "the last one counts")
}

// Refusals name the option and what it takes.
func TestRefusedOptionsSayWhatTheyTake(t *testing.T) {
	rdb := ownRedis(t)
	for why, opt := range map[string]ClientOption{
		"WithWait: -1s; it must be positive":              WithWait(-time.Second),
		"WithCommandTimeout: 0s; it must be positive":     WithCommandTimeout(0),
		"WithLocalHandoff: 1 passes in -1s; 1 (none) to":  WithLocalHandoff(1, -time.Second),
		"WithRestartGuard: 0s is out of range":            WithRestartGuard(0),
		"WithStrictRestartGuard: -1s is out of range":     WithStrictRestartGuard(-time.Second),
		"WithLease: 1ms is out of range, between 100ms":   WithLease(time.Millisecond),
		"WithQuorum: it belongs to NewRedlock":            WithQuorum(1),
		"WithLogger: the logger is nil":                   WithLogger(nil),
		"WithLocalHandoff: 0 passes in 0s; 1 (none) to 1": WithLocalHandoff(0, 0),
	} {
		_, err := New(rdb, opt)
		require.ErrorIs(t, err, ErrInvalidOption)
		require.ErrorContains(t, err, why)
	}
}

// A counter outlives the longest lease by far, and whoever gives less is told.
func TestTokenRetentionOption(t *testing.T) {
	rdb := ownRedis(t)
	for _, opts := range [][]ClientOption{
		{WithTokenRetention(0)}, {WithTokenRetention(0), WithLease(wire.MaxLease)}, {WithTokenRetention(time.Minute), WithLease(15 * time.Second)},
		{WithLease(wire.MaxLease)}, {WithTokenRetention(4 * wire.MaxLease), WithLease(wire.MaxLease)},
	} {
		newClient(t, rdb, opts...)
	}
	for why, opts := range map[string][]ClientOption{
		"-1s is out of range":                              {WithTokenRetention(-time.Second)},
		"59s is out of range":                              {WithTokenRetention(59 * time.Second)},
		"needs fencing counters kept for at least 2m0s":    {WithTokenRetention(time.Minute)},
		"needs fencing counters kept for at least 4h0m0s":  {WithTokenRetention(time.Hour), WithLease(time.Hour)},
		"needs fencing counters kept for at least 40h0m0s": {WithTokenRetention(time.Hour), WithFixedLease(10 * time.Hour)},
	} {
		_, err := New(rdb, opts...)
		require.ErrorIs(t, err, ErrInvalidOption)
		require.ErrorContains(t, err, why)
		require.ErrorContains(t, err, "WithTokenRetention")
	}
	c := newClient(t, rdb, WithTokenRetention(time.Hour))
	_, err := c.Mutex("k", WithFixedLease(48*time.Hour)).TryLock(t.Context())
	require.ErrorIs(t, err, ErrInvalidOption)
	require.ErrorContains(t, err, "at least 192h0m0s, not 1h0m0s; see WithTokenRetention")
	for _, c := range []*Client{newClient(t, rdb), newClient(t, rdb, WithTokenRetention(0))} { // it gave no other
		l, err := c.Mutex("k", WithFixedLease(48*time.Hour)).TryLock(t.Context())
		require.NoError(t, err)
		require.NoError(t, l.Unlock(t.Context()))
	}
}

// By default counters are kept for ten minutes, and for longer where the client is told of a lease longer than a quarter of that.
func TestDefaultTokenRetention(t *testing.T) {
	for _, c := range []struct {
		want time.Duration
		opts []ClientOption
	}{
		{10 * time.Minute, nil},
		{10 * time.Minute, []ClientOption{WithLease(150 * time.Second)}},
		{20 * time.Minute, []ClientOption{WithLease(5 * time.Minute)}},
		{4 * time.Hour, []ClientOption{WithFixedLease(time.Hour)}},
		{4 * time.Hour, []ClientOption{WithRestartGuard(time.Hour)}},
		{8 * time.Hour, []ClientOption{WithRestartGuard(2 * time.Hour), WithFixedLease(time.Hour)}},
	} {
		cfg, err := with(defaultConfig(), c.opts, "")
		require.NoError(t, err)
		require.Equal(t, c.want, cfg.retention)
	}
}

func TestUnusableOwners(t *testing.T) {
	m := newClient(t, ownRedis(t)).Mutex("k")
	for _, id := range []string{"", strings.Repeat("o", 257), "relock:vote"} {
		ctx := WithOwner(context.Background(), id)
		_, err := m.Lock(ctx)
		require.ErrorIs(t, err, ErrInvalidOwner)
		_, err = m.TryLock(ctx)
		require.ErrorIs(t, err, ErrInvalidOwner)
		l, err := m.Lock(Detach(ctx))
		require.NoError(t, err)
		require.NoError(t, l.Unlock(ctx))
	}
}
