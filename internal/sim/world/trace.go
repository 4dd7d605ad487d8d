package world

import (
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/relock-go/relock/internal/driver"
)

// entry is one line of the trace. It is kept as it is, and becomes text only where somebody reads it.
type entry struct {
	at    time.Duration
	proc  int // -1 for none
	node  int // -1 for none
	what  string
	lock  string
	fate  string
	args  []string
	value driver.Value
	told  bool // value counts
	err   error
	n     int64
}

// trace is what happened, in order. The world's mutex guards it.
type trace struct {
	start time.Time
	lines []entry
}

func (t *trace) add(e entry) {
	if t.lines == nil {
		if room := spare.Swap(nil); room != nil {
			t.lines = *room
		}
	}
	steps.Add(1)
	e.at = time.Since(t.start)
	t.lines = append(t.lines, e)
}

// steps counts the entries of all runs: a run without new ones gets nowhere.
var steps atomic.Int64

// spare is the room for a trace that nobody reads any more.
var spare atomic.Pointer[[]entry]

// usual is more entries than a trace has unless something goes on for ever.
const usual = 1 << 17

// over leaves the room to the next run: megabytes, that would be grown into again.
func (t *trace) over() {
	if room := t.lines[:0]; cap(room) <= usual {
		spare.Store(&room)
	}
	t.lines = nil
}

// text is what concerns the lock named, or everything for "", the last lines at most.
func (t *trace) text(lock string, most int) string {
	var kept []string
	for i := len(t.lines) - 1; i >= 0 && len(kept) < most; i-- {
		if e := &t.lines[i]; lock == "" || e.lock == "" || e.lock == lock {
			kept = append(kept, e.String())
		}
	}
	var b strings.Builder
	for i := len(kept) - 1; i >= 0; i-- {
		b.WriteString(kept[i])
		b.WriteByte('\n')
	}
	return b.String()
}

func (e *entry) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%14.6fms ", float64(e.at)/1e6)
	if e.proc >= 0 {
		fmt.Fprintf(&b, "p%d ", e.proc)
	}
	if e.node >= 0 {
		fmt.Fprintf(&b, "n%d ", e.node)
	}
	fmt.Fprintf(&b, "%s %s", e.what, e.lock)
	if e.n != 0 {
		fmt.Fprintf(&b, " %d", e.n)
	}
	if len(e.args) > 0 {
		fmt.Fprintf(&b, " %q", e.args)
	}
	if e.told {
		fmt.Fprintf(&b, " -> %s", spell(e.value))
	}
	if e.err != nil {
		fmt.Fprintf(&b, " ! %v", e.err)
	}
	if e.fate != "" {
		fmt.Fprintf(&b, "   *** %s", e.fate)
	}
	return b.String()
}

// spell is an answer as a reader likes it.
func spell(v driver.Value) string {
	if err := v.Err(); err != nil {
		return "(" + err.Error() + ")"
	}
	if list, err := v.Values(); err == nil {
		parts := make([]string, len(list))
		for i, part := range list {
			parts[i] = spell(part)
		}
		return "[" + strings.Join(parts, " ") + "]"
	}
	if v.IsNil() {
		return "nil"
	}
	text, _ := v.Text()
	return text
}
