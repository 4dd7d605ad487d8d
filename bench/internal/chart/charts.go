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

// figures returns the charts that the run has figures for.
func figures(r *results.Run) []figure {
	all := []figure{
		throughput(r),
		waits(r, "wait-local", "Waiting for the lock, 64 goroutines of one process", "hot-local", 0, 64, 0),
		waits(r, "wait-8-processes", "Waiting for the lock, 8 processes", "hot-processes", 8, 1, 1000),
		waits(r, "wait-32-processes", "Waiting for the lock, 32 processes", "hot-processes", 32, 1, 1000),
		commands(r),
		fairness(r),
	}
	return slices.DeleteFunc(all, func(f figure) bool { return f.drawing == nil })
}

// throughput is acquisitions per second by goroutines of one process.
func throughput(r *results.Run) figure {
	lines := &lineChart{
		title:  "Throughput on one key, by goroutines of one process",
		yTitle: "acquisitions per second, empty critical section",
		xTitle: "goroutines", xText: short, yText: short,
	}
	at := make(map[string]int)
	for i := range r.Results {
		res := &r.Results[i]
		p := res.Params
		if res.Scenario != "hot-local" || *p.CSMicros > 0 || p.DelayUS > 0 || !shown(res) || *res.AcqPerS == 0 {
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
func shown(r *results.Result) bool { return !r.Baseline && !r.Broken() && r.AcqPerS != nil }

// pick returns the results of one cell.
func pick(r *results.Run, scenario string, processes, goroutines int, cs int64) []results.Result {
	var found []results.Result
	for i := range r.Results {
		p := r.Results[i].Params
		if r.Results[i].Scenario == scenario && p.Processes == processes && p.Goroutines == goroutines &&
			p.CSMicros != nil && *p.CSMicros == cs && p.DelayUS == 0 && shown(&r.Results[i]) {
			found = append(found, r.Results[i])
		}
	}
	return found
}

// waits is the distribution of waiting times in a cell.
func waits(r *results.Run, name, title, scenario string, processes, goroutines int, cs int64) figure {
	lines := &lineChart{
		title: title, yTitle: "share of acquisitions that waited no longer", xTitle: "time from Lock to its return",
		xText: results.Micros, yText: func(v float64) string { return fmt.Sprintf("%.0f %%", 100*v) }, yShare: true,
	}
	for _, res := range pick(r, scenario, processes, goroutines, cs) {
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

// cells are those that bar charts compare in.
func barCells(r *results.Run, of func(*results.Result) *bar) []barGroup {
	var groups []barGroup
	for _, c := range []struct {
		title, scenario       string
		processes, goroutines int
		cs                    int64
	}{
		{"64 goroutines of one process", "hot-local", 0, 64, 0},
		{"8 processes, critical section 1 ms", "hot-processes", 8, 1, 1000},
		{"32 processes, critical section 1 ms", "hot-processes", 32, 1, 1000},
	} {
		g := barGroup{title: c.title}
		for _, res := range pick(r, c.scenario, c.processes, c.goroutines, c.cs) {
			if b := of(&res); b != nil {
				g.bars = append(g.bars, *b)
			}
		}
		if len(g.bars) > 0 {
			groups = append(groups, g)
		}
	}
	return groups
}

func commands(r *results.Run) figure {
	groups := barCells(r, func(res *results.Result) *bar {
		if res.CmdsPerAcq == nil {
			return nil
		}
		return &bar{peer: res.Peer, value: *res.CmdsPerAcq, text: results.Decimal(*res.CmdsPerAcq)}
	})
	for i := range groups {
		slices.SortStableFunc(groups[i].bars, func(a, b bar) int { return cmp.Compare(a.value, b.value) })
	}
	if len(groups) == 0 {
		return figure{}
	}
	return figure{name: "commands", caption: "Fewer is better. For etcd, requests to etcd.",
		drawing: &barChart{title: "Commands sent per acquisition", note: "Lock and Unlock together", groups: groups}}
}

func fairness(r *results.Run) figure {
	groups := barCells(r, func(res *results.Result) *bar {
		if res.Jain == nil {
			return nil
		}
		return &bar{peer: res.Peer, value: *res.Jain, text: results.Decimal(*res.Jain)}
	})
	for i := range groups {
		slices.SortStableFunc(groups[i].bars, func(a, b bar) int { return cmp.Compare(b.value, a.value) })
	}
	if len(groups) == 0 {
		return figure{}
	}
	return figure{name: "fairness",
		caption: "1 means that all workers got the lock equally often; 1/n that one of n got it always.",
		drawing: &barChart{title: "Fairness among the workers", note: "Jain's index of acquisitions", max: 1, groups: groups}}
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
