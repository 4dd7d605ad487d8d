package sim

import (
	"strings"

	lua "github.com/yuin/gopher-lua"
)

// next finds the first match at or behind from. The search then holds its captures.
func (m *search) next(from int) (start, end int) {
	pattern := m.pattern
	anchored := strings.HasPrefix(pattern, "^")
	if anchored {
		m.pattern = pattern[1:]
		defer func() { m.pattern = pattern }()
	}
	for s := from; s <= len(m.text); s++ {
		m.level = 0
		if end := m.match(s, 0); end >= 0 {
			return s, end
		}
		if anchored {
			break
		}
	}
	return -1, -1
}

// raisePattern turns what is wrong with a pattern into an error of the script.
func raisePattern(L *lua.LState) {
	if failed := recover(); failed != nil {
		wrong, ok := failed.(patternError)
		if !ok {
			panic(failed)
		}
		L.RaiseError("%s", string(wrong))
	}
}

// capture is the i-th capture, of a match from start to end that may have none: then it is the whole.
func (m *search) capture(i, start, end int) lua.LValue {
	if i >= m.level {
		if i > 0 {
			panic(patternError("invalid capture index"))
		}
		return lua.LString(m.text[start:end])
	}
	switch c := m.captures[i]; c.size {
	case unclosed:
		panic(patternError("unfinished capture"))
	case position:
		return number(int64(c.start) + 1)
	default:
		return lua.LString(m.text[c.start : c.start+c.size])
	}
}

// push pushes all captures, or the whole match where there are none and whole is wanted.
func (m *search) push(L *lua.LState, start, end int, whole bool) int {
	n := m.level
	if n == 0 && whole {
		n = 1
	}
	for i := range n {
		L.Push(m.capture(i, start, end))
	}
	return n
}

// from is the offset that the optional argument n asks for.
func from(L *lua.LState, n int, text string) int {
	at := L.OptInt(n, 1)
	switch {
	case at > 0:
		return min(at-1, len(text))
	case at < 0:
		return max(0, len(text)+at)
	}
	return 0
}

func stringMatch(L *lua.LState) int {
	defer raisePattern(L)
	m := search{text: textArgument(L, 1), pattern: textArgument(L, 2)}
	start, end := m.next(from(L, 3, m.text))
	if start < 0 {
		L.Push(lua.LNil)
		return 1
	}
	return m.push(L, start, end, true)
}

func stringFind(L *lua.LState) int {
	defer raisePattern(L)
	m := search{text: textArgument(L, 1), pattern: textArgument(L, 2)}
	offset := from(L, 3, m.text)
	var start, end int
	if lua.LVAsBool(L.Get(4)) || !strings.ContainsAny(m.pattern, "^$*+?.([%-") {
		if start = strings.Index(m.text[offset:], m.pattern); start >= 0 {
			start += offset
			end = start + len(m.pattern)
		}
	} else {
		start, end = m.next(offset)
	}
	if start < 0 {
		L.Push(lua.LNil)
		return 1
	}
	L.Push(number(int64(start) + 1))
	L.Push(number(int64(end)))
	return 2 + m.push(L, start, end, false)
}

func stringGmatch(L *lua.LState) int {
	text, pattern := textArgument(L, 1), textArgument(L, 2)
	at := 0
	L.Push(L.NewFunction(func(L *lua.LState) int {
		defer raisePattern(L)
		m := search{text: text, pattern: pattern}
		for ; at <= len(text); at++ {
			m.level = 0
			if end := m.match(at, 0); end >= 0 {
				start := at
				at = max(end, start+1)
				return m.push(L, start, end, true)
			}
		}
		L.Push(lua.LNil)
		return 1
	}))
	return 1
}

func stringGsub(L *lua.LState) int {
	defer raisePattern(L)
	m := search{text: textArgument(L, 1), pattern: textArgument(L, 2)}
	L.CheckTypes(3, lua.LTString, lua.LTNumber, lua.LTTable, lua.LTFunction)
	limit := L.OptInt(4, len(m.text)+1)
	pattern, anchored := strings.CutPrefix(m.pattern, "^")
	m.pattern = pattern
	var b strings.Builder
	done, at := 0, 0
	for done < limit {
		m.level = 0
		end := m.match(at, 0)
		if end >= 0 {
			done++
			b.WriteString(m.substitute(L, at, end))
		}
		switch {
		case end > at:
			at = end
		case at < len(m.text):
			b.WriteByte(m.text[at])
			at++
		default:
			at++
		}
		if at > len(m.text) || anchored {
			break
		}
	}
	if at < len(m.text) {
		b.WriteString(m.text[at:])
	}
	L.Push(lua.LString(b.String()))
	L.Push(number(int64(done)))
	return 2
}

// substitute is what stands for one match in the result of string.gsub.
func (m *search) substitute(L *lua.LState, start, end int) string {
	var v lua.LValue
	switch by := L.Get(3).(type) {
	case *lua.LTable:
		v = L.GetTable(by, m.capture(0, start, end))
	case *lua.LFunction:
		L.Push(by)
		L.Call(m.push(L, start, end, true), 1)
		v = L.Get(-1)
		L.Pop(1)
	default:
		return m.expand(textArgument(L, 3), start, end)
	}
	switch {
	case lua.LVIsFalse(v):
		return m.text[start:end]
	case !lua.LVCanConvToString(v):
		L.RaiseError("invalid replacement value (a %s)", v.Type().String())
	}
	return spell(v)
}

// expand replaces %0 to %9 in the text that stands for a match.
func (m *search) expand(by string, start, end int) string {
	if !strings.Contains(by, "%") {
		return by
	}
	var b strings.Builder
	for i := 0; i < len(by); i++ {
		switch {
		case by[i] != '%' || i+1 == len(by):
			b.WriteByte(by[i])
			continue
		case by[i+1] == '0':
			b.WriteString(m.text[start:end])
		case '1' <= by[i+1] && by[i+1] <= '9':
			b.WriteString(spell(m.capture(int(by[i+1]-'1'), start, end)))
		default:
			b.WriteByte(by[i+1])
		}
		i++
	}
	return b.String()
}
