package quorum

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/relock-go/relock/internal/clock"
)

// reading tells how far a node's clock is ahead of this process's monotonic clock, in microseconds.
// The wall clock would not do: it may be set between two readings.
type reading struct {
	ahead       int64
	uncertainty int64 // half a round trip: the most that ahead may be wrong by, either way
}

// readClock notes a server's clock, now in microseconds, from the answer to a command sent at sent.
// The server read its clock at some time between sent and this call; the middle is assumed.
func (m *member) readClock(now int64, sent clock.Stamp) {
	began, ended := sent.Mono().Microseconds(), clock.Now().Mono().Microseconds()
	m.clock.Store(&reading{ahead: now - (began+ended)/2, uncertainty: (ended - began + 1) / 2})
}

// median returns by how much the nodes' median clock is ahead of ours, false while no clock was read.
// With three or more clocks, a single wrong one does not move the median beyond the others.
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

// ticket returns a contender's place in all queues: the time on the nodes' median clock. A client's
// own clock would not do: if it were ahead, the client would wait behind others that came later.
//
// A client's tickets rise: goroutines that are woken together read the same microsecond, and two
// contenders with one ticket are slow to find out which of them yields. If the clocks were set back,
// tickets start at the new time: otherwise the client would wait behind all others until the clocks
// have caught up.
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

// maxLead is the most that a proposed token is ahead of the median clock. It is half of LEAD in
// token.lua, which is what a node accepts.
const maxLead = 250 * time.Millisecond

// proposedToken returns the token at which nodes should begin a grant, 0 while no clock was read. It
// is a time in the near future on every node's clock: the median clock's time, plus the lead of the
// clock that is furthest ahead, plus a round trip. So all nodes that are reached before that time
// grant the same tokens, and none has to be told of another's. A node that is reached later uses its
// own clock. A clock that is further ahead than maxLead is taken to be wrong, and left out.
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

// errClockOff says why a node's grants do not count. A node that forgot a counter begins it again at
// its own clock. Tokens still rise if clocks differ by no more than a quarantine less half a second,
// which is how far a counter may run ahead of its clock.
var errClockOff = errors.New("its clock is too far from the other nodes'")

// clockOff reports whether a node's clock is so far from the median that its grants must not count.
// It returns false without the restart guard, and with fewer than three nodes: of two clocks, neither
// is known to be the wrong one. The user is told once when a clock goes off, and once when it is right
// again.
func (q *Quorum) clockOff(m *member) bool {
	r := m.clock.Load()
	if r == nil || !q.cfg.Guard || len(q.members) < 3 {
		return false
	}
	median, _ := q.median() // known: r is one of the clocks
	most := max(q.cfg.Longest-500*time.Millisecond, q.cfg.Longest/2) / 2
	off := max(r.ahead-median, median-r.ahead) - r.uncertainty
	tooFar := off > most.Microseconds()
	switch was := m.clockOff.Swap(tooFar); {
	case was && !tooFar:
		q.cfg.Mended(m.index, errClockOff)
	case tooFar && !was:
		q.cfg.Impaired(m.index, fmt.Errorf("its clock is %v off the others', of at most %v: its grants do not count",
			time.Duration(r.ahead-median)*time.Microsecond, most))
	}
	return tooFar
}
