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
	Cap     time.Duration // a lease ends after it, renewed or not, unless Move moves its end; 0: never
}

// Term is how long a process may trust a lock, and when to ask Redis to lengthen that. The rules:
//
//   - A confirmed command counts from when it was sent, for the lease that it asked for less a
//     margin for drift. The answer may have been on its way for any time.
//   - Trust never shrinks, since no command shortens a lease that a caller trusts. A missing answer
//     changes nothing.
//   - The lease in force ends at its cap, whatever Redis confirmed: a fixed lease at its end, one
//     with WithMaxHold at the maximum. The next lease of the same grant has a cap of its own.
//   - A fixed lease is not renewed, nor one that is trusted up to its cap. But once a message has
//     said that the lock may be lost, Redis is asked about such a lease, too.
type Term struct {
	Until clock.Stamp // Redis keeps the lock up to here at least
	Kept  clock.Stamp // Redis may keep the lock up to here, even if answers were lost

	rules *Rules
	lease time.Duration // that Redis granted the lock for
	began clock.Stamp   // when the lease in force began
	cap   clock.Stamp   // the lease in force ends here
	most  time.Duration // the longest lease to ask for, once the lock outlasts its lease; 0 before

	renewAt clock.Stamp
	asking  bool        // a renewal is under way
	failing bool        // the last renewal was not answered
	suspect bool        // a message said that the lock may be lost: ask at renewAt, whatever the cap
	doubted clock.Stamp // when the last such message came; zero once a later renewal is answered
}

// Granted returns the term of a lock that was granted for lease by a command sent at sent.
func Granted(sent clock.Stamp, lease time.Duration, rules *Rules) Term {
	return Term{
		rules: rules, lease: lease, cap: clock.Never(),
		Until: sent.Add(lease - clock.Margin(lease)), Kept: sent.Add(lease), renewAt: sent.Add(lease / 3),
	}
}

// Begin notes that a lease by these rules begins. Vacate has ended the lease before.
func (t *Term) Begin(rules *Rules, now clock.Stamp) {
	t.rules, t.began, t.cap = rules, now, clock.Never()
	if rules.Cap > 0 {
		t.cap = now.Add(rules.Cap)
	}
}

// Vacate notes that the lease in force was given back: its cap was the lease's, not the lock's. Until
// the next one begins, only Redis's lease ends the hold.
func (t *Term) Vacate() { t.cap = clock.Never() }

// Outlast notes that the lease in force was given back before it had lasted for d, and that none
// follows: the lock is kept until d is over. Commands then ask for all that is left, up to most. d must
// not be cut short: so it counts by the monotonic clock, which no one sets. Outlast returns false, and
// notes nothing, if d is over.
func (t *Term) Outlast(d, most time.Duration, now clock.Stamp) bool {
	if t.began.Mono()+d <= now.Mono() {
		return false
	}
	t.cap, t.most = clock.ByMono(t.began.Mono()+d), most
	return true
}

// Outlasts reports whether the lock outlasts its lease.
func (t *Term) Outlasts() bool { return t.most > 0 }

// Capped reports whether the cap has come: of the lease in force, or of a lock that outlasts it.
func (t *Term) Capped(now clock.Stamp) bool { return t.cap.Reached(now) }

// Began is when the lease in force began.
func (t *Term) Began() clock.Stamp { return t.began }

// Deadline is when the process must stop trusting the lock: at the lease's cap, or when Redis may
// let the lock go, whichever is sooner as seen from now.
func (t *Term) Deadline(now clock.Stamp) clock.Stamp { return clock.Sooner(t.cap, t.Until, now) }

// Left returns for how long Redis keeps the lock, at least.
func (t *Term) Left(now clock.Stamp) time.Duration { return t.Until.Until(now) }

// Lengthened reports whether Redis may keep the lock for longer than it was granted for. If the
// process died, the lock would stay taken for that long.
func (t *Term) Lengthened(now clock.Stamp) bool { return t.Kept.Until(now) > t.lease }

// LongestTrust returns the longest time from now for which this process may yet rely on the lock: a
// renewal's lease, or what is left of a longer one that Redis was already asked for.
func (t *Term) LongestTrust(now clock.Stamp) time.Duration {
	return max(t.rules.Lease, t.Kept.Until(now))
}

// Short reports whether a fixed lease is trusted for noticeably less than it promises: it was taken
// with the client's shorter lease, passed on in memory, or granted while the process stood still.
func (t *Term) Short(now clock.Stamp) bool {
	most := t.rules.Cap
	return t.rules.Fixed > 0 && t.Until.Until(now) < most-clock.Margin(most)-most/100
}

