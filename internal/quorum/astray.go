package quorum

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/relock-go/relock/internal/clock"
)

// reading is a node's clock, in microseconds, as far ahead of our monotonic one. The wall clock may
// be set.
type reading struct {
	ahead int64
	blur  int64 // it may be wrong by so much, either way
}

// tick notes the server's clock, in microseconds, in an answer to what was sent at sent.
func (m *member) tick(now int64, sent clock.Stamp) {
	began, ended := sent.Mono().Microseconds(), clock.Now().Mono().Microseconds()
	m.clock.Store(&reading{ahead: now - (began+ended)/2, blur: (ended - began + 1) / 2})
}

// median is how far the nodes' clocks are ahead of ours; false while none was read.
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

// ticket is a place in all queues: the time on the nodes' clocks, by the median of what they told,
// so that a client whose own clock is wrong waits no longer and no shorter than others.
func (q *Quorum) ticket() int64 {
	ahead, known := q.median()
	if !known {
		return time.Now().UnixMicro()
	}
	return clock.Now().Mono().Microseconds() + ahead
}

// mostAhead is how far ahead of the median clock tokens are proposed at most: half of what a node
// takes up.
const mostAhead = 250 * time.Millisecond

// least is the token that nodes are to begin a grant at. It lies ahead of their clocks by what those
// differ, and by the time that a question takes: so all of them grant the same tokens, and nothing is
// to be written back. A node that it is too late for grants by its own clock. It is 0 while no clock
// was read.
func (q *Quorum) least() int64 {
	median, known := q.median()
	if !known {
		return 0
	}
	ahead := int64(0)
	for _, m := range q.members {
		if r := m.clock.Load(); r != nil && r.ahead-median <= mostAhead.Microseconds() {
			ahead = max(ahead, r.ahead-median)
		}
	}
	ahead += time.Duration(q.rtt.Load()).Microseconds()
	return clock.Now().Mono().Microseconds() + median + min(ahead, mostAhead.Microseconds())
}

// errAstray is why a node's grants do not count. With clocks no further apart than a quarantine
// less half a second, which is how far a counter may run ahead of its clock, tokens rise whatever
// was forgotten.
var errAstray = errors.New("its clock is too far from the other nodes'")

// astray reports whether a node's clock is so far from the median that it must not grant. One clock
// of two is not known to be the wrong one.
func (q *Quorum) astray(m *member) bool {
	if !q.cfg.Guard || len(q.members) < 3 {
		return false
	}
	r := m.clock.Load()
	median, known := q.median()
	if r == nil || !known {
		return false
	}
	most := max(q.cfg.Longest-500*time.Millisecond, q.cfg.Longest/2) / 2
	off := max(r.ahead-median, median-r.ahead) - r.blur
	astray := off > most.Microseconds()
	if m.astray.Swap(astray) != astray && astray {
		q.cfg.Impaired(m.index, fmt.Errorf("its clock is %v off the others', of at most %v: its grants do not count",
			time.Duration(r.ahead-median)*time.Microsecond, most))
	}
	return astray
}
