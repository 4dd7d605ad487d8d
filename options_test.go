package relock

import (
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"
)

// What the guard waits is the user's word where it was given, and follows the lease only where it was not.
func TestRestartGuardOption(t *testing.T) {
	nodes := []rueidis.Client{embedded(t)}
	open := func(opts ...Option) error {
		c, err := NewRedlock(nodes, opts...)
		if err == nil {
			c.Close()
		}
		return err
	}
	require.NoError(t, open(WithRestartGuard(GuardOff, 0)))
	require.NoError(t, open(WithRestartGuard(GuardOff, 0), WithLease(time.Hour)))
	require.NoError(t, open(WithLease(time.Minute)))
	require.NoError(t, open(WithLease(time.Minute), WithRestartGuard(GuardAuto, time.Minute)))
	for _, longest := range []time.Duration{29 * time.Second, 30 * time.Second, 31 * time.Second} {
		require.ErrorIs(t, open(WithLease(time.Minute), WithRestartGuard(GuardAuto, longest)), ErrInvalidOption, longest)
	}
	require.ErrorIs(t, open(WithRestartGuard(GuardAuto, 0)), ErrInvalidOption)
}

// Refusals name the option and what it takes.
func TestRefusedOptionsSayWhatTheyTake(t *testing.T) {
	for why, opt := range map[string]Option{
		"WithWait: -1s; it must be positive":              WithWait(-time.Second),
		"WithCommandTimeout: 0s; it must be positive":     WithCommandTimeout(0),
		"WithLocalHandoff: -1s; it must not be negative":  WithLocalHandoff(1, -time.Second),
		"WithPubSub: unknown PubSubMode 7":                WithPubSub(7),
		"WithRestartGuard: unknown GuardMode -1":          WithRestartGuard(-1, time.Minute),
		"WithLease: 1ms is out of range, between 100ms":   WithLease(time.Millisecond),
		"WithQuorum: it belongs to NewRedlock":            WithQuorum(1),
		"WithLogger: the logger is nil":                   WithLogger(nil),
		"WithLocalHandoff: 0 passes; between 1 (none) an": WithLocalHandoff(0, 0),
	} {
		_, err := New(embedded(t), opt)
		require.ErrorIs(t, err, ErrInvalidOption)
		require.ErrorContains(t, err, why)
	}
}

func TestValidOwner(t *testing.T) {
	for _, id := range []string{"order 7", "ü", "uuid:17", "relock", strings.Repeat("x", 256)} {
		require.NoError(t, validOwner(id))
	}
	for id, why := range map[string]string{
		"": "empty", "relock:vote": "its own fields", "relock:": "its own fields", strings.Repeat("x", 257): "257 bytes",
	} {
		err := validOwner(id)
		require.ErrorIs(t, err, ErrInvalidOwner)
		require.ErrorContains(t, err, why)
	}
}
