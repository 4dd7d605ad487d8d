package world

import (
	"fmt"
	"slices"
	"strconv"
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
	trip  int        // counts commands and messages, 0 for what is neither: what belongs together has one
	names parameters // of args
}

// trace is what happened, in order. The world's mutex guards it.
type trace struct {
	start time.Time
	lines []entry
	trips int
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

// trip is the next number of a command or a message.
func (t *trace) trip() int {
	t.trips++
	return t.trips
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

// violated begins the entry that a trace ends with.
const violated = "VIOLATION "

// text is what concerns the lock of the reader, or everything for "", until it was violated what is demanded; the last lines
// at most. A command or a message that nothing happened to is one line, where it ran or was heard.
func (t *trace) text(r *reader, most int) string {
	lines := t.lines
	if end := slices.IndexFunc(lines, func(e entry) bool { return strings.HasPrefix(e.what, violated) }); end >= 0 {
		lines = lines[:end+1]
	}
	trips := map[int][]int{}
	for i := range lines {
		if trip := lines[i].trip; trip > 0 {
			trips[trip] = append(trips[trip], i)
		}
	}
	var kept []string
	for i := range lines {
		e := &lines[i]
		trip := trips[e.trip]
		if !r.concerns(e) {
			continue
		}
		switch main, during := smooth(lines, trip); {
		case main >= 0 && lines[main].unknown(): // it is sent again with its text
		case main < 0:
			kept = append(kept, r.line(e, ""))
		case main == i:
			kept = append(kept, r.line(e, during))
		}
	}
	kept = kept[max(0, len(kept)-most):]
	return strings.Join(append(kept, ""), "\n")
}

// smooth finds the entry that stands for all of a trip that nothing happened to, and when the others were; -1 for none.
func smooth(lines []entry, trip []int) (main int, during string) {
	for _, i := range trip {
		if lines[i].fate != "" || lines[i].err != nil {
			return -1, ""
		}
	}
	at := func(i int) string { return stamp(lines[i].at) }
	switch {
	case len(trip) == 3 && strings.HasPrefix(lines[trip[1]].what, "runs "):
		return trip[1], "   [sent " + at(trip[0]) + ", heard " + at(trip[2]) + "]"
	case len(trip) == 2 && lines[trip[0]].what == "is sent":
		return trip[1], "   [sent " + at(trip[0]) + "]"
	}
	return -1, ""
}

// unknown reports whether a server did not know a script.
func (e *entry) unknown() bool {
	return e.told && e.value.Err() != nil && strings.HasPrefix(e.value.Err().Error(), "NOSCRIPT")
}

// concerns reports whether a reader of one lock's trace needs an entry. What a client asks its nodes before its first lock
// belongs to none, and what it is subscribed to belongs to all.
func (r *reader) concerns(e *entry) bool {
	switch {
	case r.lock != "" && e.what == "hears" && e.args[1] == "":
		return false // that it is subscribed, beside the command's answer
	case r.lock == "" || e.lock == r.lock || e.trip == 0 && e.lock == "" && e.what != "listens":
		return true
	case strings.HasSuffix(e.what, "SUBSCRIBE"):
		return strings.HasPrefix(e.lock, "relock_inbox:") || lockOf(e.lock, "") == r.lock
	}
	return e.lock == "" && e.fate != "" && e.what != "is sent"
}

// widest is how long a line may be before its answer gets one of its own.
const widest = 120

// line spells one entry.
func (r *reader) line(e *entry, during string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%11s  ", stamp(e.at))
	if e.proc >= 0 {
		fmt.Fprintf(&b, "p%d ", e.proc)
	}
	if e.node >= 0 {
		fmt.Fprintf(&b, "n%d ", e.node)
	}
	b.WriteString(r.short(e.what))
	if e.lock != r.lock && e.lock != "" {
		b.WriteString(" " + r.short(e.lock))
	}
	if e.n > epoch/2 {
		b.WriteString(" token=" + r.short(strconv.FormatInt(e.n, 10)))
	} else if e.n != 0 {
		fmt.Fprintf(&b, " %d", e.n)
	}
	op := e.what[strings.LastIndexByte(e.what, ' ')+1:]
	switch {
	case len(e.args) == 0:
	case e.what == "is sent", e.what == "hears":
		b.WriteString(" " + r.message(e.args[0], e.args[1]))
	case strings.HasSuffix(op, "SUBSCRIBE"):
		b.WriteString(" " + r.short(strings.Join(e.args, " ")))
	default:
		b.WriteString(strings.TrimRight(" "+r.arguments(op, e.names, e.args), " "))
	}
	if e.told && (e.value.Err() != nil || !strings.HasSuffix(op, "SUBSCRIBE")) {
		answer := " -> " + strings.TrimSpace(r.answer(op, e.value))
		if b.Len()+len(answer)+len(during) > widest {
			answer, during = during+"\n              "+answer, ""
		}
		b.WriteString(answer)
	}
	if e.err != nil {
		fmt.Fprintf(&b, " ! %s", r.short(e.err.Error()))
	}
	b.WriteString(during)
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
