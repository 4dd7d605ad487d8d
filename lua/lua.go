// Package lua holds the scripts that Redis runs and puts their texts together.
//
// A script is crossed with a kind of lock and with a topology. It names in its header what must stand before it:
//
//	-- needs: counter kind retention     in any case
//	-- quorum: ballot                    on a node of a quorum
//	-- alone: noballot                   on a Redis that decides alone
//
// A word is another file, or kind for the file of the kind of lock, which defines the hooks that the scripts call, or a
// setting: retention or longest. What is needed by several stands there once, before the first of them. Functions that
// nothing calls are left out, and so is each other line that only defines what nothing uses.
//
// Redis makes every function anew whenever a script comes by, which is a good part of its time. So a script that most often
// ends early parts itself by a line that begins with "-- below:", and functions that only what is below calls stand there.
// For the most frequent case of all a kind may have a text of its own, say mutex_acquire, which stands before the script.
package lua

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Scripts puts together the scripts for one kind of lock in one topology.
type Scripts struct {
	Kind      string        // the file that holds the hooks, say mutex
	Hooks     string        // its text where it is none of this package's files
	Quorum    bool          // for a node of a quorum, else for a Redis that decides alone
	Retention time.Duration // how long a fencing counter outlives its last grant, 0 for ever
	Longest   time.Duration // quorum: the longest lease that any client may rely on, 0 for no guard
}

// Text returns the whole text of a script, say acquire. An unknown file, or a cycle of needs, is an error.
func (s Scripts) Text(name string) (string, error) {
	l := s.loader()
	short, err := l.short(name)
	if err != nil {
		return "", err
	}
	body, err := l.enter(name)
	if err != nil {
		return "", err
	}
	if short != nil {
		body = slices.Concat(short, []piece{{text: shortEnds, parts: true}}, body)
	}
	return join(arrange(l.gathered, body)), nil
}

// Sweep returns the text of sweep, which runs the script name for many acquisitions: KEYS and ARGV become locals, which
// its loop sets anew for each of them that survey did not end.
func (s Scripts) Sweep(name string) (string, error) { return s.loop(name, "sweep") }

// Many returns the text of many, which runs the script name for many entries, likewise. What the kind has for the most
// frequent case is the function quick, which finds its keys and arguments among those of all.
func (s Scripts) Many(name string) (string, error) { return s.loop(name, "many") }

// loop wraps a script as the function one. What refuses a lock stands in it: it is to be asked for each of them.
func (s Scripts) loop(name, over string) (string, error) {
	l := s.loader()
	var first []piece
	if own, err := l.read(name); err == nil && slices.Contains(own.needs(s.Quorum), "rights") {
		if first, err = l.enter("rights"); err != nil {
			return "", err
		}
		l.done["rights"] = true
	}
	quick, err := l.survey(name)
	if over == "many" && err == nil {
		var each []piece
		each, err = l.quick(name, first != nil)
		quick = append(quick, each...)
	}
	if err != nil {
		return "", err
	}
	body, err := l.enter(name)
	if err != nil {
		return "", err
	}
	loop, err := l.read(over)
	if err != nil {
		return "", err
	}
	before := pick(l.gathered, needed(l.gathered, quick, first, body))
	return join(one("local KEYS, ARGV = KEYS, ARGV\n"), before, quick, one("local function one()\n"), first, body,
		one("end\n"), loop.pieces), nil
}

// survey returns what the kind has for the most frequent case of a script among many entries, which asks for all of them at
// once (<kind>_<script>_many). Where it has nothing it does nothing.
func (l *loader) survey(name string) ([]piece, error) {
	survey, err := l.short(name + "_many")
	if err != nil {
		return nil, err
	}
	if survey == nil {
		survey = one("local function survey() end\n")
	}
	return embedded().split(indexed(join(survey))), nil
}

// quick returns the kind's own text for the most frequent case of a script as a function for one among many entries, which
// may rely on what survey found.
func (l *loader) quick(name string, asks bool) ([]piece, error) {
	short, err := l.short(name)
	if err != nil {
		return nil, err
	}
	return embedded().split(among(join(short), asks)), nil
}

// eachBegins parts what a short text has once for all entries from what it has for each.
const eachBegins = "-- each:\n"

// surveyed is what a survey tells of an entry, in place of asking for it, and an answer in one word.
var surveyed = strings.NewReplacer(
	"redis.call('EXISTS', KEYS[1], KEYS[2]) == 0", "(known.idle or redis.call('EXISTS', KEYS[1], KEYS[2]) == 0)",
	"  local had = redis.call('GET', KEYS[3])\n", "  local had = known.idle and known.counters[i]\n"+
		"  if had == nil then\n    had = redis.call('GET', KEYS[3])\n  end\n",
	"return said.answer", "return said.tokens")

// among makes a short text the function quick of one among many entries, whose keys stand behind the first k and whose
// arguments, so many as wide, behind the first a. It leaves an entry whose rights are to be asked for to the script.
func among(short string, asks bool) string {
	once, each, _ := strings.Cut(short, eachBegins)
	if asks {
		each = "if (ARGV[9] or '') ~= '' then return end\n" + each
	}
	each = indexed(surveyed.Replace(each))
	return once + "local function quick(keys, args, k, a, wide, known, i)\n" + each + "end\n"
}

