package sim

import (
	"sort"
	"strings"
)

// bound is one end of a range of scores.
type bound struct {
	score float64
	open  bool // the score itself is not in the range
}

func parseBound(text string) (bound, bool) {
	rest, open := strings.CutPrefix(text, "(")
	if rest == "" {
		return bound{0, open}, true // as strtod reads it
	}
	score, ok := parseFloat(rest)
	return bound{score, open}, ok
}

// between returns the members from low to high.
func (z *zset) between(low, high bound) []scored {
	from := sort.Search(len(z.sorted), func(i int) bool {
		score := z.sorted[i].score
		return score > low.score || !low.open && score == low.score
	})
	to := sort.Search(len(z.sorted), func(i int) bool {
		score := z.sorted[i].score
		return score > high.score || high.open && score == high.score
	})
	return z.sorted[from:max(from, to)]
}

var badBound = failure("ERR min or max is not a float")

func zcount(z *zset, args []string) reply {
	low, ok := parseBound(args[0])
	high, ok2 := parseBound(args[1])
	if !ok || !ok2 {
		return badBound
	}
	return integer(int64(len(z.between(low, high))))
}

func zrangebyscore(z *zset, args []string) reply {
	withScores, offset, count := false, int64(0), int64(-1)
	for i := 2; i < len(args); i++ {
		switch {
		case strings.EqualFold(args[i], "WITHSCORES"):
			withScores = true
		case strings.EqualFold(args[i], "LIMIT") && i+2 < len(args):
			var ok, ok2 bool
			offset, ok = parseInt(args[i+1])
			count, ok2 = parseInt(args[i+2])
			if !ok || !ok2 {
				return notInteger
			}
			i += 2
		default:
			return syntaxError
		}
	}
	low, ok := parseBound(args[0])
	high, ok2 := parseBound(args[1])
	if !ok || !ok2 {
		return badBound
	}
	return tell(limited(z.between(low, high), offset, count), withScores, false)
}

// limited is what LIMIT leaves of a range: count members from offset on, a negative count for all.
func limited(found []scored, offset, count int64) []scored {
	size := int64(len(found))
	if offset < 0 || offset >= size {
		return nil
	}
	if found = found[offset:]; count >= 0 && count < size-offset {
		found = found[:count]
	}
	return found
}

// ranging is ZRANGE by rank.
func ranging(reversed bool) func(z *zset, args []string) reply {
	return func(z *zset, args []string) reply {
		withScores := len(args) == 3 && strings.EqualFold(args[2], "WITHSCORES")
		if len(args) > 2 && !withScores {
			return syntaxError
		}
		start, ok := parseInt(args[0])
		stop, ok2 := parseInt(args[1])
		if !ok || !ok2 {
			return notInteger
		}
		size := int64(len(z.sorted))
		if start < 0 {
			start = max(0, start+size)
		}
		if stop < 0 {
			stop += size
		}
		stop = min(stop, size-1)
		if start > stop {
			return listing(nil)
		}
		if reversed {
			start, stop = size-1-stop, size-1-start
		}
		return tell(z.sorted[start:stop+1], withScores, reversed)
	}
}

func tell(found []scored, withScores, reversed bool) reply {
	list := make([]reply, 0, 2*len(found))
	for i := range found {
		at := found[i]
		if reversed {
			at = found[len(found)-1-i]
		}
		list = append(list, bulk(at.member))
		if withScores {
			list = append(list, real(at.score))
		}
	}
	return listing(list)
}
