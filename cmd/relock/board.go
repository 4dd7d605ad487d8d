package main

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/relock-go/relock/internal/operator"
	"github.com/relock-go/relock/internal/wire"
)

// board is what relock top shows. It uses neither Redis nor the terminal. One goroutine calls its
// methods.
type board struct {
	where  string
	locks  []operator.Sighting // as last seen, by name
	shown  []operator.Sighting // those that match the filter, sorted
	order  operator.Order
	filter string
	typing bool               // keys go to the filter
	asked  *operator.Sighting // the lock to free if the user answers yes
	cursor int                // index in shown
	top    int                // index in shown of the first row on the screen
	height int                // rows of locks on the screen
	note   string
	broken string             // why the last look failed
	looked time.Time          // when the last look began
	took   time.Duration      // duration of the last look at all locks
	rates  map[string]float64 // hand-overs a second, by name
	rate   float64            // of all locks
}

// weight is the last look's share in a rate, a moving average.
const weight = 0.3

// see takes in the result of a look that began at the time at: all locks, or new states of some.
func (b *board) see(seen []operator.Sighting, all bool, at time.Time, took time.Duration) {
	last := make(map[string]int, len(b.locks))
	for i := range b.locks {
		last[b.locks[i].Names.Name] = i
	}
	elapsed := at.Sub(b.looked).Seconds()
	if b.looked.IsZero() || elapsed <= 0 {
		elapsed = 1
	}
	rates, sum := make(map[string]float64), 0.
	for i := range seen {
		name := seen[i].Names.Name
		before, known := last[name]
		now := 0.
		if known {
			now = float64(seen[i].Fresh(&b.locks[before])) / elapsed
		}
		sum += now
		if rate := (1-weight)*b.rates[name] + weight*now; rate > 0.01 {
			rates[name] = rate
		}
		if !all && known {
			b.locks[before] = seen[i]
		}
	}
	if all {
		b.locks, b.took, b.rates = seen, took, rates
	} else {
		for i := range seen {
			b.rates[seen[i].Names.Name] = rates[seen[i].Names.Name]
		}
	}
	b.rate, b.looked = (1-weight)*b.rate+weight*sum, at
	b.arrange()
}

// arrange filters and sorts the locks. The cursor stays on its lock.
func (b *board) arrange() {
	on := ""
	if b.cursor < len(b.shown) {
		on = b.shown[b.cursor].Names.Name
	}
	b.shown = b.shown[:0:0]
	for _, s := range b.locks {
		if strings.Contains(s.Names.Name, b.filter) || strings.Contains(s.Holder, b.filter) ||
			strings.Contains(s.By.String(), b.filter) {
			b.shown = append(b.shown, s)
		}
	}
	slices.SortStableFunc(b.shown, b.order.Compare)
	if at := slices.IndexFunc(b.shown, func(s operator.Sighting) bool { return s.Names.Name == on }); at >= 0 && b.cursor > 0 {
		b.cursor = at
	}
	b.move(0)
}

// move moves the cursor, and the screen with it.
func (b *board) move(by int) {
	b.cursor = max(0, min(b.cursor+by, len(b.shown)-1))
	if b.cursor < b.top {
		b.top = b.cursor
	}
	if b.cursor >= b.top+b.height {
		b.top = b.cursor - b.height + 1
	}
	b.top = max(0, min(b.top, len(b.shown)-b.height))
}

// visible returns the locks on the screen.
func (b *board) visible() []*wire.Names {
	var names []*wire.Names
	for _, s := range b.shown[b.top:min(len(b.shown), b.top+b.height)] {
		names = append(names, s.Names)
	}
	return names
}

// wish is what live is to do for a key, since the board cannot.
type wish int

const (
	wishNothing wish = iota
	wishQuit
	wishForce // free the lock asked about
)

// Keys that are not characters.
const (
	keyUp, keyDown, keyPageUp, keyPageDown, keyHome, keyEnd = "up", "down", "pgup", "pgdn", "home", "end"
	keyEnter, keyEscape, keyBackspace, keyBreak             = "enter", "esc", "bs", "break"
)

