package sim

import (
	"crypto/sha1" // what EVALSHA takes
	"encoding/hex"
	"strings"
	"sync"

	lua "github.com/yuin/gopher-lua"
	"github.com/yuin/gopher-lua/ast"
	"github.com/yuin/gopher-lua/parse"
)

// script is a compiled text. It is never changed, so that all servers share it.
type script struct {
	sha    string
	proto  *lua.FunctionProto
	maker  bool   // it returns the function that is the script
	failed string // the answer to a text that is no script
}

// compiled keeps scripts by their text: the locks send a dozen of them, millions of times.
var compiled sync.Map

// chunkName is what Redis calls every script in errors.
const chunkName = "user_script"

func compile(text string) *script {
	if known, ok := compiled.Load(text); ok {
		return known.(*script)
	}
	sum := sha1.Sum([]byte(text))
	made := &script{sha: hex.EncodeToString(sum[:])}
	chunk, err := parse.Parse(strings.NewReader(text), chunkName)
	if err == nil {
		rewrite(chunk)
		made.proto, err = lua.Compile(chunk, chunkName)
	}
	if err == nil {
		made.hoist(chunk)
	}
	if err != nil {
		made.failed = "ERR Error compiling script (new function): " + oneLine(err.Error())
	}
	compiled.Store(text, made)
	return made
}

// hoist has the script's functions made once, where that can be.
func (s *script) hoist(chunk []ast.Stmt) {
	if better := hoisted(chunk); better != nil {
		if proto, err := lua.Compile(better, chunkName); err == nil {
			s.proto, s.maker = proto, true
		}
	}
}

// oneLine is how Redis keeps line ends out of an error.
func oneLine(text string) string {
	if !strings.ContainsAny(text, "\r\n") {
		return text
	}
	return strings.NewReplacer("\r", " ", "\n", " ").Replace(text)
}

// cText is what is left of a text that passes through C: all before the first zero.
func cText(text string) string {
	text, _, _ = strings.Cut(text, "\x00")
	return text
}
