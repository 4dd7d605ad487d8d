// Package lua holds the scripts that Redis runs and puts their texts together.
//
// A script is written once for all kinds of lock and both topologies. Its header names the files
// that must stand before it:
//
//	-- needs: counter kind retention     in any case
//	-- quorum: ballot                    on a node of a quorum
//	-- alone: noballot                   on a Redis that decides alone
//
// A word is another file, or one of these:
//
//	kind       the file of the kind of lock, say mutex, which defines the hooks that the scripts call
//	together   what the kind has for many entries of a script at once, say mutex_release_many; else nomany
//	retention  longest   settings, in milliseconds
//
// A file that several others need stands there once, before the first of them. Functions that
// nothing calls are left out, and so are other lines that only define unused names: Redis makes
// every function anew whenever a script runs, which is a good part of its time. A script that
// mostly ends early is parted by a line that begins with "-- below:". Definitions that only the
// text below that line uses stand below it.
//
// For its most frequent case a kind may have a text of its own, say mutex_acquire. It stands before
// the script, answers that case, and leaves all others to the script.
package lua

import (
	"embed"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"
)

// Scripts puts together the scripts for one kind of lock in one topology.
type Scripts struct {
	Kind      string        // the file of the hooks, say mutex
	Hooks     string        // the text of that file, if this package does not have it
	Quorum    bool          // for a node of a quorum, else for a Redis that decides alone
	Retention time.Duration // how long a fencing counter outlives its last grant, 0 for ever
	Longest   time.Duration // quorum: the longest lease that any client may rely on, 0 for no guard
}

// Text returns the whole text of a script, say acquire. It fails if a file is missing.
func (s Scripts) Text(name string) (string, error) {
	l := s.linker(name)
	var body []*piece
	if frequent := s.Kind + "_" + name; l.find(frequent) != nil {
		body = l.load(frequent)
	}
	body = slices.Concat(body, l.load(name))
	end := slices.IndexFunc(body, func(p *piece) bool { return strings.HasPrefix(p.text, below) })
	if end < 0 {
		end = len(body) - 1
	}
	return l.link(body[:end+1], body[end+1:])
}

// Sweep returns the text of sweep, which runs a script, say release, for many entries that are to
// be ended.
func (s Scripts) Sweep(name string) (string, error) { return s.loop("sweep", name) }

// Many returns the text of many, which runs a script, say acquire, for many entries.
func (s Scripts) Many(name string) (string, error) { return s.loop("many", name) }

// Gather returns the text of gather, which runs a script, say acquire, for several entries, all of which or
// one of which are to be granted.
func (s Scripts) Gather(name string) (string, error) { return s.loop("gather", name) }

// loop makes a function, named one, of a script, and puts it before the text over, which calls it
// for each entry. KEYS and ARGV become locals, which over sets before each call.
func (s Scripts) loop(over, name string) (string, error) {
	l := s.linker(name)
	body := []*piece{{text: "local function one()\n"}}
	if script := l.find(name); script != nil && slices.Contains(script.needs[s.Quorum], "rights") {
		body = append(body, l.load("rights")...) // in the function: each entry may be of another lock
	}
	body = slices.Concat(body, l.load(name), []*piece{{text: "end\n"}}, l.load(over))
	text, err := l.link(body, nil)
	return "local KEYS, ARGV = KEYS, ARGV\n" + text, err
}

// linker gathers what stands before a script.
type linker struct {
	Scripts
	script string          // its name
	hooks  *file           // the kind's
	before []*piece        // the pieces of text gathered so far
	loaded map[string]bool // words whose pieces are in before, or in the script's body
	err    error           // a file that is missing
}

// linker returns a linker for a script, which has gathered nothing yet.
func (s Scripts) linker(script string) *linker {
	l := &linker{Scripts: s, script: script, hooks: embedded()[s.Kind], loaded: make(map[string]bool)}
	if s.Hooks != "" {
		l.hooks = parse(s.Hooks)
		l.hooks.findUses(nil)
	}
	return l
}

// find returns the file that a word of a header stands for, see the package comment; nil for none.
func (l *linker) find(word string) *file {
	switch word {
	case "kind":
		return l.hooks
	case "together":
		if own := embedded()[l.Kind+"_"+l.script+"_many"]; own != nil {
			return own
		}
		return embedded()["nomany"]
	case "retention":
		return setting(word, l.Retention)
	case "longest":
		return setting(word, l.Longest)
	}
	return embedded()[word]
}

// setting returns a file that defines a number of milliseconds.
func setting(word string, value time.Duration) *file {
	return &file{pieces: []*piece{{text: fmt.Sprintf("local %s = %d\n", word, value.Milliseconds()), defines: []string{word}}}}
}

// load gathers in before what a word needs and is not there yet. It returns the pieces of the word
// itself.
func (l *linker) load(word string) []*piece {
	own := l.find(word)
	if own == nil {
		l.err = fmt.Errorf("lua: no file %q for the kind of lock %q", word+".lua", l.Kind)
		return nil
	}
	l.loaded[word] = true
	for _, need := range own.needs[l.Quorum] {
		if !l.loaded[need] {
			l.before = append(l.before, l.load(need)...)
		}
	}
	return own.pieces
}