// EndsByMaxHold reports whether the maximum of WithMaxHold is what ends trust first.
func (t *Term) EndsByMaxHold(now clock.Stamp) bool {
	if t.rules.MaxHold == 0 || t.Until.Until(now) < t.cap.Until(now) {
		return false
	}
	return t.began.Add(t.rules.MaxHold).Until(now) <= t.cap.Until(now)
}

// MayLast returns for how much longer the maximum lets the lease in force last; most if there is no
// maximum.
func (t *Term) MayLast(now clock.Stamp, most time.Duration) time.Duration {
	if t.rules.MaxHold == 0 {
		return most
	}
	return t.began.Add(t.rules.MaxHold).Until(now)
}

// Move moves the end of a fixed lease to d after asked, or to the maximum if that comes first. It
// never moves an end back. So it does nothing to other leases, which end at the maximum or never.
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
	if !t.suspect { // if suspect, keep renewAt: the message may be newer than this answer
		t.renewAt = clock.Later(t.renewAt, sent.Add(lease/3), now)
	}
}

// RenewalAt returns when to ask Redis next, or never. A lease that need not be lengthened is asked
// about only if the hold count in Redis may be wrong (unsure), or if a message said that the lock
// may be lost.
func (t *Term) RenewalAt(now clock.Stamp, unsure bool) clock.Stamp {
	capped := t.rules.Fixed > 0 || t.Until.Until(now) >= t.cap.Until(now)
	if t.asking || capped && !t.suspect && !unsure {
		return clock.Never()
	}
	return t.renewAt
}

// RenewFor returns the lease that a renewal asks for. A fixed lease is not to be lengthened, so its
// renewal asks for a millisecond: Redis never shortens a lease. For a lease with a cap it asks up
// to two margins beyond the cap, so that the lease can be trusted up to the cap.
func (t *Term) RenewFor(now clock.Stamp) time.Duration {
	if left := t.cap.Until(now); t.most > 0 {
		return max(time.Millisecond, min(t.most, left+2*clock.Margin(max(left, t.rules.Lease))))
	}
	if t.rules.Fixed > 0 {
		return time.Millisecond
	}
	return max(time.Millisecond, min(t.rules.Lease, t.cap.Until(now)+2*clock.Margin(t.rules.Lease)))
}

// Shortest returns the lease by which renewals are timed: the lease that the lock was granted for,
// or the shorter lease of the caller to which the lock was passed on.
func (t *Term) Shortest() time.Duration {
	if t.rules.Fixed > 0 {
		return t.lease
	}
	return min(t.lease, t.rules.Lease)
}

// soon returns how long to wait before an unanswered renewal is repeated.
func (t *Term) soon() time.Duration {
	return min(max(t.Shortest()/30, 10*time.Millisecond), time.Second)
}

// Renewing notes that a renewal is about to be sent. One is under way at a time.
func (t *Term) Renewing() { t.asking, t.suspect = true, false }

// Asking reports whether a renewal is under way.
func (t *Term) Asking() bool { return t.asking }

// Renewed takes the answer to a renewal that was sent at sent. It reports whether the renewal
// before was not answered.
func (t *Term) Renewed(sent clock.Stamp, lease time.Duration, now clock.Stamp) (recovered bool) {
	recovered, t.asking, t.failing = t.failing, false, false
	if t.doubted.Before(sent) {
		t.doubted = clock.Stamp{}
	}
	t.Extended(sent, lease, now)
	return recovered
}

// Unanswered notes that a renewal was not answered: it is repeated soon, until the deadline. Redis
// is asked about a fixed lease only on suspicion, which remains. Unanswered reports whether the
// renewal before was answered.
func (t *Term) Unanswered(now clock.Stamp) (first bool) {
	first, t.asking, t.failing = !t.failing, false, true
	t.renewAt = now.Add(t.soon())
	t.suspect = t.suspect || t.rules.Fixed > 0
	return first
}

// AskSoon makes the next renewal come soon.
func (t *Term) AskSoon(now clock.Stamp) { t.renewAt = clock.Sooner(t.renewAt, now.Add(t.soon()), now) }

// AskAgain makes another renewal follow the one that was just answered, a third of a lease later:
// what it wrote may yet be overwritten.
func (t *Term) AskAgain(now clock.Stamp) {
	if !t.suspect {
		t.renewAt = clock.Later(t.renewAt, now.Add(t.Shortest()/3), now)
	}
}

// Doubt notes that a message said that the lock may be lost: Redis is asked at once.
func (t *Term) Doubt(now clock.Stamp) { t.suspect, t.renewAt, t.doubted = true, now, now }

// Doubted reports whether a message said that the lock may be lost, and no renewal that was sent
// since was answered.
func (t *Term) Doubted() bool { return !t.doubted.IsZero() }
