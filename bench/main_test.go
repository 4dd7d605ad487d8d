package main

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/bench/internal/results"
)

func TestBadArguments(t *testing.T) {
	for want, args := range map[string][]string{
		`what is "now"?`:        {"now"},
		"compare takes two":     {"compare", "one.json"},
		"flags only":            {"election", "now"},
		"report takes one":      {"report"},
		"no such file":          {"compare", "none.json", "none.json"},
		"not defined":           {"-fast"},
		`did you mean "relock"`: {"-peers", "relok"},
	} {
		require.ErrorContains(t, command(context.Background(), args), want)
	}
}

func TestReportAndCompare(t *testing.T) {
	dir := t.TempDir()
	rate := 5.0
	one := results.Result{Scenario: "uncontended", Peer: "relock", AcqPerS: &rate}
	r := results.Run{Schema: results.Schema, Results: []results.Result{one}}
	path := filepath.Join(dir, "r.json")
	require.NoError(t, r.Write(path))
	page := filepath.Join(dir, "r.html")
	require.NoError(t, command(context.Background(), []string{"report", "-html", page, path}))
	text, err := os.ReadFile(page)
	require.NoError(t, err)
	require.Contains(t, string(text), "uncontended")
	require.NoError(t, command(context.Background(), []string{"compare", path, path}))
	require.NoError(t, (&results.Run{Schema: results.Schema}).Write(filepath.Join(dir, "empty.json")))
	err = command(context.Background(), []string{"compare", path, filepath.Join(dir, "empty.json")})
	require.ErrorContains(t, err, "no peer and cell in common")
}

// The charts of docs/benchmarks.md are those of the run that is kept, as today's code draws them.
func TestDocumentedChartsAreOfTheFullRun(t *testing.T) {
	drawn, shown := t.TempDir(), filepath.Join("..", "docs", "charts")
	require.NoError(t, command(context.Background(), []string{"report", "-svg", drawn, filepath.Join("results", "full.json")}))
	want, err := os.ReadDir(drawn)
	require.NoError(t, err)
	have, err := os.ReadDir(shown)
	require.NoError(t, err)
	require.Len(t, have, len(want))
	for _, f := range want {
		text, err := os.ReadFile(filepath.Join(drawn, f.Name()))
		require.NoError(t, err)
		chart, err := os.ReadFile(filepath.Join(shown, f.Name()))
		require.NoError(t, err)
		require.Equal(t, string(chart), string(text), f.Name())
	}
}
