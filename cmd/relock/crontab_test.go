//go:build unix

package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

// The crontab lines of docs/cli.md run their job once, and say nothing on a host that comes second: cron would mail it.
func TestCrontabLines(t *testing.T) {
	srv := redistest.Start(t)
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "relock"), []byte(fmt.Sprintf("#!/bin/sh\nshift\nexec %s run -redis %s \"$@\"\n", os.Args[0], srv.Addr())), 0o700))
	text, err := os.ReadFile(filepath.Join(tree, "docs", "cli.md"))
	require.NoError(t, err)
	lines := 0
	for line := range strings.Lines(string(text)) {
		at := strings.Index(line, " * * *  ")
		if at < 0 {
			continue
		}
		lines++
		command, _, _ := strings.Cut(strings.TrimSpace(line[at+len(" * * *"):]), " -- ")
		host := func() string {
			cmd := exec.Command("/bin/sh", "-c", command+" -- echo ran")
			cmd.Env = []string{"PATH=" + dir + ":/bin:/usr/bin"}
			said, err := cmd.CombinedOutput()
			require.NoError(t, err, "%s: %s", command, said)
			return string(said)
		}
		require.Equal(t, "ran\n", host(), command)
		require.Empty(t, host(), command)
	}
	require.Equal(t, 2, lines, "docs/cli.md has no such lines")
}
