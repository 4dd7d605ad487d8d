package tenure

import (
	"time"

	"github.com/relock-go/relock/internal/clock"
)

// Grain is the most by which the time for which a lock may be kept is rounded down.
const Grain = 5 * time.Millisecond

// Rest says whether a lock may be kept for this process while no caller uses it (WithLinger). Two
// conditions must hold:
//
//   - No process waited for the lock when it was granted. Only an answer to the first command that
//     asked for the lock proves that. The option's time counts from when that command was sent. No
//     later command moves it: neither a renewal, which does not ask for waiters, nor a repeated
//     question.
//   - No message has said since that another process wants the lock, and no such message can have
//     been missed. So a lock rests only where such messages are heard.
//
// Its methods take d, the option's time: 0 for a lock that must not be kept.
type Rest struct {
	Idle bool // no lease has the lock, and it lies at the gate

	free   bool        // no process waited when it was granted, and messages are heard
	asked  clock.Stamp // when the command that granted it was sent
	stale  bool        // another process may want it by now
	wanted bool        // another process surely wants it
}

// Free returns the Rest of a lock that was granted by the first command, sent at asked, and for
// which no process waited. The Rest of any other lock is zero.
func Free(asked clock.Stamp) Rest { return Rest{free: true, asked: asked} }

// Alone reports whether no other process wants the lock, as far as is known.
func (r *Rest) Alone() bool { return r.free && !r.stale }

// Overtaken reports whether the lock could be kept until another process wanted it, or may have
// wanted it.
func (r *Rest) Overtaken() bool { return r.free && r.stale }

// Wanted notes that another process wants the lock or, if not sure, that a message which says so
// may have been missed. It returns true the first time that another process surely wants the lock.
func (r *Rest) Wanted(sure bool) (news bool) {
	news = sure && !r.wanted
	r.stale, r.wanted = true, r.wanted || sure
	return news
}

// IsWanted reports whether another process surely wants the lock.
func (r *Rest) IsWanted() bool { return r.wanted }

// May reports whether the lock may be kept now.
func (r *Rest) May(d time.Duration, now clock.Stamp) bool {
	return r.Alone() && !r.end(d).Reached(now)
}

// LookAt returns when the watchdog is to end the lock if it lies idle, or never.
func (r *Rest) LookAt(d time.Duration, now clock.Stamp) clock.Stamp {
	if !r.free || d == 0 {
		return clock.Never()
	}
	if end := r.end(d); !end.Reached(now) || r.Idle {
		return end
	}
	return clock.Never()
}

// end returns until when the lock may be kept. It is rounded down to the grain, so that many locks
// that would end at about the same time end together: the watchdog wakes up once for all of them.
func (r *Rest) end(d time.Duration) clock.Stamp {
	end, grain := r.asked.Add(d), min(d/8, Grain)
	return end.Add(-time.Duration(end.Wall().UnixNano() % max(1, int64(grain))))
}
