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
// nothing calls are left out.
//
// Redis makes every function anew whenever a script comes by, which is a good part of its time. So a script that most often
// ends early parts itself by a line that begins with "-- below:", and functions that only what is below calls stand there.
// For the most frequent case of all a kind may have a text of its own, say mutex_acquire, which stands before the script.
package lua

import (
	"embed"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"
)

//go:embed *.lua
var files embed.FS

// Scripts puts together the scripts for one kind of lock in one topology.
type Scripts struct {
	Kind      string        // the file that holds the hooks, say mutex
	Quorum    bool          // for a node of a quorum, else for a Redis that decides alone
	Retention time.Duration // how long a fencing counter outlives its last grant, 0 for ever
	Longest   time.Duration // quorum: the longest lease anybody may rely on, 0 for no guard
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
	if short != "" {
		short += shortEnds
	}
	return arrange(l.text.String(), short+body), nil
}

// Sweep returns the text of sweep, which runs the script name for many acquisitions: KEYS and ARGV become locals, which
// its loop sets anew for each of them.
func (s Scripts) Sweep(name string) (string, error) { return s.loop(name, "sweep") }

// Many returns the text of many, which runs the script name for many entries, likewise. What the kind has for the most
// frequent case is the function quick, which finds its keys and arguments among those of all.
func (s Scripts) Many(name string) (string, error) { return s.loop(name, "many") }

// loop wraps a script as the function one. What refuses a lock stands in it: it is to be asked for each of them.
func (s Scripts) loop(name, over string) (string, error) {
	l := s.loader()
	first := ""
	if own, err := l.read(name); err == nil && slices.Contains(needs(own, s.Quorum), "rights") {
		if first, err = l.enter("rights"); err != nil {
			return "", err
		}
		l.done["rights"] = true
	}
	quick := ""
	if over == "many" {
		var err error
		if quick, err = l.quick(name, first != ""); err != nil {
			return "", err
		}
	}
	body, err := l.enter(name)
	if err != nil {
		return "", err
	}
	loop, err := read(over)
	if err != nil {
		return "", err
	}
	before := prune(l.text.String(), quick+body)
	return "local KEYS, ARGV = KEYS, ARGV\n" + before + quick + "local function one()\n" + first + body + "end\n" + loop, nil
}

// quick returns what the kind has for the most frequent case of a script among many entries: survey, which asks for all of
// them at once (<kind>_<script>_many), and quick for each. Where it has nothing they do nothing.
func (l *loader) quick(name string, asks bool) (string, error) {
	short, err := l.short(name)
	if err != nil {
		return "", err
	}
	survey, err := l.short(name + "_many")
	if err != nil {
		return "", err
	}
	if survey == "" {
		survey = "local function survey() end\n"
	}
	return indexed(survey) + among(short, asks), nil
}

// eachBegins parts what a short text has once for all entries from what it has for each.
const eachBegins = "-- each:\n"

// surveyed is what a survey tells of an entry, in place of asking for it, and an answer in one word.
var surveyed = strings.NewReplacer(
	"redis.call('EXISTS', KEYS[1], KEYS[2]) == 0", "(known.idle or redis.call('EXISTS', KEYS[1], KEYS[2]) == 0)",
	"redis.call('GET', KEYS[3])", "(known.idle and known.counters[i] or redis.call('GET', KEYS[3]))",
	"return said.answer", "return said.tokens")

var place = regexp.MustCompile(`(KEYS|ARGV)\[(\d+)\]`)

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

// indexed makes a text find its keys and arguments among those of many entries.
func indexed(text string) string {
	return place.ReplaceAllStringFunc(text, func(at string) string {
		word, n := at[:len("KEYS")], at[len("KEYS["):len(at)-1]
		if word == "KEYS" {
			return "keys[k + " + n + "]"
		}
		return "(wide >= " + n + " and args[a + " + n + "])"
	})
}

// Complete returns a text that is no file with all that its header names put before it.
func (s Scripts) Complete(body string) (string, error) {
	l := s.loader()
	if err := l.before(body); err != nil {
		return "", err
	}
	return arrange(l.text.String(), body), nil
}

// loader gathers what stands before a script.
type loader struct {
	scripts Scripts
	read    func(file string) (string, error)
	path    []string        // the files that are being loaded, each needed by the one before it
	done    map[string]bool // words whose text is there
	text    strings.Builder
}

