package sim

import (
	"strconv"
	"strings"
)

type flags uint16

const (
	write flags = 1 << iota
	denyOOM
	noScript
	whileLoading
	noAuth
	reads   // what it names as keys
	changes // what it names as keys
	onChannels
	onPatterns
	since7
)

// command is one entry of the table.
type command struct {
	name  string // lower case; a subcommand is "script|load"
	arity int    // as Redis counts: at least -arity where it is negative
	flags flags
	// the keys are the arguments first to last in steps; a negative last counts from the end. counted is where the
	// number of keys stands that follow it.
	first, last, step, counted int

	run  func(s *Server, c *Conn, args []string) reply
	subs map[string]*command
}

// commands is the table, by name in both cases.
var commands map[string]*command

func init() {
	commands = map[string]*command{}
	for _, list := range [][]*command{
		keyCommands(), stringCommands(), hashCommands(), zsetCommands(), scriptCommands(), pubsubCommands(), serverCommands(),
	} {
		for _, cmd := range list {
			enter(cmd)
		}
	}
}

func enter(cmd *command) {
	name, sub, nested := strings.Cut(cmd.name, "|")
	if !nested {
		commands[name], commands[strings.ToUpper(name)] = cmd, cmd
		return
	}
	parent := commands[name]
	if parent == nil {
		parent = &command{name: name, arity: -2, subs: map[string]*command{}}
		enter(parent)
	}
	parent.subs[sub] = cmd
}

// oneKey is a command whose first argument is its key.
func oneKey(name string, arity int, f flags, run func(*Server, *Conn, []string) reply) *command {
	return &command{name: name, arity: arity, flags: f, first: 1, last: 1, step: 1, run: run}
}

// noKeys is a command without keys.
func noKeys(name string, arity int, f flags, run func(*Server, *Conn, []string) reply) *command {
	return &command{name: name, arity: arity, flags: f, run: run}
}

// keyNames calls visit with each key of a call of the command, until it returns false.
func (cmd *command) keyNames(args []string, visit func(key string) bool) {
	first, last, step := cmd.first, cmd.last, cmd.step
	if cmd.counted > 0 {
		n, err := strconv.Atoi(args[cmd.counted])
		if err != nil || n < 1 || cmd.counted+n >= len(args) {
			return
		}
		first, last, step = cmd.counted+1, cmd.counted+n, 1
	}
	if first == 0 {
		return
	}
	if last < 0 {
		last += len(args)
	}
	for i := first; i <= last && i < len(args); i += step {
		if !visit(args[i]) {
			return
		}
	}
}

// find returns the command that args call, or why there is none.
func (s *Server) find(args []string) (*command, reply) {
	if len(args) == 0 {
		return nil, failure("ERR unknown command '', with args beginning with: ")
	}
	cmd := s.named(args[0])
	if cmd == nil {
		return nil, s.unknown(args)
	}
	if cmd.subs != nil && len(args) > 1 {
		sub := cmd.subs[strings.ToLower(args[1])]
		if sub == nil || sub.flags&since7 != 0 && s.version < 7 {
			help := "'" + args[1] + "'. Try " + strings.ToUpper(cmd.name) + " HELP."
			return nil, s.refusal("ERR unknown subcommand "+help, "ERR Unknown subcommand or wrong number of arguments for "+help)
		}
		cmd = sub
	}
	if !cmd.takes(len(args)) {
		return nil, wrongArity(cmd.name)
	}
	return cmd, reply{}
}

// named looks a command up by its name alone.
func (s *Server) named(name string) *command {
	cmd := commands[name]
	if cmd == nil {
		cmd = commands[strings.ToLower(name)]
	}
	if cmd == nil || cmd.flags&since7 != 0 && s.version < 7 {
		return nil
	}
	return cmd
}

func (cmd *command) takes(arguments int) bool {
	return arguments == cmd.arity || cmd.arity < 0 && arguments >= -cmd.arity
}

// unknown is the refusal of a command that is not there, with what of its arguments fits in 128 bytes.
func (s *Server) unknown(args []string) reply {
	open, end, next := "'", "'", "' "
	if s.version < 7 {
		open, end, next = "`", "`", "`, "
	}
	var told strings.Builder
	for _, arg := range args[1:] {
		if told.Len() >= 128 {
			break
		}
		arg = arg[:min(len(arg), 128-told.Len())]
		arg, _, _ = strings.Cut(arg, "\x00") // as C ends a string
		told.WriteString(open + arg + next)
	}
	name := args[0][:min(len(args[0]), 128)]
	return failure(oneLine("ERR unknown command " + open + name + end + ", with args beginning with: " + told.String()))
}
