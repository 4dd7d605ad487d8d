package world

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/relock-go/relock/internal/driver"
	"github.com/relock-go/relock/internal/wire"
)

// reader spells a trace for who reads it: clients are called by their process, what they ask for is counted, and what is
// microseconds of a clock becomes milliseconds since the run began.
type reader struct {
	clients map[string]string // label by uuid
	asked   map[string]string // label by acquisition id
	counts  map[string]int    // acquisition ids of a client so far
	lock    string            // that the trace is about, "" for all
}

var (
	ids    = regexp.MustCompile(`([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})(?::(\d+))?`)
	clocks = regexp.MustCompile(`\b9466[6-9]\d{10}\b`)
)

// epoch is when every run begins, in microseconds.
const epoch = 946684800000000

func (w *World) reader() *reader {
	return &reader{clients: w.labels, asked: map[string]string{}, counts: map[string]int{}, lock: w.where}
}

// label calls a client by its process: p1 is the first in the place 1, p1b takes its place.
func (w *World) label(uuid string, index int) {
	label, n := fmt.Sprintf("p%d", index), 0
	for _, other := range w.labels {
		if other == label || strings.HasPrefix(other, label) && len(other) == len(label)+1 && other[len(label)] >= 'b' {
			n++
		}
	}
	if n > 0 {
		label += string(rune('a' + min(n, 25)))
	}
	w.labels[uuid] = label
}

// shorten puts labels of clients in the place of their uuids.
func (w *World) shorten(text string) string {
	if len(text) < 36 {
		return text
	}
	return ids.ReplaceAllStringFunc(text, func(id string) string {
		if label := w.labels[id[:36]]; label != "" {
			return label + id[36:]
		}
		return id
	})
}

// anywhere takes out what a client says of the machine and the process that it runs in, which differs from run to run.
var anywhere = func() *strings.Replacer {
	host, _ := os.Hostname()
	pid := os.Getpid()
	return strings.NewReplacer(fmt.Sprintf(" on %s (pid %d)", host, pid), "", fmt.Sprintf(" host %s pid %d", host, pid), "")
}()

// printed puts a dot in the place of what cannot be read: the ids of Redisson's permits are bytes.
func printed(c rune) rune {
	if c != '\n' && (c == utf8.RuneError || !unicode.IsPrint(c)) {
		return '.'
	}
	return c
}

// short spells ids and times.
func (r *reader) short(text string) string {
	text = strings.Map(printed, anywhere.Replace(text))
	text = ids.ReplaceAllStringFunc(text, func(id string) string {
		client := r.clients[id[:36]]
		switch {
		case client == "":
			return id
		case len(id) == 36:
			return client
		case len(id) < 36+6: // a thread of Redisson's
			return client + id[36:]
		}
		if r.asked[id] == "" {
			r.counts[client]++
			r.asked[id] = client + "." + strconv.Itoa(r.counts[client])
		}
		return r.asked[id]
	})
	return clocks.ReplaceAllStringFunc(text, func(digits string) string {
		n, _ := strconv.ParseInt(digits, 10, 64)
		return fmt.Sprintf("@%.3f", float64(n-epoch)/1000)
	})
}

// parameters are the names of a script's arguments, by their number, as its text tells them: those of its locals, else what
// its header says of ARGV. A number n that many arguments share stands as -n: of renew, for each acquisition.
type parameters map[int]string

var (
	parametersOf sync.Map // of *driver.Script's SHA
	headed       = regexp.MustCompile(`(?m)^-- ARGV\[(3n-)?(\w+)\]\s+(.*)$`)
	assigned     = regexp.MustCompile(`(?m)^(?:local )?([a-z_]+(?:, [a-z_]+)*) = (.*ARGV\[.*)$`)
	taken        = regexp.MustCompile(`^(?:tonumber\()?ARGV\[(\d+)\]`)
	saidShortly  = regexp.MustCompile(`^(.*?)(?:[,:;]|  | that | to | of this |$)`)
)

func parametersIn(s *driver.Script) parameters {
	if known, ok := parametersOf.Load(s.SHA); ok {
		return known.(parameters)
	}
	p := parse(s.Text)
	parametersOf.Store(s.SHA, p)
	return p
}

// parse reads the names in a script's text, in which what it needs stands before the script itself.
func parse(text string) parameters {
	p := parameters{}
	for _, m := range headed.FindAllStringSubmatch(text, -1) {
		said := strings.TrimSpace(saidShortly.FindStringSubmatch(m[3])[1])
		n, err := strconv.Atoi(m[2])
		switch {
		case m[1] != "" && err == nil: // 3n-2, 3n-1
			p[-(3 - n)] = said
		case m[2] == "3n":
			p[-3] = said
		case err == nil && !strings.HasPrefix(said, "'"):
			p[n] = said
		case err == nil:
			p[n] = "" // one of some words, which says itself
		}
	}
	for _, m := range assigned.FindAllStringSubmatch(text, -1) {
		names, values := strings.Split(m[1], ", "), strings.Split(m[2], ", ")
		if len(names) != len(values) {
			continue
		}
		for i, value := range values {
			number := taken.FindStringSubmatch(value)
			if number == nil || names[i] == "width" || names[i] == "entries" || names[i] == "how" || names[i] == "whole" {
				continue
			}
			n, _ := strconv.Atoi(number[1])
			p[n] = names[i]
		}
	}
	return p
}