// link returns the text of a script of two parts. Before each part stand the definitions that it
// uses, unless they stand before an earlier part.
func (l *linker) link(head, tail []*piece) (string, error) {
	early := needed(l.before, head)
	late := slices.DeleteFunc(needed(l.before, slices.Concat(head, tail)), func(p *piece) bool { return slices.Contains(early, p) })
	var parts []string
	for _, p := range slices.Concat(early, head, late, tail) {
		parts = append(parts, p.text)
	}
	return strings.Join(parts, ""), l.err
}

// needed returns the pieces of before that must stay: all but unused definitions. A name is defined
// before it is used, so one pass from the end finds all used names.
func needed(before, script []*piece) (kept []*piece) {
	used := make(map[string]bool)
	for i, p := range slices.Backward(slices.Concat(before, script)) {
		ofScript := i >= len(before)
		if ofScript || p.defines == nil || slices.ContainsFunc(p.defines, func(name string) bool { return used[name] }) {
			for _, word := range p.uses {
				used[word] = true
			}
			if !ofScript {
				kept = append(kept, p)
			}
		}
	}
	slices.Reverse(kept)
	return kept
}

// file is a text, taken apart.
type file struct {
	needs  map[bool][]string // the words that its header names, by Scripts.Quorum
	pieces []*piece
}

// piece is a function, a line that defines something else, the line that parts a script, or text
// between them.
type piece struct {
	text    string
	defines []string // names; nil if it defines none
	uses    []string // names that are defined by a piece
}

//go:embed *.lua
var texts embed.FS

// embedded are the files of this package, taken apart once: a client puts a dozen scripts together
// before its first command, most of them from the same files.
var embedded = sync.OnceValue(takeApart)

// takeApart parses all files, and finds which defined names each of them uses. retention and
// longest stand in no file: the linker defines them.
func takeApart() map[string]*file {
	files, defined := make(map[string]*file), map[string]bool{"retention": true, "longest": true}
	entries, err := texts.ReadDir(".")
	for _, entry := range entries {
		text, failure := texts.ReadFile(entry.Name())
		err = errors.Join(err, failure)
		f := parse(string(text))
		for _, p := range f.pieces {
			for _, name := range p.defines {
				defined[name] = true
			}
		}
		files[strings.TrimSuffix(entry.Name(), ".lua")] = f
	}
	if err != nil {
		panic(err) // the files are part of the program
	}
	for _, f := range files {
		f.findUses(defined)
	}
	return files
}

// below begins the line that parts a script.
const below = "-- below: "

// constant matches a line that defines one or several names, and is no function.
var constant = regexp.MustCompile(`^local (\w+(?:, \w+)*)(?: = (?:'[^']*'|[\w.]+|math\..*))?(?: --.*)?\n$`)

// parse takes a text apart. A function ends with the first line that is end and no more.
func parse(text string) *file {
	f := &file{needs: make(map[bool][]string)}
	var function []string // the name of the one that is open
	begun, at := 0, 0
	cut := func(to int, defines []string) {
		if begun < to {
			f.pieces = append(f.pieces, &piece{text[begun:to], defines, nil})
		}
		begun = to
	}
	for line := range strings.Lines(text) {
		word, rest, _ := strings.Cut(line, ": ")
		name, begins := strings.CutPrefix(line, "local function ")
		before, behind := at, at+len(line)
		at = behind
		switch {
		case function != nil:
			if line == "end\n" {
				cut(behind, function)
				function = nil
			}
		case begins:
			cut(before, nil)
			name, _, _ = strings.Cut(name, "(")
			function = []string{name}
		case strings.HasPrefix(line, below):
			cut(before, nil)
			cut(behind, nil)
		case word == "-- needs" || word == "-- quorum" || word == "-- alone":
			for _, quorum := range []bool{false, true} {
				if word == "-- needs" || word == "-- quorum" == quorum {
					f.needs[quorum] = append(f.needs[quorum], strings.Fields(rest)...)
				}
			}
		case strings.HasPrefix(line, "local "):
			if found := constant.FindStringSubmatch(line); found != nil {
				cut(before, nil)
				cut(behind, strings.Split(found[1], ", "))
			}
		}
	}
	cut(len(text), nil)
	return f
}

// findUses finds which defined names the code of each piece uses. With a nil map it takes every
// word. That does no harm: a name that nothing defines keeps nothing.
func (f *file) findUses(defined map[string]bool) {
	for _, p := range f.pieces {
		for line := range strings.Lines(p.text) {
			code, _, _ := strings.Cut(line, "--")
			for word := range strings.FieldsFuncSeq(code, apart) {
				if (defined == nil || defined[word]) && !slices.Contains(p.uses, word) {
					p.uses = append(p.uses, word)
				}
			}
		}
	}
}

// apart reports whether r is between words.
func apart(r rune) bool {
	return r != '_' && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9')
}
