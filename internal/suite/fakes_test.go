package suite_test

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/locktest/fakes"
	"github.com/stretchr/testify/require"
)

type (
	scripted = fakes.Arbiter
	hanging  = fakes.Hanging
)

// inFakeTime runs a test with a client over a scripted arbiter, for a day at most. Without an end, a wait for what never comes
// would keep a processor busy with renewals until go test's -timeout.
func inFakeTime(t *testing.T, test func(t *testing.T, c *relock.Client, s *scripted), opts ...relock.ClientOption) {
	synctest.Test(t, func(t *testing.T) {
		defer time.AfterFunc(24*time.Hour, func() { panic("a test of fake time has waited for a day") }).Stop()
		s := &scripted{}
		c := over(t, s, opts...)
		defer c.Close()
		test(t, c, s)
	})
}

// seen gathers events.
type seen struct {
	mu     sync.Mutex
	events []relock.Event
}

func (s *seen) Observe(e relock.Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.events = append(s.events, e)
}

// of returns the events of some kinds so far.
func (s *seen) of(kinds ...relock.EventKind) (of []relock.Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range s.events {
		for _, kind := range kinds {
			if e.Kind == kind {
				of = append(of, e)
			}
		}
	}
	return of
}

// nth waits for so many events of a kind, and returns the last.
func (s *seen) nth(t *testing.T, n int, kind relock.EventKind) relock.Event {
	t.Helper()
	require.Eventually(t, func() bool { return len(s.of(kind)) >= n }, patience, time.Millisecond, "%v", kind)
	return s.of(kind)[n-1]
}
