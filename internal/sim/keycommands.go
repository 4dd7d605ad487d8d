package sim

import (
	"math"
	"strconv"
	"strings"
)

func keyCommands() []*command {
	many := func(name string, f flags, run func(*Server, *Conn, []string) reply) *command {
		return &command{name: name, arity: -2, flags: f, first: 1, last: -1, step: 1, run: run}
	}
	return []*command{
		many("exists", 0, exists),
		many("del", write|changes, remove),
		many("unlink", write|changes, remove),
		oneKey("type", 2, 0, typeOf),
		oneKey("pexpire", -3, write|changes, expiring(1, false)),
		oneKey("expire", -3, write|changes, expiring(1000, false)),
		oneKey("pexpireat", -3, write|changes, expiring(1, true)),
		oneKey("expireat", -3, write|changes, expiring(1000, true)),
		oneKey("persist", 2, write|changes, persist),
		oneKey("pttl", 2, reads, func(s *Server, _ *Conn, args []string) reply { return integer(s.left(args[1])) }),
		oneKey("ttl", 2, reads, func(s *Server, _ *Conn, args []string) reply {
			left := s.left(args[1])
			if left >= 0 {
				left = (left + 500) / 1000
			}
			return integer(left)
		}),
		noKeys("keys", 2, 0, keysLike),
		noKeys("scan", -2, 0, scan),
		noKeys("dbsize", 1, 0, func(s *Server, _ *Conn, _ []string) reply { return integer(int64(len(s.living()))) }),
		noKeys("flushall", -1, write, flush),
		noKeys("flushdb", -1, write, flush),
	}
}

func exists(s *Server, _ *Conn, args []string) reply {
	n := int64(0)
	for _, key := range args[1:] {
		n += count(s.lookup(key) != nil)
	}
	return integer(n)
}

func remove(s *Server, _ *Conn, args []string) reply {
	n := int64(0)
	for _, key := range args[1:] {
		if s.lookup(key) != nil {
			delete(s.keys, key)
			n++
		}
	}
	if n > 0 {
		s.propagate(args...)
	}
	return integer(n)
}

func typeOf(s *Server, _ *Conn, args []string) reply {
	e := s.lookup(args[1])
	if e == nil {
		return status("none")
	}
	return status([]string{"string", "hash", "zset"}[e.kind])
}

// left is how many milliseconds a key has, -1 for ever, -2 where there is none.
func (s *Server) left(key string) int64 {
	e := s.lookup(key)
	switch {
	case e == nil:
		return -2
	case e.expires == 0:
		return -1
	}
	return max(0, e.expires-s.milli())
}

// expiring is EXPIRE in one of its four forms.
func expiring(unit int64, absolute bool) func(*Server, *Conn, []string) reply {
	return func(s *Server, _ *Conn, args []string) reply {
		if s.version < 7 && len(args) > 3 {
			return wrongArity(strings.ToLower(args[0]))
		}
		only, failed := parseOnly(args[3:])
		if failed.failed() {
			return failed
		}
		n, ok := parseInt(args[2])
		if !ok {
			return notInteger
		}
		when, ok := s.deadline(n, unit, absolute)
		if !ok {
			return failure("ERR invalid expire time in '" + strings.ToLower(args[0]) + "' command")
		}
		return s.expire(args[1], when, only)
	}
}

// only is under which conditions EXPIRE does something.
type only struct{ nx, xx, gt, lt bool }

func parseOnly(options []string) (o only, failed reply) {
	for _, option := range options {
		switch strings.ToUpper(option) {
		case "NX":
			o.nx = true
		case "XX":
			o.xx = true
		case "GT":
			o.gt = true
		case "LT":
			o.lt = true
		default:
			return o, failure("ERR Unsupported option " + option)
		}
	}
	switch {
	case o.nx && (o.xx || o.gt || o.lt):
		return o, failure("ERR NX and XX, GT or LT options at the same time are not compatible")
	case o.gt && o.lt:
		return o, failure("ERR GT and LT options at the same time are not compatible")
	}
	return o, reply{}
}

// permit reports whether a key that ends at had, 0 for never, may end at when.
func (o only) permit(had, when int64) bool {
	switch {
	case o.nx && had != 0, o.xx && had == 0, o.gt && (had == 0 || when <= had), o.lt && had != 0 && when >= had:
		return false
	}
	return true
}

// deadline turns a time of a command into one since 1970 in milliseconds; ok is false where it overflows.
func (s *Server) deadline(n, unit int64, absolute bool) (when int64, ok bool) {
	if n > math.MaxInt64/unit || n < math.MinInt64/unit {
		return 0, false
	}
	if n *= unit; absolute {
		return n, true
	}
	return n + s.milli(), n <= math.MaxInt64-s.milli()
}

func (s *Server) expire(key string, when int64, conditions only) reply {
	e := s.lookup(key)
	if e == nil || !conditions.permit(e.expires, when) {
		return integer(0)
	}
	if when <= s.milli() && s.master == nil {
		delete(s.keys, key)
		s.propagate("DEL", key)
		return integer(1)
	}
	e.expires = when
	if s.followed() {
		s.propagate("PEXPIREAT", key, strconv.FormatInt(when, 10))
	}
	return integer(1)
}

func persist(s *Server, _ *Conn, args []string) reply {
	e := s.lookup(args[1])
	if e == nil || e.expires == 0 {
		return integer(0)
	}
	e.expires = 0
	s.propagate(args...)
	return integer(1)
}

func keysLike(s *Server, _ *Conn, args []string) reply {
	var found []string
	for _, key := range s.living() {
		if matches(args[1], key) {
			found = append(found, key)
		}
	}
	return bulks(found)
}

// scan answers all at once, with the cursor at its end.
func scan(s *Server, c *Conn, args []string) reply {
	if _, ok := parseInt(args[1]); !ok {
		return failure("ERR invalid cursor")
	}
	pattern := "*"
	for i := 2; i+1 < len(args); i += 2 {
		if strings.EqualFold(args[i], "MATCH") {
			pattern = args[i+1]
		}
	}
	return listed(bulk("0"), keysLike(s, c, []string{"KEYS", pattern}))
}

func flush(s *Server, _ *Conn, args []string) reply {
	if len(args) > 2 || len(args) == 2 && !strings.EqualFold(args[1], "SYNC") && !strings.EqualFold(args[1], "ASYNC") {
		return syntaxError
	}
	s.keys = keyspace{}
	s.propagate(args[0])
	return okReply
}
