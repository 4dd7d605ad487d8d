package quorum

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/relock-go/relock/internal/clock"
)

// reading is by how many microseconds a node's clock is ahead of our monotonic one. Our wall clock
// would not do: it may be set between two readings.
type reading struct {
	ahead       int64
	uncertainty int64 // the true value is so far off at most, either way: half a round trip
}

// readClock takes the server's clock, in microseconds, from the answer to a command sent at sent.
// The server read it at some time between then and now; the middle is assumed.
func (m *member) readClock(now int64, sent clock.Stamp) {
	began, ended := sent.Mono().Microseconds(), clock.Now().Mono().Microseconds()
	m.clock.Store(&reading{ahead: now - (began+ended)/2, uncertainty: (ended - began + 1) / 2})
}

// median is how far the nodes' clocks are ahead of ours, false while none was read. Of three or
// more clocks, a single wrong one does not move it beyond the others.
func (q *Quorum) median() (int64, bool) {
	var room [9]int64
	ahead := room[:0]
	for _, m := range q.members {
		if r := m.clock.Load(); r != nil {
			ahead = append(ahead, r.ahead)
		}
	}
	if len(ahead) == 0 {
		return 0, false
	}
	slices.Sort(ahead)
	return ahead[len(ahead)/2], true
}

// ticket is a place in all queues: the time on the nodes' clocks, by the median of what they told.
// A client's own clock would not do: were it ahead, the client would wait behind others that came
// later.
//
// A client's tickets rise: goroutines that are woken together read the same microsecond, and two
// contenders with one ticket are slow to find out which of them yields. Only where the clocks were
// set back do they begin anew. Else the client would wait behind all others for as long.
func (q *Quorum) ticket() int64 {
	now := time.Now().UnixMicro()
	if ahead, known := q.median(); known {
		now = clock.Now().Mono().Microseconds() + ahead
	}
	for {
		last, next := q.lastTicket.Load(), now
		if behind := last - now; behind >= 0 && behind < maxLead.Microseconds() {
			next = last + 1
		}
		if q.lastTicket.CompareAndSwap(last, next) {
			return next
		}
	}
}

// maxLead is how far ahead of the median clock tokens are proposed at most. It is half of what a
// node accepts, which is LEAD in token.lua.
const maxLead = 250 * time.Millisecond

// proposedToken is the token that nodes are to begin a grant at, 0 while no clock was read. It is a
// time in the near future on every node's clock: that of the median clock, and beyond it the lead of
// the clock that is ahead of all others and a round trip. So all nodes that are asked before that time
// grant the same tokens, and none has to be told of another's. A node that is reached later uses its
// own clock. A clock that is further ahead than maxLead is left out: it is taken to be wrong.
func (q *Quorum) proposedToken() int64 {
	median, known := q.median()
	if !known {
		return 0
	}
	ahead := int64(0)
	for _, m := range q.members {
		if r := m.clock.Load(); r != nil && r.ahead-median <= maxLead.Microseconds() {
			ahead = max(ahead, r.ahead-median)
		}
	}
	ahead += time.Duration(q.rtt.Load()).Microseconds()
	return clock.Now().Mono().Microseconds() + median + min(ahead, maxLead.Microseconds())
}

// errClockOff is why a node's grants do not count. A counter that was forgotten begins again at the
// node's clock. If clocks differ by no more than a quarantine less half a second, tokens rise all
// the same. The half second is how far a counter may run ahead of its clock.
var errClockOff = errors.New("its clock is too far from the other nodes'")

// clockOff reports whether a node's clock is so far from the median that its grants must not count.
// Of two clocks, neither is known to be the wrong one. The user is told once each time it begins.
func (q *Quorum) clockOff(m *member) bool {
	r := m.clock.Load()
	if r == nil || !q.cfg.Guard || len(q.members) < 3 {
		return false
	}
	median, _ := q.median() // known: r is one of the clocks
	most := max(q.cfg.Longest-500*time.Millisecond, q.cfg.Longest/2) / 2
	off := max(r.ahead-median, median-r.ahead) - r.uncertainty
	tooFar := off > most.Microseconds()
	if !m.clockOff.Swap(tooFar) && tooFar {
		q.cfg.Impaired(m.index, fmt.Errorf("its clock is %v off the others', of at most %v: its grants do not count",
			time.Duration(r.ahead-median)*time.Microsecond, most))
	}
	return tooFar
}
