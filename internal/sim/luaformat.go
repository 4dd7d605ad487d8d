package sim

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	lua "github.com/yuin/gopher-lua"
)

// stringFormat is string.format with C's meaning of the verbs.
func stringFormat(L *lua.LState) int {
	layout := textArgument(L, 1)
	if layout == "%.0f" { // how the locks spell their numbers
		if n := float64(L.CheckNumber(2)); n == math.Trunc(n) && math.Abs(n) < 1<<62 {
			L.Push(lua.LString(strconv.FormatInt(int64(n), 10)))
			return 1
		}
	}
	var b strings.Builder
	next := 2
	for layout != "" {
		plain, rest, found := strings.Cut(layout, "%")
		b.WriteString(plain)
		if !found {
			break
		}
		if strings.HasPrefix(rest, "%") {
			b.WriteByte('%')
			layout = rest[1:]
			continue
		}
		end := strings.IndexFunc(rest, func(r rune) bool { return !strings.ContainsRune("-+ #0123456789.", r) })
		if end < 0 {
			L.RaiseError("invalid option '%%' to 'format'")
		}
		formatOne(L, &b, rest[:end], rest[end], next)
		layout, next = rest[end+1:], next+1
	}
	L.Push(lua.LString(b.String()))
	return 1
}

func formatOne(L *lua.LState, b *strings.Builder, how string, verb byte, arg int) {
	switch verb {
	case 'c':
		b.WriteByte(byte(L.CheckNumber(arg)))
	case 'd', 'i':
		fmt.Fprintf(b, "%"+how+"d", int64(L.CheckNumber(arg)))
	case 'u':
		fmt.Fprintf(b, "%"+how+"d", uint64(int64(L.CheckNumber(arg))))
	case 'o', 'x', 'X':
		fmt.Fprintf(b, "%"+how+string(verb), uint64(int64(L.CheckNumber(arg))))
	case 'e', 'E', 'f', 'g', 'G':
		if !strings.Contains(how, ".") {
			how += ".6"
		}
		formatFloat(b, how, verb, float64(L.CheckNumber(arg)))
	case 'q':
		quote(b, textArgument(L, arg))
	case 's':
		fmt.Fprintf(b, "%"+how+"s", cText(textArgument(L, arg)))
	default:
		L.RaiseError("invalid option '%%%s' to 'format'", string(verb))
	}
}

func formatFloat(b *strings.Builder, how string, verb byte, f float64) {
	if !math.IsInf(f, 0) && !math.IsNaN(f) {
		fmt.Fprintf(b, "%"+how+string(verb), f)
		return
	}
	width, _, _ := strings.Cut(strings.ReplaceAll(how, "0", ""), ".")
	fmt.Fprintf(b, "%"+width+"s", formatNumber(f, 6))
}

func quote(b *strings.Builder, text string) {
	b.WriteByte('"')
	for i := range len(text) {
		switch c := text[i]; c {
		case '"', '\\', '\n':
			b.WriteByte('\\')
			b.WriteByte(c)
		case '\r':
			b.WriteString(`\r`)
		case 0:
			b.WriteString(`\000`)
		default:
			b.WriteByte(c)
		}
	}
	b.WriteByte('"')
}
