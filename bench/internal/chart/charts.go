package chart

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/relock-go/relock/bench/internal/results"
)

// figure is a chart that can be drawn in several widths.
type figure struct {
	name    string // of its file
	caption string
	drawing interface {
		draw(width float64, alone bool) string
	}
}

// Cells that charts show, by their titles.
const (
	manyGoroutines = "hot-local 64 goroutines"
	fewProcesses   = "hot-processes 8 processes, 1 goroutine, cs 1ms"
	manyProcesses  = "hot-processes 32 processes, 1 goroutine, cs 1ms"
)

// figures returns the charts that the run has figures for.
func figures(r *results.Run) []figure {
	all := []figure{
		throughput(r),
		waits(r, "wait-local", "Waiting for the lock, 64 goroutines of one process", manyGoroutines),
		waits(r, "wait-8-processes", "Waiting for the lock, 8 processes", fewProcesses),
		waits(r, "wait-32-processes", "Waiting for the lock, 32 processes", manyProcesses),
		commands(r),
		fairness(r),
		cached(r),
		waits(r, "wait-giving-way", "Waiting for a lock that idles with another process", "giving-way holder idle"),
		redlock(r),
	}
	return slices.DeleteFunc(all, func(f figure) bool { return f.drawing == nil })
}

// throughput is acquisitions per second by goroutines of one process.
func throughput(r *results.Run) figure {
	lines := &lineChart{
		title:  "Throughput on one key, by goroutines of one process",
		yTitle: "acquisitions per second, empty critical section",
		xTitle: "goroutines", xText: results.Count, yText: short,
		tipText: func(peer string, p point) string {
			return fmt.Sprintf("%s, %s goroutines: %s/s", peer, results.Count(p.x), results.Count(p.y))
		},
	}
	at := make(map[string]int)
	for i := range r.Results {
		res := &r.Results[i]
		p := res.Params
		if res.Scenario != "hot-local" || *p.CSMicros > 0 || p.DelayUS > 0 || !shown(res) || res.AcqPerS == nil || *res.AcqPerS == 0 {
			continue
		}
		n, ok := at[res.Peer]
		if !ok {
			n = len(lines.series)
			at[res.Peer] = n
			lines.series = append(lines.series, series{peer: res.Peer, marked: true})
		}
		lines.series[n].points = append(lines.series[n].points, point{float64(p.Goroutines), *res.AcqPerS})
		if !slices.Contains(lines.xTicks, float64(p.Goroutines)) {
			lines.xTicks = append(lines.xTicks, float64(p.Goroutines))
		}
	}
	slices.Sort(lines.xTicks)
	if len(lines.xTicks) < 2 {
		return figure{}
	}
	return figure{name: "throughput", drawing: lines,
		caption: "Higher is better. Both axes are logarithmic."}
}

// shown reports whether a result belongs into charts.
func shown(r *results.Result) bool {
	return !r.Baseline && !r.Broken() && (r.AcqPerS != nil || r.Wait != nil)
}

// pick returns the results of one cell.
func pick(r *results.Run, cell string) []results.Result {
	var found []results.Result
	for i := range r.Results {
		if r.Results[i].Cell() == cell && shown(&r.Results[i]) {
			found = append(found, r.Results[i])
		}
	}
	return found
}

// waits is the distribution of waiting times in a cell.
func waits(r *results.Run, name, title, cell string) figure {
	lines := &lineChart{
		title: title, yTitle: "share of acquisitions that waited no longer", xTitle: "time from Lock to its return",
		xText: results.Micros, yText: func(v float64) string { return fmt.Sprintf("%.0f %%", 100*v) }, yShare: true,
		tipText: waitTip,
	}
	for _, res := range pick(r, cell) {
		s := series{peer: res.Peer}
		for _, p := range res.WaitCDF {
			s.points = append(s.points, point{max(p[0], 0.1), p[1]})
		}
		if len(s.points) > 0 {
			lines.series = append(lines.series, s)
		}
	}
	if len(lines.series) == 0 {
		return figure{}
	}
	return figure{name: name, drawing: lines, caption: "Further left is better, and so is steeper: a line that leans " +
		"far to the right belongs to a lock that lets some waiters starve while others never wait."}
}

