package relock

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/relock-go/relock/internal/claim"
	"github.com/relock-go/relock/internal/clock"
	"github.com/relock-go/relock/internal/driver"
	"github.com/relock-go/relock/internal/hub"
	"github.com/relock-go/relock/internal/node"
	"github.com/relock-go/relock/internal/wire"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// parted is an arbiter that grants everything, and notes how its claims end.
type parted struct {
	scripted
	ends    func(how string)     // called by each end of a claim
	counts  func()               // called by each hold count that is written; nil for nothing
	watched func(w *hub.Watcher) // called for each hold that begins; nil for nothing
}

type partedClaim struct {
	scriptedClaim
	p *parted
}

func (p *parted) Claim(e wire.Entry) claim.Claim {
	return &partedClaim{scriptedClaim{s: &p.scripted, entry: e}, p}
}

func (p *parted) Silence(op driver.Op, name string, why, cause error) error {
	return &wire.NodeError{Op: op, Name: name, Err: why, Cause: cause}
}

func (c *partedClaim) Abandon() { c.p.ends("abandoned") }
func (c *partedClaim) Forget()  { c.p.ends("forgotten") }

func (c *partedClaim) HandOver(context.Context, string, time.Duration) error {
	c.p.ends("moved")
	return nil
}

func (c *partedClaim) TakeOver(context.Context, string) (node.Grant, error) {
	return node.Grant{}, wire.ErrLost
}

// Release grants the lock to the entry that is queued with it.
func (c *partedClaim) Release(_ context.Context, next claim.Claim) (node.Grant, bool, error) {
	c.p.ends("released")
	if next == nil {
		return node.Grant{}, false, nil
	}
	return node.Grant{Token: 1, Passes: next.Of().Block, Sent: clock.Now()}, true, nil
}

func (c *partedClaim) SetCount(context.Context, int, time.Duration) (clock.Stamp, error) {
	sent := clock.Now()
	if c.p.counts != nil {
		c.p.counts()
	}
	return sent, nil
}

func (c *partedClaim) Watch(w *hub.Watcher) {
	if c.p.watched != nil {
		c.p.watched(w)
	}
}

// whileItParts runs a test with a client over p, in fake time.
func whileItParts(t *testing.T, p *parted, test func(t *testing.T, c *Client), opts ...ClientOption) {
	synctest.Test(t, func(t *testing.T) {
		cfg, err := with(defaultConfig(), opts, "")
		require.NoError(t, err)
		c := newClientOver("c", cfg, p)
		defer c.Close()
		test(t, c)
	})
}

