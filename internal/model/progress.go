package model

import "slices"

// progress checks that the goal can be reached from each state, walking backwards from it. What that does not meet cannot
// get there; the trace leads to a nearest such state.
func (x *search[S]) progress() *Violation {
	goal := make([]bool, len(x.states))
	for i, s := range x.states {
		goal[i] = x.sys.Goal(s)
	}
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
