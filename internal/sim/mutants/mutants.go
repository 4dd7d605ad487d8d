// Package mutants has mutants of the library: each takes one mend back, and run.sh looks whether the simulation finds that.
//
// A mutant is a file NAME.mutant. Its head says what it takes back, and where run.sh looks for that. Edits follow:
//
//	# A hold that was lengthened beyond its lease goes on to the next local holder.
//	# scene: lengthened
//	@ . exclusively.mayPass
//	-!_h.term.Lengthened(_now)
//	+true
//
// An edit names where it changes: of Go the package's directory, and a function, a method (type.method), a variable or a
// constant; of Lua the file and, perhaps, a function. The lines below are as those of a diff: what was is with - or a space, what
// comes is with + or a space. They are compared as tokens, so that neither lines nor comments matter. In Go what is replaced is an
// expression, a statement, or some in a row. It must be in one place there.
//
//   - _x stands for one name, the same wherever it occurs: all names of locals and parameters are written so.
//   - ... stands for any tokens, as few as will do, with as many brackets closed as opened.
package mutants

import (
	"bytes"
	"errors"
	"fmt"
	"go/ast"
	"go/format"
	"go/parser"
	"go/scanner"
	"go/token"
	"go/types"
	"io/fs"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
	"unicode"
)

// PlaceError says that what an edit replaces is not in exactly one place.
type PlaceError struct {
	In, Pattern string
	Places      int
}

func (e *PlaceError) Error() string {
	return fmt.Sprintf("%s has %d places, and not one, of:\n%s", e.In, e.Places, e.Pattern)
}

// edit is one change: before becomes after, in a declaration.
type edit struct{ in, before, after string }

// edits reads those of a mutant.
func edits(text string) (all []*edit, err error) {
	for line := range strings.Lines(text) {
		in, begins := strings.CutPrefix(line, "@ ")
		switch {
		case begins:
			all = append(all, &edit{in: strings.TrimSpace(in)})
		case len(all) == 0 && line[0] == '#':
		case len(all) == 0 || !strings.ContainsRune("-+ \n", rune(line[0])):
			return nil, fmt.Errorf("neither of a head nor of an edit: %s", line)
		default:
			e := all[len(all)-1]
			if line[0] != '+' {
				e.before += line[min(1, len(line)-1):]
			}
			if line[0] != '-' {
				e.after += line[min(1, len(line)-1):]
			}
		}
	}
	if len(all) == 0 {
		return nil, errors.New("it changes nothing")
	}
	return all, nil
}

// Apply applies the mutant with that text to a tree of the library, and returns the files that it changes, by their paths.
func Apply(tree fs.FS, text string) (map[string][]byte, error) {
	all, err := edits(text)
	changed := map[string][]byte{}
	read := func(name string) ([]byte, error) {
		if text := changed[name]; text != nil {
			return text, nil
		}
		return fs.ReadFile(tree, name)
	}
	for _, e := range all {
		place, name, _ := strings.Cut(e.in, " ")
		var f *file
		if path.Ext(place) == ".lua" {
			f, err = luaFile(place, name, read)
		} else {
			f, err = goFile(tree, place, name, read)
		}
		if err != nil {
			return nil, err
		}
		text, err := f.edited(e)
		if err == nil && path.Ext(f.path) == ".go" {
			text, err = format.Source(text)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", f.path, err)
		}
		changed[f.path] = text
	}
	return changed, err
}

// file is one that an edit changes: the tokens are those of the declaration that it names. whole reports whether what stands
// between two offsets is a whole of the syntax.
type file struct {
	path   string
	text   []byte
	tokens []word
	lex    func(text []byte) []word
	whole  func(from, to int) bool
}

// word is a token, and where it begins and ends.
type word struct {
	text     string
	from, to int
	name     bool
}

// stands reports whether a token of a pattern stands for a name.
func (w word) stands() bool { return w.name && len(w.text) > 1 && w.text[0] == '_' }

// within returns the tokens between two offsets.
func within(all []word, from, to int) []word {
	return slices.DeleteFunc(all, func(w word) bool { return w.from < from || w.to > to })
}

// edited returns the text with an edit made.
func (f *file) edited(e *edit) ([]byte, error) {
	before := f.lex([]byte(e.before))
	var found *match
	places, from, to := 0, 0, 0
	for i := range f.tokens {
		m := &match{in: f.text, names: map[string]string{}}
		n, ok := m.of(before, f.tokens[i:])
		if !ok || n == 0 || !f.whole(f.tokens[i].from, f.tokens[i+n-1].to) {
			continue
		}
		found, from, to = m, f.tokens[i].from, f.tokens[i+n-1].to
		places++
	}
	if places != 1 {
		return nil, &PlaceError{e.in, e.before, places}
	}
	var becomes string
	last := 0
	for _, w := range f.lex([]byte(e.after)) {
		name, known := found.names[w.text]
		if w.text == "..." && len(found.left) > 0 {
			name, known, found.left = found.left[0], true, found.left[1:]
		} else if w.stands() && !known {
			return nil, fmt.Errorf("%s: what is replaced has no %s", e.in, w.text)
		}
		if known {
			becomes, last = becomes+e.after[last:w.from]+name, w.to
		}
	}
	becomes += strings.TrimSuffix(e.after[last:], "\n")
	line := string(f.text[bytes.LastIndexByte(f.text[:from], '\n')+1 : from])
	indent := line[:len(line)-len(strings.TrimLeft(line, " "))] // what joins the files of Lua goes by it
	return slices.Concat(f.text[:from], []byte(strings.ReplaceAll(becomes, "\n", "\n"+indent)), f.text[to:]), nil
}

