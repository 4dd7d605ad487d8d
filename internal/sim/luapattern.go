package sim

import "strings"

const maxCaptures = 32

// The length of a capture that is no text.
const (
	unclosed = -1
	position = -2
)

type capture struct{ start, size int }

// search is one attempt to match a Lua pattern, which it interprets: nothing is compiled, since the patterns of the
// scripts are short and their subjects too. What is wrong with a pattern panics as a patternError.
type search struct {
	text, pattern string
	captures      [maxCaptures]capture
	level         int
}

type patternError string

// match matches the pattern from p on at s, and returns where the match ends, -1 for none.
func (m *search) match(s, p int) int {
	for p < len(m.pattern) {
		switch m.pattern[p] {
		case '(':
			return m.open(s, p)
		case ')':
			return m.close(s, p)
		case '$':
			if p+1 == len(m.pattern) {
				if s == len(m.text) {
					return s
				}
				return -1
			}
		case '%':
			if special, end, next := m.special(s, p); special {
				if end < 0 {
					return -1
				}
				s, p = end, next
				continue
			}
		}
		next := m.itemEnd(p)
		suffix := byte(0)
		if next < len(m.pattern) {
			suffix = m.pattern[next]
		}
		switch suffix {
		case '?':
			if m.one(s, p, next) {
				if end := m.match(s+1, next+1); end >= 0 {
					return end
				}
			}
			p = next + 1
			continue
		case '*':
			return m.longest(s, p, next, 0)
		case '+':
			return m.longest(s, p, next, 1)
		case '-':
			return m.shortest(s, p, next)
		}
		if !m.one(s, p, next) {
			return -1
		}
		s, p = s+1, next
	}
	return s
}

// special matches %b, %f and %1 at p; done is false for any other %.
func (m *search) special(s, p int) (done bool, end, next int) {
	if p+1 >= len(m.pattern) {
		panic(patternError("malformed pattern (ends with '%')"))
	}
	switch c := m.pattern[p+1]; {
	case c == 'b':
		return true, m.balanced(s, p+2), p + 4
	case c == 'f':
		return m.frontier(s, p+2)
	case '0' <= c && c <= '9':
		return true, m.again(s, c), p + 2
	}
	return false, 0, 0
}

func (m *search) balanced(s, p int) int {
	if p+1 >= len(m.pattern) {
		panic(patternError("unbalanced pattern"))
	}
	if s >= len(m.text) || m.text[s] != m.pattern[p] {
		return -1
	}
	depth := 1
	for i := s + 1; i < len(m.text); i++ {
		switch m.text[i] {
		case m.pattern[p+1]:
			if depth--; depth == 0 {
				return i + 1
			}
		case m.pattern[p]:
			depth++
		}
	}
	return -1
}

func (m *search) frontier(s, p int) (done bool, end, next int) {
	if p >= len(m.pattern) || m.pattern[p] != '[' {
		panic(patternError("missing '[' after '%f' in pattern"))
	}
	next = m.itemEnd(p)
	var before, here byte
	if s > 0 {
		before = m.text[s-1]
	}
	if s < len(m.text) {
		here = m.text[s]
	}
	if m.inSet(before, p, next-1) || !m.inSet(here, p, next-1) {
		return true, -1, next
	}
	return true, s, next
}

// again matches what an earlier capture caught.
func (m *search) again(s int, digit byte) int {
	i := int(digit) - '1'
	if i < 0 || i >= m.level || m.captures[i].size == unclosed {
		panic(patternError("invalid capture index"))
	}
	c := m.captures[i]
	if c.size < 0 || !strings.HasPrefix(m.text[s:], m.text[c.start:c.start+c.size]) {
		return -1
	}
	return s + c.size
}

func (m *search) open(s, p int) int {
	if m.level == maxCaptures {
		panic(patternError("too many captures"))
	}
	size, next := unclosed, p+1
	if next < len(m.pattern) && m.pattern[next] == ')' {
		size, next = position, p+2
	}
	m.captures[m.level] = capture{s, size}
	m.level++
	end := m.match(s, next)
	if end < 0 {
		m.level--
	}
	return end
}

func (m *search) close(s, p int) int {
	i := m.level - 1
	for i >= 0 && m.captures[i].size != unclosed {
		i--
	}
	if i < 0 {
		panic(patternError("invalid pattern capture"))
	}
	m.captures[i].size = s - m.captures[i].start
	end := m.match(s, p+1)
	if end < 0 {
		m.captures[i].size = unclosed
	}
	return end
}

func (m *search) longest(s, p, next, least int) int {
	n := 0
	for m.one(s+n, p, next) {
		n++
	}
	for ; n >= least; n-- {
		if end := m.match(s+n, next+1); end >= 0 {
			return end
		}
	}
	return -1
}

func (m *search) shortest(s, p, next int) int {
	for {
		if end := m.match(s, next+1); end >= 0 {
			return end
		}
		if !m.one(s, p, next) {
			return -1
		}
		s++
	}
}

// itemEnd is where the item that begins at p ends: a byte, a class or a set.
func (m *search) itemEnd(p int) int {
	c := m.pattern[p]
	p++
	switch c {
	case '%':
		if p >= len(m.pattern) {
			panic(patternError("malformed pattern (ends with '%')"))
		}
		return p + 1
	case '[':
		if p < len(m.pattern) && m.pattern[p] == '^' {
			p++
		}
		for first := true; first || p >= len(m.pattern) || m.pattern[p] != ']'; first = false {
			if p >= len(m.pattern) {
				panic(patternError("malformed pattern (missing ']')"))
			}
			if m.pattern[p] == '%' {
				p++
			}
			p++
		}
		return p + 1
	}
	return p
}

// one matches a single byte at s against the item from p to next.
func (m *search) one(s, p, next int) bool {
	if s >= len(m.text) {
		return false
	}
	c := m.text[s]
	switch m.pattern[p] {
	case '.':
		return true
	case '%':
		return inClass(c, m.pattern[p+1])
	case '[':
		return m.inSet(c, p, next-1)
	}
	return m.pattern[p] == c
}

// inSet reports whether c is in the set whose [ is at p and whose ] is at end.
func (m *search) inSet(c byte, p, end int) bool {
	p++
	found := true
	if m.pattern[p] == '^' {
		found = false
		p++
	}
	for p < end {
		switch {
		case m.pattern[p] == '%':
			if inClass(c, m.pattern[p+1]) {
				return found
			}
			p += 2
		case p+2 < end && m.pattern[p+1] == '-':
			if m.pattern[p] <= c && c <= m.pattern[p+2] {
				return found
			}
			p += 3
		default:
			if m.pattern[p] == c {
				return found
			}
			p++
		}
	}
	return !found
}

func inClass(c, class byte) bool {
	letter := 'a' <= c|0x20 && c|0x20 <= 'z'
	digit := '0' <= c && c <= '9'
	var in bool
	switch lower(class) {
	case 'a':
		in = letter
	case 'd':
		in = digit
	case 'l':
		in = 'a' <= c && c <= 'z'
	case 'u':
		in = 'A' <= c && c <= 'Z'
	case 's':
		in = c == ' ' || '\t' <= c && c <= '\r'
	case 'w':
		in = letter || digit
	case 'x':
		in = digit || 'a' <= c|0x20 && c|0x20 <= 'f'
	case 'p':
		in = '!' <= c && c <= '~' && !letter && !digit
	case 'c':
		in = c < ' ' || c == 0x7f
	case 'z':
		in = c == 0
	default:
		return c == class
	}
	return in != (class < 'a')
}
