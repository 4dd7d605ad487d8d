package results

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"unicode/utf8"
)

// Table writes the run for a terminal: a block per cell with a row per peer, the best figure of each column marked with
// a star, and at the end the winners of all cells.
func (r *Run) Table(w io.Writer) {
	r.header(w)
	r.summary(w)
	for _, cell := range r.Cells() {
		r.block(w, cell)
	}
	r.winners(w)
	for _, n := range r.Notes {
		fmt.Fprintf(w, "note: %s\n", n)
	}
}

// Header is the machine and the versions, a line each.
func (r *Run) Header() []string {
	m := r.Machine
	lines := []string{
		fmt.Sprintf("%s, %d cores, %s, %s/%s", m.CPU, m.Cores, memory(m.MemoryMB), m.OS, m.Arch),
		fmt.Sprintf("%s, %s (round trip %s)", m.Go, m.Redis, Micros(m.RTTMicros)),
	}
	var peers []string
	for _, p := range r.Peers {
		if p.Version != "" {
			peers = append(peers, p.Name+" "+p.Version)
		}
	}
	lines = append(lines, strings.Join(peers, ", "))
	for _, extra := range []string{m.Etcd, m.Java} {
		if extra != "" {
			lines = append(lines, extra)
		}
	}
	return append(lines,
		fmt.Sprintf("the bench itself costs %.0f ns per acquisition (measured with no lock)", m.OverheadNS))
}

func memory(mb int64) string {
	if mb == 0 {
		return "memory unknown"
	}
	return fmt.Sprintf("%d GiB", (mb+512)/1024)
}

func (r *Run) header(w io.Writer) {
	fmt.Fprintf(w, "\nrelock bench, %s run of %s\n", r.Mode, r.Time.Format("2006-01-02 15:04 MST"))
	for _, l := range r.Header() {
		fmt.Fprintf(w, "  %s\n", l)
	}
}

// summary is who leads, in a few sentences on top of all tables.
func (r *Run) summary(w io.Writer) {
	for i, line := range r.Summary() {
		if i == 0 {
			fmt.Fprintln(w)
		}
		fmt.Fprintf(w, "  %s\n", line)
	}
	for _, cells := range r.Scenarios() {
		if text := Headline(cells); text != "" {
			fmt.Fprintf(w, "    %s, %s\n", cells[0][0].Scenario, text)
		}
	}
}

// Columns returns the measures that some result of the cell has.
func Columns(cell []Result) []Measure {
	var shown []Measure
	for _, m := range Measures() {
		for i := range cell {
			if m.Of(&cell[i]) != nil {
				shown = append(shown, m)
				break
			}
		}
	}
	return shown
}

// block writes one cell.
func (r *Run) block(w io.Writer, cell []Result) {
	columns := Columns(cell)
	rows := [][]string{{"peer"}}
	for _, m := range columns {
		rows[0] = append(rows[0], m.Title+" ")
	}
	for i := range cell {
		rows = append(rows, row(cell, i, columns))
	}
	fmt.Fprintf(w, "\n%s\n", cell[0].Cell())
	align(w, rows)
	if line := WinnerLine(cell); line != "" {
		fmt.Fprintf(w, "  winner: %s\n", line)
	}
	for _, line := range r.Checks(cell) {
		fmt.Fprintf(w, "  check: %s\n", line)
	}
	for i := range cell {
		if t := Trouble(&cell[i]); t != "" {
			fmt.Fprintf(w, "  %s: %s\n", cell[i].Peer, t)
		}
	}
}

func row(cell []Result, i int, columns []Measure) []string {
	name := cell[i].Peer
	if cell[i].Baseline {
		name = "(" + name + ")"
	}
	texts := []string{name}
	for _, m := range columns {
		text := "- "
		if v := m.Of(&cell[i]); v != nil {
			text = m.Format(*v) + " "
			if m.Ranked {
				text = m.Format(*v) + mark(m.Winner(cell), i)
			}
		}
		texts = append(texts, text)
	}
	return texts
}

func mark(winners []int, i int) string {
	for _, n := range winners {
		if n == i {
			return "*"
		}
	}
	return " "
}

// Trouble says what was wrong with a peer in a cell, "" if nothing.
func Trouble(r *Result) string {
	var s []string
	if r.Error != "" {
		s = append(s, r.Error)
	}
	if r.Overlaps > 0 && r.Params.Permits > 0 {
		s = append(s, fmt.Sprintf("HELD MORE THAN %d: %d times", r.Params.Permits, r.Overlaps))
	} else if r.Overlaps > 0 {
		s = append(s, fmt.Sprintf("BROKE MUTUAL EXCLUSION: %d overlaps", r.Overlaps))
	}
	if r.Failed > 0 {
		s = append(s, fmt.Sprintf("failed %s times (%s)", Count(float64(r.Failed)), r.Failure))
	}
	return strings.Join(s, "; ")
}

