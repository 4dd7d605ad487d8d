// Package tenure says what a process may believe of a lock that Redis has granted it: until when it
// has the lock (Term), which fencing tokens are left (Block), whether Redis knows the hold count
// (Count), and whether the lock may be kept while no caller uses it (Rest).
//
// All four are plain values. They know no Redis, start no goroutine and lock no mutex: the hold
// that embeds them does, and passes the time in. So each rule can be tested by a table.
package tenure

import (
	"time"

	"github.com/relock-go/relock/internal/clock"
)

// Rules are what a lock's options say of the length of a lease.
type Rules struct {
	Lease   time.Duration // the watchdog's
	Fixed   time.Duration // 0 for a lease that the watchdog renews
	MaxHold time.Duration // 0 for none
	Max     time.Duration // after it a lease ends, whatever is renewed, unless Move moves its end; 0 for never
}

// Term is how long a process may trust a lock, and when to ask Redis to lengthen that. The rules:
//
//   - A confirmed command counts from when it was sent, for the lease that it asked for less a
//     margin for drift. The answer may have been on its way for any time.
//   - Trust never shrinks, since no command shortens a lease; and an answer that is missing moves
//     nothing.
//   - The lease in force ends at its cap, whatever Redis confirmed: a fixed lease at its end, one
//     with WithMaxHold at the maximum. The next lease of the same grant has a cap of its own.
//   - A fixed lease is not renewed, nor one that is trusted up to its cap. But once a message has
//     said that the lock may be lost, Redis is asked about either.
type Term struct {
	Until clock.Stamp // Redis keeps the lock up to here at least
	Kept  clock.Stamp // Redis may keep the lock up to here, also if answers were lost

	rules *Rules
	lease time.Duration // that Redis granted the lock for
	began clock.Stamp   // when the lease in force began
	cap   clock.Stamp   // the lease in force ends here

	renewAt clock.Stamp
	asking  bool        // a renewal is under way
	failing bool        // the last renewal was not answered
	suspect bool        // a message said that the lock may be lost: ask at renewAt, whatever the cap
	doubted clock.Stamp // when the last such message came; zero once a renewal that was sent since is answered
}

// Granted is the term of a lock that was granted for lease by a command sent at sent.
func Granted(sent clock.Stamp, lease time.Duration, rules *Rules) Term {
	return Term{
		rules: rules, lease: lease, cap: clock.Never(),
		Until: sent.Add(lease - clock.Margin(lease)), Kept: sent.Add(lease), renewAt: sent.Add(lease / 3),
	}
}

// Begin notes that a lease by these rules begins. The one before has ended by Vacate.
func (t *Term) Begin(rules *Rules, now clock.Stamp) {
	t.rules, t.began, t.cap = rules, now, clock.Never()
	if rules.Max > 0 {
		t.cap = now.Add(rules.Max)
	}
}

// Vacate notes that the lease in force was given back: its cap was the lease's, not the lock's. Until
// the next one begins, only Redis's lease ends the hold.
func (t *Term) Vacate() { t.cap = clock.Never() }

// Began is when the lease in force began.
func (t *Term) Began() clock.Stamp { return t.began }

// Deadline is when the process must stop trusting the lock: at the lease's cap, or when Redis may
// let the lock go, whichever is sooner as seen from now.
func (t *Term) Deadline(now clock.Stamp) clock.Stamp { return clock.Sooner(t.cap, t.Until, now) }

// Left is for how long Redis keeps the lock at least.
func (t *Term) Left(now clock.Stamp) time.Duration { return t.Until.Until(now) }

// Lengthened reports whether Redis may keep the lock for longer than it was granted for. If the
// process died, the lock would stand for as long.
func (t *Term) Lengthened(now clock.Stamp) bool { return t.Kept.Until(now) > t.lease }

// Reach is for how long from now on the lease may come to be trusted: for what a renewal asks for, or
// for what Redis was asked for before.
func (t *Term) Reach(now clock.Stamp) time.Duration {
	return max(t.rules.Lease, t.Kept.Until(now))
}

// Short reports whether a fixed lease is trusted for noticeably less than it promises: it was taken
// with the client's shorter lease, passed on in memory, or granted while the process stood still.
func (t *Term) Short(now clock.Stamp) bool {
	most := t.rules.Max
	return t.rules.Fixed > 0 && t.Until.Until(now) < most-clock.Margin(most)-most/100
}

// EndsByMaxHold reports whether what ends trust first is the maximum.
func (t *Term) EndsByMaxHold(now clock.Stamp) bool {
	if t.rules.MaxHold == 0 || t.Until.Until(now) < t.cap.Until(now) {
		return false
	}
	return t.began.Add(t.rules.MaxHold).Until(now) <= t.cap.Until(now)
}

