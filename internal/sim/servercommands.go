package sim

import (
	"fmt"
	"slices"
	"sort"
	"strconv"
	"strings"
)

func serverCommands() []*command {
	list := []*command{
		noKeys("ping", -1, 0, ping),
		noKeys("echo", 2, 0, func(_ *Server, _ *Conn, args []string) reply { return bulk(args[1]) }),
		noKeys("select", 2, whileLoading, selectDatabase),
		noKeys("time", 1, whileLoading, func(s *Server, _ *Conn, _ []string) reply {
			return listed(bulk(strconv.FormatInt(s.at/1e6, 10)), bulk(strconv.FormatInt(s.at%1e6, 10)))
		}),
		noKeys("info", -1, whileLoading, info),
		noKeys("role", 1, noScript|whileLoading, role),
		noKeys("hello", -1, noScript|noAuth|whileLoading, hello),
		noKeys("auth", -2, noScript|noAuth|whileLoading, auth),
		noKeys("acl|setuser", -3, noScript|whileLoading, setUser),
		noKeys("acl|deluser", -3, noScript|whileLoading, delUser),
		noKeys("acl|users", 2, noScript|whileLoading, listUsers),
		noKeys("acl|whoami", 2, noScript|whileLoading, func(_ *Server, c *Conn, _ []string) reply {
			return bulk(c.user.name)
		}),
	}
	return append(list, clientCommands()...)
}

func clientCommands() []*command {
	return []*command{
		noKeys("client|id", 2, noScript|whileLoading, func(_ *Server, c *Conn, _ []string) reply { return integer(c.id) }),
		noKeys("client|getname", 2, noScript|whileLoading, func(_ *Server, c *Conn, _ []string) reply {
			return optional(c.name, c.name != "")
		}),
		noKeys("client|setname", 3, noScript|whileLoading, func(_ *Server, c *Conn, args []string) reply {
			c.name = args[2]
			return okReply
		}),
		noKeys("client|no-evict", 3, noScript|whileLoading, func(*Server, *Conn, []string) reply { return okReply }),
		noKeys("client|kill", -3, noScript|whileLoading, kill),
	}
}

func ping(_ *Server, _ *Conn, args []string) reply {
	switch len(args) {
	case 1:
		return status("PONG")
	case 2:
		return bulk(args[1])
	}
	return wrongArity("ping")
}

func selectDatabase(_ *Server, _ *Conn, args []string) reply {
	switch n, ok := parseInt(args[1]); {
	case !ok:
		return failure("ERR value is not an integer or out of range")
	case n != 0:
		return failure("ERR DB index is out of range")
	}
	return okReply
}

func (s *Server) versionText() string {
	switch {
	case s.version < 7:
		return "6.2.14"
	case s.valkey:
		return "7.2.4" // what it says that it is compatible with
	case s.version >= 8:
		return "8.2.3"
	}
	return "7.0.15"
}

// info has the few lines that the locks and their tests read.
func info(s *Server, _ *Conn, args []string) reply {
	var b strings.Builder
	wanted := func(section string) bool {
		return len(args) < 2 || slices.ContainsFunc(args[1:], func(arg string) bool {
			arg = strings.ToLower(arg)
			return arg == section || arg == "all" || arg == "default" || arg == "everything"
		})
	}
	if wanted("server") {
		fmt.Fprintf(&b, "# Server\r\nredis_version:%s\r\nredis_mode:standalone\r\nrun_id:%s\r\n", s.versionText(), s.runID)
	}
	if wanted("replication") {
		if b.Len() > 0 {
			b.WriteString("\r\n")
		}
		if s.master == nil {
			fmt.Fprintf(&b, "# Replication\r\nrole:master\r\nconnected_slaves:%d\r\n", len(s.replicas))
		} else {
			fmt.Fprintf(&b, "# Replication\r\nrole:slave\r\nmaster_host:%s\r\nslave_read_only:1\r\n", s.master.name)
		}
	}
	return bulk(b.String())
}

func role(s *Server, _ *Conn, _ []string) reply {
	if s.master == nil {
		return listed(bulk("master"), integer(0), listing(nil))
	}
	return listed(bulk("slave"), bulk(s.master.name), integer(0), bulk("connected"), integer(0))
}

