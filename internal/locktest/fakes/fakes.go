// Package fakes has arbiters for clients in synctest's fake time, where no real connection can be waited for. It stands below
// the library, so that tests of the library's own package can use it too.
package fakes

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/relock-go/relock/internal/claim"
	"github.com/relock-go/relock/internal/clock"
	"github.com/relock-go/relock/internal/driver"
	"github.com/relock-go/relock/internal/hub"
	"github.com/relock-go/relock/internal/node"
	"github.com/relock-go/relock/internal/watchdog"
	"github.com/relock-go/relock/internal/wire"
)

// Arbiter grants everything and answers renewals as the test says.
type Arbiter struct {
	claim.Arbiter
	Answer  func(claim.Renewal) wire.Result            // what becomes of a renewal; nil for Renewed
	Counted func(count int, lease time.Duration) error // what becomes of a hold count; nil for nothing wrong
	Fresh   bool                                       // nobody waits when a lock is granted

	Mu        sync.Mutex  // guards the fields below
	Renewals  []time.Time // of commands
	Renewed   int         // leases
	Abandoned []string    // locks, as Redis knows them
	Left      []string    // to their leases
}

// Claim is an Arbiter's claim.
type Claim struct {
	claim.Claim
	S     *Arbiter
	Entry wire.Entry
}

// Nodes returns none.
func (s *Arbiter) Nodes() []*node.Node { return nil }

// Claim returns a new claim.
func (s *Arbiter) Claim(e wire.Entry) claim.Claim { return &Claim{S: s, Entry: e} }

// Stop does nothing.
func (s *Arbiter) Stop() {}

// Close does nothing.
func (s *Arbiter) Close() {}

// Renew settles at once, as Answer says.
func (s *Arbiter) Renew(_ context.Context, batch []claim.Renewal, settle claim.Settle) {
	s.Mu.Lock()
	s.Renewals = append(s.Renewals, time.Now())
	s.Renewed += len(batch)
	s.Mu.Unlock()
	sent := clock.Now()
	for i, r := range batch {
		got := wire.Renewed
		if s.Answer != nil {
			got = s.Answer(r)
		}
		settle(i, got, sent, nil)
	}
}

// Of returns the entry.
func (c *Claim) Of() *wire.Entry { return &c.Entry }

// Wait grants.
func (c *Claim) Wait(context.Context, claim.Report) (node.Grant, error) {
	return node.Grant{Token: 1, Passes: c.Entry.Block, Sent: clock.Now(), Fresh: c.S.Fresh}, nil
}

// Try says that the lock is held.
func (c *Claim) Try(context.Context) (node.Grant, error) {
	return node.Grant{}, &wire.HeldError{Name: c.Entry.Names.Name}
}

// Release releases, and grants nobody the lock.
func (c *Claim) Release(context.Context, claim.Claim) (node.Grant, bool, error) {
	return node.Grant{}, false, nil
}

// Attend says that it attends.
func (c *Claim) Attend() bool { return true }

// Watch does nothing.
func (c *Claim) Watch(*hub.Watcher) {}

// Refill does nothing.
func (c *Claim) Refill(func(node.Grant)) {}

// Asks does nothing.
func (c *Claim) Asks(time.Duration) {}

// Forget notes the lock in Left.
func (c *Claim) Forget() {
	c.S.Mu.Lock()
	defer c.S.Mu.Unlock()
	c.S.Left = append(c.S.Left, c.Entry.Names.Lock)
}

// Abandon notes the lock in Abandoned.
func (c *Claim) Abandon() {
	c.S.Mu.Lock()
	defer c.S.Mu.Unlock()
	c.S.Abandoned = append(c.S.Abandoned, c.Entry.Names.Lock)
}

// SetCount fails as Counted says.
func (c *Claim) SetCount(_ context.Context, count int, lease time.Duration) (sent clock.Stamp, err error) {
	sent = clock.Now()
	if c.S.Counted != nil {
		err = c.S.Counted(count, lease)
	}
	return sent, err
}

// Hanging is a Redis that grants, and answers nothing else while it hangs.
type Hanging struct {
	Arbiter
	Released atomic.Int32                  // calls of Release that have ended
	Gone     int                           // so many of the next grants are lost at once
	until    atomic.Pointer[chan struct{}] // closed when it answers again; nil while it does
}

type hangingClaim struct {
	Claim
	r *Hanging
}

// Hang makes it hang until what is returned is called.
func (r *Hanging) Hang() (resume func()) {
	until := make(chan struct{})
	r.until.Store(&until)
	return func() {
		r.until.Store(nil)
		close(until)
	}
}

// Claim returns a new claim.
func (r *Hanging) Claim(e wire.Entry) claim.Claim {
	return &hangingClaim{Claim{S: &r.Arbiter, Entry: e}, r}
}

// silence is how a command ends that is not answered.
func (c *hangingClaim) silence(ctx context.Context, op driver.Op, limit time.Duration) error {
	until := c.r.until.Load()
	if until == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	select {
	case <-*until:
		return nil
	case <-ctx.Done():
	}
	return &wire.NodeError{Op: op, Name: c.Entry.Names.Name, Err: context.Cause(ctx)}
}

func (c *hangingClaim) Try(context.Context) (node.Grant, error) {
	return node.Grant{Token: 1, Passes: c.Entry.Block, Sent: clock.Now()}, nil
}

// Watch is called when a hold has begun.
func (c *hangingClaim) Watch(w *hub.Watcher) {
	if c.r.Gone > 0 {
		c.r.Gone--
		(*w).(watchdog.Watched).Settle(claim.Renewal{}, wire.Lost, clock.Now(), nil)
	}
}

func (c *hangingClaim) SetCount(ctx context.Context, _ int, _ time.Duration) (clock.Stamp, error) {
	sent := clock.Now()
	return sent, c.silence(ctx, driver.Recount, c.Entry.Timeout)
}

func (c *hangingClaim) Release(ctx context.Context, _ claim.Claim) (node.Grant, bool, error) {
	err := c.silence(ctx, driver.Release, c.Entry.Timeout)
	c.r.Released.Add(1)
	return node.Grant{}, false, err
}

// Renew settles at once, or hangs until ctx ends.
func (r *Hanging) Renew(ctx context.Context, batch []claim.Renewal, settle claim.Settle) {
	if r.until.Load() == nil {
		r.Arbiter.Renew(ctx, batch, settle)
		return
	}
	<-ctx.Done()
	for i := range batch {
		settle(i, wire.Unanswered, clock.Now(), ctx.Err())
	}
}
