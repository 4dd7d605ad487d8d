package sim

import (
	"strings"
	"testing"
	"time"

	lua "github.com/yuin/gopher-lua"
	"github.com/yuin/gopher-lua/parse"

	scripts "github.com/relock-go/relock/lua"
	"github.com/stretchr/testify/require"
)

// plain compiles a script as it stands.
func plain(t *testing.T, text string) *script {
	chunk, err := parse.Parse(strings.NewReader(text), chunkName)
	require.NoError(t, err)
	rewrite(chunk)
	proto, err := lua.Compile(chunk, chunkName)
	require.NoError(t, err)
	return &script{sha: compile(text).sha, proto: proto}
}

// chunks are scripts that may make their functions once, or may not.
var chunks = []struct {
	text  string
	maker bool
}{
	{"local n\nlocal function next() n = (n or 0) + 1 return n end\nnext() return next()", true},
	{"local list = {}\nlocal function add(x) list[#list + 1] = x return add end\nadd(1)(2) return list", true},
	{"local a, b = ARGV[1]\nlocal function both() return {tostring(a), tostring(b)} end\nb = 'later' return both()", true},
	{"local function f(x) if x > 3 then return x end return f(x + 1) end\nif f(1) == 4 then return f(9) end return 0", true},
	{"local x = 1\nlocal function f() local x = 2 do local f = 3 end return x end\nreturn {f(), x}", true},
	{"local function f()\n  error('here')\nend\nlocal x = 1\nf()", true},
	{"local function f(x) return x.y end\nlocal x = nil\n\nreturn f(x)", true},
	{"local function f(...) return select('#', ...) end\nreturn f(1, 2, 3)", true},
	{"local function f() return 1 end\nlocal g = f\nf = function() return 2 end\nreturn {f(), g()}", false},
	{"local KEYS = KEYS\nlocal function f() return KEYS[1] end\nKEYS = {'own'}\nreturn f()", true},
	{"local function f() return later end\nlocal later = 1\nreturn f()", true},
	{"local x = 1\nlocal function f() return x end\nlocal x = x + 1\nreturn {f(), x}", true},
	{"local function f() return 1 end\nlocal g = f\nlocal function f() return 2 end\nreturn {f(), g()}", true},
	{"local function f() return 1 end\nreturn {f(), ...}", false},
	{"local x = 1\nreturn x", false},
}

// TestFunctionsMadeOnce runs scripts three times, with their functions made once and as they stand.
func TestFunctionsMadeOnce(t *testing.T) {
	s := newWorld().server("a")
	c := s.Open("", "", nil, nil)
	for _, chunk := range chunks {
		require.Equal(t, chunk.maker, compile(chunk.text).maker, chunk.text)
		stands := plain(t, chunk.text)
		for range 3 {
			want := s.runScript(c, stands, []string{"k"}, []string{"a", "b"})
			require.Equal(t, want, s.runScript(c, compile(chunk.text), []string{"k"}, []string{"a", "b"}), chunk.text)
		}
	}
}

// TestLockScriptsAreFast demands of the scripts that are sent most that their functions are made once.
func TestLockScriptsAreFast(t *testing.T) {
	alone := scripts.Scripts{Kind: "mutex", Retention: time.Hour}
	quorum := scripts.Scripts{Kind: "mutex", Quorum: true, Retention: time.Hour, Longest: time.Minute}
	for name, set := range map[string]scripts.Scripts{"acquire": alone, "release": alone, "vote": quorum, "unvote": quorum} {
		text, err := set.Text(name)
		require.NoError(t, err)
		require.True(t, compile(text).maker, name)
	}
	sweep, err := alone.Sweep("release")
	require.NoError(t, err)
	require.True(t, compile(sweep).maker)
}
