package tenure

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/clock"
)

// at is a time of the tests: seconds after an origin, on both clocks.
func at(seconds float64) clock.Stamp {
	return clock.At(1, 1).Add(time.Hour + time.Duration(seconds*float64(time.Second)))
}

// in is how far a stamp lies after at(0).
func in(s clock.Stamp) time.Duration { return s.Until(at(0)) }

const lease = 30 * time.Second

// margin is what a lease is trusted for less.
var margin = clock.Margin(lease)

func granted(r Rules) Term {
	if r.Lease == 0 {
		r.Lease = lease
	}
	return Granted(at(0), lease, &r)
}

func begun(r Rules) Term {
	if r.Lease == 0 {
		r.Lease = lease
	}
	t := Granted(at(0), lease, &r)
	t.Begin(&r, at(1))
	return t
}

func TestTrustEndsAt(t *testing.T) {
	for name, c := range map[string]struct {
		rules Rules
		do    func(*Term)
		want  time.Duration // after at(0)
	}{
		"a grant counts from when it was asked for": {want: lease - margin},
		"a renewal counts from when it was sent": {
			do: func(t *Term) { t.Renewed(at(10), lease, at(15)) }, want: 10*time.Second + lease - margin,
		},
		"an older answer moves nothing back": {
			do: func(t *Term) { t.Renewed(at(10), lease, at(11)); t.Renewed(at(5), lease, at(12)) }, want: 10*time.Second + lease - margin,
		},
		"a shorter lease shortens nothing": {
			do: func(t *Term) { t.Extended(at(10), time.Second, at(11)) }, want: lease - margin,
		},
		"what is not answered moves nothing": {
			do: func(t *Term) { t.Asks(lease, at(10)); t.Renewing(); t.Unanswered(at(12)) }, want: lease - margin,
		},
		"a doubt moves nothing": {do: func(t *Term) { t.Doubt(at(2)) }, want: lease - margin},
		"the maximum counts from the lease's begin": {
			rules: Rules{MaxHold: 20 * time.Second, Cap: 20 * time.Second}, want: 21 * time.Second,
		},
		"no renewal moves the maximum": {
			rules: Rules{MaxHold: 20 * time.Second, Cap: 20 * time.Second},
			do:    func(t *Term) { t.Renewed(at(10), lease, at(11)) }, want: 21 * time.Second,
		},
		"the cap is the lease's, not the next one's": {
			rules: Rules{MaxHold: 20 * time.Second, Cap: 20 * time.Second}, do: (*Term).Vacate, want: lease - margin,
		},
		"the next one by the same rules has a cap of its own": {
			rules: Rules{MaxHold: 20 * time.Second, Cap: 20 * time.Second},
			do:    func(t *Term) { t.Vacate(); t.Begin(t.rules, at(3)) }, want: 23 * time.Second,
		},
		"and so has one behind a lease without a cap": {
			do: func(t *Term) {
				t.Vacate()
				t.Begin(&Rules{Lease: lease, MaxHold: 20 * time.Second, Cap: 20 * time.Second}, at(3))
			}, want: 23 * time.Second,
		},
		"nor has the next one the cap of the one before": {
			rules: Rules{Fixed: 5 * time.Second, Cap: 5 * time.Second},
			do:    func(t *Term) { t.Begin(&Rules{Lease: lease}, at(2)) }, want: lease - margin,
		},
		"a fixed lease ends when it ends": {
			rules: Rules{Fixed: 5 * time.Second, Cap: 5 * time.Second}, want: 6 * time.Second,
		},
		"Extend moves the end of a fixed lease": {
			rules: Rules{Fixed: 5 * time.Second, Cap: 5 * time.Second},
			do:    func(t *Term) { t.Move(at(3), 9*time.Second) }, want: 12 * time.Second,
		},
		"and never back": {
			rules: Rules{Fixed: 5 * time.Second, Cap: 5 * time.Second},
			do:    func(t *Term) { t.Move(at(3), time.Second) }, want: 6 * time.Second,
		},
		"nor beyond the maximum": {
			rules: Rules{Fixed: 5 * time.Second, MaxHold: 8 * time.Second, Cap: 5 * time.Second},
			do:    func(t *Term) { t.Move(at(3), time.Minute) }, want: 9 * time.Second,
		},
		"nor does it give one to another lease": {
			do: func(t *Term) { t.Move(at(3), time.Second) }, want: lease - margin,
		},
		"a lock that outlasts its lease counts from the lease's begin": {
			do: func(t *Term) { t.Outlast(5*time.Second, time.Hour, at(2)) }, want: 6 * time.Second,
		},
		"and what Redis does not confirm ends trust before": {
			do: func(t *Term) { t.Outlast(time.Hour, time.Hour, at(2)) }, want: lease - margin,
		},
		"a lease that has lasted for long enough is not outlasted": {
			do: func(t *Term) { t.Outlast(time.Second, time.Hour, at(2)) }, want: lease - margin,
		},
		"nor move the maximum of another": {
			rules: Rules{MaxHold: 20 * time.Second, Cap: 20 * time.Second},
			do:    func(t *Term) { t.Move(at(3), time.Hour) }, want: 21 * time.Second,
		},
	} {
		t.Run(name, func(t *testing.T) {
			term := begun(c.rules)
			if c.do != nil {
				c.do(&term)
			}
			require.Equal(t, c.want, in(term.Deadline(at(2))))
		})
	}
}