// MayLast is for how long the maximum lets the lease in force last; most where there is none.
func (t *Term) MayLast(now clock.Stamp, most time.Duration) time.Duration {
	if t.rules.MaxHold == 0 {
		return most
	}
	return t.began.Add(t.rules.MaxHold).Until(now)
}

// Move moves the end of a fixed lease to d after asked, or to the maximum if that comes first. It
// never moves an end back. So it does nothing to a lease that is not fixed, whose end is the
// maximum or never.
func (t *Term) Move(asked clock.Stamp, d time.Duration) {
	t.cap = clock.Later(t.cap, asked.Add(d), asked)
	if t.rules.MaxHold > 0 {
		t.cap = clock.Sooner(t.cap, t.began.Add(t.rules.MaxHold), asked)
	}
}

// Asks notes that Redis is about to be asked to keep the lock for lease.
func (t *Term) Asks(lease time.Duration, now clock.Stamp) {
	t.Kept = clock.Later(t.Kept, now.Add(lease), now)
}

// Extended notes that a command which was sent at sent has lengthened the lease.
func (t *Term) Extended(sent clock.Stamp, lease time.Duration, now clock.Stamp) {
	t.Until = clock.Later(t.Until, sent.Add(lease-clock.Margin(lease)), now)
	if !t.suspect { // else the message that raised the suspicion may be newer than this answer
		t.renewAt = clock.Later(t.renewAt, sent.Add(lease/3), now)
	}
}

// RenewalAt is when to ask Redis next, which may be never. Redis is asked although the lease need not
// be lengthened, if the hold count in Redis may be wrong (unsure), or if a message said that the lock
// may be lost.
func (t *Term) RenewalAt(now clock.Stamp, unsure bool) clock.Stamp {
	capped := t.rules.Fixed > 0 || t.Until.Until(now) >= t.cap.Until(now)
	if t.asking || capped && !t.suspect && !unsure {
		return clock.Never()
	}
	return t.renewAt
}

// RenewFor is the lease that a renewal asks for. A fixed lease is not to be lengthened, so its
// renewal asks for a millisecond: Redis never shortens a lease. A lease that has a cap is
// lengthened to there, and by two margins more, so that it can be trusted up to the cap.
func (t *Term) RenewFor(now clock.Stamp) time.Duration {
	if t.rules.Fixed > 0 {
		return time.Millisecond
	}
	return max(time.Millisecond, min(t.rules.Lease, t.cap.Until(now)+2*clock.Margin(t.rules.Lease)))
}

// Shortest is the lease by which renewals are timed: that for which the lock was granted, or the
// shorter one of the caller to which it was passed on.
func (t *Term) Shortest() time.Duration {
	if t.rules.Fixed > 0 {
		return t.lease
	}
	return min(t.lease, t.rules.Lease)
}

// soon is how long to wait before a renewal that was not answered is repeated.
func (t *Term) soon() time.Duration {
	return min(max(t.Shortest()/30, 10*time.Millisecond), time.Second)
}

// Renewing notes that a renewal is about to be sent. One is under way at a time.
func (t *Term) Renewing() { t.asking, t.suspect = true, false }

// Asking reports whether a renewal is under way.
func (t *Term) Asking() bool { return t.asking }

// Renewed takes the answer to a renewal that was sent at sent. It reports whether the one before
// was not answered.
func (t *Term) Renewed(sent clock.Stamp, lease time.Duration, now clock.Stamp) (recovered bool) {
	recovered, t.asking, t.failing = t.failing, false, false
	if t.doubted.Before(sent) {
		t.doubted = clock.Stamp{}
	}
	t.Extended(sent, lease, now)
	return recovered
}

// Unanswered notes that a renewal was not answered: it is repeated soon, until the deadline. A
// fixed lease is asked for only on suspicion, which remains. It reports whether the one before was
// answered.
func (t *Term) Unanswered(now clock.Stamp) (first bool) {
	first, t.asking, t.failing = !t.failing, false, true
	t.renewAt = now.Add(t.soon())
	t.suspect = t.suspect || t.rules.Fixed > 0
	return first
}

// AskSoon makes the next renewal come soon.
func (t *Term) AskSoon(now clock.Stamp) { t.renewAt = clock.Sooner(t.renewAt, now.Add(t.soon()), now) }

// AskAgain makes a renewal that was just answered be followed by another, a third of a lease later:
// what it wrote may yet be overwritten.
func (t *Term) AskAgain(now clock.Stamp) {
	if !t.suspect {
		t.renewAt = clock.Later(t.renewAt, now.Add(t.Shortest()/3), now)
	}
}

// Doubt notes that a message said that the lock may be lost: Redis is asked at once.
func (t *Term) Doubt(now clock.Stamp) { t.suspect, t.renewAt, t.doubted = true, now, now }

// Doubted reports whether such a message came, and no renewal that was sent since was answered.
func (t *Term) Doubted() bool { return !t.doubted.IsZero() }
