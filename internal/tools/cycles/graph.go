package main

import (
	"maps"
	"slices"
)

// graph has an edge from each user to all that it uses, with an example of how.
type graph map[string]map[string]string

// add notes that from uses to. The first example is kept. Nothing uses itself.
func (g graph) add(from, to, example string) {
	if from == to {
		return
	}
	if _, known := g[from][to]; !known {
		g[from][to] = example
	}
}

// largest returns the nodes of the largest cycle, sorted: they use one another, directly or not. It
// is nil if there is no cycle. Of equally large cycles it returns the one with the first name.
func (g graph) largest() (most []string) {
	for _, ring := range g.rings() {
		if len(ring) > 1 && (len(ring) > len(most) || len(ring) == len(most) && ring[0] < most[0]) {
			most = ring
		}
	}
	return most
}

// rings returns the strongly connected components, by Tarjan's algorithm.
func (g graph) rings() [][]string {
	t := tarjan{graph: g, index: make(map[string]int), low: make(map[string]int), open: make(map[string]bool)}
	for _, node := range slices.Sorted(maps.Keys(g)) {
		if t.index[node] == 0 {
			t.visit(node)
		}
	}
	return t.rings
}

// tarjan is one search for the strongly connected components.
type tarjan struct {
	graph
	index map[string]int // in which order nodes were met, from 1
	low   map[string]int // the first open node that can be reached from here
	open  map[string]bool
	stack []string
	rings [][]string
}

func (t *tarjan) visit(node string) {
	t.index[node] = len(t.index) + 1
	t.low[node] = t.index[node]
	t.stack, t.open[node] = append(t.stack, node), true
	for next := range t.graph[node] {
		if t.index[next] == 0 {
			t.visit(next)
			t.low[node] = min(t.low[node], t.low[next])
		} else if t.open[next] {
			t.low[node] = min(t.low[node], t.index[next])
		}
	}
	if t.low[node] < t.index[node] {
		return
	}
	start := slices.Index(t.stack, node)
	ring := slices.Sorted(slices.Values(t.stack[start:]))
	t.stack = t.stack[:start]
	for _, member := range ring {
		t.open[member] = false
	}
	t.rings = append(t.rings, ring)
}