// waitTip tells the quantiles that the tables have, and the ninetieth.
func waitTip(peer string, p point) string {
	share := trim(100 * p.y)
	if !slices.Contains([]string{"50", "90", "99", "99.9"}, share) {
		return ""
	}
	return fmt.Sprintf("%s: %s %% waited %s at most", peer, share, results.Micros(p.x))
}

// shownCell is a cell of a bar chart.
type shownCell struct{ title, cell string }

// hotCells returns those with one key that everybody wants.
func hotCells() []shownCell {
	return []shownCell{
		{"64 goroutines of one process", manyGoroutines},
		{"8 processes, critical section 1 ms", fewProcesses},
		{"32 processes, critical section 1 ms", manyProcesses},
	}
}

// bars compares the peers in each cell by a figure, the best first. There is no figure where no cell has any.
func bars(r *results.Run, f figure, b barChart, cells []shownCell, of func(*results.Result) *float64,
	higher bool) figure {
	for _, c := range cells {
		g := barGroup{title: c.title}
		for _, res := range pick(r, c.cell) {
			if v := of(&res); v != nil {
				g.bars = append(g.bars, bar{peer: res.Peer, value: *v, text: results.Decimal(*v)})
			}
		}
		slices.SortStableFunc(g.bars, func(a, b bar) int {
			if higher {
				a, b = b, a
			}
			return cmp.Compare(a.value, b.value)
		})
		if len(g.bars) > 0 {
			b.groups = append(b.groups, g)
		}
	}
	if len(b.groups) > 0 {
		f.drawing = &b
	}
	return f
}

func commands(r *results.Run) figure {
	return bars(r, figure{name: "commands", caption: "Fewer is better. For etcd, requests to etcd."},
		barChart{title: "Commands sent per acquisition", note: "Lock and Unlock together", unit: "commands"},
		hotCells(), func(res *results.Result) *float64 { return res.CmdsPerAcq }, false)
}

func fairness(r *results.Run) figure {
	return bars(r, figure{name: "fairness",
		caption: "1 means that all workers got the lock equally often; 1/n that one of n got it always."},
		barChart{title: "Fairness among the workers", note: "Jain's index of acquisitions", unit: "of 1", max: 1},
		hotCells(), func(res *results.Result) *float64 { return res.Jain }, true)
}

func cached(r *results.Run) figure {
	return bars(r, figure{name: "cached", caption: "Higher is better. Nobody else wants the lock meanwhile."},
		barChart{title: "The same lock again and again", note: "acquisitions per second by one process", unit: "per second"},
		[]shownCell{
			{"1 goroutine", "cached 1 goroutine"},
			{"64 goroutines", "cached 64 goroutines"},
			{"1 goroutine, a quorum of five nodes", "cached 5 nodes, 1 goroutine"},
			{"64 goroutines, a quorum of five nodes", "cached 5 nodes, 64 goroutines"},
		}, func(res *results.Result) *float64 { return res.AcqPerS }, true)
}

func redlock(r *results.Run) figure {
	const workers = "8 processes, 1 goroutine, cs 1ms"
	return bars(r, figure{name: "redlock", caption: "Higher is better. A node that hangs keeps its connections open and " +
		"answers nothing."},
		barChart{title: "A lock on five nodes", note: "acquisitions per second, 8 processes, critical section 1 ms",
			unit: "per second"},
		[]shownCell{
			{"all nodes answer", "redlock 5 nodes, " + workers},
			{"one node hangs", "redlock 5 nodes, 1 hung, " + workers},
			{"two nodes hang", "redlock 5 nodes, 2 hung, " + workers},
		}, func(res *results.Result) *float64 { return res.AcqPerS }, true)
}

// WriteSVGs writes every chart into a file of dir, each self-contained.
func WriteSVGs(dir string, r *results.Run) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("charts: %w", err)
	}
	for _, f := range figures(r) {
		path := filepath.Join(dir, f.name+".svg")
		if err := os.WriteFile(path, []byte(f.drawing.draw(wide, true)), 0o644); err != nil {
			return fmt.Errorf("charts: %w", err)
		}
	}
	return nil
}

// slug makes an anchor of a title.
func slug(s string) string {
	return strings.Map(func(c rune) rune {
		if c >= 'a' && c <= 'z' || c >= '0' && c <= '9' {
			return c
		}
		return '-'
	}, strings.ToLower(s))
}
