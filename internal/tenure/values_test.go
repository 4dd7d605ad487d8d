package tenure

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/clock"
)

func TestCount(t *testing.T) {
	for name, c := range map[string]struct {
		do   func(*Count)
		want bool
	}{
		"known at first":            {do: func(*Count) {}},
		"missed":                    {func(c *Count) { c.Missed(at(0), lease) }, true},
		"written, but one may come": {func(c *Count) { c.Missed(at(0), lease); c.Written(at(29), false) }, true},
		"written, and none may":     {func(c *Count) { c.Missed(at(0), lease); c.Written(at(30), false) }, false},
		"written beside a renewal":  {func(c *Count) { c.Missed(at(0), lease); c.Written(at(30), true) }, true},
		"written, never missed":     {func(c *Count) { c.Written(at(0), true) }, false},
		"confirmed too soon":        {func(c *Count) { c.Missed(at(0), lease); c.Confirmed(at(29)) }, true},
		"confirmed":                 {func(c *Count) { c.Missed(at(0), lease); c.Confirmed(at(30)) }, false},
		"missed again":              {func(c *Count) { c.Missed(at(0), lease); c.Missed(at(10), lease); c.Confirmed(at(30)) }, true},
	} {
		t.Run(name, func(t *testing.T) {
			var count Count
			c.do(&count)
			require.Equal(t, c.want, count.Unsure())
		})
	}
}

// take takes n tokens, which must follow each other from first.
func take(t *testing.T, b *Block, first int64, n int) {
	t.Helper()
	for i := range n {
		require.Equal(t, first+int64(i), b.Take())
	}
}

func TestBlockIsSpent(t *testing.T) {
	b := Reserved(More{Token: 100, Count: 8, Sent: at(0)}, at(0.5))
	require.Equal(t, 500*time.Millisecond, b.Trip)
	require.Equal(t, at(0.5), b.Since())
	take(t, &b, 100, 4)
	require.False(t, b.Spent(8, time.Second, at(1)))
	require.True(t, b.Spent(4, time.Second, at(1)), "so many have had it")
	require.True(t, b.Spent(8, time.Second, at(1.5)), "for so long")
	take(t, &b, 104, 4)
	require.True(t, b.Spent(1000, time.Hour, at(1)), "no token is left")
	require.Zero(t, b.Left())
}

func TestNextBlockIsAskedFor(t *testing.T) {
	begin := func(used int) Block {
		b := Reserved(More{Token: 1, Count: 8, Sent: at(0)}, at(0.1))
		take(t, &b, 1, used)
		return b
	}
	for name, c := range map[string]struct {
		used   int
		passes int
		now    float64
		want   bool
	}{
		"where its last part begins":     {used: 6, passes: 8, now: 1, want: true},
		"not before":                     {used: 5, passes: 8, now: 1},
		"nor after":                      {used: 7, passes: 8, now: 1},
		"counted by the passes":          {used: 3, passes: 4, now: 1, want: true},
		"not where it would be too late": {used: 6, passes: 8, now: 0.39},
	} {
		t.Run(name, func(t *testing.T) {
			b := begin(c.used)
			require.Equal(t, c.want, b.RunsLow(8, c.passes, at(c.now)))
		})
	}
	b := begin(6)
	b.Ask()
	require.True(t, b.Awaited())
	require.False(t, b.RunsLow(8, 8, at(1)), "once")
}

func TestNextBlockGoesOn(t *testing.T) {
	b := Reserved(More{Token: 1, Count: 8, Sent: at(0)}, at(0))
	take(t, &b, 1, 6)
	b.Ask()
	take(t, &b, 7, 2)
	b.Continue()
	require.Zero(t, b.Left(), "no answer came")
	b.Answered(More{Token: 5, Count: 8, Sent: at(1)})
	b.Continue()
	require.Zero(t, b.Left(), "it counts lower")
	b.Answered(More{Token: 20, Count: 8, Sent: at(1)})
	require.False(t, b.Awaited())
	b.Continue()
	require.Equal(t, 8, b.Left())
	require.Equal(t, at(1), b.Since(), "the bounds count from when it was asked for")
	require.False(t, b.Spent(8, time.Second, at(1.5)))
	take(t, &b, 20, 5)
	require.False(t, b.Spent(8, time.Hour, at(2)), "two have had it since that, and five")
	take(t, &b, 25, 1)
	require.True(t, b.Spent(8, time.Hour, at(2)))
	require.False(t, b.Awaited(), "another one may be asked for")
	require.True(t, b.RunsLow(8, 10, at(5)))
}

func TestRest(t *testing.T) {
	const d = 8 * time.Second
	for name, c := range map[string]struct {
		rest Rest
		d    time.Duration
		do   func(*Rest)
		now  float64
		want bool
	}{
		"as long as the option says":            {rest: Free(at(0)), d: d, now: 7.9, want: true},
		"and no longer":                         {rest: Free(at(0)), d: d, now: 8},
		"not without the option":                {rest: Free(at(0)), now: 1},
		"not where others waited":               {d: d, now: 1},
		"not where another process wants it":    {rest: Free(at(0)), d: d, do: func(r *Rest) { r.Wanted(true) }, now: 1},
		"not where that may have been missed":   {rest: Free(at(0)), d: d, do: func(r *Rest) { r.Wanted(false) }, now: 1},
		"whether or not it lies idle meanwhile": {rest: Free(at(0)), d: d, do: func(r *Rest) { r.Idle = true }, now: 1, want: true},
	} {
		t.Run(name, func(t *testing.T) {
			if c.do != nil {
				c.do(&c.rest)
			}
			require.Equal(t, c.want, c.rest.May(c.d, at(c.now)))
		})
	}
}

func TestRestIsLookedAt(t *testing.T) {
	const d = 8 * time.Second
	never := in(clock.Never())
	var held Rest
	require.Equal(t, never, in(held.LookAt(d, at(1))), "others waited when it was granted")
	free := Free(at(0))
	end := in(free.LookAt(d, at(1)))
	require.LessOrEqual(t, end, d)
	require.Greater(t, end, d-Grain-time.Nanosecond)
	require.Greater(t, in(free.LookAt(8*time.Millisecond, at(0))), 7*time.Millisecond-time.Nanosecond, "no more than an eighth less")
	require.Equal(t, never, in(free.LookAt(0, at(1))), "it does not rest")
	require.Equal(t, never, in(free.LookAt(d, at(9))), "it is in use: its Unlock finds that the time is over")
	free.Idle = true
	require.Equal(t, end, in(free.LookAt(d, at(9))), "it lies there for too long")
	other := Free(at(0.001))
	require.LessOrEqual(t, in(other.LookAt(d, at(1)))-end, Grain, "those that end about then end together")
}

func TestWanted(t *testing.T) {
	r := Free(at(0))
	require.True(t, r.Alone())
	require.False(t, r.Overtaken())
	require.False(t, r.Wanted(false), "it may have been missed")
	require.False(t, r.IsWanted())
	require.True(t, r.Overtaken())
	require.True(t, r.Wanted(true))
	require.False(t, r.Wanted(true), "it is known")
	require.False(t, r.Wanted(false))
	require.True(t, r.IsWanted())
	var held Rest
	require.True(t, held.Wanted(true))
	require.False(t, held.Overtaken(), "it would not have rested")
}
