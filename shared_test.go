package relock

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/relock-go/relock/internal/clock"
	"github.com/relock-go/relock/internal/faults"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

// A goroutine that was invited as its context ended takes no share, and the hold does not wait for it any longer: it ends with its
// last lease, which may be given back before or after.
func TestReaderThatGivesUpAsItIsLetInKeepsNothing(t *testing.T) {
	t.Parallel()
	for name, last := range map[string]bool{"before the last lease": false, "behind it": true} {
		t.Run(name, func(t *testing.T) {
			s := redistest.Start(t)
			rw := hearing(t, s).RWMutex("k")
			first := taken(t, rw.RLock)
			first.h.mu.Lock()
			first.h.sharing.awaited++ // as if it had waited when the hold was granted
			first.h.mu.Unlock()
			ended, end := context.WithCancel(t.Context())
			end()
			gaveUp := func() {
				a := attempt{lock: &rw.read, ctx: ended, wctx: ended}
				_, err := a.join(first.h, true)
				require.ErrorIs(t, outward(err), ErrNotAcquired)
			}
			if last {
				unlocked(t, first)
				require.Equal(t, "1", s.Do("EXISTS", "k"), "it waits for those that were invited")
				gaveUp()
			} else {
				gaveUp()
				require.NoError(t, first.Context().Err())
				unlocked(t, first)
			}
			requireNothingLeft(t, s)
			require.Empty(t, strings.TrimSpace(s.Do("HKEYS", "k")))
		})
	}
}

// A reader that may rely on its lease for ten seconds joins no hold that may come to rely on an hour, as it was asked for, as a
// renewal asks for it, or by an Extend that is out: it has a hold of its own, which all may join.
func TestNoReaderReliesOnMoreThanItsWatchdog(t *testing.T) {
	const dog = 10 * time.Second
	s := redistest.Start(t)
	w := faulty(s)
	c := lingeringClient(t, w, time.Hour)
	for name, hold := range map[string]struct {
		opts []Option
		then func(t *testing.T, long *Lease) (after func())
	}{
		"asked for": {opts: []Option{WithLease(time.Hour)}},
		"idle": {[]Option{WithLease(time.Hour)}, func(t *testing.T, long *Lease) func() {
			unlocked(t, long)
			return func() {}
		}},
		"renewed": {[]Option{WithLease(dog + time.Second)}, func(t *testing.T, long *Lease) func() {
			long.h.mu.Lock()
			long.h.term.Kept = clock.Now().Add(dog / 2)
			long.h.mu.Unlock()
			return func() {}
		}},
		"extended": {[]Option{WithLease(dog)}, func(t *testing.T, long *Lease) func() {
			w.Filter(faults.Next(faults.Script("recount"), faults.Hold))
			extended := make(chan error, 1)
			go func() { extended <- long.Extend(context.Background(), time.Hour) }()
			within(t, w.Told())
			return func() {
				w.Release()
				require.NoError(t, within(t, extended))
			}
		}},
	} {
		for way, lock := range map[string]func(*RWMutex, context.Context) (*Lease, error){"RLock": (*RWMutex).RLock, "TryRLock": (*RWMutex).TryRLock} {
			t.Run(name+" "+way, func(t *testing.T) {
				key := name + way
				long := taken(t, c.RWMutex(key, append(hold.opts, WithRedissonWatchdog(0))...).RLock)
				after := func() {}
				if hold.then != nil {
					after = hold.then(t, long)
				}
				short, err := lock(c.RWMutex(key, WithRedissonWatchdog(dog)), t.Context())
				require.NoError(t, err)
				require.NotSame(t, long.h, short.h)
				after()
				require.LessOrEqual(t, time.Until(short.Until()), dog)
				third := taken(t, c.RWMutex(key, WithRedissonWatchdog(0), WithLease(time.Hour)).RLock)
				require.Same(t, short.h, third.h, "what is shorter than it has to be may be shared")
				require.ErrorIs(t, third.Extend(t.Context(), time.Minute), ErrInvalidOption)
				unlocked(t, short, third)
				if name != "idle" {
					unlocked(t, long)
				}
			})
		}
	}
}

// A re-entry under a write lease that waits while a Downgrade is out comes after it, and enters nothing. Else the write hold
// would live on beside the reader, and its last Unlock would pass it in memory to a writer of this process.
func TestDowngradeBesideAReentry(t *testing.T) {
	t.Parallel()
	w := faulty(redistest.Start(t))
	rw := newClient(t, w).RWMutex("k")
	writer := taken(t, rw.Lock)
	w.Filter(faults.Next(faults.Script("acquire"), faults.Hold))
	reader, inner := make(chan *Lease, 1), make(chan error, 1)
	go func() {
		l, err := writer.Downgrade(t.Context())
		if err != nil {
			t.Error(err)
		}
		reader <- l
	}()
	within(t, w.Told())
	go func() {
		_, err := rw.Lock(writer.Context())
		inner <- err
	}()
	h := writer.h
	require.Eventually(t, h.ops.Awaited, patience, time.Millisecond)
	h.mu.Lock() // so that Downgrade cannot take the write lease back
	w.Release()
	time.Sleep(50 * time.Millisecond)
	waits := h.ops.Awaited()
	h.mu.Unlock()
	require.True(t, waits, "until the write lease is over")
	require.Error(t, within(t, inner))
	unlocked(t, within(t, reader))
}
