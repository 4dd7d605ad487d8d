package clock_test

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/relock-go/relock/internal/clock"
	"github.com/stretchr/testify/require"
)

type task struct {
	clock.Slot
	name int
}

// What is put in, moved and dropped comes out in the order of when it is due, and not before.
func TestScheduleIsInOrder(t *testing.T) {
	now := clock.Now()
	s := clock.NewSchedule[*task]()
	var in []*task
	for i := range 1000 {
		switch at := now.Add(time.Duration(rand.N(1000)) * time.Second); {
		case len(in) > 0 && i%3 == 0:
			s.Put(in[rand.N(len(in))], at, now)
		case len(in) > 0 && i%5 == 0:
			gone := rand.N(len(in))
			s.Drop(in[gone])
			s.Drop(in[gone]) // is nothing
			require.False(t, in[gone].In())
			in = slices.Delete(in, gone, gone+1)
		default:
			x := &task{name: i}
			s.Put(x, at, now)
			in = append(in, x)
		}
	}
	require.ElementsMatch(t, in, s.All())
	slices.SortFunc(in, func(a, b *task) int { return int(a.Due.Since(b.Due)) })
	for _, want := range in {
		_, due := s.Next(want.Due.Add(-1))
		require.False(t, due)
		got, due := s.Next(want.Due)
		require.True(t, due)
		require.False(t, got.In())
		require.Equal(t, want.Due, got.Due)
	}
	require.Empty(t, s.All())
}

// The goroutine of a schedule looks when something is due: also what was put in while it rests for something later, and
// what was put in while it looks.
func TestScheduleWakes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		var mu sync.Mutex
		s, began := clock.NewSchedule[*task](), time.Now()
		looks := 0
		put := func(name int, in time.Duration) {
			now := clock.Now()
			s.Put(&task{name: name}, now.Add(in), now)
		}
		seen := make(map[int]time.Duration)
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			s.Run(ctx, func() time.Duration {
				mu.Lock()
				defer mu.Unlock()
				looks++
				for x, due := s.Next(clock.Now()); due; x, due = s.Next(clock.Now()) {
					seen[x.name] = time.Since(began)
					if x.name == 1 {
						put(4, 3*time.Second)
					}
				}
				return s.UntilNext(clock.Now(), time.Minute)
			})
		}()
		at := func(after time.Duration, do func()) {
			time.Sleep(time.Until(began.Add(after)))
			synctest.Wait()
			mu.Lock()
			defer mu.Unlock()
			do()
		}
		at(time.Hour, func() {
			require.Equal(t, 1, looks, "nothing is in")
			put(2, time.Hour)
		})
		at(time.Hour+time.Second, func() { put(1, time.Second) })
		at(3*time.Hour, func() {
			require.Equal(t, map[int]time.Duration{
				1: time.Hour + 2*time.Second, 2: 2 * time.Hour, 4: time.Hour + 5*time.Second,
			}, seen)
			require.Less(t, looks, 70, "an hour of looks, one a minute")
		})
		cancel()
		<-ended
	})
}
