package model

import "slices"

// progress checks the goal on the whole graph. The rule's name is the goal's, and the trace leads to a nearest state
// that fails it.
func (x *search[S]) progress() *Violation {
	goal := make([]bool, len(x.states))
	for i, s := range x.states {
		goal[i] = x.sys.Goal(s)
	}
	if x.sys.Progress == Inevitable {
		return x.inevitable(goal)
	}
	return x.reachable(goal)
}

// reachable walks backwards from the goal. What it does not meet cannot get there.
func (x *search[S]) reachable(goal []bool) *Violation {
	into := make([]uint32, len(x.states)+1) // into[j+1] counts, then sums, the steps into j
	for _, j := range x.to {
		into[j+1]++
	}
	for j := range x.states {
		into[j+1] += into[j]
	}
	from, fill := make([]uint32, len(x.to)), slices.Clone(into)
	for i := range x.states {
		for e, end := x.after(uint32(i)); e < end; e++ {
			from[fill[x.to[e]]] = uint32(i)
			fill[x.to[e]]++
		}
	}
	var queue []uint32
	for i, ok := range goal {
		if ok {
			queue = append(queue, uint32(i))
		}
	}
	for len(queue) > 0 {
		j := queue[len(queue)-1]
		queue = queue[:len(queue)-1]
		for _, i := range from[into[j]:into[j+1]] {
			if !goal[i] {
				goal[i] = true
				queue = append(queue, i)
			}
		}
	}
	if i := slices.Index(goal, false); i >= 0 {
		lines, _ := x.trace(uint32(i))
		return &Violation{Rule: "progress", What: "no run leads to the goal from here", Trace: lines}
	}
	return nil
}

// inevitable looks for a set of states in which a fair run can stay for ever without meeting the goal: a strongly
// connected part of the graph without its goal states, in which every class is taken by a step that stays inside, or is
// not always possible. A single state in which nothing happens any more is one as well.
func (x *search[S]) inevitable(goal []bool) *Violation {
	var worst []uint32
	c := &components[S]{search: x, skip: goal, found: func(part []uint32) {
		if x.fair(part) && (worst == nil || slices.Min(part) < slices.Min(worst)) {
			worst = slices.Clone(part)
		}
	}}
	c.run()
	if worst == nil {
		return nil
	}
	at := slices.Min(worst)
	v := &Violation{Rule: "progress", What: "a fair run never meets the goal"}
	var s S
	v.Trace, s = x.trace(at)
	v.Cycle, _ = x.replay(s, x.tour(at, worst))
	return v
}

// fair reports whether a run can go round in part without passing over anybody for ever.
func (x *search[S]) fair(part []uint32) bool {
	inside := make(map[uint32]bool, len(part))
	for _, i := range part {
		inside[i] = true
	}
	always, taken := ^uint64(0), uint64(0)
	for _, i := range part {
		var possible uint64
		for e, end := x.after(i); e < end; e++ {
			possible |= 1 << x.class[e]
			if inside[x.to[e]] {
				taken |= 1 << x.class[e]
			}
		}
		always &= possible
	}
	return always&^taken == 0
}

// tour returns a shortest way inside part from at back to at, empty when part is a single state.
func (x *search[S]) tour(at uint32, part []uint32) []uint32 {
	before := make(map[uint32]uint32)
	inside := make(map[uint32]bool, len(part))
	for _, i := range part {
		inside[i] = true
	}
	queue := []uint32{at}
	for len(queue) > 0 && len(part) > 1 {
		i := queue[0]
		queue = queue[1:]
		for e, end := x.after(i); e < end; e++ {
			j := x.to[e]
			if _, seen := before[j]; seen || !inside[j] || j == i {
				continue
			}
			before[j] = i
			if j == at {
				way := []uint32{at}
				for k := i; k != at; k = before[k] {
					way = append(way, k)
				}
				slices.Reverse(way)
				return way
			}
			queue = append(queue, j)
		}
	}
	return nil
}
