package results

import (
	"fmt"
	"io"
)

// Compare writes how the figures of two runs differ, for every peer and cell that both have. A change that the rounds'
// spread explains is marked with ~. It returns how many pairs it found.
func Compare(w io.Writer, before, after *Run) int {
	old := make(map[string]*Result)
	for i := range before.Results {
		r := &before.Results[i]
		old[r.Peer+" "+r.Cell()] = r
	}
	rows := [][]string{{"cell", "peer", "measure", "old", "new", "change"}}
	pairs := 0
	for _, cell := range after.Cells() {
		for i := range cell {
			b, ok := old[cell[i].Peer+" "+cell[i].Cell()]
			if !ok {
				continue
			}
			pairs++
			rows = append(rows, changes(b, &cell[i])...)
		}
	}
	if differ(before.Machine, after.Machine) {
		fmt.Fprintln(w, "the machines or their software differ:")
		for i, m := range []Machine{before.Machine, after.Machine} {
			which := []string{"old", "new"}[i]
			fmt.Fprintf(w, "  %s: %s, %d cores, %s, %s\n", which, m.CPU, m.Cores, m.Go, m.Redis)
		}
	}
	alignLeft(w, rows)
	return pairs
}

// differ tells whether two machines are not the same, whatever was measured of them.
func differ(a, b Machine) bool {
	a.RTTMicros, a.OverheadNS = b.RTTMicros, b.OverheadNS
	return a != b
}

func changes(before, after *Result) [][]string {
	var rows [][]string
	for _, m := range Measures() {
		b, a := m.Of(before), m.Of(after)
		if !m.Ranked || b == nil || a == nil {
			continue
		}
		rows = append(rows, []string{after.Cell(), after.Peer, m.Name, m.Format(*b), m.Format(*a), change(m, before, after)})
	}
	return rows
}

func change(m Measure, before, after *Result) string {
	b, a := *m.Of(before), *m.Of(after)
	if b == a {
		return "same"
	}
	if b == 0 {
		return "from zero"
	}
	text := fmt.Sprintf("%+.1f %%", 100*(a-b)/b)
	if s, t := m.span(before), m.span(after); s[0] <= t[1] && t[0] <= s[1] {
		return text + " ~"
	}
	if m.better(a, b) {
		return text + " better"
	}
	return text + " worse"
}
