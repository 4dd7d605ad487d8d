package sim

import (
	"math"
	"strconv"
	"strings"

	lua "github.com/yuin/gopher-lua"
)

// openLibraries defines the globals of scripts. gopher-lua's own functions stand where they do as Lua's.
func (e *engine) openLibraries() {
	L := e.state
	for name, open := range map[string]lua.LGFunction{
		lua.BaseLibName: lua.OpenBase, lua.TabLibName: lua.OpenTable,
		lua.StringLibName: lua.OpenString, lua.MathLibName: lua.OpenMath,
	} {
		L.Push(L.NewFunction(open))
		L.Push(lua.LString(name))
		L.Call(1, 0)
	}
	for _, name := range []string{
		"dofile", "loadfile", "print", "module", "require", "newproxy", "_printregs", "getfenv", "setfenv",
		"load", "loadstring", "_GOPHER_LUA_VERSION", "collectgarbage",
	} {
		e.globals.RawSetString(name, lua.LNil)
	}
	e.define(e.globals, map[string]lua.LGFunction{
		"assert": assert, "pcall": e.pcall, "xpcall": e.xpcall,
		"tostring": tostring, "tonumber": tonumber, concatenation: concat,
	})
	e.define(e.globals.RawGetString("table").(*lua.LTable), map[string]lua.LGFunction{"concat": tableConcat})
	e.define(e.globals.RawGetString("string").(*lua.LTable), map[string]lua.LGFunction{
		"match": stringMatch, "find": stringFind, "gsub": stringGsub, "gmatch": stringGmatch, "format": stringFormat,
		"lower": mapped(lower), "upper": mapped(upper), "dump": nil,
	})
	// Random numbers would be drawn from outside of the simulation.
	e.define(e.globals.RawGetString("math").(*lua.LTable), map[string]lua.LGFunction{"random": nil, "randomseed": nil})
	e.openRedis()
	e.guardGlobals()
}

// define sets functions of a table, or takes them away.
func (e *engine) define(table *lua.LTable, functions map[string]lua.LGFunction) {
	for name, function := range functions {
		if function == nil {
			table.RawSetString(name, lua.LNil)
		} else {
			table.RawSetString(name, e.state.NewFunction(function))
		}
	}
}

// assert adds no place to its message.
func assert(L *lua.LState) int {
	if !lua.LVAsBool(L.CheckAny(1)) {
		L.Error(lua.LString(L.OptString(2, "assertion failed!")), 0)
	}
	return L.GetTop()
}

// guardGlobals refuses globals that are not there.
func (e *engine) guardGlobals() {
	guard := e.state.SetFuncs(e.state.NewTable(), map[string]lua.LGFunction{
		"__index": func(L *lua.LState) int {
			L.RaiseError("Script attempted to access nonexistent global variable '%s'", spell(L.Get(2)))
			return 0
		},
		"__newindex": func(L *lua.LState) int {
			L.RaiseError("Attempt to modify a readonly table")
			return 0
		},
	})
	e.globals.Metatable = guard
}

// pcall runs the function in a thread of its own. In the caller's, an error would detach all variables that closures
// share with the functions that go on. Of an error of redis.call it returns the text, as Redis's own pcall does.
func (e *engine) pcall(L *lua.LState) int {
	L.CheckAny(1)
	if failed := e.protected(L, 2); failed != nil {
		if table, ok := failed.(*lua.LTable); ok {
			if text, ok := table.RawGetString("err").(lua.LString); ok {
				failed = text
			}
		}
		L.Push(lua.LFalse)
		L.Push(failed)
		return 2
	}
	L.Insert(lua.LTrue, 1)
	return L.GetTop()
}

func (e *engine) xpcall(L *lua.LState) int {
	handler := L.CheckFunction(2)
	L.Remove(2)
	failed := e.protected(L, 2)
	if failed == nil {
		L.Insert(lua.LTrue, 1)
		return L.GetTop()
	}
	L.Push(handler)
	L.Push(failed)
	L.Call(1, 1)
	L.Insert(lua.LFalse, 1)
	return 2
}