func hello(s *Server, c *Conn, args []string) reply {
	protocol := int64(2)
	if len(args) > 1 {
		var ok bool
		if protocol, ok = parseInt(args[1]); !ok {
			return failure("ERR Protocol version is not an integer or out of range")
		}
		if protocol != 2 && protocol != 3 {
			return failure("NOPROTO unsupported protocol version")
		}
	}
	for i := 2; i < len(args); i++ {
		switch option := strings.ToUpper(args[i]); {
		case option == "AUTH" && i+2 < len(args):
			if refused := s.login(c, args[i+1], args[i+2]); refused.failed() {
				return refused
			}
			i += 2
		case option == "SETNAME" && i+1 < len(args):
			i++
			c.name = args[i]
		default:
			return failure("ERR Syntax error in HELLO option '" + args[i] + "'")
		}
	}
	if c.user == nil {
		return failure("NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO <proto> " +
			"AUTH <user> <pass> option can be used to authenticate the client and select the RESP protocol version " +
			"at the same time")
	}
	part := "master"
	if s.master != nil {
		part = "replica"
	}
	return listed(bulk("server"), bulk("redis"), bulk("version"), bulk(s.versionText()), bulk("proto"), integer(protocol),
		bulk("id"), integer(c.id), bulk("mode"), bulk("standalone"), bulk("role"), bulk(part), bulk("modules"), listing(nil))
}

func auth(s *Server, c *Conn, args []string) reply {
	switch len(args) {
	case 2:
		if s.users[defaultUser].open {
			return failure("ERR AUTH <password> called without any password configured for the default user. " +
				"Are you sure your configuration is correct?")
		}
		return s.login(c, defaultUser, args[1])
	case 3:
		return s.login(c, args[1], args[2])
	}
	return syntaxError
}

func (s *Server) login(c *Conn, name, password string) reply {
	u := s.users[name]
	if u == nil || !u.enabled || !u.open && !slices.Contains(u.passwords, password) {
		return failure("WRONGPASS invalid username-password pair or user is disabled.")
	}
	c.user = u
	return okReply
}

func setUser(s *Server, _ *Conn, args []string) reply {
	name := args[2]
	changed := &user{name: name}
	if had := s.users[name]; had != nil {
		*changed = *had
		changed.keys, changed.channels = slices.Clone(had.keys), slices.Clone(had.channels)
		changed.orders, changed.passwords = slices.Clone(had.orders), slices.Clone(had.passwords)
	}
	changed.settle()
	for _, word := range args[3:] {
		if !changed.rule(word) {
			return failure("ERR Error in ACL SETUSER modifier '" + word + "': Syntax error")
		}
	}
	if had := s.users[name]; had != nil {
		*had = *changed
	} else {
		s.users[name] = changed
	}
	return okReply
}

func delUser(s *Server, _ *Conn, args []string) reply {
	n := int64(0)
	for _, name := range args[2:] {
		u := s.users[name]
		switch {
		case name == defaultUser:
			return failure("ERR The 'default' user cannot be removed")
		case u == nil:
			continue
		}
		delete(s.users, name)
		n++
		for _, c := range slices.Clone(s.conns) {
			if c.user == u {
				s.drop(c, ErrKilled)
			}
		}
	}
	return integer(n)
}

func listUsers(s *Server, _ *Conn, _ []string) reply {
	var names []string
	for name := range s.users {
		names = append(names, name)
	}
	sort.Strings(names)
	return bulks(names)
}

// kill is CLIENT KILL with the filters ID, TYPE and USER.
func kill(s *Server, c *Conn, args []string) reply {
	if len(args) < 4 || len(args)%2 != 0 {
		return syntaxError
	}
	n, me := int64(0), true
	for _, other := range slices.Clone(s.conns) {
		hit := true
		for i := 2; i < len(args); i += 2 {
			switch strings.ToUpper(args[i]) {
			case "ID":
				hit = hit && args[i+1] == strconv.FormatInt(other.id, 10)
			case "TYPE":
				hit = hit && (strings.EqualFold(args[i+1], "pubsub") == (plainCount(other)+len(other.subs.shards) > 0))
			case "USER":
				hit = hit && other.user != nil && args[i+1] == other.user.name
			case "SKIPME":
				me = strings.EqualFold(args[i+1], "yes")
			default:
				return syntaxError
			}
		}
		if hit && (other != c || !me) {
			n++
			s.drop(other, ErrKilled)
		}
	}
	return integer(n)
}
