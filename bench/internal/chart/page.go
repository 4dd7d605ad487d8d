package chart

import (
	"cmp"
	_ "embed"
	"fmt"
	"html/template"
	"os"
	"slices"
	"strings"

	"github.com/relock-go/relock/bench/internal/results"
)

//go:embed page.css
var pageCSS string

//go:embed page.html
var pageHTML string

// page is what the template is given.
type page struct {
	Run       *results.Run
	Style     template.CSS
	Header    []string
	Summary   []string
	Figures   []pageFigure
	Winners   table
	Scenarios []scenario
}

type pageFigure struct {
	Wide, Narrow template.HTML
	Caption      string
}

type scenario struct {
	Name     string
	ID       string
	Headline string
	Cells    []table
}

// table is a cell of the bench.
type table struct {
	Title   string
	Heads   []string
	Rows    []row
	Cards   []card // the same as Rows, by measure: for narrow screens
	More    []card // of measures by which nobody wins
	Winner  string
	Checks  []string
	Trouble []string
}

type row struct {
	Name     string
	Baseline bool
	Fields   []field
}

type field struct {
	Title, Text string
	Best, None  bool
}

// card is a measure with what each peer has, the best first where peers are ranked by it.
type card struct {
	Title string
	Lines []cardLine
}

type cardLine struct {
	Peer, Text string
	Best       bool
	Baseline   bool
}

// WritePage writes the run as one HTML file that needs nothing else.
func WritePage(path string, r *results.Run) error {
	t, err := template.New("page").Parse(pageHTML)
	if err != nil {
		return fmt.Errorf("page: %w", err)
	}
	var text strings.Builder
	if err := t.Execute(&text, pageOf(r)); err != nil {
		return fmt.Errorf("page: %w", err)
	}
	if err := os.WriteFile(path, []byte(text.String()), 0o644); err != nil {
		return fmt.Errorf("page: %w", err)
	}
	return nil
}

func pageOf(r *results.Run) page {
	p := page{Run: r, Style: template.CSS(styleCSS + pageCSS), Header: r.Header(), Summary: r.Summary()}
	for _, f := range figures(r) {
		p.Figures = append(p.Figures, pageFigure{
			Wide: template.HTML(f.drawing.draw(wide, false)), Narrow: template.HTML(f.drawing.draw(narrow, false)),
			Caption: f.caption,
		})
	}
	p.Winners.Heads = append([]string{"cell"}, results.Contests()...)
	for _, cells := range r.Scenarios() {
		s := scenario{Name: cells[0][0].Scenario, ID: slug(cells[0][0].Scenario), Headline: results.Headline(cells)}
		for _, cell := range cells {
			p.Winners.Rows = append(p.Winners.Rows, winnerRow(cell))
			s.Cells = append(s.Cells, tableOf(r, cell))
		}
		p.Scenarios = append(p.Scenarios, s)
	}
	return p
}

// cardsOf returns a cell's cards, first those that peers are ranked by.
func cardsOf(cell []results.Result) (ranked, more []card) {
	for _, m := range results.Columns(cell) {
		c := cardOf(cell, m)
		if m.Ranked {
			ranked = append(ranked, c)
		} else {
			more = append(more, c)
		}
	}
	return ranked, more
}

func cardOf(cell []results.Result, m results.Measure) card {
	var have []int
	for i := range cell {
		if m.Of(&cell[i]) != nil {
			have = append(have, i)
		}
	}
	if m.Ranked {
		slices.SortStableFunc(have, func(a, b int) int {
			if m.Higher {
				a, b = b, a
			}
			return cmp.Compare(*m.Of(&cell[a]), *m.Of(&cell[b]))
		})
	}
	c := card{Title: m.Name}
	winners := m.Winner(cell)
	for _, i := range have {
		c.Lines = append(c.Lines, cardLine{Peer: cell[i].Peer, Text: m.Format(*m.Of(&cell[i])), Baseline: cell[i].Baseline,
			Best: m.Ranked && slices.Contains(winners, i)})
	}
	return c
}

func winnerRow(cell []results.Result) row {
	r := row{Name: cell[0].Cell()}
	for _, name := range results.Contests() {
		who := results.WinnerBy(cell, name)
		r.Fields = append(r.Fields, field{Title: name, Text: who, None: who == "-"})
	}
	return r
}

func tableOf(run *results.Run, cell []results.Result) table {
	t := table{Title: cell[0].Params.String(), Heads: []string{"peer"}, Winner: results.WinnerLine(cell),
		Checks: run.Checks(cell)}
	t.Cards, t.More = cardsOf(cell)
	columns := results.Columns(cell)
	for _, m := range columns {
		t.Heads = append(t.Heads, m.Title)
	}
	for i := range cell {
		r := row{Name: cell[i].Peer, Baseline: cell[i].Baseline}
		for _, m := range columns {
			f := field{Title: m.Title, Text: "–", None: true}
			if v := m.Of(&cell[i]); v != nil {
				f.Text, f.None = m.Format(*v), false
				f.Best = m.Ranked && slices.Contains(m.Winner(cell), i)
			}
			r.Fields = append(r.Fields, f)
		}
		t.Rows = append(t.Rows, r)
		if text := results.Trouble(&cell[i]); text != "" {
			t.Trouble = append(t.Trouble, cell[i].Peer+": "+text)
		}
	}
	return t
}
