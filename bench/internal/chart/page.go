package chart

import (
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
	Figures   []pageFigure
	Winners   []table
	Scenarios []scenario
}

type pageFigure struct {
	Wide, Narrow template.HTML
	Caption      string
}

type scenario struct {
	Name  string
	ID    string
	Cells []table
}

// table is a cell of the bench.
type table struct {
	Title   string
	Heads   []string
	Rows    []row
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
	p := page{Run: r, Style: template.CSS(styleCSS + pageCSS), Header: r.Header()}
	for _, f := range figures(r) {
		p.Figures = append(p.Figures, pageFigure{
			Wide: template.HTML(f.drawing.draw(wide, false)), Narrow: template.HTML(f.drawing.draw(narrow, false)),
			Caption: f.caption,
		})
	}
	winners := table{Heads: append([]string{"cell"}, results.Contests()...)}
	for _, cell := range r.Cells() {
		winners.Rows = append(winners.Rows, winnerRow(cell))
		if n := len(p.Scenarios); n == 0 || p.Scenarios[n-1].Name != cell[0].Scenario {
			p.Scenarios = append(p.Scenarios, scenario{Name: cell[0].Scenario, ID: slug(cell[0].Scenario)})
		}
		s := &p.Scenarios[len(p.Scenarios)-1]
		s.Cells = append(s.Cells, tableOf(r, cell))
	}
	p.Winners = []table{winners}
	return p
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
