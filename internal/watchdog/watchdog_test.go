package watchdog

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/relock-go/relock/internal/claim"
	"github.com/relock-go/relock/internal/clock"
	"github.com/relock-go/relock/internal/wire"
	"github.com/stretchr/testify/require"
)

// held is a hold that is looked at once, unless it is looked at too early: then again at its time.
type held struct {
	Slot
	d      *Watchdog
	at     clock.Stamp
	renews time.Duration // with this time-out; 0 for no renewal
	looks  int
	got    wire.Result
}

func (h *held) Tick(now clock.Stamp) (r claim.Renewal, renew bool) {
	h.looks++
	if h.renews > 0 {
		return claim.Renewal{Timeout: h.renews}, true
	}
	if !h.at.Reached(now) {
		h.d.Schedule(h, Look{At: h.at}, now)
	}
	return r, false
}

func (h *held) Settle(_ claim.Renewal, got wire.Result, _ clock.Stamp, _ error) { h.got = got }

// passes lets time pass, until all that is due has been done.
func passes(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// commands notes when renewals were sent, of how many holds each, and within which time.
type commands struct {
	mu         sync.Mutex // guards what follows: different time-outs are sent side by side
	at, limits []time.Duration
	sizes      []int
}

// inFakeTime runs a test with a watchdog. watch has it look at a hold at a time, with a time-out where it renews.
func inFakeTime(t *testing.T, test func(d *Watchdog, watch func(in, renews time.Duration) *held, sent *commands)) {
	synctest.Test(t, func(t *testing.T) {
		began, sent := time.Now(), &commands{}
		d := New(func(ctx context.Context, batch []claim.Renewal, settle claim.Settle) {
			sent.mu.Lock()
			defer sent.mu.Unlock()
			end, _ := ctx.Deadline()
			sent.at, sent.sizes = append(sent.at, time.Since(began)), append(sent.sizes, len(batch))
			sent.limits = append(sent.limits, time.Until(end))
			for i := range batch {
				settle(i, wire.Renewed, clock.Now(), nil)
			}
		}, nil)
		defer d.Close(time.Minute)
		test(d, func(in, renews time.Duration) *held {
			now := clock.Now()
			h := &held{d: d, at: now.Add(in), renews: renews}
			d.Schedule(h, Look{At: h.at, Renews: renews > 0}, now)
			return h
		}, sent)
	})
}

func TestRenewalsThatAreNearGoTogether(t *testing.T) {
	inFakeTime(t, func(d *Watchdog, watch func(in, renews time.Duration) *held, sent *commands) {
		for _, in := range []time.Duration{time.Second, time.Second + Window, time.Second + 2*Window} {
			watch(in, time.Second)
		}
		passes(time.Minute)
		require.Equal(t, []int{2, 1}, sent.sizes)
		require.Equal(t, []time.Duration{time.Second, time.Second + 2*Window}, sent.at)
		require.Zero(t, d.Len())
	})
}

// Of many holds that are not renewed it looks at those whose time has come, and not again and again at all that soon follow.
func TestWhatIsNotRenewedTakesNothingAlong(t *testing.T) {
	inFakeTime(t, func(_ *Watchdog, watch func(in, renews time.Duration) *held, _ *commands) {
		var all []*held
		for i := range 1000 {
			all = append(all, watch(time.Second+time.Duration(i)*time.Millisecond, 0))
		}
		passes(time.Minute)
		for _, h := range all {
			require.Equal(t, 1, h.looks)
		}
	})
}

// Renewals that fall together are cut short each by its own lock's time-out.
func TestShortTimeoutCutsNoOtherRenewal(t *testing.T) {
	inFakeTime(t, func(_ *Watchdog, watch func(in, renews time.Duration) *held, sent *commands) {
		long, short := watch(time.Second, time.Minute), watch(time.Second, 2*time.Second)
		passes(time.Minute)
		require.ElementsMatch(t, []time.Duration{time.Minute, 2 * time.Second}, sent.limits)
		require.Equal(t, wire.Renewed, long.got)
		require.Equal(t, wire.Renewed, short.got)
	})
}

// A look is moved to the front, never back, and one that was removed does not come.
func TestTheEarlierLookStays(t *testing.T) {
	inFakeTime(t, func(d *Watchdog, watch func(in, renews time.Duration) *held, sent *commands) {
		moved, gone := watch(time.Hour, time.Second), watch(time.Minute, time.Second)
		now := clock.Now()
		for _, in := range []time.Duration{time.Second, time.Minute} {
			d.Schedule(moved, Look{At: now.Add(in), Renews: true}, now)
		}
		d.Remove(gone)
		passes(2 * time.Hour)
		require.Equal(t, []time.Duration{time.Second}, sent.at)
		require.Zero(t, gone.looks)
	})
}

func TestCloseReturnsWhatIsLeft(t *testing.T) {
	inFakeTime(t, func(d *Watchdog, watch func(in, renews time.Duration) *held, sent *commands) {
		watch(time.Second, time.Second)
		left := watch(time.Minute, time.Second)
		passes(2 * time.Second)
		require.Equal(t, []Watched{left}, d.Close(time.Minute))
		passes(time.Hour)
		require.Zero(t, left.looks)
		require.Len(t, sent.at, 1)
	})
}

// What goes beside is called while there are holds, whenever it is due, and also for a hold that is gone at once.
func TestWhatGoesBeside(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var calls []time.Duration
		began := time.Now()
		d := New(nil, func(now clock.Stamp) clock.Stamp {
			calls = append(calls, time.Since(began))
			return now.Add(glance / 2)
		})
		defer d.Close(time.Minute)
		passes(time.Hour)
		require.Empty(t, calls, "there was no hold")
		began = time.Now()
		now := clock.Now()
		h := &held{d: d, at: now.Add(glance)}
		d.Schedule(h, Look{At: h.at}, now)
		passes(time.Hour)
		require.Equal(t, []time.Duration{0, glance / 2}, calls)
		d.Schedule(h, Look{At: now.Add(2 * time.Hour)}, now)
		d.Remove(h)
		passes(time.Hour)
		require.Len(t, calls, 3)
	})
}