// arguments spells those of a script: each by its name, but for those left empty, and where messages travel.
func (r *reader) arguments(op string, p parameters, args []string) string {
	keys, err := strconv.Atoi(first(args))
	if err != nil || keys+1 > len(args) {
		return r.short(fmt.Sprintf("%q", args))
	}
	names, values := args[1:1+keys], args[1+keys:]
	named := func(n int, value string) string {
		name := p[n]
		if value == "" || value == "PUBLISH" || strings.HasPrefix(value, "relock_inbox:") || strings.HasPrefix(value, "relock_listen:") {
			return ""
		} else if name == "" {
			return value
		}
		return strings.TrimPrefix(name, "acquisition ") + "=" + value
	}
	spelt := func(from int, values []string) string {
		var said []string
		for i, value := range values {
			if text := named(from+i, value); text != "" {
				said = append(said, text)
			}
		}
		return strings.Join(said, " ")
	}
	switch {
	case op == "renew":
		var each []string
		for i := 0; i+2 < len(values); i += 3 {
			text := fmt.Sprintf("%s %s %s", named(-1, values[i]), named(-2, values[i+1]), named(-3, values[i+2]))
			if len(values) > 3 {
				text = "[" + names[i*len(names)/len(values)] + " " + text + "]"
			}
			each = append(each, text)
		}
		return r.short(strings.Join(each, " "))
	case op == "gather" && len(values) > 1:
		return r.short(values[1]+" of ") + r.arguments("many", p, slices.Concat(args[:1+keys], values[:1], values[2:]))
	case (op == "sweep" || op == "many") && len(values) > 0:
		width, err := strconv.Atoi(values[0])
		if op == "many" && err == nil && width > 0 {
			width = (len(values) - 1) / width
		}
		if err != nil || width <= 0 {
			break
		}
		var each []string
		for part := range slices.Chunk(values[1:], width) {
			each = append(each, "["+names[len(each)*len(names)*width/max(len(values)-1, 1)]+" "+spelt(1, part)+"]")
		}
		return r.short(strings.Join(each, " "))
	}
	return r.short(spelt(1, values))
}

func first(list []string) string {
	if len(list) == 0 {
		return ""
	}
	return list[0]
}

// answered are the parts of an answer that begins with 1 or 0.
var answered = map[string][2][]string{
	"acquire": {{"token", "tokens"}, {"counter", "ticket", "pttl", "holder", "heard", "untold"}},
	"vote": {
		{"number", "lowest", "pttl", "holder", "clock", "tokens"}, {"counter", "lowest", "pttl", "holder", "clock", "tokens", "heard"},
	},
}

// answer spells what a node answered.
func (r *reader) answer(op string, v driver.Value) string {
	list, err := v.Values()
	parts, known := answered[op]
	if v.Err() != nil || err != nil || !known || len(list) < 2 {
		return r.short(spell(v))
	}
	text, said := "GRANTED", parts[0]
	if (answer{list[0]}).number() != 1 {
		text, said = "not granted:", parts[1]
	}
	for i, part := range list[1:] {
		name := ""
		if i < len(said) {
			name = said[i] + "="
		}
		text += " " + name + spell(part)
	}
	return r.short(text)
}

// message spells what is published.
func (r *reader) message(channel, text string) string {
	g, err := wire.ParseGrant(text)
	if err != nil {
		if text == "" {
			return "that it is subscribed to " + r.short(channel)
		}
		return r.short(channel + ": " + text)
	}
	switch {
	case g.Tokens.First > 0 && g.Wanted:
		text = fmt.Sprintf("that %s is given the lock, token=%d, for %v, and others wait", g.ID, g.Tokens.First, g.Lease)
	case g.Tokens.First > 0:
		text = fmt.Sprintf("that %s is given the lock, token=%d, for %v", g.ID, g.Tokens.First, g.Lease)
	case g.Wanted:
		text = "that another wants what " + g.ID + " has"
	case g.Nudge:
		text = "that a lower ticket asks for what " + g.ID + " has"
	default:
		text = "that " + g.ID + " has the lock no more"
	}
	if g.Name != r.lock {
		text += " (" + g.Name + ")"
	}
	return r.short(text)
}

// stamp is a time since the run began, in milliseconds.
func stamp(d time.Duration) string { return fmt.Sprintf("%.3f", float64(d)/1e6) }
