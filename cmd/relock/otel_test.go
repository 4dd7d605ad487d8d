package main

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

var metricsAt = regexp.MustCompile(`metrics at (http://\S+)`)

// scraped is what the demo serves that writes to out, "" while it does not.
func scraped(t *testing.T, out *safeBuffer) string {
	found := metricsAt.FindStringSubmatch(out.String())
	if found == nil {
		return ""
	}
	client := http.Client{Timeout: patience, Transport: &http.Transport{DisableKeepAlives: true}}
	got, err := client.Get(found[1])
	if err != nil {
		return ""
	}
	defer got.Body.Close()
	text, err := io.ReadAll(got.Body)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, got.StatusCode, string(text))
	return string(text)
}

// The metrics of all workers are served until somebody ends the demo, and those of a killed worker no more.
func TestDemoServesMetrics(t *testing.T) {
	var out, errs safeBuffer
	cmd := exec.CommandContext(t.Context(), os.Args[0], "demo", "-for", "4s", "-lease", "1500ms", "-otel", "127.0.0.1:0")
	cmd.Stdout, cmd.Stderr = &out, &errs
	require.NoError(t, cmd.Start())
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	require.Eventually(t, func() bool { return strings.Contains(out.String(), "metrics stay") }, 4*patience, 10*time.Millisecond)
	text := scraped(t, &out)
	for _, worker := range []string{"1", "3"} {
		of := `relock_lock_kind="mutex",relock_lock_name="relock-demo"`
		require.Contains(t, text, `relock_held{`+of+`,worker="`+worker+`"} 0`)
		require.Contains(t, text, `relock_waiting{`+of+`,worker="`+worker+`"} 0`)
		require.Regexp(t, `relock_wait_duration_seconds_count{[^}]*,relock_result="acquired",worker="`+worker+`"} [1-9]`, text)
		require.Contains(t, text, `relock_nodes_down{worker="`+worker+`"} 0`)
		require.Regexp(t, `relock_commands_total{relock_command="acquire",relock_result="answered",worker="`+worker+`"} [1-9]`, text)
	}
	require.NotContains(t, text, `worker="2"`)
	require.NoError(t, cmd.Process.Signal(syscall.SIGTERM))
	require.NoError(t, <-ended, out.String()+errs.String())
	require.Contains(t, out.String(), "All as promised.")
}

// What a worker has counted comes in parts, and counts once it is whole.
func TestCountsComeInParts(t *testing.T) {
	x, err := openExhibit("127.0.0.1:0")
	require.NoError(t, err)
	defer x.close()
	c, err := newCounters()
	require.NoError(t, err)
	var journal bytes.Buffer
	require.NoError(t, c.write(newScribe(&journal)))
	lines := bytes.SplitAfter(bytes.TrimSpace(journal.Bytes()), []byte("\n"))
	for _, line := range lines {
		require.Less(t, len(line), 512)
	}
	for i, line := range lines {
		var e event
		require.NoError(t, json.Unmarshal(line, &e))
		require.NoError(t, x.note(0, e))
		require.Equal(t, i == len(lines)-1, len(x.counts) == 1)
	}
	families, err := x.gather()
	require.NoError(t, err)
	require.Equal(t, "relock_nodes_down", families[0].GetName())
	x.forget(0)
	families, err = x.gather()
	require.NoError(t, err)
	require.Empty(t, families)
	require.NoError(t, x.note(0, event{Kind: kindBegin}))
	require.ErrorContains(t, x.note(0, event{Kind: kindCount, Data: []byte("no metrics"), Last: true}), "worker 1")

	_, err = openExhibit("127.0.0.1:-1")
	require.ErrorContains(t, err, "-otel")
	require.Equal(t, statusUsage, relockRun("demo", "-lock", "none", "-otel", ":0").status)
}
