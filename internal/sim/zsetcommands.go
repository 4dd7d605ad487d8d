package sim

import (
	"math"
	"strings"
)

func zsetCommands() []*command {
	return []*command{
		oneKey("zadd", -4, write|denyOOM|changes, zadd),
		oneKey("zrem", -3, write|changes, zrem),
		oneKey("zpopmin", -2, write|reads|changes, zpopmin),
		oneKey("zscore", 3, reads, members(func(z *zset, args []string) reply {
			score, ok := z.scores[args[0]]
			if !ok {
				return reply{}
			}
			return real(score)
		})),
		oneKey("zrank", 3, reads, members(func(z *zset, args []string) reply {
			score, ok := z.scores[args[0]]
			if !ok {
				return reply{}
			}
			return integer(int64(z.place(scored{score, args[0]})))
		})),
		oneKey("zcard", 2, 0, members(func(z *zset, _ []string) reply { return integer(int64(len(z.sorted))) })),
		oneKey("zcount", 4, reads, members(zcount)),
		oneKey("zrandmember", -2, reads, zrandmember),
		oneKey("zrange", -4, reads, members(ranging(false))),
		oneKey("zrevrange", -4, reads, members(ranging(true))),
		oneKey("zrangebyscore", -4, reads, members(zrangebyscore)),
	}
}

var noSet = &zset{}

// members is a command that reads a sorted set. Arguments that are wrong are refused before the key is looked at.
func members(answer func(z *zset, args []string) reply) func(*Server, *Conn, []string) reply {
	return func(s *Server, _ *Conn, args []string) reply {
		e, bad := s.typed(args[1], zsetKind)
		if !bad && e != nil {
			return answer(e.zset, args[2:])
		}
		empty := answer(noSet, args[2:])
		if bad && !empty.failed() {
			return wrongType
		}
		return empty
	}
}

// adding is what the options of ZADD ask for.
type adding struct{ nx, xx, gt, lt, ch, incr bool }

// parseAdding returns how many arguments the options are.
func parseAdding(args []string) (o adding, n int) {
	for ; n < len(args); n++ {
		switch strings.ToUpper(args[n]) {
		case "NX":
			o.nx = true
		case "XX":
			o.xx = true
		case "GT":
			o.gt = true
		case "LT":
			o.lt = true
		case "CH":
			o.ch = true
		case "INCR":
			o.incr = true
		default:
			return o, n
		}
	}
	return o, n
}

func (o adding) refusal(pairs int) reply {
	switch {
	case pairs == 0 || pairs%2 != 0:
		return syntaxError
	case o.nx && o.xx:
		return failure("ERR XX and NX options at the same time are not compatible")
	case o.gt && o.nx || o.lt && o.nx || o.gt && o.lt:
		return failure("ERR GT, LT, and/or NX options at the same time are not compatible")
	case o.incr && pairs > 2:
		return failure("ERR INCR option supports a single increment-element pair")
	}
	return reply{}
}

// apply adds one member; aside says that the options kept it as it was.
func (o adding) apply(z *zset, member string, score float64) (now float64, added, changed, aside, nan bool) {
	had, found := z.scores[member]
	if found && o.nx || !found && o.xx {
		return had, false, false, true, false
	}
	if o.incr && found {
		score += had
	}
	if math.IsNaN(score) {
		return 0, false, false, false, true
	}
	if found && (o.lt && score >= had || o.gt && score <= had) {
		return had, false, false, true, false
	}
	added, changed = z.set(member, score)
	return score, added, changed, false, false
}

func zadd(s *Server, _ *Conn, args []string) reply {
	o, n := parseAdding(args[2:])
	pairs := args[2+n:]
	if refused := o.refusal(len(pairs)); refused.failed() {
		return refused
	}
	scores := make([]float64, len(pairs)/2)
	for i := range scores {
		var ok bool
		if scores[i], ok = parseFloat(pairs[2*i]); !ok {
			return notFloat
		}
	}
	e, bad := s.typed(args[1], zsetKind)
	switch {
	case bad:
		return wrongType
	case e == nil && o.xx:
		if o.incr {
			return reply{}
		}
		return integer(0)
	}
	e, _ = s.opened(args[1], zsetKind)
	return s.addAll(e.zset, o, scores, pairs, args)
}

func (s *Server) addAll(z *zset, o adding, scores []float64, pairs, args []string) reply {
	counted, altered := int64(0), false
	var answer reply
	for i, score := range scores {
		now, added, changed, aside, nan := o.apply(z, pairs[2*i+1], score)
		if nan {
			return failure("ERR resulting score is not a number (NaN)")
		}
		counted += count(added || o.ch && changed)
		altered = altered || changed
		if o.incr && !aside {
			answer = real(now)
		}
	}
	if altered {
		s.propagate(args...)
	}
	if o.incr {
		return answer
	}
	return integer(counted)
}

func zrem(s *Server, _ *Conn, args []string) reply {
	e, bad := s.typed(args[1], zsetKind)
	switch {
	case bad:
		return wrongType
	case e == nil:
		return integer(0)
	}
	removed := int64(0)
	for _, member := range args[2:] {
		removed += count(e.zset.remove(member))
	}
	if len(e.zset.sorted) == 0 {
		delete(s.keys, args[1])
	}
	if removed > 0 {
		s.propagate(args...)
	}
	return integer(removed)
}

// zrandmember draws as hrandfield does. As many as there are come from the end, as from Redis 7.
func zrandmember(s *Server, _ *Conn, args []string) reply {
	most, single := int64(1), len(args) == 2
	if !single {
		var ok bool
		if most, ok = parseInt(args[2]); !ok {
			return notInteger
		}
		if most < 0 || len(args) > 3 {
			return failure("ERR this form of ZRANDMEMBER is not simulated")
		}
	}
	e, bad := s.typed(args[1], zsetKind)
	if bad {
		return wrongType
	}
	list := []reply{}
	if e != nil {
		all, first := e.zset.sorted, 0
		if most < int64(len(all)) {
			first = s.drawn
			s.drawn += int(most)
		}
		for i := range int(min(most, int64(len(all)))) {
			list = append(list, bulk(all[len(all)-1-(first+i)%len(all)].member))
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

func zpopmin(s *Server, _ *Conn, args []string) reply {
	if len(args) > 3 {
		return syntaxError
	}
	n := int64(1)
	if len(args) == 3 {
		var ok bool
		if n, ok = parseInt(args[2]); !ok || n < 0 {
			return failure("ERR value is out of range, must be positive")
		}
	}
	e, bad := s.typed(args[1], zsetKind)
	switch {
	case bad:
		return wrongType
	case e == nil:
		return listing(nil)
	}
	var list []reply
	for ; n > 0 && len(e.zset.sorted) > 0; n-- {
		first := e.zset.shift()
		list = append(list, bulk(first.member), real(first.score))
	}
	if len(e.zset.sorted) == 0 {
		delete(s.keys, args[1])
	}
	if len(list) > 0 {
		s.propagate(args...)
	}
	return listing(list)
}
