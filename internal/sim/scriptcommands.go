package sim

import "strings"

func scriptCommands() []*command {
	return []*command{
		{name: "eval", arity: -3, flags: noScript | reads | changes, counted: 2, run: eval},
		{name: "evalsha", arity: -3, flags: noScript | reads | changes, counted: 2, run: evalsha},
		noKeys("script|load", 3, noScript, scriptLoad),
		noKeys("script|exists", -3, noScript, scriptExists),
		noKeys("script|flush", -2, noScript, func(s *Server, _ *Conn, _ []string) reply {
			s.FlushScripts()
			return okReply
		}),
	}
}

// run is one run of a script.
type run struct {
	conn  *Conn
	full  bool // the server was when the script began
	wrote bool // a command that writes was let through: from then on memory is not asked for
}

func eval(s *Server, c *Conn, args []string) reply {
	n, refused := numberOfKeys(args)
	if refused.failed() {
		return refused
	}
	script := compile(args[1])
	if script.failed != "" {
		return failure(script.failed)
	}
	s.scripts[script.sha] = script
	return s.runScript(c, script, args[3:3+n], args[3+n:])
}

func evalsha(s *Server, c *Conn, args []string) reply {
	n, refused := numberOfKeys(args)
	if refused.failed() {
		return refused
	}
	script := s.scripts[args[1]]
	if script == nil {
		script = s.scripts[strings.ToLower(args[1])]
	}
	if script == nil {
		if s.valkey {
			return failure("NOSCRIPT No matching script.")
		}
		return failure("NOSCRIPT No matching script. Please use EVAL.")
	}
	return s.runScript(c, script, args[3:3+n], args[3+n:])
}

func numberOfKeys(args []string) (n int, refused reply) {
	given, ok := parseInt(args[2])
	switch {
	case !ok:
		return 0, notInteger
	case given > int64(len(args)-3):
		return 0, failure("ERR Number of keys can't be greater than number of args")
	case given < 0:
		return 0, failure("ERR Number of keys can't be negative")
	}
	return int(given), reply{}
}

func scriptLoad(s *Server, _ *Conn, args []string) reply {
	script := compile(args[2])
	if script.failed != "" {
		return failure(script.failed)
	}
	s.scripts[script.sha] = script
	return bulk(script.sha)
}

func scriptExists(s *Server, _ *Conn, args []string) reply {
	list := make([]reply, len(args)-2)
	for i, sha := range args[2:] {
		list[i] = flag(s.scripts[sha] != nil)
	}
	return listing(list)
}

func (s *Server) runScript(c *Conn, script *script, keys, args []string) reply {
	s.script = run{conn: c, full: s.full}
	e := engineOf(s)
	answer := e.run(script, keys, args)
	e.rest()
	return answer
}

// fromScript runs a command that a script calls, with the checks in a server's order. own says that the script's engine
// refused it, not the command.
func (s *Server) fromScript(args []string) (answer reply, own bool) {
	cmd, refused := s.find(args)
	switch {
	case cmd == nil && strings.HasPrefix(refused.s, "ERR wrong number"):
		return s.refusal("ERR Wrong number of args calling "+s.redis()+"command from script",
			"Wrong number of args calling Redis command From Lua script"), true
	case cmd == nil && strings.HasPrefix(refused.s, "ERR Unknown subcommand"):
		return refused, false // of Redis 6, whose commands look for it themselves
	case cmd == nil:
		return s.refusal("ERR Unknown "+s.redis()+"command called from script", "Unknown Redis command called from Lua script"), true
	case cmd.flags&noScript != 0:
		return s.refusal("ERR This Redis command is not allowed from script",
			"This Redis command is not allowed from scripts"), true
	}
	u := s.script.conn.user
	if denied := u.refuses(cmd, args); denied != allowed {
		text := denied.inScript(cmd, u, s.version)
		return s.refusal(text, strings.TrimPrefix(text, "ERR ")), true
	}
	switch {
	case cmd.flags&write != 0 && s.master != nil:
		return s.refusal(readOnlyText, "-"+readOnlyText+"\r\n"), true
	case cmd.flags&denyOOM != 0 && s.script.full && !s.script.wrote:
		return s.refusal(oomText, "-"+oomText+"\r\n"), true
	}
	s.script.wrote = s.script.wrote || cmd.flags&write != 0
	return cmd.run(s, s.script.conn, args), false
}

// redis is how the server calls its own commands in the texts of scripts' errors.
func (s *Server) redis() string {
	if s.valkey {
		return ""
	}
	return "Redis "
}

// refusal is an error in the words of the server's version.
func (s *Server) refusal(seven, six string) reply {
	if s.version < 7 {
		return failure(six)
	}
	return failure(seven)
}