// match is what the names of a pattern and each of its ... stand for.
type match struct {
	in    []byte
	names map[string]string
	left  []string
}

// of reports whether text begins as the pattern says, and with how many tokens.
func (m *match) of(pattern, text []word) (n int, ok bool) {
	for n < len(pattern) && pattern[n].text != "..." {
		p := pattern[n]
		if n == len(text) || p.stands() && !text[n].name || !p.stands() && p.text != text[n].text {
			return 0, false
		}
		if p.stands() {
			if before, known := m.names[p.text]; known && before != text[n].text {
				return 0, false
			}
			m.names[p.text] = text[n].text
		}
		n++
	}
	if n == len(pattern) {
		return n, true
	}
	for depth, more := 0, n; depth >= 0; more++ {
		rest := &match{in: m.in, names: maps.Clone(m.names)}
		if behind, ok := rest.of(pattern[n+1:], text[more:]); ok && depth == 0 {
			some := ""
			if more > n {
				some = string(m.in[text[n].from:text[more-1].to])
			}
			m.names, m.left = rest.names, append([]string{some}, rest.left...)
			return more + behind, true
		}
		if more == len(text) {
			break
		}
		switch text[more].text {
		case "(", "[", "{":
			depth++
		case ")", "]", "}":
			depth--
		}
	}
	return 0, false
}

// goFile finds a declaration in the package that is in dir.
func goFile(tree fs.FS, dir, name string, read func(string) ([]byte, error)) (*file, error) {
	paths, err := fs.Glob(tree, path.Join(dir, "*.go"))
	if err != nil {
		return nil, err
	}
	last := name[strings.LastIndex(name, ".")+1:]
	for _, at := range paths {
		text, err := read(at)
		if err != nil {
			return nil, err
		}
		if strings.HasSuffix(at, "_test.go") || !bytes.Contains(text, []byte(last)) {
			continue
		}
		fset := token.NewFileSet()
		parsed, err := parser.ParseFile(fset, at, text, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		for _, d := range parsed.Decls {
			if n := declared(d, name); n != nil {
				f := fset.File(n.Pos())
				whole := func(from, to int) bool { return whole(n, f.Pos(from), f.Pos(to)) }
				return &file{at, text, within(goWords(text), f.Offset(n.Pos()), f.Offset(n.End())), goWords, whole}, nil
			}
		}
	}
	return nil, &PlaceError{In: dir, Pattern: name}
}

// declared returns the declaration of a name, if d is or has that.
func declared(d ast.Decl, name string) ast.Node {
	switch d := d.(type) {
	case *ast.FuncDecl:
		is := d.Name.Name
		if d.Recv != nil {
			of, _, _ := strings.Cut(strings.TrimPrefix(types.ExprString(d.Recv.List[0].Type), "*"), "[")
			is = of + "." + is
		}
		if is == name {
			return d
		}
	case *ast.GenDecl:
		for _, s := range d.Specs {
			if v, ok := s.(*ast.ValueSpec); ok && slices.ContainsFunc(v.Names, func(n *ast.Ident) bool { return n.Name == name }) {
				return v
			}
		}
	}
	return nil
}

// whole reports whether a node begins at from, and ends at to, or another one of the same parent does.
func whole(in ast.Node, from, to token.Pos) (is bool) {
	begun := []bool{false} // of each parent
	ast.Inspect(in, func(n ast.Node) bool {
		last := len(begun) - 1
		if n == nil {
			begun = begun[:last]
			return false
		}
		begun[last] = begun[last] || n.Pos() == from
		is = is || begun[last] && n.End() == to
		begun = append(begun, false)
		return true
	})
	return is
}

// goWords are the tokens of Go, without separators before what closes.
func goWords(text []byte) (all []word) {
	fset := token.NewFileSet()
	var s scanner.Scanner
	f := fset.AddFile("", fset.Base(), len(text))
	s.Init(f, text, func(token.Position, string) {}, 0)
	for {
		pos, tok, lit := s.Scan()
		closes := tok == token.EOF || tok == token.RPAREN || tok == token.RBRACE
		if n := len(all); closes && n > 0 && (all[n-1].text == ";" || all[n-1].text == ",") {
			all = all[:n-1]
		}
		if tok == token.EOF {
			return all
		}
		if lit == "" || tok == token.SEMICOLON {
			lit = tok.String()
		}
		all = append(all, word{lit, f.Offset(pos), f.Offset(pos) + len(lit), tok == token.IDENT})
	}
}

// luaFile finds a function in a file of Lua, or all of it for no name.
func luaFile(at, name string, read func(string) ([]byte, error)) (*file, error) {
	text, err := read(at)
	if err != nil {
		return nil, err
	}
	in := []int{0, len(text)}
	if name != "" {
		in = regexp.MustCompile(`(?ms)^(local )?function ` + name + `\(.*?^end$`).FindIndex(text)
	}
	if in == nil {
		return nil, &PlaceError{In: at, Pattern: name}
	}
	return &file{at, text, within(luaWords(text), in[0], in[1]), luaWords, func(_, _ int) bool { return true }}, nil
}

var luaToken = regexp.MustCompile(`--[^\n]*|'(?:\\.|[^'\\])*'|"(?:\\.|[^"\\])*"|[A-Za-z_]\w*|\d[\w.]*|\.\.\.?|[=~<>]=|\S`)

// luaWords are the tokens of Lua. It has no strings and comments of several lines here.
func luaWords(text []byte) (all []word) {
	for _, at := range luaToken.FindAllIndex(text, -1) {
		if is := string(text[at[0]:at[1]]); !strings.HasPrefix(is, "--") {
			all = append(all, word{is, at[0], at[1], is[0] == '_' || unicode.IsLetter(rune(is[0]))})
		}
	}
	return all
}