// The table at the head of ending.go. Of each end: what becomes of the claim, of which cause the contexts end, and that they have
// ended when Redis is told. The gate is free by then only where the hold lay there, or had opened it.
func TestEndsOfAHold(t *testing.T) {
	lock := func(t *testing.T, c *Client, opts ...Option) *Lease {
		l, err := c.Mutex("k", opts...).Lock(context.Background())
		require.NoError(t, err)
		return l
	}
	for name, end := range map[string]struct {
		do    func(t *testing.T, c *Client, p *parted) []*Lease // returns leases whose contexts are to end
		claim string
		cause error
		free  bool // the gate, when Redis is told
	}{
		"the last share is given back": {claim: "released", cause: ErrNotHeld, do: func(t *testing.T, c *Client, _ *parted) []*Lease {
			outer := lock(t, c)
			inner, err := c.Mutex("k").Lock(outer.Context())
			require.NoError(t, err)
			require.NoError(t, outer.Unlock(t.Context()))
			require.Equal(t, 1, inner.Count())
			require.NoError(t, inner.Unlock(t.Context()))
			return []*Lease{outer, inner}
		}},
		"so, and Redis does not answer": {claim: "abandoned", cause: ErrNotHeld, do: func(t *testing.T, c *Client, _ *parted) []*Lease {
			l := lock(t, c)
			require.True(t, l.h.ops.TryLock(), "as a re-entry whose command is out")
			require.ErrorIs(t, l.Unlock(t.Context()), wire.ErrNoAnswer)
			return []*Lease{l}
		}},
		"handed over": {claim: "moved", cause: ErrHandedOver, free: true, do: func(t *testing.T, c *Client, _ *parted) []*Lease {
			l := lock(t, c)
			_, err := l.HandOver(t.Context(), time.Minute)
			require.NoError(t, err)
			return []*Lease{l}
		}},
		"its maximum": {claim: "abandoned", cause: ErrMaxHold, do: func(t *testing.T, c *Client, _ *parted) []*Lease {
			l := lock(t, c, WithMaxHold(time.Minute))
			time.Sleep(time.Minute)
			return []*Lease{l}
		}},
		"Redis has it no more": {claim: "abandoned", cause: ErrLost, do: func(t *testing.T, c *Client, p *parted) []*Lease {
			p.answer = func(claim.Renewal) wire.Result { return wire.Lost }
			l := lock(t, c)
			time.Sleep(time.Minute)
			requireLost(t, ErrLost, l.Unlock(t.Context()))
			return []*Lease{l}
		}},
		"Close, a caller has it": {claim: "forgotten", cause: ErrClosed, do: func(t *testing.T, c *Client, _ *parted) []*Lease {
			l := lock(t, c)
			c.Close()
			return []*Lease{l}
		}},
		"Close, it lies idle": {claim: "abandoned", free: true, do: func(t *testing.T, c *Client, _ *parted) []*Lease {
			require.NoError(t, lock(t, c, WithLinger(time.Hour)).Unlock(t.Context()))
			c.Close()
			return nil
		}},
		"Close, its fixed lease is being lengthened": {claim: "abandoned", do: func(t *testing.T, c *Client, p *parted) []*Lease {
			p.counts = func() {
				go c.Close()
				synctest.Wait() // it waits for this call
			}
			_, err := c.Mutex("k", WithFixedLease(time.Hour)).Lock(t.Context())
			require.Equal(t, ErrClosed, err)
			return nil
		}},
		"idle for long": {claim: "abandoned", free: true, do: func(t *testing.T, c *Client, _ *parted) []*Lease {
			require.NoError(t, lock(t, c, WithLinger(time.Second)).Unlock(t.Context()))
			time.Sleep(time.Second)
			return nil
		}},
		"idle, and wanted": {claim: "abandoned", free: true, do: func(t *testing.T, c *Client, _ *parted) []*Lease {
			l := lock(t, c, WithLinger(time.Hour))
			require.NoError(t, l.Unlock(t.Context()))
			l.h.Wanted(true)
			return nil
		}},
		"WithMinHold is over": {claim: "abandoned", cause: ErrNotHeld, do: func(t *testing.T, c *Client, _ *parted) []*Lease {
			l := lock(t, c, WithMinHold(time.Minute))
			require.NoError(t, l.Unlock(t.Context()))
			time.Sleep(time.Minute)
			return []*Lease{l}
		}},
		"WithMinHold keeps it, and renewals are not answered": {claim: "forgotten", cause: ErrNotHeld, do: func(t *testing.T, c *Client, p *parted) []*Lease {
			p.answer = func(claim.Renewal) wire.Result { return wire.Unanswered }
			l := lock(t, c, WithMinHold(time.Minute))
			require.True(t, l.h.ops.TryLock(), "as a re-entry whose command is out")
			require.ErrorIs(t, l.Unlock(t.Context()), wire.ErrNoAnswer)
			time.Sleep(time.Minute)
			return []*Lease{l}
		}},
		"Close, WithMinHold keeps it": {claim: "forgotten", cause: ErrNotHeld, do: func(t *testing.T, c *Client, _ *parted) []*Lease {
			l := lock(t, c, WithMinHold(time.Minute))
			require.NoError(t, l.Unlock(t.Context()))
			c.Close()
			return []*Lease{l}
		}},
		"the last reader's share": {claim: "released", cause: ErrNotHeld, free: true, do: func(t *testing.T, c *Client, _ *parted) []*Lease {
			var readers []*Lease
			for range 2 {
				l, err := c.RWMutex("k").RLock(t.Context())
				require.NoError(t, err)
				readers = append(readers, l)
			}
			require.Same(t, readers[0].h, readers[1].h)
			require.NoError(t, readers[0].Unlock(t.Context()))
			require.NoError(t, readers[1].Context().Err())
			require.NoError(t, readers[1].Unlock(t.Context()))
			return readers
		}},
		"a hold of readers is lost": {claim: "abandoned", cause: ErrLost, free: true, do: func(t *testing.T, c *Client, _ *parted) []*Lease {
			l, err := c.RWMutex("k").RLock(t.Context())
			require.NoError(t, err)
			l.h.lose(ErrLost)
			return []*Lease{l}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			var (
				p     = &parted{scripted: scripted{fresh: true}}
				ended []string
				ctxs  []*Lease
				trust = map[*hold]bool{}
			)
			p.watched = func(w *hub.Watcher) { trust[(*w).(*hold)] = true }
			whileItParts(t, p, func(t *testing.T, c *Client) {
				p.ends = func(how string) {
					ended = append(ended, how)
					for h := range trust {
						h.mu.Lock()
						assert.False(t, h.fate.live(), "trust ends before Redis is told")
						assert.Empty(t, h.shares.all)
						if b := h.shares.room[0]; b != nil { // it was lost with this share
							assert.Error(t, b.(*Lease).std.Err(), "and its bearer was told")
						}
						h.mu.Unlock()
					}
					assert.Equal(t, end.free, c.core.gates.Len() == 0)
				}
				ctxs = end.do(t, c, p)
				synctest.Wait()
				require.Equal(t, []string{end.claim}, ended)
				require.Zero(t, c.core.gates.Len())
				require.Zero(t, c.core.watchdog.Len())
				for _, l := range ctxs {
					require.ErrorIs(t, context.Cause(l.Context()), end.cause)
				}
			})
		})
	}
}

