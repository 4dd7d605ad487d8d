package hub

import "time"

const (
	turnTime      = 10 * time.Millisecond // of one turn, as TURN in turn.lua
	turnPasses    = 2                     // acquisitions in a row here while Redisson's waiters take turns
	turnMemory    = time.Second           // how long after a turn they are taken to be near
	unusedAllowed = 8                     // turns in a row that no one used, before they get rare
)

// turns follows the turns of Redisson's waiters at one lock. They cannot be handed a lock, only
// race for it, and their processes need longer to come. So a release that finds some listening
// leaves the lock free to them: relock's waiters stay away until the lock is unlocked again, or 10 ms
// are over. Every method needs the hub's mutex.
type turns struct {
	last   string    // name of the last one heard of
	began  time.Time // when that was
	used   bool      // the lock was unlocked since
	judged bool      // it is counted among the used or the unused
	unused int       // in a row
	rare   time.Time // none is given before this instant
}

// opened notes that a turn began. The release published a "0" to wake Redisson's waiters before it
// told of the turn. So the next "0" is of an unlock within the turn.
func (t *turns) opened(name string, now time.Time) {
	t.last, t.began, t.used, t.judged = name, now, false, false
}

// unlocked notes a "0". The first one in a turn is Redisson's and ends it.
func (t *turns) unlocked() { t.used = true }

// over names the last turn if it was used, "" otherwise.
func (t *turns) over() string {
	if t.used {
		return t.last
	}
	return ""
}

// granted judges the turn before a grant to this client: the lock was not unlocked in it, so no waiter of Redisson's came. A
// subscriber that never comes, such as a process that was stopped, must not cost every acquisition
// 10 ms.
func (t *turns) granted(now time.Time) {
	switch {
	case t.last == "" || t.judged:
	case t.used:
		t.unused = 0
	default:
		t.unused++
		if late := t.unused - unusedAllowed; late >= 0 {
			t.rare = now.Add(min(turnTime<<min(late, 10), turnMemory))
		}
	}
	t.judged = true
}

// due reports whether a release may open a turn.
func (t *turns) due(now time.Time) bool { return !now.Before(t.rare) }

// near reports whether Redisson's waiters came lately.
func (t *turns) near(now time.Time) bool {
	return t.last != "" && now.Sub(t.began) < turnMemory && t.due(now)
}
