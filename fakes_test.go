package relock

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/relock-go/relock/internal/claim"
	"github.com/relock-go/relock/internal/clock"
	"github.com/relock-go/relock/internal/hub"
	"github.com/relock-go/relock/internal/node"
	"github.com/relock-go/relock/internal/wire"
	"github.com/stretchr/testify/require"
)

// scripted is an arbiter that grants everything and answers renewals as the test says. It lets the watchdog run in
// synctest's fake time, where no real connection can be waited for.
type scripted struct {
	claim.Arbiter
	mu        sync.Mutex
	answer    func(claim.Renewal) wire.Result
	counted   func(count int, lease time.Duration) error // what becomes of a hold count; nil for nothing wrong
	fresh     bool                                       // nobody waits when a lock is granted
	renewals  []time.Time                                // of commands
	renewed   int                                        // leases
	abandoned []string
	left      []string // to their leases
}

// scriptedClaim is its claim.
type scriptedClaim struct {
	claim.Claim
	s     *scripted
	entry wire.Entry
}

func (s *scripted) Nodes() []*node.Node            { return nil }
func (s *scripted) Claim(e wire.Entry) claim.Claim { return &scriptedClaim{s: s, entry: e} }
func (s *scripted) Stop()                          {}
func (s *scripted) Close()                         {}

func (s *scripted) Renew(_ context.Context, batch []claim.Renewal, settle claim.Settle) {
	s.mu.Lock()
	s.renewals = append(s.renewals, time.Now())
	s.renewed += len(batch)
	s.mu.Unlock()
	sent := clock.Now()
	for i, r := range batch {
		got := wire.Renewed
		if s.answer != nil {
			got = s.answer(r)
		}
		settle(i, got, sent, nil)
	}
}

func (c *scriptedClaim) Of() *wire.Entry { return &c.entry }

func (c *scriptedClaim) Wait(context.Context, claim.Report) (node.Grant, error) {
	return node.Grant{Token: 1, Passes: c.entry.Block, Sent: clock.Now(), Fresh: c.s.fresh}, nil
}

func (c *scriptedClaim) Try(context.Context) (node.Grant, error) {
	return node.Grant{}, &wire.HeldError{Name: c.entry.Names.Name}
}

func (c *scriptedClaim) Release(context.Context, claim.Claim) (node.Grant, bool, error) {
	return node.Grant{}, false, nil
}

func (c *scriptedClaim) Attend() bool            { return true }
func (c *scriptedClaim) Watch(*hub.Watcher)      {}
func (c *scriptedClaim) Refill(func(node.Grant)) {}
func (c *scriptedClaim) Asks(time.Duration)      {}

func (c *scriptedClaim) Forget() {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	c.s.left = append(c.s.left, c.entry.Names.Lock)
}

func (c *scriptedClaim) Abandon() {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	c.s.abandoned = append(c.s.abandoned, c.entry.Names.Lock)
}

func (c *scriptedClaim) SetCount(_ context.Context, count int, lease time.Duration) (sent clock.Stamp, err error) {
	sent = clock.Now()
	if c.s.counted != nil {
		err = c.s.counted(count, lease)
	}
	return sent, err
}

// inFakeTime runs a test with a client over a scripted arbiter, for a day at most. Without an end, a wait for what never comes
// would keep a processor busy with renewals until go test's -timeout.
func inFakeTime(t *testing.T, test func(t *testing.T, c *Client, s *scripted)) {
	synctest.Test(t, func(t *testing.T) {
		defer time.AfterFunc(24*time.Hour, func() { panic("a test of fake time has waited for a day") }).Stop()
		s := &scripted{}
		cfg, err := with[ClientOption](defaultConfig(), nil, "")
		require.NoError(t, err)
		c := newClientOver("c", cfg, s)
		defer c.Close()
		test(t, c, s)
	})
}

// seen gathers events.
type seen struct {
	mu     sync.Mutex
	events []Event
}

func (s *seen) Observe(e Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.events = append(s.events, e)
}

// of returns the events of some kinds so far.
func (s *seen) of(kinds ...EventKind) (of []Event) {
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
func (s *seen) nth(t *testing.T, n int, kind EventKind) Event {
	t.Helper()
	require.Eventually(t, func() bool { return len(s.of(kind)) >= n }, patience, time.Millisecond, "%v", kind)
	return s.of(kind)[n-1]
}
