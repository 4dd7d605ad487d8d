package relockui

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/relock-go/relock/internal/operator"
	"github.com/relock-go/relock/internal/wire"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// eye is a look that takes some time and brings how many there were.
type eye struct {
	look[int]
	looks  int
	takes  time.Duration
	broken error
}

func newEye(takes time.Duration) *eye {
	e := &eye{takes: takes}
	e.look = look[int]{parent: context.Background(), read: func(ctx context.Context) (int, error) {
		e.looks++
		select {
		case <-time.After(e.takes):
			return e.looks, e.broken
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}}
	return e
}

func TestLookIsShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEye(10 * time.Millisecond)
		var viewers sync.WaitGroup
		for range 100 {
			viewers.Go(func() { assert.Equal(t, 1, e.see(t.Context()).what) })
		}
		viewers.Wait()
		require.Equal(t, 1, e.see(t.Context()).what, "it is fresh")
		time.Sleep(fresh)
		require.Equal(t, 2, e.see(t.Context()).what)
		e.stale()
		require.Equal(t, 3, e.see(t.Context()).what)
		time.Sleep(time.Hour)
		require.Equal(t, 3, e.looks, "nobody looked")
	})
}

// Looks that take long leave Redis to others most of the time, and keep no viewer waiting.
func TestLookRests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEye(3 * time.Second)
		require.Equal(t, 1, e.see(t.Context()).what)
		for range 60 {
			began := time.Now()
			require.NotZero(t, e.see(t.Context()).what)
			require.LessOrEqual(t, time.Since(began), soon)
			time.Sleep(time.Second)
		}
		require.Equal(t, 3, e.looks, "every 30 seconds")
		synctest.Wait()
		time.Sleep(time.Minute)
	})
}

// A look that nobody waits for any more is given up.
func TestLookIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEye(time.Hour)
		began := time.Now()
		require.True(t, e.see(t.Context()).at.IsZero())
		require.Equal(t, overdue, time.Since(began))
		require.True(t, e.see(canceled(t)).at.IsZero(), "a viewer who leaves waits for nothing")
		time.Sleep(idle)
		synctest.Wait()
		e.mu.Lock()
		require.Nil(t, e.busy)
		require.ErrorIs(t, e.last.err, context.Canceled)
		e.mu.Unlock()
	})
}

func TestLookThatFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEye(0)
		require.NoError(t, e.see(t.Context()).err)
		e.broken = errors.New("gone")
		time.Sleep(fresh)
		got := e.see(t.Context())
		require.ErrorIs(t, got.err, e.broken)
		require.Equal(t, 1, got.what, "what was seen before")
		e.broken = nil
		time.Sleep(fresh)
		got = e.see(t.Context())
		require.NoError(t, got.err)
		require.Equal(t, 3, got.what)
	})
}

func sighted(t *testing.T, name, holder string, token int64, waiters int) operator.Sighting {
	t.Helper()
	names, err := wire.Mutex.Names("", name)
	require.NoError(t, err)
	return operator.Sighting{Names: names, Held: holder != "", Holder: holder, Token: token, Waiters: waiters, Age: -1}
}

func TestHistory(t *testing.T) {
	h := history{locks: make(map[string]*record)}
	now := time.Now()
	at := func(seconds int) time.Time { return now.Add(time.Duration(seconds) * time.Second) }
	one := func(s operator.Sighting) []operator.Sighting { return []operator.Sighting{s} }
	first := sighted(t, "a", "p:1", 1, 0)
	first.Age = time.Minute
	h.see(one(first), false, at(0))
	h.see(one(sighted(t, "a", "p:1", 1, 7)), true, at(1))
	h.see(one(sighted(t, "a", "p:1", 1, 2)), false, at(2))
	h.see(one(sighted(t, "a", "q:1", 9, 0)), false, at(1)) // a look that began before another one ended
	h.see(one(sighted(t, "a", "p:1", 5, 1)), false, at(3))
	h.see(nil, true, at(4))
	h.see(nil, true, at(5))
	h.see(one(sighted(t, "free", "", 0, 0)), false, at(6))
	require.Equal(t, []period{
		{From: at(4), Until: at(5)},
		{From: at(3), Until: at(3), Held: true, Holder: "p:1", Owner: "p:1", Token: 5, Waiters: 1},
		{From: at(-60), Until: at(2), Held: true, Holder: "p:1", Owner: "p:1", Token: 1, Waiters: 7},
	}, h.of("a"))
	require.Empty(t, h.of("free"))
	for i := range 3 * maxPeriods {
		h.see(one(sighted(t, "a", fmt.Sprintf("p:%d", i), int64(i), 0)), false, at(10+i))
	}
	require.Len(t, h.of("a"), maxPeriods)
	require.Equal(t, "p:149", h.of("a")[0].Holder)
}

// Locks that come and go do not fill the memory.
func TestHistoryIsBounded(t *testing.T) {
	h := history{locks: make(map[string]*record)}
	at := time.Now()
	for look := range 5 {
		var locks []operator.Sighting
		for i := range maxLocks - 1000 {
			locks = append(locks, sighted(t, fmt.Sprintf("%d:%d", look, i), "p:1", 1, 0))
		}
		h.see(locks, true, at.Add(time.Duration(look)*time.Second))
		require.LessOrEqual(t, len(h.locks), maxLocks)
	}
	require.NotEmpty(t, h.of("4:0"), "those that went made room")
}