// protected calls the first value on the stack of L with those from the second on, and leaves the results instead. It
// returns what was raised, with nothing left.
func (e *engine) protected(L *lua.LState, from int) lua.LValue {
	if e.depth == len(e.threads) {
		thread := lua.NewState(stateOptions)
		thread.G, thread.Env = e.state.G, e.state.Env
		e.threads = append(e.threads, thread)
	}
	thread := e.threads[e.depth]
	thread.SetTop(0)
	for i := 1; i <= L.GetTop(); i++ {
		thread.Push(L.Get(i))
	}
	nargs := L.GetTop() - from + 1
	L.SetTop(0)
	e.depth++
	err := thread.PCall(nargs, lua.MultRet, nil)
	e.depth--
	if err != nil {
		return broken(err)
	}
	for i := 1; i <= thread.GetTop(); i++ {
		L.Push(thread.Get(i))
	}
	return nil
}

// spell is tostring of what is no table with a __tostring.
func spell(v lua.LValue) string {
	switch v := v.(type) {
	case lua.LString:
		return string(v)
	case lua.LNumber:
		return formatNumber(float64(v), 14)
	}
	return v.String()
}

func tostring(L *lua.LState) int {
	v := L.CheckAny(1)
	if n, ok := v.(lua.LNumber); ok {
		v = lua.LString(spell(n))
	} else {
		v = L.ToStringMeta(v)
	}
	L.Push(v)
	return 1
}

func tonumber(L *lua.LState) int {
	base := L.OptInt(2, 10)
	v := L.CheckAny(1)
	if text, ok := v.(lua.LString); ok {
		v = lua.LNil
		if n, ok := parseLua(string(text), base); ok {
			v = lua.LNumber(n)
		}
	} else if _, ok := v.(lua.LNumber); !ok {
		v = lua.LNil
	}
	L.Push(v)
	return 1
}

// parseLua reads a number as strtod and strtoul do for Lua, with blanks around it.
func parseLua(text string, base int) (float64, bool) {
	text = strings.Trim(text, " \t\n\v\f\r")
	if base != 10 {
		n, err := strconv.ParseUint(strings.ToLower(text), base, 64)
		return float64(n), err == nil
	}
	if f, ok := parseFloat(text); ok {
		return f, true
	}
	if strings.EqualFold(strings.TrimLeft(text, "+-"), "nan") {
		return math.NaN(), true
	}
	f, err := strconv.ParseFloat(text, 64)
	return f, err != nil && math.IsInf(f, 0) && !strings.Contains(text, "_")
}

// concat is the operator .. of all its arguments.
func concat(L *lua.LState) int {
	n := L.GetTop()
	var parts [8]string
	list := parts[:0]
	for i := 1; i <= n; i++ {
		v := L.Get(i)
		if !lua.LVCanConvToString(v) {
			L.RaiseError("attempt to concatenate a %s value", v.Type().String())
		}
		list = append(list, spell(v))
	}
	L.Push(lua.LString(strings.Join(list, "")))
	return 1
}

func tableConcat(L *lua.LState) int {
	table, separator := L.CheckTable(1), L.OptString(2, "")
	first, last := L.OptInt(3, 1), L.OptInt(4, table.Len())
	var b strings.Builder
	for i := first; i <= last; i++ {
		v := table.RawGetInt(i)
		if !lua.LVCanConvToString(v) {
			L.RaiseError("invalid value (%s) at index %d in table for 'concat'", v.Type().String(), i)
		}
		b.WriteString(spell(v))
		if i != last {
			b.WriteString(separator)
		}
	}
	L.Push(lua.LString(b.String()))
	return 1
}

// mapped is a function of each byte of a string: Lua knows no other letters in Redis's locale.
func mapped(change func(byte) byte) lua.LGFunction {
	return func(L *lua.LState) int {
		text := []byte(textArgument(L, 1))
		for i, c := range text {
			text[i] = change(c)
		}
		L.Push(lua.LString(text))
		return 1
	}
}

func lower(c byte) byte {
	if 'A' <= c && c <= 'Z' {
		c += 'a' - 'A'
	}
	return c
}

func upper(c byte) byte {
	if 'a' <= c && c <= 'z' {
		c -= 'a' - 'A'
	}
	return c
}

// textArgument is an argument that may be a number.
func textArgument(L *lua.LState, n int) string {
	if v, ok := L.Get(n).(lua.LNumber); ok {
		return spell(v)
	}
	return L.CheckString(n)
}
