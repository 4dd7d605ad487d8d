package sim

import "time"

// Clock is one server's own time. It follows a source, runs fast or slow against it, and can be set.
type Clock struct {
	source func() time.Time
	origin time.Time // what shown and rate count from
	shown  int64     // microseconds that the clock showed at origin
	rate   float64
}

// NewClock returns a clock that shows what source does.
func NewClock(source func() time.Time) *Clock {
	now := source()
	return &Clock{source: source, origin: now, shown: now.UnixMicro(), rate: 1}
}

// Micro is the time in microseconds since 1970.
func (c *Clock) Micro() int64 {
	passed := c.source().Sub(c.origin).Microseconds()
	if c.rate != 1 {
		passed = int64(float64(passed) * c.rate)
	}
	return c.shown + passed
}

// Now is the time that the clock shows.
func (c *Clock) Now() time.Time { return time.UnixMicro(c.Micro()) }

// Step sets the clock forward, or back where d is negative.
func (c *Clock) Step(d time.Duration) { c.shown += d.Microseconds() }

// Drift makes the clock run at rate from now on: 1 as its source does, 1.001 fast by a thousandth, 0 not at all.
func (c *Clock) Drift(rate float64) {
	c.shown, c.origin = c.Micro(), c.source()
	c.rate = rate
}
