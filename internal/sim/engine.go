package sim

import (
	"fmt"
	"strconv"
	"sync"

	lua "github.com/yuin/gopher-lua"
)

// engine runs scripts in one Lua state, for one server at a time.
type engine struct {
	server   *Server
	version  int                        // of the server
	made     map[*script]*lua.LFunction // what runs each script
	state    *lua.LState
	globals  *lua.LTable
	handler  *lua.LFunction
	line     int           // where the script failed
	argv     []string      // of the command that a script calls
	threads  []*lua.LState // one for each depth of pcall
	depth    int
	statusOK *lua.LTable
}

var stateOptions = lua.Options{
	CallStackSize: 200, RegistrySize: 1 << 10, RegistryMaxSize: 1 << 20, RegistryGrowStep: 1 << 10, SkipOpenLibs: true,
}

// idle are engines that no server uses. A state takes longer to make than a script to run, and all servers of a
// version are served alike: no script leaves anything in one.
var (
	idleMu sync.Mutex
	idle   = map[int][]*engine{}
)

// A state is made by going through maps, whose order is drawn: not in the midst of what is to repeat. One serves all
// servers that one goroutine drives.
func init() { newEngine(&Server{version: 7}).rest() }

// engineOf returns an idle engine, or a new one.
func engineOf(s *Server) *engine {
	idleMu.Lock()
	defer idleMu.Unlock()
	list := idle[s.version]
	if len(list) == 0 {
		return newEngine(s)
	}
	e := list[len(list)-1]
	idle[s.version] = list[:len(list)-1]
	e.server = s
	return e
}

// rest ends the use of an engine.
func (e *engine) rest() {
	idleMu.Lock()
	defer idleMu.Unlock()
	e.server = nil
	idle[e.version] = append(idle[e.version], e)
}

func newEngine(s *Server) *engine {
	e := &engine{server: s, version: s.version, state: lua.NewState(stateOptions), made: map[*script]*lua.LFunction{}}
	e.globals = e.state.Env
	e.openLibraries()
	e.handler = e.state.NewFunction(e.noteLine)
	return e
}

// run runs a script and returns its answer.
func (e *engine) run(s *script, keys, args []string) reply {
	L := e.state
	e.globals.RawSetString("KEYS", e.texts(keys))
	e.globals.RawSetString("ARGV", e.texts(args))
	e.depth = 0
	L.Push(e.function(s))
	if err := L.PCall(0, 1, e.handler); err != nil {
		L.SetTop(0)
		return failure(e.explain(s, broken(err)))
	}
	answer := answerOf(L.Get(-1))
	L.SetTop(0)
	return answer
}

// function is what runs a script.
func (e *engine) function(s *script) *lua.LFunction {
	function := e.made[s]
	if function == nil {
		function = e.state.NewFunctionFromProto(s.proto)
		if s.maker {
			e.state.Push(function)
			e.state.Call(0, 1)
			function = e.state.CheckFunction(-1)
			e.state.SetTop(0)
		}
		e.made[s] = function
	}
	return function
}

// broken returns the value that a script failed with. What is no error of a script is a defect of the simulation.
func broken(err error) lua.LValue {
	failed, ok := err.(*lua.ApiError)
	if !ok || failed.Type == lua.ApiErrorPanic {
		panic(fmt.Sprintf("sim: a script broke its engine: %v", err))
	}
	return failed.Object
}

// noteLine is called where a script fails, while its stack still stands.
func (e *engine) noteLine(L *lua.LState) int {
	e.line = 0
	for level := 1; level <= 2; level++ {
		frame, ok := L.GetStack(level)
		if !ok {
			break
		}
		if _, err := L.GetInfo("Sl", frame, lua.LNil); err == nil && frame.CurrentLine > 0 {
			e.line = frame.CurrentLine
			break
		}
	}
	return 1
}

// explain is the error reply of a script that failed with a value.
func (e *engine) explain(s *script, failed lua.LValue) string {
	text := errorText(failed)
	if e.server.version < 7 {
		return oneLine(fmt.Sprintf("ERR Error running script (call to f_%s): @%s:%d: %s", s.sha, chunkName, e.line, text))
	}
	if _, isTable := failed.(*lua.LTable); !isTable {
		text = "ERR " + text
	}
	return oneLine(text + " script: " + s.sha + ", on @" + chunkName + ":" + strconv.Itoa(e.line) + ".")
}

func errorText(failed lua.LValue) string {
	if table, ok := failed.(*lua.LTable); ok {
		if text, ok := table.RawGetString("err").(lua.LString); ok {
			return cText(string(text))
		}
		return "(null)"
	}
	return cText(spell(failed))
}

func (e *engine) texts(list []string) *lua.LTable {
	table := e.state.CreateTable(len(list), 0)
	for _, text := range list {
		table.Append(lua.LString(text))
	}
	return table
}
