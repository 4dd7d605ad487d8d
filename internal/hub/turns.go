package hub

import (
	"fmt"
	"strconv"
	"time"
)

const (
	turnTime      = 10 * time.Millisecond // how long one turn lasts, as TURN in turn.lua
	turnPasses    = 2                     // acquisitions in a row here while Redisson's waiters are near
	turnMemory    = time.Second           // how long after a turn's begin they count as near
	unusedAllowed = 8                     // turns in a row that may go unused before turns get rare
)

// turns follows the turns of Redisson's waiters at one lock, as far as this client hears of them.
// Redisson's waiters cannot be handed a lock. They race for it when it is unlocked, and would
// nearly always lose to relock's, which are faster. So a release that finds some of them listening
// gives them a turn: it leaves the lock free, and relock's waiters stay away until the lock is
// unlocked again, or 10 ms are over. All methods need the hub's mutex.
type turns struct {
	last   string    // name of the last turn heard of, "" for none
	began  time.Time // when it was heard of
	used   bool      // the lock was unlocked since: one of Redisson's waiters had it
	judged bool      // it is counted in unused already
	unused int       // turns in a row that no waiter used
	rare   time.Time // no turn is given before this instant
}

// receive takes the message that a turn begins. Its text is the turn's name.
func (t *turns) receive(name string) error {
	if _, err := strconv.ParseUint(name, 10, 64); err != nil {
		return fmt.Errorf("no turn, which is a number of microseconds")
	}
	t.opened(name, time.Now())
	return nil
}

// opened notes that a turn began. The release that gave the turn first woke Redisson's waiters by an
// unlock message, and then told of the turn. So the next unlock message is of an unlock in the turn.
func (t *turns) opened(name string, now time.Time) {
	t.last, t.began, t.used, t.judged = name, now, false, false
}

// unlocked notes an unlock message. The first one in a turn ends the turn: one of Redisson's
// waiters has had the lock.
func (t *turns) unlocked() { t.used = true }

// over returns the last turn's name if one of Redisson's waiters has used it, "" otherwise. An acquire
// that names the turn is not kept off the free lock by it.
func (t *turns) over() string {
	if t.used {
		return t.last
	}
	return ""
}

// granted judges the last turn, once this client is granted the lock after it. If the lock was not
// unlocked in the turn, none of Redisson's waiters came. After some such turns in a row, none is
// given for a time that doubles up to turnMemory: a subscriber that never comes, such as a process
// that was stopped, must not cost every acquisition 10 ms.
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

// near reports whether Redisson's waiters were given a turn lately, and are not known to stay away.
func (t *turns) near(now time.Time) bool {
	return t.last != "" && now.Sub(t.began) < turnMemory && t.due(now)
}
