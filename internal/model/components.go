package model

// components finds the strongly connected parts of the graph without the states to skip: Tarjan's algorithm with a
// stack of calls of its own, since a run can be millions of states long.
type components[S comparable] struct {
	*search[S]
	skip  []bool
	found func([]uint32) // called for each part; it must not keep the slice

	num, low []uint32 // num is 0 for a state not seen yet, parted for one whose part was found
	next     uint32
	stack    []uint32
	calls    []call
}

// call is a visit of state i that has come to step e.
type call struct{ i, e uint32 }

const parted = ^uint32(0)

func (c *components[S]) run() {
	c.num, c.low = make([]uint32, len(c.states)), make([]uint32, len(c.states))
	for root := range c.states {
		if c.skip[root] || c.num[root] != 0 {
			continue
		}
		c.enter(uint32(root))
		for len(c.calls) > 0 {
			c.advance()
		}
	}
}

func (c *components[S]) enter(i uint32) {
	c.next++
	c.num[i], c.low[i] = c.next, c.next
	c.stack = append(c.stack, i)
	c.calls = append(c.calls, call{i, c.first[i]})
}

// advance follows one step of the latest call, or returns from it.
func (c *components[S]) advance() {
	top := &c.calls[len(c.calls)-1]
	i := top.i
	if _, end := c.after(i); top.e < end {
		j := c.to[top.e]
		top.e++
		switch {
		case c.skip[j] || c.num[j] == parted:
		case c.num[j] == 0:
			c.enter(j)
		default:
			c.low[i] = min(c.low[i], c.num[j])
		}
		return
	}
	c.calls = c.calls[:len(c.calls)-1]
	if len(c.calls) > 0 {
		up := c.calls[len(c.calls)-1].i
		c.low[up] = min(c.low[up], c.low[i])
	}
	if c.low[i] == c.num[i] {
		c.cut(i)
	}
}

// cut takes the part that i is the root of off the stack.
func (c *components[S]) cut(i uint32) {
	at := len(c.stack) - 1
	for c.stack[at] != i {
		at--
	}
	for _, j := range c.stack[at:] {
		c.num[j] = parted
	}
	c.found(c.stack[at:])
	c.stack = c.stack[:at]
}
