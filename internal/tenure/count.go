package tenure

import (
	"time"

	"github.com/relock-go/relock/internal/clock"
)

// Count is whether Redis knows the hold count: how often the owner has entered the lock. The number
// that decides is the process's own; Redis's is for others to see, and for an owner that other
// processes share. A command that writes it and is not answered may still come, up to a lease later,
// and undo a count that was confirmed since. So renewals write the count until that time is over.
type Count struct {
	unsure bool
	until  clock.Stamp // up to here a count that was sent and not answered may still come
}

// Missed notes that a count may or may not be written, now or within a lease.
func (c *Count) Missed(now clock.Stamp, lease time.Duration) {
	c.unsure, c.until = true, now.Add(lease)
}

// Unsure reports whether the count in Redis may be wrong.
func (c *Count) Unsure() bool { return c.unsure }

// Written notes that a command of its own has written the count. An older one may still come: from a
// renewal that is under way, or from a command that was not answered.
func (c *Count) Written(now clock.Stamp, renewing bool) {
	c.unsure = c.unsure && (renewing || !c.until.Reached(now))
}

// Confirmed notes that a renewal which was sent at sent has written the count that is true now.
func (c *Count) Confirmed(sent clock.Stamp) { c.unsure = !c.until.Reached(sent) }
