package lua

import (
	"embed"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"
)

//go:embed *.lua
var files embed.FS

// library is all files, each taken apart once: a client puts a dozen scripts together before its first command, most of
// them from the same files.
type library struct {
	sources map[string]*source
	names   map[string]bool // that any file defines outside of functions
}

// source is a file taken apart.
type source struct {
	alone, quorum []string // the words that its header names, in their order
	pieces        []piece
}

// piece is a function, a line that defines something else, the line that parts a script, or what
// stands between them.
type piece struct {
	text    string
	defines []string // names, none for what defines nothing
	parts   bool     // it is the line
	calls   []string // the names defined outside of functions that it names
}

// embedded is the files of this package.
var embedded = sync.OnceValue(takeApart)

func takeApart() *library {
	entries, err := files.ReadDir(".")
	if err != nil {
		panic(err) // the directory is part of the program
	}
	lib := &library{sources: make(map[string]*source, len(entries)), names: map[string]bool{"retention": true, "longest": true}}
	texts := make(map[string]string, len(entries))
	for _, entry := range entries {
		text, err := files.ReadFile(entry.Name())
		if err != nil {
			panic(err)
		}
		texts[strings.TrimSuffix(entry.Name(), ".lua")] = string(text)
		lib.define(string(text))
	}
	for file, text := range texts {
		lib.sources[file] = lib.parse(text)
	}
	return lib
}

// with returns the library with one file more.
func (lib *library) with(file, text string) *library {
	more := &library{sources: maps.Clone(lib.sources), names: maps.Clone(lib.names)}
	more.define(text)
	more.sources[file] = more.parse(text)
	return more
}

func (lib *library) read(file string) (*source, error) {
	if own, known := lib.sources[file]; known {
		return own, nil
	}
	return nil, fmt.Errorf("lua: no file %q", file+".lua")
}

func (lib *library) parse(text string) *source {
	return &source{alone: needs(text, false), quorum: needs(text, true), pieces: lib.split(text)}
}

func (s *source) needs(quorum bool) []string {
	if quorum {
		return s.quorum
	}
	return s.alone
}

// define notes the names that a text defines outside of functions.
func (lib *library) define(text string) {
	for line := range strings.Lines(text) {
		for _, name := range append(defines(line), opens(line)...) {
			lib.names[name] = true
		}
	}
}

// constant is a line that defines something for others, and all there is to that.
var constant = regexp.MustCompile(`^local (\w+(?:, \w+)*)(?: = (?:'[^']*'|[\w.]+|math\..*))?(?: --.*)?\n?$`)

// defines returns the names that a line defines which is no function's, none where it goes on.
func defines(line string) []string {
	if found := constant.FindStringSubmatch(line); found != nil && !strings.HasPrefix(line, "local function ") {
		return strings.Split(found[1], ", ")
	}
	return nil
}

// opens returns the name of the function that a line begins, nothing for none.
func opens(line string) []string {
	if rest, begins := strings.CutPrefix(line, "local function "); begins {
		name, _, _ := strings.Cut(rest, "(")
		return []string{name}
	}
	return nil
}

// split takes a text apart. A function ends with the first line that is end and no more.
func (lib *library) split(text string) (pieces []piece) {
	add := func(p piece) {
		if p.text != "" {
			p.calls = lib.calls(p.text)
			pieces = append(pieces, p)
		}
	}
	begun, at := 0, 0
	for at < len(text) {
		line, _, _ := strings.Cut(text[at:], "\n")
		size, p := min(len(line)+1, len(text)-at), piece{defines: opens(line), parts: strings.HasPrefix(line, "-- below: ")}
		if p.defines == nil {
			p.defines = defines(line)
		} else {
			const end = "\nend\n"
			_, behind, _ := strings.Cut(text[at:], end)
			size = len(text) - at - len(behind)
		}
		if p.defines != nil || p.parts {
			add(piece{text: text[begun:at]})
			p.text = text[at : at+size]
			add(p)
			begun = at + size
		}
		at += size
	}
	add(piece{text: text[begun:]})
	return pieces
}

// calls returns the names of others that a text names, but for what its comments name.
func (lib *library) calls(text string) (names []string) {
	for line := range strings.Lines(text) {
		code, _, _ := strings.Cut(line, "--")
		for word := range strings.FieldsFuncSeq(code, parted) {
			if lib.names[word] && !slices.Contains(names, word) {
				names = append(names, word)
			}
		}
	}
	return names
}

// parted tells what stands between two words.
func parted(r rune) bool {
	return (r < 'a' || r > 'z') && r != '_' && (r < 'A' || r > 'Z') && (r < '0' || r > '9')
}

// needs returns the words that a text names in its header, in their order.
func needs(text string, quorum bool) (words []string) {
	for line := range strings.Lines(text) {
		line, remark := strings.CutPrefix(line, "--")
		if !remark {
			break
		}
		when, named, _ := strings.Cut(line, ": ")
		if when == " needs" || when == " quorum" && quorum || when == " alone" && !quorum {
			words = append(words, strings.Fields(named)...)
		}
	}
	return words
}
