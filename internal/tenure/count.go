package tenure

import (
	"time"

	"github.com/relock-go/relock/internal/clock"
)

// Count says whether Redis knows the hold count: how often the owner has entered the lock. The
// process goes by its own number. The number in Redis is for others to see, and for an owner that
// several processes share.
//
// A command that writes the count, and is not answered, may still run up to a lease later, and undo
// a count that was confirmed since. So renewals write the count until that time is over.
type Count struct {
	unsure bool        // the count in Redis may be wrong, now or soon
	until  clock.Stamp // by then a command that was not answered has run, or never will
}

// Missed notes that a command which writes the count was not answered: it may run within a lease.
func (c *Count) Missed(now clock.Stamp, lease time.Duration) {
	c.unsure, c.until = true, now.Add(lease)
}

// Unsure reports whether the count in Redis may be wrong.
func (c *Count) Unsure() bool { return c.unsure }

// Written notes that a command other than a renewal has written the count. An older count may still
// be written: by a renewal that is under way, or by a command that was not answered.
func (c *Count) Written(now clock.Stamp, renewing bool) {
	c.unsure = c.unsure && (renewing || !c.until.Reached(now))
}

// Confirmed notes that a renewal, which was sent at sent, has written the count that is true now.
func (c *Count) Confirmed(sent clock.Stamp) { c.unsure = !c.until.Reached(sent) }
