package sim

import "strconv"

func hashCommands() []*command {
	return []*command{
		oneKey("hset", -4, write|denyOOM|changes, hset),
		oneKey("hmset", -4, write|denyOOM|changes, hset),
		oneKey("hsetnx", 4, write|denyOOM|changes, hsetnx),
		oneKey("hget", 3, reads, reading(func(h *hash, args []string) reply { return optional(h.get(args[0])) })),
		oneKey("hexists", 3, 0, reading(func(h *hash, args []string) reply { return flag(h.find(args[0]) >= 0) })),
		oneKey("hlen", 2, 0, reading(func(h *hash, _ []string) reply { return integer(int64(len(h.fields))) })),
		oneKey("hmget", -3, reads, reading(hmget)),
		oneKey("hkeys", 2, reads, reading(func(h *hash, _ []string) reply { return walk(h, true, false) })),
		oneKey("hrandfield", -2, reads, hrandfield),
		oneKey("hvals", 2, reads, reading(func(h *hash, _ []string) reply { return walk(h, false, true) })),
		oneKey("hgetall", 2, reads, reading(func(h *hash, _ []string) reply { return walk(h, true, true) })),
		oneKey("hdel", -3, write|changes, hdel),
		oneKey("hincrby", 4, write|denyOOM|reads|changes, hincrby),
	}
}

// noHash stands for a hash that is not there.
var noHash = &hash{}

// reading is a command that reads a hash.
func reading(answer func(h *hash, args []string) reply) func(*Server, *Conn, []string) reply {
	return func(s *Server, _ *Conn, args []string) reply {
		e, bad := s.typed(args[1], hashKind)
		switch {
		case bad:
			return wrongType
		case e == nil:
			return answer(noHash, args[2:])
		}
		return answer(e.hash, args[2:])
	}
}

func hmget(h *hash, names []string) reply {
	list := make([]reply, len(names))
	for i, name := range names {
		list[i] = optional(h.get(name))
	}
	return listing(list)
}

func walk(h *hash, names, values bool) reply {
	fields := h.all()
	list := make([]reply, 0, len(fields)*int(count(names)+count(values)))
	for i := range fields {
		if names {
			list = append(list, bulk(fields[i].name))
		}
		if values {
			list = append(list, bulk(fields[i].value))
		}
	}
	return listing(list)
}

// hrandfield draws other fields each time, but not by chance: a seed of the simulation repeats. Of its forms it has those that
// draw fields alone, none twice.
func hrandfield(s *Server, _ *Conn, args []string) reply {
	e, bad := s.typed(args[1], hashKind)
	if bad {
		return wrongType
	}
	most, single := 1, len(args) == 2
	if !single {
		n, err := strconv.Atoi(args[2])
		switch {
		case err != nil:
			return notInteger
		case n < 0 || len(args) > 3:
			return failure("ERR this form of HRANDFIELD is not simulated")
		}
		most = n
	}
	list := []reply{}
	if e != nil {
		fields, first := e.hash.all(), 0
		if most < len(fields) {
			first = s.drawn
			s.drawn += most
		}
		for i := range min(most, len(fields)) {
			list = append(list, bulk(fields[(first+i)%len(fields)].name))
		}
	}
	switch {
	case !single:
		return listing(list)
	case len(list) == 0:
		return optional("", false)
	}
	return list[0]
}

func hset(s *Server, _ *Conn, args []string) reply {
	if len(args)%2 != 0 {
		return wrongArity(s.named(args[0]).name)
	}
	e, bad := s.opened(args[1], hashKind)
	if bad {
		return wrongType
	}
	added := int64(0)
	for i := 2; i < len(args); i += 2 {
		added += count(e.hash.set(args[i], args[i+1]))
	}
	s.propagate(args...)
	if s.named(args[0]).name == "hmset" {
		return okReply
	}
	return integer(added)
}

func hsetnx(s *Server, _ *Conn, args []string) reply {
	e, bad := s.opened(args[1], hashKind)
	if bad {
		return wrongType
	}
	if e.hash.find(args[2]) >= 0 {
		return integer(0)
	}
	e.hash.set(args[2], args[3])
	s.propagate(args...)
	return integer(1)
}

func hdel(s *Server, _ *Conn, args []string) reply {
	e, bad := s.typed(args[1], hashKind)
	switch {
	case bad:
		return wrongType
	case e == nil:
		return integer(0)
	}
	removed := int64(0)
	for _, name := range args[2:] {
		removed += count(e.hash.remove(name))
	}
	if len(e.hash.fields) == 0 {
		delete(s.keys, args[1])
	}
	if removed > 0 {
		s.propagate(args...)
	}
	return integer(removed)
}

func hincrby(s *Server, _ *Conn, args []string) reply {
	n, ok := parseInt(args[3])
	if !ok {
		return notInteger
	}
	e, bad := s.typed(args[1], hashKind)
	if bad {
		return wrongType
	}
	had := int64(0)
	if e != nil {
		if text, found := e.hash.get(args[2]); found {
			if had, ok = parseInt(text); !ok {
				return failure("ERR hash value is not an integer")
			}
		}
	}
	if overflows(had, n) {
		return overflow
	}
	e, _ = s.opened(args[1], hashKind)
	e.hash.set(args[2], strconv.FormatInt(had+n, 10))
	s.propagate(args...)
	return integer(had + n)
}