// key handles a key: a character, or one of the names above.
func (b *board) key(key string) wish {
	switch {
	case key == keyBreak:
		return wishQuit
	case b.asked != nil:
		return b.answer(key)
	case b.typing:
		b.typed(key)
		return wishNothing
	}
	b.note = ""
	switch key {
	case "q":
		return wishQuit
	case keyEscape:
		b.filter = ""
		b.arrange()
	case "w":
		b.sort(operator.ByWaiters)
	case "a":
		b.sort(operator.ByAge)
	case "n":
		b.sort(operator.ByName)
	case "/":
		b.typing = true
	case "f":
		if b.cursor < len(b.shown) {
			asked := b.shown[b.cursor]
			b.asked = &asked
		}
	default:
		b.move(b.step(key))
	}
	return wishNothing
}

func (b *board) sort(by operator.Order) {
	b.order, b.cursor, b.top = by, 0, 0
	b.arrange()
}

// step returns how far a key moves the cursor.
func (b *board) step(key string) int {
	switch key {
	case keyUp, "k":
		return -1
	case keyDown, "j":
		return 1
	case keyPageUp:
		return -b.height
	case keyPageDown:
		return b.height
	case keyHome, "g":
		return -len(b.shown)
	case keyEnd, "G":
		return len(b.shown)
	}
	return 0
}

// answer handles the key that answers the question.
func (b *board) answer(key string) wish {
	if key == "y" || key == "Y" {
		return wishForce
	}
	b.note, b.asked = fmt.Sprintf("%q was left as it is", b.asked.Names.Name), nil
	return wishNothing
}

// typed handles a key while the user types the filter.
func (b *board) typed(key string) {
	switch key {
	case keyEnter:
		b.typing = false
	case keyEscape:
		b.typing, b.filter = false, ""
	case keyBackspace:
		if runes := []rune(b.filter); len(runes) > 0 {
			b.filter = string(runes[:len(runes)-1])
		}
	default:
		if len([]rune(key)) == 1 {
			b.filter += key
		}
	}
	b.arrange()
}

// title returns the first line: how many locks and waiters there are.
func (b *board) title() string {
	if b.looked.IsZero() {
		return "relock top  " + b.where + "  looking ..."
	}
	contended, waiters, longest := 0, 0, time.Duration(0)
	for _, s := range b.locks {
		if s.Waiters > 0 {
			contended++
		}
		waiters, longest = waiters+s.Waiters, max(longest, s.Longest)
	}
	text := fmt.Sprintf("relock top  %s  %d locks", b.where, len(b.locks))
	if waiters > 0 {
		text += fmt.Sprintf(", %d waiters on %d of them, the longest for %s", waiters, contended, operator.Short(longest))
	}
	return text
}

// status returns the line below the title: a question, the filter, news, or how the locks are sorted.
func (b *board) status() string {
	switch {
	case b.asked != nil:
		return question(b.asked)
	case b.typing:
		return "filter: " + operator.Plain(b.filter) + "_"
	case b.broken != "":
		return b.broken
	case b.note != "":
		return b.note
	}
	text := "by " + string(b.order)
	if b.filter != "" {
		text += fmt.Sprintf(", %d with %q", len(b.shown), b.filter)
	}
	return text + fmt.Sprintf("   hand-overs seen: %.1f/s   a look takes %v", b.rate, b.took.Round(time.Millisecond))
}

// help is the last line.
const help = "q quit  w waiters  a age  n name  / filter  f free  arrows PgUp PgDn"

// columns returns the texts of a row, or of the header if s is nil.
func (b *board) columns(s *operator.Sighting) []string {
	if s == nil {
		return []string{"WAITERS", "LONGEST", "AGE", "TTL", "SEEN/s", "NAME", "HOLDER"}
	}
	rate := "-"
	if r := b.rates[s.Names.Name]; r > 0 {
		rate = fmt.Sprintf("%.1f", r)
	}
	numbers := []string{fmt.Sprint(s.Waiters), s.WaitText(), s.AgeText(), s.TTLText(), rate}
	return append(numbers, operator.Plain(s.Names.Name), s.HolderText())
}
