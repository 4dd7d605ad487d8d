package sim

import (
	"slices"
	"sort"
)

type scored struct {
	score  float64
	member string
}

func (a scored) before(b scored) bool {
	return a.score < b.score || a.score == b.score && a.member < b.member
}

// zset keeps its members by score, those of one score by name.
type zset struct {
	sorted []scored
	scores map[string]float64
}

func (z *zset) clone() *zset {
	copied := &zset{sorted: slices.Clone(z.sorted), scores: make(map[string]float64, len(z.scores))}
	for member, score := range z.scores {
		copied.scores[member] = score
	}
	return copied
}

func (z *zset) place(s scored) int {
	return sort.Search(len(z.sorted), func(i int) bool { return !z.sorted[i].before(s) })
}

// set returns whether the member is new, and whether anything changed.
func (z *zset) set(member string, score float64) (added, changed bool) {
	if score == 0 {
		score = 0 // a small set keeps integers, which know no -0
	}
	old, had := z.scores[member]
	if had && old == score {
		return false, false
	}
	if had {
		i := z.place(scored{old, member})
		z.sorted = slices.Delete(z.sorted, i, i+1)
	}
	if z.scores == nil {
		z.scores = make(map[string]float64)
	}
	z.scores[member] = score
	at := scored{score, member}
	z.sorted = slices.Insert(z.sorted, z.place(at), at)
	return !had, true
}

func (z *zset) remove(member string) bool {
	score, had := z.scores[member]
	if !had {
		return false
	}
	i := z.place(scored{score, member})
	z.sorted = slices.Delete(z.sorted, i, i+1)
	delete(z.scores, member)
	return true
}

// shift removes the first member.
func (z *zset) shift() scored {
	first := z.sorted[0]
	z.sorted = slices.Delete(z.sorted, 0, 1)
	delete(z.scores, first.member)
	return first
}
