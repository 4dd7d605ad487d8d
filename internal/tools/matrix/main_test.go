package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestResults reads what go test -json prints of four kinds of runs.
func TestResults(t *testing.T) {
	for name, c := range map[string]struct {
		lines []string
		cell  string
		ok    bool
		log   string
	}{
		"passed": {
			lines: []string{
				`{"Action":"run","Package":"m/a","Test":"TestX"}`, `{"Action":"pass","Package":"m/a","Test":"TestX/one"}`,
				`{"Action":"pass","Package":"m/a","Test":"TestX"}`, `{"Action":"skip","Package":"m/a","Test":"TestY"}`,
				`{"Action":"pass","Package":"m/a"}`,
			},
			cell: "1, 1 skipped, 0.0 min", ok: true,
		},
		"failed": {
			lines: []string{
				`{"Action":"output","Package":"m/a","Test":"TestX/one","Output":"why\n"}`, `{"Action":"fail","Package":"m/a","Test":"TestX/one"}`,
				`{"Action":"fail","Package":"m/a","Test":"TestX"}`, `{"Action":"pass","Package":"m/a","Test":"TestY"}`,
				`{"Action":"fail","Package":"m/a"}`,
			},
			cell: "**a.TestX**, 0.0 min", log: "why\n",
		},
		"a package that does not start": {
			lines: []string{`{"Action":"output","Package":"m/a","Output":"panic\n"}`, `{"Action":"fail","Package":"m/a"}`},
			cell:  "**a**, 0.0 min", log: "panic\n",
		},
		"nothing ran": {lines: []string{`{"Action":"skip","Package":"m/a"}`}, cell: "**no test ran**"},
	} {
		t.Run(name, func(t *testing.T) {
			var r result
			var log strings.Builder
			r.read(strings.NewReader(strings.Join(c.lines, "\n")), &log)
			require.Equal(t, c.cell, r.String())
			require.Equal(t, c.ok, r.ok())
			require.Equal(t, c.log, log.String())
		})
	}
}
