package relockui

import (
	"bytes"
	"fmt"
	"html"
	"net/url"
)

// The pages are Go code, not templates. text/template finds methods by their names, so in a program with it the linker keeps
// every method of every type: those of rueidis alone made the command 13 MB larger.

// markup is HTML that stands in this package. Only constants become markup by themselves: a string that comes from elsewhere
// does not compile in its place.
type markup string

// sheet is a page, or a part of one, that is being written.
type sheet struct{ text bytes.Buffer }

// put writes markup, with a value for each %s in it. A value is escaped: it is text between tags, and inside of quotes.
func (s *sheet) put(m markup, values ...any) {
	for i, v := range values {
		values[i] = html.EscapeString(fmt.Sprint(v))
	}
	fmt.Fprintf(&s.text, string(m), values...)
}

// either is put without values, of one or the other.
func (s *sheet) either(yes bool, one, other markup) {
	if yes {
		s.put(one)
	} else {
		s.put(other)
	}
}

// linkTo returns the link to a page of one lock.
func linkTo(page, name string) string { return page + "?name=" + url.QueryEscape(name) }
