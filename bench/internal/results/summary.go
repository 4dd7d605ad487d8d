package results

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

// headlines are the measures that a scenario is about, the first that its cells have.
func headlines() []string {
	return []string{
		"throughput", "recovery", "commands in all", "commands per 100 renewals", "wait p99", "commands",
	}
}

// Summary says in a sentence for each contest who leads in how many cells of the run, and by how much. A baseline leads
// nowhere.
func (r *Run) Summary() []string {
	var lines []string
	for _, m := range Measures() {
		if !slices.Contains(Contests(), m.Name) {
			continue
		}
		if text := leaders(r.Cells(), m); text != "" {
			lines = append(lines, capital(m.Name)+": "+text)
		}
	}
	return lines
}

// Headline says who leads a scenario, and by how much, in what it is about. It is "" where fewer than two peers were
// compared.
func Headline(cells [][]Result) string {
	for _, name := range headlines() {
		for _, m := range Measures() {
			if m.Name != name {
				continue
			}
			if text := leaders(cells, m); text != "" {
				return m.Name + ": " + text
			}
		}
	}
	return ""
}

// leadership is how often and how far a library is ahead, whichever of its settings it is.
type leadership struct {
	peer        string
	cells       int
	least, most float64 // factors; 0 where none could be told
}

// leaders is a sentence without its subject's measure: who leads in how many of the cells.
func leaders(cells [][]Result, m Measure) string {
	var led []leadership
	compared, unclear := 0, 0
	for _, cell := range cells {
		won := m.Winner(cell)
		switch {
		case len(won) == 0 || alone(m, cell, won[0]):
			continue // of one library alone
		case slices.ContainsFunc(won, func(i int) bool { return !kin(cell, won[0], i) }):
			unclear++
		default:
			led = credit(led, family(cell[won[0]].Peer), factor(m, cell, won))
		}
		compared++
	}
	if compared == 0 {
		return ""
	}
	slices.SortStableFunc(led, func(a, b leadership) int { return b.cells - a.cells })
	var parts []string
	for _, l := range led {
		parts = append(parts, l.words(len(parts) == 0, compared))
	}
	switch {
	case len(led) == 0 && compared == 1:
		return "no clear leader."
	case unclear > 0 && compared > 1:
		parts = append(parts, fmt.Sprintf("no clear leader in %d", unclear))
		if len(led) == 0 {
			parts[0] = fmt.Sprintf("no clear leader in any of %d cells", compared)
		}
	}
	return strings.Join(parts, ", ") + "."
}

// alone reports whether no other library than the winner's was measured.
func alone(m Measure, cell []Result, won int) bool { return runnerUp(m, cell, []int{won}) < 0 }

func credit(led []leadership, peer string, factor float64) []leadership {
	i := slices.IndexFunc(led, func(l leadership) bool { return l.peer == peer })
	if i < 0 {
		i = len(led)
		led = append(led, leadership{peer: peer, least: math.Inf(1)})
	}
	led[i].cells++
	if factor > 0 {
		led[i].least, led[i].most = min(led[i].least, factor), max(led[i].most, factor)
	}
	return led
}

// words is "relock leads in 7 of 9 cells by a factor of 1.3 to 44" for the first of a sentence, "redsync in 1 (by 1.2)"
// for the others.
func (l leadership) words(first bool, of int) string {
	var where string
	switch {
	case first && of == 1:
		where = " leads"
	case first && l.cells == of && of == 2:
		where = " leads in both cells"
	case first && l.cells == of:
		where = fmt.Sprintf(" leads in all %d cells", of)
	case first:
		where = fmt.Sprintf(" leads in %d of %d cells", l.cells, of)
	default:
		where = fmt.Sprintf(" in %d", l.cells)
	}
	return l.peer + where + l.lead(first)
}

func (l leadership) lead(first bool) string {
	if l.most == 0 {
		return ""
	}
	text := Decimal(l.most)
	if low := Decimal(l.least); low != text {
		text = low + " to " + text
	}
	if first {
		return " by a factor of " + text
	}
	return " (by " + text + ")"
}

func capital(s string) string { return strings.ToUpper(s[:1]) + s[1:] }
