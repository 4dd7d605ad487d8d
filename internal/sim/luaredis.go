package sim

import (
	"crypto/sha1" // what redis.sha1hex is
	"encoding/hex"
	"strconv"
	"strings"

	lua "github.com/yuin/gopher-lua"
)

// openRedis defines the table redis.
func (e *engine) openRedis() {
	functions := map[string]lua.LGFunction{
		"call":               func(L *lua.LState) int { return e.call(L, true) },
		"pcall":              func(L *lua.LState) int { return e.call(L, false) },
		"error_reply":        e.errorReply,
		"status_reply":       e.statusReply,
		"sha1hex":            e.sha1hex,
		"log":                func(*lua.LState) int { return 0 },
		"replicate_commands": func(L *lua.LState) int { L.Push(lua.LTrue); return 1 },
	}
	if e.server.version >= 7 {
		functions["acl_check_cmd"] = e.aclCheck
	}
	table := e.state.SetFuncs(e.state.NewTable(), functions)
	for level, name := range []string{"LOG_DEBUG", "LOG_VERBOSE", "LOG_NOTICE", "LOG_WARNING"} {
		table.RawSetString(name, lua.LNumber(level))
	}
	e.globals.RawSetString("redis", table)
}

// gather takes the arguments of redis.call and its like; problem says why they are none.
func (e *engine) gather(L *lua.LState) (args []string, problem string) {
	args = e.argv[:0]
	for i := 1; i <= L.GetTop(); i++ {
		switch arg := L.Get(i).(type) {
		case lua.LString:
			args = append(args, string(arg))
		case lua.LNumber:
			args = append(args, formatNumber(float64(arg), 17))
		default:
			return nil, "Lua redis lib command arguments must be strings or integers"
		}
	}
	e.argv = args
	if len(args) == 0 {
		return nil, "Please specify at least one argument for this redis lib call"
	}
	return args, ""
}

// call is redis.call, which raises errors, and redis.pcall, which returns them.
func (e *engine) call(L *lua.LState, raise bool) int {
	args, problem := e.gather(L)
	var answer reply
	own := true
	if problem != "" {
		answer = e.server.refusal("ERR "+problem, problem)
	} else {
		answer, own = e.server.fromScript(args)
	}
	if own && e.server.version < 7 {
		answer.s = calledAt(L) + answer.s
	}
	if answer.failed() {
		return e.fail(L, answer.s, raise)
	}
	L.Push(e.lift(answer))
	return 1
}

// fail raises or returns an error: Redis 6 raises a text, Redis 7 the table.
func (e *engine) fail(L *lua.LState, text string, raise bool) int {
	if raise && e.server.version < 7 {
		L.Error(lua.LString(text), 0)
	}
	table := e.single("err", text)
	if raise {
		L.Error(table, 0)
	}
	L.Push(table)
	return 1
}

// calledAt is how Redis 6 opens the errors of its script engine: with where the script called.
func calledAt(L *lua.LState) string {
	line := strings.Trim(strings.TrimPrefix(L.Where(1), chunkName), ": ")
	if line == "" {
		return "=[C]: -1: " // by pcall itself
	}
	return "@" + chunkName + ": " + line + ": "
}

func (e *engine) single(name, text string) *lua.LTable {
	table := e.state.CreateTable(0, 1)
	table.RawSetString(name, lua.LString(text))
	return table
}

// errorReply adds the code ERR to an error that has none, from Redis 7 on.
func (e *engine) errorReply(L *lua.LState) int {
	text, ok := onlyString(L)
	text = cText(text)
	switch {
	case !ok:
		text = "ERR wrong number or type of arguments"
	case e.server.version >= 7:
		text = strings.TrimRight(strings.TrimPrefix(text, "-"), "\r\n")
		if !strings.Contains(text, " ") {
			text = "ERR " + text
		}
	}
	L.Push(e.single("err", text))
	return 1
}