// A lock outlasts its lease by the monotonic clock. Whoever sets the wall clock must not end it too soon.
func TestOutlasting(t *testing.T) {
	term := begun(Rules{})
	require.False(t, term.Outlasts())
	require.False(t, term.Outlast(0, time.Hour, at(1)))
	require.False(t, term.Outlast(9*time.Second, time.Hour, at(10)))
	require.False(t, term.Outlasts())
	require.True(t, term.Outlast(10*time.Second, time.Hour, at(10)))
	require.True(t, term.Outlasts())
	now := at(10)
	set := clock.At(int64(now.Mono()), now.Wall().UnixNano()+int64(time.Hour))
	require.False(t, term.Capped(set))
	require.True(t, term.Deadline(set).Reached(set), "but Redis is trusted no longer")
	require.False(t, term.Capped(at(10.9)))
	require.True(t, term.Capped(at(11)))
}

func TestRenewalIsDue(t *testing.T) {
	never := in(clock.Never())
	for name, c := range map[string]struct {
		rules  Rules
		do     func(*Term)
		unsure bool
		want   time.Duration
	}{
		"after a third of the lease":          {want: lease / 3},
		"counted from when the last was sent": {do: func(t *Term) { t.Renewed(at(10), lease, at(15)) }, want: 10*time.Second + lease/3},
		"not while one is under way":          {do: (*Term).Renewing, want: never},
		"soon after one that was not answered": {
			do: func(t *Term) { t.Renewing(); t.Unanswered(at(10)) }, want: 11 * time.Second,
		},
		"sooner where a shorter lease was passed on to": {
			rules: Rules{Lease: 6 * time.Second}, do: func(t *Term) { t.Renewing(); t.Unanswered(at(10)) }, want: 10200 * time.Millisecond,
		},
		"not for a fixed lease":         {rules: Rules{Fixed: time.Minute, Cap: time.Minute}, want: never},
		"but where its count is unsure": {rules: Rules{Fixed: time.Minute, Cap: time.Minute}, unsure: true, want: lease / 3},
		"and on suspicion, at once":     {rules: Rules{Fixed: time.Minute, Cap: time.Minute}, do: func(t *Term) { t.Doubt(at(4)) }, want: 4 * time.Second},
		"on which it goes on until it was answered": {
			rules: Rules{Fixed: time.Minute, Cap: time.Minute},
			do:    func(t *Term) { t.Doubt(at(4)); t.Renewing(); t.Unanswered(at(5)) }, want: 6 * time.Second,
		},
		"an answered one of a lease that is renewed leaves no suspicion": {
			rules: Rules{MaxHold: 20 * time.Second, Cap: 20 * time.Second},
			do:    func(t *Term) { t.Renewing(); t.Unanswered(at(5)); t.Renewed(at(6), lease, at(6)) }, want: never,
		},
		"nor does one that was not answered": {
			rules: Rules{MaxHold: 20 * time.Second, Cap: 20 * time.Second},
			do:    func(t *Term) { t.Unanswered(at(5)) }, want: never,
		},
		"and then ends": {
			rules: Rules{Fixed: time.Minute, Cap: time.Minute},
			do:    func(t *Term) { t.Doubt(at(4)); t.Renewing(); t.Renewed(at(4), time.Millisecond, at(5)) }, want: never,
		},
		"not where the lease reaches to its cap": {rules: Rules{MaxHold: 20 * time.Second, Cap: 20 * time.Second}, want: never},
		"nor where the next lease of the grant does": {
			do: func(t *Term) {
				t.Vacate()
				t.Begin(&Rules{Lease: lease, MaxHold: 20 * time.Second, Cap: 20 * time.Second}, at(3))
			}, want: never,
		},
		"an answer that is older than the suspicion moves it not": {
			do: func(t *Term) { t.Doubt(at(4)); t.Extended(at(3), lease, at(5)) }, want: 4 * time.Second,
		},
		"soon, where a count was missed": {do: func(t *Term) { t.AskSoon(at(3)) }, want: 4 * time.Second},
		"never later for that":           {do: func(t *Term) { t.AskSoon(at(28)) }, want: lease / 3},
		"again, a third after an answer that may be undone": {
			do: func(t *Term) { t.Renewed(at(0), lease, at(9)); t.AskAgain(at(9)) }, want: 19 * time.Second,
		},
	} {
		t.Run(name, func(t *testing.T) {
			term := begun(c.rules)
			if c.do != nil {
				c.do(&term)
			}
			require.Equal(t, c.want, in(term.RenewalAt(at(2), c.unsure)))
		})
	}
}

