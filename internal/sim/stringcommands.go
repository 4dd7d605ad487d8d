package sim

import (
	"math"
	"strconv"
	"strings"
)

func stringCommands() []*command {
	return []*command{
		oneKey("get", 2, reads, get),
		{name: "mget", arity: -2, flags: reads, first: 1, last: -1, step: 1, run: mget},
		oneKey("set", -3, write|denyOOM|changes, set),
		oneKey("getset", 3, write|denyOOM|reads|changes, getset),
		oneKey("strlen", 2, 0, strlen),
		oneKey("incr", 2, write|denyOOM|reads|changes, stepping(1)),
		oneKey("decr", 2, write|denyOOM|reads|changes, stepping(-1)),
		oneKey("incrby", 3, write|denyOOM|reads|changes, incrby),
		oneKey("decrby", 3, write|denyOOM|reads|changes, decrby),
	}
}

// stepping is INCR and DECR.
func stepping(n int64) func(*Server, *Conn, []string) reply {
	return func(s *Server, _ *Conn, args []string) reply { return s.add(args[1], n) }
}

func get(s *Server, _ *Conn, args []string) reply {
	e, bad := s.typed(args[1], stringKind)
	switch {
	case bad:
		return wrongType
	case e == nil:
		return reply{}
	}
	return bulk(e.text)
}

// mget answers nothing for a key of another type, too.
func mget(s *Server, _ *Conn, args []string) reply {
	got := make([]reply, 0, len(args)-1)
	for _, key := range args[1:] {
		if e, bad := s.typed(key, stringKind); e != nil && !bad {
			got = append(got, bulk(e.text))
		} else {
			got = append(got, reply{})
		}
	}
	return listing(got)
}

func strlen(s *Server, c *Conn, args []string) reply {
	got := get(s, c, args)
	if got.failed() {
		return got
	}
	return integer(int64(len(got.s)))
}

func getset(s *Server, c *Conn, args []string) reply {
	had := get(s, c, args)
	if had.failed() {
		return had
	}
	s.keys[args[1]] = &entry{text: args[2]}
	s.propagate("SET", args[1], args[2])
	return had
}

// setting is what the options of SET ask for.
type setting struct {
	nx, xx, get, keep bool
	timed             string // PX and its like; "" for none
	time              string
}

// parseSetting reads the options of SET; failed is the refusal.
func parseSetting(s *Server, options []string) (o setting, failed reply) {
	for i := 0; i < len(options); i++ {
		switch option := strings.ToUpper(options[i]); {
		case option == "NX" && !o.xx:
			o.nx = true
		case option == "XX" && !o.nx:
			o.xx = true
		case option == "GET":
			o.get = true
		case option == "KEEPTTL" && o.timed == "":
			o.keep = true
		case timeUnit(option) > 0 && (o.timed == "" || o.timed == option) && !o.keep && i+1 < len(options):
			i++
			o.timed, o.time = option, options[i]
		default:
			return o, syntaxError
		}
	}
	if s.version < 7 && o.get && o.nx {
		return o, syntaxError
	}
	return o, reply{}
}

// timeUnit is how many milliseconds the unit of an option has, 0 for another option.
func timeUnit(option string) int64 {
	switch option {
	case "EX", "EXAT":
		return 1000
	case "PX", "PXAT":
		return 1
	}
	return 0
}

func set(s *Server, c *Conn, args []string) reply {
	o, failed := parseSetting(s, args[3:])
	if failed.failed() {
		return failed
	}
	when, failed := s.setDeadline(o)
	if failed.failed() {
		return failed
	}
	var had reply
	if o.get {
		if had = get(s, c, args); had.failed() {
			return had
		}
	}
	old := s.lookup(args[1])
	if o.nx && old != nil || o.xx && old == nil {
		return had
	}
	if o.keep && old != nil {
		when = old.expires
	}
	s.put(args[1], args[2], when)
	if o.get {
		return had
	}
	return okReply
}

func (s *Server) setDeadline(o setting) (when int64, failed reply) {
	if o.timed == "" {
		return 0, reply{}
	}
	n, ok := parseInt(o.time)
	if !ok {
		return 0, notInteger
	}
	when, ok = s.deadline(n, timeUnit(o.timed), strings.HasSuffix(o.timed, "AT"))
	if n <= 0 || !ok {
		return 0, failure("ERR invalid expire time in 'set' command")
	}
	return when, reply{}
}

// put writes a string. A time that is over already leaves nothing.
func (s *Server) put(key, text string, when int64) {
	if when != 0 && when < s.milli() && s.master == nil {
		delete(s.keys, key)
		s.propagate("DEL", key)
		return
	}
	s.keys[key] = &entry{text: text, expires: when}
	switch {
	case !s.followed():
	case when == 0:
		s.propagate("SET", key, text)
	default:
		s.propagate("SET", key, text, "PXAT", strconv.FormatInt(when, 10))
	}
}

func incrby(s *Server, _ *Conn, args []string) reply {
	n, ok := parseInt(args[2])
	if !ok {
		return notInteger
	}
	return s.add(args[1], n)
}

func decrby(s *Server, _ *Conn, args []string) reply {
	n, ok := parseInt(args[2])
	switch {
	case !ok:
		return notInteger
	case n == math.MinInt64:
		return failure("ERR decrement would overflow")
	}
	return s.add(args[1], -n)
}

// add is INCRBY, which keeps the key's expiry.
func (s *Server) add(key string, n int64) reply {
	e, bad := s.typed(key, stringKind)
	if bad {
		return wrongType
	}
	had := int64(0)
	if e != nil {
		var ok bool
		if had, ok = parseInt(e.text); !ok {
			return notInteger
		}
	}
	if overflows(had, n) {
		return overflow
	}
	if e == nil {
		e = &entry{}
		s.keys[key] = e
	}
	e.text = strconv.FormatInt(had+n, 10)
	s.propagate("INCRBY", key, strconv.FormatInt(n, 10))
	return integer(had + n)
}

func overflows(a, b int64) bool {
	return b > 0 && a > math.MaxInt64-b || b < 0 && a < math.MinInt64-b
}
