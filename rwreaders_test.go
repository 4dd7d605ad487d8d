package relock

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

// Redis looks at a few readers first, drawn by chance. Where those are dead it goes on to look at the others: one that lives
// keeps writers out.
func TestOneReaderAmongTheDeadKeepsWritersOut(t *testing.T) {
	s := redistest.Start(t)
	// An hour: none of the dead may be renewed, which would let it live again.
	readers, writers := hearing(t, s, WithLocalHandoff(1, 0), WithLease(time.Hour)), hearing(t, s)
	for _, name := range []string{"a", "b", "c", "d"} {
		rw := readers.RWMutex(name) // without hand-offs each reader has a hold of its own
		alive := taken(t, rw.RLock)
		for range 40 {
			dead := taken(t, rw.RLock)
			s.Do("DEL", "{"+name+"}:"+dead.h.entry.ID+":rwlock_timeout:1")
		}
		for range 3 {
			_, err := writers.RWMutex(name).TryLock(t.Context())
			require.ErrorIs(t, err, ErrNotAcquired)
		}
		require.NoError(t, alive.Context().Err())
		unlocked(t, alive)
		unlocked(t, taken(t, writers.RWMutex(name).Lock))
	}
}

// What a write lease is downgraded to is a reader's: it relies on no more than WithRedissonWatchdog says, whatever the writer's
// lease was, now and when it was renewed.
func TestDowngradeGoesByTheReadersLease(t *testing.T) {
	s := redistest.Start(t)
	rw := hearing(t, s, WithLease(30*time.Second), WithRedissonWatchdog(time.Second)).RWMutex("k")
	w := taken(t, rw.Lock)
	require.Greater(t, time.Until(w.Until()), 20*time.Second)
	var r *Lease
	require.Eventually(t, func() (done bool) { // a sixth of a second is little on a busy machine; what fails changes nothing
		var err error
		r, err = w.Downgrade(t.Context())
		return err == nil
	}, patience, time.Millisecond)
	first := r.Until()
	require.Eventually(t, func() bool {
		until := r.Until()
		require.LessOrEqual(t, time.Until(until), time.Second)
		return until.After(first) || until.IsZero() // renewed, or lost on a machine that has stood still for so long
	}, patience, time.Millisecond)
	_ = r.Unlock(t.Context())
	requireNothingLeft(t, s)
}

// A goroutine that was let in as its context ended takes no share, and the hold does not wait for it any longer: it ends with its
// last lease, which may be given back before or after.
func TestReaderThatGivesUpAsItIsLetInKeepsNothing(t *testing.T) {
	for name, last := range map[string]bool{"before the last lease": false, "behind it": true} {
		t.Run(name, func(t *testing.T) {
			s := redistest.Start(t)
			rw := hearing(t, s).RWMutex("k")
			first := taken(t, rw.RLock)
			first.h.mu.Lock()
			first.h.open.awaited++ // as if it had waited when the hold was granted
			first.h.mu.Unlock()
			ended, end := context.WithCancel(t.Context())
			end()
			gaveUp := func() {
				_, err := rw.read.join(ended, ended, baton{hold: first.h, open: true, let: true})
				require.ErrorIs(t, outward(err), ErrNotAcquired)
			}
			if last {
				unlocked(t, first)
				require.Equal(t, "1", s.Do("EXISTS", "k"), "it waits for those that were let in")
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