// WinnerLine names the winner by each ranked measure, and how far the next peer is behind.
func WinnerLine(cell []Result) string {
	var s []string
	for _, m := range Columns(cell) {
		if won := m.Winner(cell); m.Ranked && len(won) > 0 {
			s = append(s, m.Name+" "+names(cell, won)+lead(m, cell, won))
		}
	}
	return strings.Join(s, " · ")
}

func names(cell []Result, which []int) string {
	var s []string
	for _, i := range which {
		s = append(s, cell[i].Peer)
	}
	if len(s) > 3 {
		return fmt.Sprintf("no clear winner (%s and %d more)", s[0], len(s)-1)
	}
	return strings.Join(s, " = ")
}

// lead is by what factor the winners beat the best of the others that are not of the first one's family.
func lead(m Measure, cell []Result, won []int) string {
	f := factor(m, cell, won)
	next := runnerUp(m, cell, won)
	if f < 1.05 || len(won) > 3 {
		return ""
	}
	return fmt.Sprintf(" (%s× %s)", Decimal(f), cell[next].Peer)
}

// runnerUp is the best of those that lead does not name, by its index; -1 if there is none.
func runnerUp(m Measure, cell []Result, won []int) int {
	next := -1
	for i := range cell {
		v := m.Of(&cell[i])
		if v == nil || cell[i].Baseline || cell[i].Broken() || slices.Contains(won, i) || kin(cell, won[0], i) {
			continue
		}
		if next < 0 || m.better(*v, *m.Of(&cell[next])) {
			next = i
		}
	}
	return next
}

// kin reports whether two peers are settings of one library.
func kin(cell []Result, i, j int) bool { return family(cell[i].Peer) == family(cell[j].Peer) }

// factor is how many times better the first winner is than the runner-up, 0 where that cannot be told.
func factor(m Measure, cell []Result, won []int) float64 {
	next := runnerUp(m, cell, won)
	if next < 0 {
		return 0
	}
	f := *m.Of(&cell[next]) / *m.Of(&cell[won[0]])
	if m.Higher {
		f = 1 / f
	}
	if f > 1e9 || math.IsNaN(f) {
		return 0
	}
	return f
}

// family puts the settings of one library together, and its commits: relock, relock-remote and relock@v0.1.0; redisson
// and redisson-fair.
func family(peer string) string {
	if i := strings.IndexAny(peer, "-@"); i >= 0 {
		return peer[:i]
	}
	return peer
}

// winners is a table of all cells.
func (r *Run) winners(w io.Writer) {
	rows := [][]string{append([]string{"winners by cell"}, Contests()...)}
	for _, cell := range r.Cells() {
		line := []string{cell[0].Cell()}
		for _, name := range rows[0][1:] {
			line = append(line, WinnerBy(cell, name))
		}
		rows = append(rows, line)
	}
	fmt.Fprintln(w)
	alignLeft(w, rows)
}

// Contests are what the summary of all cells names winners of.
func Contests() []string { return []string{"throughput", "wait p99", "commands", "fairness"} }

// WinnerBy names the winners of a cell by a contest, "-" when it was not measured or only one peer took part. Where
// there is no waiting time, recovery stands for it.
func WinnerBy(cell []Result, measure string) string {
	for _, m := range Columns(cell) {
		if m.Name == measure || measure == "commands" && strings.HasPrefix(m.Name, "commands") ||
			measure == "wait p99" && m.Name == "recovery" {
			if won := m.Winner(cell); len(won) > 3 {
				return "no clear winner"
			} else if len(won) > 0 {
				return names(cell, won)
			}
		}
	}
	return "-"
}

func widths(rows [][]string) []int {
	var width []int
	for _, row := range rows {
		for i, text := range row {
			if i == len(width) {
				width = append(width, 0)
			}
			width[i] = max(width[i], utf8.RuneCountInString(text))
		}
	}
	return width
}

// align writes rows with the first column to the left and the others to the right.
func align(w io.Writer, rows [][]string) {
	width := widths(rows)
	for _, row := range rows {
		fmt.Fprint(w, "  ", row[0], pad(row[0], width[0]))
		for i, text := range row[1:] {
			fmt.Fprint(w, "  ", pad(text, width[i+1]), text)
		}
		fmt.Fprintln(w)
	}
}

func alignLeft(w io.Writer, rows [][]string) {
	width := widths(rows)
	for _, row := range rows {
		var line strings.Builder
		for i, text := range row {
			line.WriteString(text + pad(text, width[i]) + "  ")
		}
		fmt.Fprintln(w, strings.TrimRight(line.String(), " "))
	}
}

func pad(text string, width int) string {
	return strings.Repeat(" ", width-utf8.RuneCountInString(text))
}
