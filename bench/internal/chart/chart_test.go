package chart

import (
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/bench/internal/results"
)

// sample is a run with figures of every kind, some of them extreme.
func sample() *results.Run {
	f := func(v float64) *float64 { return &v }
	zero, ms := int64(0), int64(1000)
	r := &results.Run{Schema: results.Schema, Mode: "quick", Notes: []string{"<b>a note</b>"}}
	for i, peer := range []string{"relock", "relock-remote", "redsync", "etcd", "new<peer>"} {
		for _, g := range []int{1, 64, 4096} {
			r.Results = append(r.Results, results.Result{Scenario: "hot-local", Peer: peer,
				Params: results.Params{Goroutines: g, CSMicros: &zero}, AcqPerS: f(float64(300_000 / (i*i*50 + 1))),
				WaitCDF:    [][2]float64{{0, 0}, {float64(i * 100), .5}, {1e6, 1}},
				CmdsPerAcq: f(float64(i)), Jain: f(1 / float64(i+1))})
		}
		r.Results = append(r.Results, results.Result{Scenario: "hot-processes", Peer: peer,
			Params:  results.Params{Processes: 8, Goroutines: 1, CSMicros: &ms},
			AcqPerS: f(0), WaitCDF: [][2]float64{{5, 0}, {5, 1}}, CmdsPerAcq: f(0), Jain: f(1)})
	}
	return r
}

func TestChartsAreWellFormedAndWithinTheirBox(t *testing.T) {
	figures := figures(sample())
	require.Len(t, figures, 5)
	for _, f := range figures {
		for _, width := range []float64{wide, narrow} {
			svg := f.drawing.draw(width, true)
			dec := xml.NewDecoder(strings.NewReader(svg))
			for {
				_, err := dec.Token()
				if errors.Is(err, io.EOF) {
					break
				}
				require.NoError(t, err, f.name)
			}
			require.NotContains(t, svg, "NaN", f.name)
			require.NotContains(t, svg, "Inf", f.name)
		}
	}
}

func TestPageIsSelfContained(t *testing.T) {
	path := filepath.Join(t.TempDir(), "page.html")
	require.NoError(t, WritePage(path, sample()))
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	page := strings.ReplaceAll(string(text), `xmlns="http://www.w3.org/2000/svg"`, "")
	for _, outside := range []string{"<script", "<link", "http://", "https://", "src=", "@import", "url("} {
		require.NotContains(t, page, outside)
	}
	require.Contains(t, page, "prefers-color-scheme: dark")
	require.Contains(t, page, "new&lt;peer&gt;")
	require.Contains(t, page, "&lt;b&gt;a note&lt;/b&gt;")
}

func TestPageTellsWhoLeadsAndWhereThingsStand(t *testing.T) {
	path := filepath.Join(t.TempDir(), "page.html")
	r := sample()
	late := r.Results[0] // a cell measured after those of other scenarios
	late.Params.Goroutines = 8
	r.Results = append(r.Results, late)
	require.NoError(t, WritePage(path, r))
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	page := string(text)
	require.Equal(t, 1, strings.Count(page, ` id="hot-local"`), "one section for each scenario")
	for _, anchor := range []string{"charts", "winners", "hot-local", "hot-processes", "peers"} {
		require.Contains(t, page, `<a href="#`+anchor+`">`)
		require.Contains(t, page, ` id="`+anchor+`"`)
	}
	require.Less(t, strings.Index(page, "Throughput: relock leads"), strings.Index(page, "<svg"), "on top")
	require.Contains(t, page, "<dt>throughput</dt>", "a card for each measure")
	require.Contains(t, page, "relock, 64 goroutines: 300,000/s", "what the pointer finds")
	require.Contains(t, page, "redsync: 50 % waited 200 µs at most")
}

// TestPageIsFolded walks the page of a run with several scenarios. Its charts are open. Its tables, its cards and what
// its index points to are within closed folds: a link into a closed fold opens it, a link to the fold would not.
func TestPageIsFolded(t *testing.T) {
	path := filepath.Join(t.TempDir(), "page.html")
	require.NoError(t, WritePage(path, sample()))
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	dec := xml.NewDecoder(strings.NewReader(string(text)))
	dec.Strict, dec.AutoClose, dec.Entity = false, xml.HTMLAutoClose, xml.HTMLEntity
	var closed int    // folds around the token that are not open
	var summaries int // summaries around it
	var opens []bool  // for each fold around it, whether it is open
	folded := map[string]int{}
	for {
		token, err := dec.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
		switch e := token.(type) {
		case xml.StartElement:
			open, id := false, ""
			for _, a := range e.Attr {
				open = open || a.Name.Local == "open"
				if a.Name.Local == "id" {
					id = a.Value
				}
			}
			switch name := e.Name.Local; name {
			case "details":
				opens = append(opens, open)
				if !open {
					closed++
				}
			case "summary":
				summaries++
			case "table", "dl", "h3":
				require.Positive(t, closed, "a %s that is not folded", name)
				folded[name]++
			case "figure", "nav":
				require.Zero(t, closed, "a %s that is folded", name)
			}
			if id != "" && id != "charts" && e.Name.Local != "details" {
				require.Positive(t, closed, "#%s", id)
				require.Zero(t, summaries, "#%s", id)
				folded["#"+id]++
			}
		case xml.EndElement:
			switch e.Name.Local {
			case "details":
				if !opens[len(opens)-1] {
					closed--
				}
				opens = opens[:len(opens)-1]
			case "summary":
				summaries--
			}
		}
	}
	require.Equal(t, map[string]int{"#winners": 1, "#hot-local": 1, "#hot-processes": 1, "#peers": 1,
		"table": 5, "dl": 12, "h3": 4}, folded)
	require.Regexp(t, `@media print \{[^@]*\.fold::details-content \{ content-visibility: visible; \}`, string(text))
}