func TestRenewalAsksFor(t *testing.T) {
	for name, c := range map[string]struct {
		rules Rules
		now   float64
		least time.Duration
		want  time.Duration
	}{
		"the watchdog's lease":                               {now: 10, want: lease},
		"nothing for a fixed one":                            {rules: Rules{Fixed: time.Minute, Cap: time.Minute}, now: 10, want: time.Millisecond},
		"all that is left of a lock that outlasts its lease": {now: 11, least: time.Hour, want: 3590*time.Second + 2*clock.Margin(3590*time.Second)},
		"also if that is short":                              {now: 11, least: 11 * time.Second, want: time.Second + 2*margin},
		"also of a fixed one":                                {rules: Rules{Fixed: time.Minute, Cap: time.Minute}, now: 11, least: 11 * time.Second, want: time.Second + 2*margin},
		"no more than may be asked for":                      {now: 11, least: 3 * time.Hour, want: 2 * time.Hour},
		"something behind its end":                           {now: 90, least: 11 * time.Second, want: time.Millisecond},
		"no further than the cap is trusted":                 {rules: Rules{MaxHold: 20 * time.Second, Cap: 20 * time.Second}, now: 11, want: 10*time.Second + 2*margin},
		"something beyond it":                                {rules: Rules{MaxHold: 20 * time.Second, Cap: 20 * time.Second}, now: 25, want: time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			term := begun(c.rules)
			if c.least > 0 {
				require.True(t, term.Outlast(c.least, 2*time.Hour, at(11)))
			}
			require.Equal(t, c.want, term.RenewFor(at(c.now)))
		})
	}
}

func TestRenewalsTell(t *testing.T) {
	term := begun(Rules{})
	require.False(t, term.Renewed(at(5), lease, at(6)), "nothing had failed")
	require.True(t, term.Unanswered(at(10)))
	require.False(t, term.Unanswered(at(11)), "it was told")
	require.True(t, term.Renewed(at(12), lease, at(13)))
	require.False(t, term.Renewed(at(14), lease, at(15)))
}

// A doubt is over with a renewal that was sent after it, and by nothing else.
func TestDoubt(t *testing.T) {
	term := begun(Rules{})
	require.False(t, term.Doubted())
	term.Doubt(at(5))
	term.Renewed(at(4), lease, at(6))
	require.True(t, term.Doubted(), "the answer is older")
	term.Extended(at(7), lease, at(7))
	term.Unanswered(at(8))
	require.True(t, term.Doubted())
	term.Renewed(at(9), lease, at(9))
	require.False(t, term.Doubted())
}

func TestLengthened(t *testing.T) {
	term := granted(Rules{})
	require.False(t, term.Lengthened(at(0)))
	term.Asks(lease, at(10))
	require.False(t, term.Lengthened(at(10)), "by a renewal it is not")
	term.Asks(2*lease, at(10))
	require.True(t, term.Lengthened(at(10)), "it may be, though no answer came")
	term.Asks(time.Second, at(11))
	require.True(t, term.Lengthened(at(39.9)))
	require.False(t, term.Lengthened(at(40)))
}

func TestShortFixedLease(t *testing.T) {
	hour := Rules{Fixed: time.Hour, Cap: time.Hour}
	term := begun(hour)
	require.True(t, term.Short(at(1)), "it was granted for less")
	term.Extended(at(1), time.Hour, at(2))
	require.False(t, term.Short(at(2)))
	require.True(t, term.Short(at(60)))
	term = begun(Rules{MaxHold: time.Minute, Cap: time.Minute})
	require.False(t, term.Short(at(20)), "a renewed one promises nothing")
}

func TestMaxHold(t *testing.T) {
	term := begun(Rules{})
	require.Equal(t, time.Hour, term.MayLast(at(5), time.Hour))
	require.False(t, term.EndsByMaxHold(at(5)))
	term = begun(Rules{MaxHold: 20 * time.Second, Cap: 20 * time.Second})
	require.Equal(t, 16*time.Second, term.MayLast(at(5), time.Hour))
	require.True(t, term.EndsByMaxHold(at(5)))
	term = begun(Rules{MaxHold: 20 * time.Second, Fixed: 5 * time.Second, Cap: 5 * time.Second})
	require.False(t, term.EndsByMaxHold(at(2)), "the fixed lease ends before")
	term = begun(Rules{MaxHold: time.Minute, Cap: time.Minute})
	require.False(t, term.EndsByMaxHold(at(2)), "what Redis confirmed ends before")
}
