package tenure

import (
	"time"

	"github.com/relock-go/relock/internal/clock"
)

// Grain is by how much less than its time a lock rests, at most.
const Grain = 5 * time.Millisecond

// Rest is whether a lock may be kept for this process while no one uses it (WithLinger). It may
//
//   - if no one waited when it was granted, which only the answer to a first question proves, and for
//     the option's time from when that question was sent. No later command moves that: neither a
//     renewal, which does not ask for waiters, nor a question that was sent again.
//   - as long as no message says that another process wants the lock, or was missed. So a lock rests
//     only where such messages are heard.
//
// Its methods take d, the option's time, 0 for a lock that is not to rest.
type Rest struct {
	Idle bool // it has no lease, and lies at the gate

	free   bool        // no one waited when it was granted, and messages are heard
	asked  clock.Stamp // when the question was sent that this was the answer to
	stale  bool        // another process may have begun to wait since
	wanted bool        // one has
}

// Free is the rest of a lock that no one waited for when a question was sent at asked. The zero Rest
// is that of any other.
func Free(asked clock.Stamp) Rest { return Rest{free: true, asked: asked} }

// Alone reports whether no one else wanted the lock, as far as is known.
func (r *Rest) Alone() bool { return r.free && !r.stale }

// Overtaken reports whether the lock might have been kept until another process wanted it.
func (r *Rest) Overtaken() bool { return r.free && r.stale }

// Wanted notes that another process wants the lock or, when not sure, that word of it may have been
// missed. It reports whether the first is news.
func (r *Rest) Wanted(sure bool) (news bool) {
	news = sure && !r.wanted
	r.stale, r.wanted = true, r.wanted || sure
	return news
}

// IsWanted reports whether another process surely wants the lock.
func (r *Rest) IsWanted() bool { return r.wanted }

// May reports whether the lock may be kept.
func (r *Rest) May(d time.Duration, now clock.Stamp) bool {
	return r.Alone() && !r.end(d).Reached(now)
}

// LookAt is when to look whether the lock lies idle for too long, which may be never.
func (r *Rest) LookAt(d time.Duration, now clock.Stamp) clock.Stamp {
	if !r.free || d == 0 {
		return clock.Never()
	}
	if end := r.end(d); !end.Reached(now) || r.Idle {
		return end
	}
	return clock.Never()
}

// end is until when the lock may be kept. Of many locks those end together that would end at about
// the same time: so one of them wakes the watchdog for all.
func (r *Rest) end(d time.Duration) clock.Stamp {
	end, grain := r.asked.Add(d), min(d/8, Grain)
	return end.Add(-time.Duration(end.Wall().UnixNano() % max(1, int64(grain))))
}