func (s Scripts) loader() *loader {
	return &loader{scripts: s, read: read, done: make(map[string]bool)}
}

// enter puts all that a file needs before it, and returns the file's own text.
func (l *loader) enter(file string) (string, error) {
	if slices.Contains(l.path, file) {
		return "", fmt.Errorf("lua: %s needs itself: %s", file, strings.Join(append(l.path, file), " > "))
	}
	text, err := l.read(file)
	if err != nil {
		return "", fmt.Errorf("%w (%s)", err, strings.Join(append(l.path, file), " > "))
	}
	l.path = append(l.path, file)
	if err := l.before(text); err != nil {
		return "", err
	}
	l.path = l.path[:len(l.path)-1]
	return text, nil
}

// shortEnds parts the kind's own text for the most frequent case from the script.
const shortEnds = "-- below: all other cases\n"

// short returns the kind's own text for the most frequent case of a script, <kind>_<script>; nothing where it has none.
func (l *loader) short(name string) (string, error) {
	file := l.scripts.Kind + "_" + name
	if _, err := l.read(file); err != nil {
		return "", nil
	}
	return l.enter(file)
}

// before puts all that a text names in its header.
func (l *loader) before(text string) error {
	for _, word := range needs(text, l.scripts.Quorum) {
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
	text, known := l.scripts.setting(word)
	if !known {
		file := word
		if word == "kind" {
			file = l.scripts.Kind
		}
		if file == "" {
			return fmt.Errorf("lua: no kind of lock is named (%s)", strings.Join(l.path, " > "))
		}
		var err error
		if text, err = l.enter(file); err != nil {
			return err
		}
	}
	l.done[word] = true
	l.text.WriteString(text)
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

var (
	function = regexp.MustCompile(`(?ms)^local function (\w+)\(.*?^end\n`)
	remark   = regexp.MustCompile(`--.*`)
	word     = regexp.MustCompile(`\w+`)
)

var below = regexp.MustCompile(`(?m)^-- below: .*\n`)

// arrange puts each function no earlier than it is needed.
func arrange(before, body string) string {
	called := prune(before, body)
	at := below.FindStringIndex(body)
	if at == nil {
		return called + body
	}
	head := prune(before, body[:at[0]])
	var later strings.Builder
	for _, fn := range function.FindAllString(called, -1) {
		if !strings.Contains(head, fn) {
			later.WriteString(fn)
		}
	}
	return head + body[:at[1]] + later.String() + body[at[1]:]
}

// prune leaves out the functions that are not called. A function is defined before it is called, so one pass from the end
// finds them all.
func prune(before, body string) string {
	called := make(map[string]bool)
	note := func(code string) {
		for _, name := range word.FindAllString(remark.ReplaceAllString(code, ""), -1) {
			called[name] = true
		}
	}
	note(body)
	end := len(before)
	var kept []string
	for _, at := range slices.Backward(function.FindAllStringSubmatchIndex(before, -1)) {
		note(before[at[1]:end])
		kept = append(kept, before[at[1]:end])
		if called[before[at[2]:at[3]]] {
			note(before[at[0]:at[1]])
			kept = append(kept, before[at[0]:at[1]])
		}
		end = at[0]
	}
	kept = append(kept, before[:end])
	slices.Reverse(kept)
	return strings.Join(kept, "")
}

var needsLine = regexp.MustCompile(`(?m)^-- (needs|quorum|alone): (.*)$`)

// needs returns the words that a file names, in their order.
func needs(text string, quorum bool) (words []string) {
	header, _ := cutHeader(text)
	for _, line := range needsLine.FindAllStringSubmatch(header, -1) {
		if line[1] == "quorum" && !quorum || line[1] == "alone" && quorum {
			continue
		}
		words = append(words, strings.Fields(line[2])...)
	}
	return words
}

// cutHeader parts the comment that a file opens with from the rest.
func cutHeader(text string) (header, body string) {
	lines := strings.SplitAfter(text, "\n")
	end := slices.IndexFunc(lines, func(line string) bool { return !strings.HasPrefix(line, "--") })
	if end < 0 {
		return text, ""
	}
	return strings.Join(lines[:end], ""), strings.Join(lines[end:], "")
}

func read(file string) (string, error) {
	text, err := files.ReadFile(file + ".lua")
	if err != nil {
		return "", fmt.Errorf("lua: no file %q", file+".lua")
	}
	return string(text), nil
}