func (e *engine) statusReply(L *lua.LState) int {
	text, ok := onlyString(L)
	if !ok {
		L.Push(e.single("err", "ERR wrong number or type of arguments"))
	} else {
		L.Push(e.single("ok", text))
	}
	return 1
}

// onlyString is the one argument of a function that takes a string and nothing else.
func onlyString(L *lua.LState) (string, bool) {
	text, ok := L.Get(1).(lua.LString)
	return string(text), ok && L.GetTop() == 1
}

func (e *engine) sha1hex(L *lua.LState) int {
	if L.GetTop() != 1 {
		return e.fail(L, "ERR wrong number of arguments", true)
	}
	sum := sha1.Sum([]byte(spell(L.Get(1))))
	L.Push(lua.LString(hex.EncodeToString(sum[:])))
	return 1
}

func (e *engine) aclCheck(L *lua.LState) int {
	args, problem := e.gather(L)
	if problem != "" {
		return e.fail(L, "ERR "+problem, true)
	}
	cmd := e.server.named(args[0])
	if cmd != nil && cmd.subs != nil {
		if len(args) > 1 {
			cmd = cmd.subs[strings.ToLower(args[1])]
		}
	}
	if cmd == nil {
		return e.fail(L, "ERR Invalid command passed to redis.acl_check_cmd()", true)
	}
	L.Push(lua.LBool(e.server.script.conn.user.refuses(cmd, args) == allowed))
	return 1
}

// lift turns an answer into what a script sees.
func (e *engine) lift(r reply) lua.LValue {
	switch r.kind {
	case intReply:
		return number(r.n)
	case bulkReply:
		return lua.LString(r.s)
	case statusReply:
		return e.status(r.s)
	case errorReply:
		return e.single("err", r.s)
	case listReply:
		table := e.state.CreateTable(len(r.list), 0)
		for _, part := range r.list {
			table.Append(e.lift(part))
		}
		return table
	}
	return lua.LFalse
}

// status is a table of a status. The one of OK is made once: no script of the locks changes it, and if one does, it is
// made anew.
func (e *engine) status(text string) *lua.LTable {
	if text != "OK" {
		return e.single("ok", text)
	}
	if e.statusOK == nil || e.statusOK.RawGetString("ok") != lua.LString("OK") {
		e.statusOK = e.single("ok", "OK")
	}
	return e.statusOK
}

var smallNumbers = func() (list [256]lua.LValue) {
	for i := range list {
		list[i] = lua.LNumber(i - 2)
	}
	return list
}()

// number boxes a number, those from -2 to 253 without an allocation.
func number(n int64) lua.LValue {
	if n >= -2 && n < int64(len(smallNumbers))-2 {
		return smallNumbers[n+2]
	}
	return lua.LNumber(n)
}

// answerOf turns what a script returned into its answer.
func answerOf(v lua.LValue) reply {
	switch v := v.(type) {
	case lua.LString:
		return bulk(string(v))
	case lua.LNumber:
		return integer(int64(v))
	case lua.LBool:
		if v {
			return integer(1)
		}
	case *lua.LTable:
		return answerOfTable(v)
	}
	return reply{}
}

func answerOfTable(table *lua.LTable) reply {
	if text, ok := table.RawGetString("err").(lua.LString); ok {
		return failure(oneLine(cText(string(text))))
	}
	if text, ok := table.RawGetString("ok").(lua.LString); ok {
		return status(oneLine(cText(string(text))))
	}
	if n, ok := table.RawGetString("double").(lua.LNumber); ok {
		return bulk(strconv.FormatFloat(float64(n), 'g', 17, 64))
	}
	var list []reply
	for i := 1; ; i++ {
		part := table.RawGetInt(i)
		if part == lua.LNil {
			return listing(list)
		}
		if list == nil {
			list = make([]reply, 0, table.Len())
		}
		list = append(list, answerOf(part))
	}
}