// The goroutine for which a release has queued an entry gives up meanwhile, and the hold that Redis grants to that entry is lost at
// once: its loss has left the gate, and no more is done for it.
func TestHoldThatFollowsIsLostBeforeItIsPassedOn(t *testing.T) {
	var ended []string
	holds, p := 0, &parted{}
	whileItParts(t, p, func(t *testing.T, c *Client) {
		m := c.Mutex("k", WithLocalHandoff(1, 0))
		left := make(chan error, 1)
		ctx, leave := context.WithCancel(t.Context())
		p.ends = func(how string) {
			if ended = append(ended, how); how == "released" {
				leave()
				synctest.Wait() // until it has left the line
			}
		}
		p.watched = func(w *hub.Watcher) {
			if holds++; holds == 2 {
				(*w).(*hold).lose(ErrLost)
			}
		}
		l, err := m.Lock(t.Context())
		require.NoError(t, err)
		go func() {
			_, err := m.Lock(ctx)
			left <- err
		}()
		synctest.Wait()
		require.NoError(t, l.Unlock(t.Context()))
		require.ErrorIs(t, <-left, context.Canceled)
		require.Equal(t, []string{"released", "abandoned"}, ended)
		require.Zero(t, c.core.gates.Len())
	})
}

// A hold is lost while the observer is told of its lease, or while it goes to the next: each lease is told of once, and its end is.
// One that was passed on names the one before.
func TestObserverOfHandOversThatAreLost(t *testing.T) {
	const rounds = 300
	o, p := &seen{}, &parted{ends: func(string) {}}
	var losers sync.WaitGroup
	n := 0 // of holds: their makers take turns at the gate
	p.watched = func(w *hub.Watcher) {
		if n++; n%3 == 0 {
			h := (*w).(*hold)
			losers.Go(func() { h.lose(ErrLost) })
		}
	}
	whileItParts(t, p, func(t *testing.T, c *Client) {
		m := c.Mutex("k", WithLocalHandoff(3, time.Hour))
		var holders sync.WaitGroup
		for range 4 {
			holders.Go(func() {
				for range rounds {
					if l, err := m.Lock(context.Background()); err == nil {
						time.Sleep(time.Microsecond) // others wait for it meanwhile
						_ = l.Unlock(context.Background())
					}
				}
			})
		}
		holders.Wait()
		losers.Wait()
	}, WithObserver(o))
	told, passed := map[uint64]bool{0: true}, 0
	for _, e := range o.of(EventAcquired) {
		require.True(t, told[e.From], "told before, and followed by no other")
		if told[e.Lease] = true; e.From != 0 {
			delete(told, e.From)
			passed++
		}
	}
	require.Positive(t, passed)
	over := make(map[uint64]int)
	for _, e := range o.of(EventLost, EventReleased) {
		over[e.Lease]++
	}
	for _, e := range o.of(EventAcquired) {
		require.Equal(t, 1, over[e.Lease])
	}
}

func TestUnlockIsOnce(t *testing.T) {
	c := newClient(t, ownRedis(t))
	ctx := context.Background()
	m := c.Mutex("k")
	l, err := m.Lock(ctx)
	require.NoError(t, err)
	inner, err := m.Lock(l.Context())
	require.NoError(t, err)
	require.NoError(t, inner.Unlock(ctx))
	require.ErrorIs(t, inner.Unlock(ctx), ErrNotHeld)
	require.Equal(t, 1, l.Count())
	cancelled, cancel := context.WithCancel(ctx)
	cancel()
	require.NoError(t, l.Unlock(cancelled), "a cancelled caller unlocks too")
	require.ErrorIs(t, l.Unlock(ctx), ErrNotHeld)
	require.ErrorIs(t, l.Extend(ctx, time.Minute), ErrNotHeld)
	require.Zero(t, l.Count())
}

// What was unlocked is answered at once, whatever the one who has the hold now waits for.
func TestSecondUnlockWaitsForNobody(t *testing.T) {
	inFakeTime(t, func(t *testing.T, c *Client, _ *scripted) {
		m := c.Mutex("k")
		first, err := m.Lock(t.Context())
		require.NoError(t, err)
		second := waitFor(t, c, "k")
		synctest.Wait()
		require.NoError(t, first.Unlock(t.Context()))
		stranger := <-second
		require.Same(t, first.h, stranger.h)
		require.NoError(t, stranger.h.ops.Lock(t.Context())) // its command is not answered
		began := time.Now()
		require.ErrorIs(t, first.Unlock(t.Context()), ErrNotHeld)
		require.ErrorIs(t, first.Extend(t.Context(), time.Minute), ErrNotHeld)
		require.Zero(t, time.Since(began))
		stranger.h.ops.Unlock()
		require.NoError(t, stranger.Unlock(t.Context()))
	})
}
