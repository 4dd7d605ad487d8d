package api

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// An option that belongs to a client does not compile where a lock is made. Each option of a lock compiles where a client is.
func TestOptionsAreGivenWhereTheyBelong(t *testing.T) {
	makers := []string{
		`c.Mutex("k", OPT)`, `c.RWMutex("k", OPT)`, `c.Semaphore("k", 3, OPT)`, `c.Flight("k", time.Minute, OPT)`,
		`relock.FlightOf[string](c, "k", time.Minute, OPT)`,
	}
	for _, opt := range []string{
		`relock.WithNamePrefix("app:")`, `relock.WithClientName("billing")`, `relock.WithQuorum(3)`,
		`relock.WithRestartGuard(time.Minute)`, `relock.WithStrictRestartGuard(time.Minute)`, `relock.WithoutRestartGuard()`,
		`relock.WithTokenRetention(time.Hour)`, `relock.WithObserver(nil)`, `relock.WithLogger(nil)`, `relock.WithPlainChannels()`,
	} {
		for _, maker := range makers {
			require.ErrorContains(t, compiles(t, strings.Replace(maker, "OPT", opt, 1)),
				"relock.ClientOption does not implement relock.Option", "%s of %s", opt, maker)
		}
		require.NoError(t, compiles(t, `relock.New(rdb, `+opt+`); relock.NewRedlock(nil, `+opt+`)`))
	}
	for _, opt := range []string{
		`relock.WithLease(time.Minute)`, `relock.WithFixedLease(time.Minute)`, `relock.WithMaxHold(time.Minute)`,
		`relock.WithMinHold(time.Minute)`, `relock.WithWait(time.Minute)`, `relock.WithLocalHandoff(1, 0)`,
		`relock.WithLinger(time.Minute)`, `relock.WithStrictOrder()`, `relock.WithCommandTimeout(time.Second)`,
		`relock.WithRedissonWatchdog(time.Minute)`,
	} {
		for _, maker := range append(makers, `relock.New(rdb, OPT)`, `relock.NewRedlock(nil, OPT)`) {
			require.NoError(t, compiles(t, strings.Replace(maker, "OPT", opt, 1)))
		}
	}
}

// A program has no options of its own, and none of its limits are constants of the library's.
func TestWhatOptionsAreIsTheLibrarysOwn(t *testing.T) {
	for program, says := range map[string]string{
		`_ = relock.Option{}`: "invalid composite literal type relock.Option",
		`type mine struct{}; var _ relock.ClientOption = mine{}`: "mine does not implement relock.ClientOption",
		`_ = relock.MinLease`:                                 "undefined: relock.MinLease",
		`_ = relock.MaxLease`:                                 "undefined: relock.MaxLease",
		`_ = relock.MaxPermits`:                               "undefined: relock.MaxPermits",
		`_ = relock.MaxResult`:                                "undefined: relock.MaxResult",
		`_ = relock.CommandAcquire`:                           "undefined: relock.CommandAcquire",
		`var e *relock.NodeError; var s string = e.Op; _ = s`: "cannot use e.Op",
		`var e *relock.QuorumError; _ = e.Op == relock.CommandStats{}.Command`: "",
	} {
		if err := compiles(t, program); says == "" {
			require.NoError(t, err, program)
		} else {
			require.ErrorContains(t, err, says, program)
		}
	}
}
