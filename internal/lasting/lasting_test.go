package lasting

import (
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// What is told of a lock is what was seen of its holds.
func TestHowLongHoldsLast(t *testing.T) {
	const far = time.Hour // a lease
	holds := func(l *Holds, of ...time.Duration) {
		for _, d := range of {
			l.Lasted(d)
		}
	}
	// meets refuses for the sake of an owner, each second for so long.
	meets := func(l *Holds, owner string, times int) {
		for range times {
			l.Met(owner, far)
			time.Sleep(time.Second)
		}
	}
	for name, c := range map[string]struct {
		saw  func(l *Holds)
		want time.Duration
	}{
		"nothing":                        {func(*Holds) {}, time.Second},
		"own holds":                      {func(l *Holds) { holds(l, 3*time.Second, 3*time.Second) }, 3 * time.Second},
		"longer ones of late":            {func(l *Holds) { holds(l, time.Second, 5*time.Second) }, 2 * time.Second},
		"holds of no time":               {func(l *Holds) { holds(l, time.Nanosecond, time.Microsecond) }, time.Millisecond},
		"another's hold, from its start": {func(l *Holds) { meets(l, "a:1", 4); l.Free() }, 3500 * time.Millisecond},
		"one behind the other":           {func(l *Holds) { meets(l, "a:1", 4); l.Met("b:1", far) }, 3500 * time.Millisecond},
		"another's, met once":            {func(l *Holds) { meets(l, "a:1", 1); l.Free() }, time.Second},
		"another's, long ago":            {func(l *Holds) { meets(l, "a:1", 4); time.Sleep(time.Minute); l.Free() }, time.Second},
		"a holder that stays":            {func(l *Holds) { holds(l, time.Millisecond); meets(l, "x:1", 20) }, 20 * time.Second},
		"one that stays, unknown lease":  {func(l *Holds) { meets(l, "x:1", 100) }, 100 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var l Holds
				c.saw(&l)
				require.Equal(t, c.want, l.Retry(l.Met("x:1", far), far))
			})
		})
	}
	synctest.Test(t, func(t *testing.T) {
		var l Holds
		_, age, _ := l.InWay()
		require.Zero(t, age)
		meets(&l, "x:1", 100)
		holder, age, ttl := l.InWay()
		require.Equal(t, "x:1", holder)
		require.Equal(t, 100*time.Second, age)
		require.Equal(t, far-time.Second, ttl)
		require.Equal(t, 5*time.Second, l.Retry(age, 5*time.Second), "a holder that is gone keeps the lock no longer")
		require.Equal(t, usualLease, l.Retry(age, 0))
		require.Equal(t, usualLease, l.Retry(age, -1))
		require.Zero(t, l.Met("", 0))
		l.Met("x:1", time.Second)
		time.Sleep(time.Minute)
		_, _, ttl = l.InWay()
		require.Zero(t, ttl, "it is not known whether its lease was renewed")
		l.Met("x:1", -1)
		_, _, ttl = l.InWay()
		require.Negative(t, ttl)
		l.Free()
		holder, _, _ = l.InWay()
		require.Empty(t, holder)
	})
}

// A lock that is held again and again allocates nothing.
func TestNothingIsAllocated(t *testing.T) {
	var l Holds
	require.Zero(t, testing.AllocsPerRun(1000, func() { l.Lasted(time.Microsecond); l.Free() }))
}

// Many goroutines may learn and ask at once.
func TestHowLongHoldsLastUnderConcurrency(t *testing.T) {
	var l Holds
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			for n := range 1000 {
				l.Lasted(time.Duration(n) * time.Millisecond)
				l.Met(fmt.Sprint("x:", (i+n)%3), time.Second)
				l.InWay()
				l.Free()
			}
		})
	}
	all.Wait()
	require.Positive(t, l.Retry(0, 0))
}
