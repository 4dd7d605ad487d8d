// Package clock measures how long a lease has run.
//
// The monotonic clock stands still while a machine sleeps, and the wall clock can be set back. A
// lease in Redis runs on through both. Elapsed time is therefore the larger of what the two clocks
// say. An error of one of them can only shorten the time for which a lease is trusted.
package clock

import (
	"math"
	"time"
)

// Stamp is an instant on both clocks. The zero Stamp is no instant.
type Stamp struct {
	mono, wall int64
}

// origin anchors the monotonic readings of this process; only differences of stamps carry meaning.
var origin = time.Now()

// Now reads both clocks.
func Now() Stamp {
	now := time.Now()
	return Stamp{mono: int64(now.Sub(origin)), wall: now.UnixNano()}
}

// Mono reads the monotonic clock alone, for half the cost. That is enough for times within this
// process.
func Mono() time.Duration { return time.Since(origin) }

// At is the stamp of two given readings, in nanoseconds.
func At(mono, wall int64) Stamp { return Stamp{mono: mono, wall: wall} }

// ByMono is the stamp at which the monotonic clock reads mono, whatever the wall clock says.
func ByMono(mono time.Duration) Stamp { return Stamp{mono: int64(mono), wall: math.MaxInt64 / 2} }

// Never is later than every stamp.
func Never() Stamp { return Stamp{mono: math.MaxInt64 / 2, wall: math.MaxInt64 / 2} }

// Add returns the stamp d later.
func (s Stamp) Add(d time.Duration) Stamp {
	return Stamp{mono: s.mono + int64(d), wall: s.wall + int64(d)}
}

// Reached reports whether s has come by now, on either clock.
func (s Stamp) Reached(now Stamp) bool { return now.mono >= s.mono || now.wall >= s.wall }

// Before reports whether s is earlier than other on the monotonic clock.
func (s Stamp) Before(other Stamp) bool { return s.mono < other.mono }

// Until returns how long it is from now to s on the clock that is further on; negative when s has
// passed.
func (s Stamp) Until(now Stamp) time.Duration {
	return time.Duration(min(s.mono-now.mono, s.wall-now.wall))
}

// Since returns the time from earlier to s, on the clock that is further on.
func (s Stamp) Since(earlier Stamp) time.Duration { return -earlier.Until(s) }

// Later returns the stamp that is reached last, counted from now.
func Later(a, b, now Stamp) Stamp {
	if b.Until(now) > a.Until(now) {
		return b
	}
	return a
}

// Sooner returns the stamp that is reached first, counted from now.
func Sooner(a, b, now Stamp) Stamp {
	if b.Until(now) < a.Until(now) {
		return b
	}
	return a
}

// Mono returns the monotonic reading alone: a time measured by it stays right when the wall clock
// is set.
func (s Stamp) Mono() time.Duration { return time.Duration(s.mono) }

// Skew returns by how much the wall reading exceeds the monotonic one. If it jumps, a clock was set
// or the machine slept.
func (s Stamp) Skew() time.Duration { return time.Duration(s.wall - s.mono) }

// Wall is the stamp as a wall clock time.
func (s Stamp) Wall() time.Time { return time.Unix(0, s.wall) }

// IsZero reports whether s is no instant.
func (s Stamp) IsZero() bool { return s == Stamp{} }

// Margin returns by how much trust in a lease ends before the lease itself: 1 % for clocks that
// drift, and 2 ms for Redis's own rounding and expiry.
func Margin(lease time.Duration) time.Duration { return lease/100 + 2*time.Millisecond }