func TestTheOnlyScenarioIsOpen(t *testing.T) {
	path := filepath.Join(t.TempDir(), "page.html")
	r := sample()
	r.Results = slices.DeleteFunc(r.Results, func(one results.Result) bool { return one.Scenario != "hot-local" })
	require.NoError(t, WritePage(path, r))
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Regexp(t, `<details class="fold" open><summary><h2>hot-local</h2>`, string(text))
}

func TestCachesHaveCharts(t *testing.T) {
	rate, wait := 5.0, &results.Quantiles{P50: 1, N: 1}
	r := &results.Run{Results: []results.Result{
		{Scenario: "cached", Params: results.Params{Goroutines: 1}, Peer: "relock-cached", AcqPerS: &rate, Wait: wait},
		{Scenario: "giving-way", Params: results.Params{Holder: "idle"}, Peer: "relock-cached", Wait: wait,
			WaitCDF: [][2]float64{{1, 0}, {2, .99}, {3, 1}}}, // no rate
	}}
	var names []string
	for _, f := range figures(r) {
		names = append(names, f.name)
		require.Contains(t, f.drawing.draw(wide, false), "relock-cached")
	}
	require.Equal(t, []string{"cached", "wait-giving-way"}, names)
}

func TestPicturesHaveNoTips(t *testing.T) {
	for _, f := range figures(sample()) {
		if f.name == "throughput" || f.name == "commands" {
			require.Contains(t, f.drawing.draw(wide, false), `class="tip"`, f.name)
		}
		require.NotContains(t, f.drawing.draw(wide, true), `class="tip"`, f.name)
	}
}

func TestCardsHaveTheBestFirst(t *testing.T) {
	f := func(v float64) *float64 { return &v }
	cell := []results.Result{
		{Peer: "slow", AcqPerS: f(1), CmdsPerAcq: f(9), AllocsPerAcq: f(2)},
		{Peer: "none", AcqPerS: f(100), Baseline: true},
		{Peer: "fast", AcqPerS: f(10), CmdsPerAcq: f(2), AllocsPerAcq: f(9)},
	}
	ranked, more := cardsOf(cell)
	require.Equal(t, []card{
		{Title: "throughput", Lines: []cardLine{
			{Peer: "none", Text: "100", Baseline: true}, {Peer: "fast", Text: "10", Best: true}, {Peer: "slow", Text: "1"}}},
		{Title: "commands", Lines: []cardLine{{Peer: "fast", Text: "2.00", Best: true}, {Peer: "slow", Text: "9.00"}}},
	}, ranked)
	allocations := []cardLine{{Peer: "slow", Text: "2.00"}, {Peer: "fast", Text: "9.00"}}
	require.Equal(t, []card{{Title: "allocations", Lines: allocations}}, more, "as they took part")
}

func TestEmptyRunHasAPage(t *testing.T) {
	require.Empty(t, figures(&results.Run{}))
	require.NoError(t, WritePage(filepath.Join(t.TempDir(), "page.html"), &results.Run{}))
	dir := filepath.Join(t.TempDir(), "charts")
	require.NoError(t, WriteSVGs(dir, sample()))
	files, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, files, 5)
}

func TestWrap(t *testing.T) {
	require.Equal(t, []string{"one two", "three"}, wrap("one two three", 9))
	require.Equal(t, []string{"overlong", "x"}, wrap("overlong x", 3))
	require.Empty(t, wrap("", 5))
}

func TestAxis(t *testing.T) {
	a := around([]float64{0, 30, 250_000}, 0, 100)
	require.Equal(t, []float64{10, 1e6}, []float64{a.min, a.max})
	require.InDelta(t, 0, a.at(1), 1e-9, "what is too small is drawn at the edge")
	require.InDelta(t, 100, a.at(1e6), 1e-9)
	require.Len(t, a.decades(10), 6)
	require.LessOrEqual(t, len(a.decades(3)), 3)
}