// indexed makes a text find its keys and arguments, each named by its number, among those of many entries.
func indexed(text string) string {
	var b strings.Builder
	text = strings.ReplaceAll(text, "KEYS[", "keys[k + ")
	for {
		before, after, found := strings.Cut(text, "ARGV[")
		b.WriteString(before)
		if !found {
			return b.String()
		}
		var n string
		n, text, _ = strings.Cut(after, "]")
		b.WriteString("(wide >= " + n + " and args[a + " + n + "])")
	}
}

// Complete returns a text that is no file with all that its header names put before it.
func (s Scripts) Complete(body string) (string, error) {
	l := s.loader()
	own := embedded().parse(body)
	if err := l.before(own); err != nil {
		return "", err
	}
	return join(arrange(l.gathered, own.pieces)), nil
}

// loader gathers what stands before a script.
type loader struct {
	scripts  Scripts
	read     func(file string) (*source, error)
	path     []string        // the files that are being loaded, each needed by the one before it
	done     map[string]bool // words whose text is there
	gathered []piece
}

func (s Scripts) loader() *loader {
	lib := embedded()
	if s.Hooks != "" {
		lib = lib.with(s.Kind, s.Hooks)
	}
	return &loader{scripts: s, read: lib.read, done: make(map[string]bool)}
}

// enter puts all that a file needs before it, and returns the file's own text.
func (l *loader) enter(file string) ([]piece, error) {
	if slices.Contains(l.path, file) {
		return nil, fmt.Errorf("lua: %s needs itself: %s", file, strings.Join(append(l.path, file), " > "))
	}
	own, err := l.read(file)
	if err != nil {
		return nil, fmt.Errorf("%w (%s)", err, strings.Join(append(l.path, file), " > "))
	}
	l.path = append(l.path, file)
	if err := l.before(own); err != nil {
		return nil, err
	}
	l.path = l.path[:len(l.path)-1]
	return own.pieces, nil
}

// shortEnds parts the kind's own text for the most frequent case from the script.
const shortEnds = "-- below: all other cases\n"

// short returns the kind's own text for the most frequent case of a script, <kind>_<script>; nothing where it has none.
func (l *loader) short(name string) ([]piece, error) {
	file := l.scripts.Kind + "_" + name
	if _, err := l.read(file); err != nil {
		return nil, nil
	}
	return l.enter(file)
}

// before puts all that a file names in its header.
func (l *loader) before(own *source) error {
	for _, word := range own.needs(l.scripts.Quorum) {
		if err := l.put(word); err != nil {
			return err
		}
	}
	return nil
}

// put adds what a word stands for, unless it is there.
func (l *loader) put(word string) error {
	if l.done[word] {
		return nil
	}
	var pieces []piece
	if text, known := l.scripts.setting(word); known {
		pieces = []piece{{text: text, defines: []string{word}}}
	} else {
		file := word
		if word == "kind" {
			file = l.scripts.Kind
		}
		if file == "" {
			return fmt.Errorf("lua: no kind of lock is named (%s)", strings.Join(l.path, " > "))
		}
		var err error
		if pieces, err = l.enter(file); err != nil {
			return err
		}
	}
	l.done[word] = true
	l.gathered = append(l.gathered, pieces...)
	return nil
}

// setting returns the definition of a setting.
func (s Scripts) setting(word string) (text string, known bool) {
	var value time.Duration
	switch word {
	case "retention":
		value = s.Retention
	case "longest":
		value = s.Longest
	default:
		return "", false
	}
	return fmt.Sprintf("local %s = %d\n", word, value.Milliseconds()), true
}

// arrange puts each function no earlier than it is needed.
func arrange(before, body []piece) []piece {
	called := needed(before, body)
	at := slices.IndexFunc(body, func(p piece) bool { return p.parts })
	if at < 0 {
		return slices.Concat(pick(before, called), body)
	}
	early := needed(before, body[:at])
	for i := range called {
		called[i] = called[i] && !early[i]
	}
	return slices.Concat(pick(before, early), body[:at+1], pick(before, called), body[at+1:])
}

// needed tells which pieces to keep before a script: all but the functions that are not called, and other definitions that
// are not used. Each is defined before it is used, so one pass from the end finds them all.
func needed(before []piece, script ...[]piece) []bool {
	called := make(map[string]bool)
	note := func(p piece) {
		for _, name := range p.calls {
			called[name] = true
		}
	}
	for _, pieces := range script {
		for _, p := range pieces {
			note(p)
		}
	}
	kept := make([]bool, len(before))
	for i, p := range slices.Backward(before) {
		used := func(name string) bool { return called[name] }
		if kept[i] = p.defines == nil || slices.ContainsFunc(p.defines, used); kept[i] {
			note(p)
		}
	}
	return kept
}

// pick returns the pieces that are chosen.
func pick(pieces []piece, chosen []bool) (picked []piece) {
	for i, p := range pieces {
		if chosen[i] {
			picked = append(picked, p)
		}
	}
	return picked
}

// one is a text that is a single piece and calls nothing.
func one(text string) []piece { return []piece{{text: text}} }

// join is the text of pieces, one list after the other.
func join(lists ...[]piece) string {
	var texts []string
	for _, pieces := range lists {
		for _, p := range pieces {
			texts = append(texts, p.text)
		}
	}
	return strings.Join(texts, "")
}
