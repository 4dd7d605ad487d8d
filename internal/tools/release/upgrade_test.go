package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/redistest"
)

// under is how long both versions work beside each other.
const under = 20 * time.Second

// upgrade has processes of the release before and of the new one count under the same locks. In the middle one of the old is
// replaced. No increment is lost, and tokens rise across them all.
func (p *public) upgrade(t *testing.T) {
	redis := redistest.Start(t)
	programs := make(map[string]string)
	for _, version := range []string{p.last, p.version} {
		s := p.arrive(t)
		require.NoError(t, s.program("worker", "main.go", nil))
		_, err := s.run("go", "get", root+"@"+version)
		require.NoError(t, err)
		_, err = s.run("go", "build", "-o", "worker", ".")
		require.NoError(t, err)
		programs[version] = filepath.Join(s.dir, "worker")
	}
	works := time.Now()
	first, second, third := work(t, programs[p.last], redis), work(t, programs[p.last], redis), work(t, programs[p.version], redis)
	counted := make(map[string]int64)
	add := func(version string, w *worker) {
		for name, count := range w.end() {
			t.Logf("%s %s: %d", version, name, count)
			require.Positive(t, count, "%s was kept out", version)
			counted[name] += count
		}
	}
	time.Sleep(under / 2)
	add(p.last, first)
	fourth := work(t, programs[p.version], redis)
	time.Sleep(max(under/2, time.Until(works.Add(under))))
	add(p.last, second)
	add(p.version, third)
	add(p.version, fourth)
	require.Len(t, counted, 2)
	for name, count := range counted {
		require.Equal(t, strconv.FormatInt(count, 10), redis.Do("HGET", "counted:"+name, "count"), name)
	}
}

// worker is a process of testdata/worker.go.txt.
type worker struct {
	t    *testing.T
	cmd  *exec.Cmd
	stop io.Closer
	out  bytes.Buffer
	errs *bufio.Reader
}

// work starts one, and returns when it works.
func work(t *testing.T, program string, redis *redistest.Server) *worker {
	t.Helper()
	w := &worker{t: t, cmd: exec.CommandContext(t.Context(), program, redis.Addr())}
	w.cmd.Stdout = &w.out
	stop, err := w.cmd.StdinPipe()
	require.NoError(t, err)
	errs, err := w.cmd.StderrPipe()
	require.NoError(t, err)
	require.NoError(t, w.cmd.Start())
	w.stop, w.errs = stop, bufio.NewReader(errs)
	line, err := w.errs.ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, "works\n", line)
	return w
}

// end ends one, and returns what it counted.
func (w *worker) end() (counted map[string]int64) {
	w.t.Helper()
	require.NoError(w.t, w.stop.Close())
	said, err := io.ReadAll(w.errs)
	require.NoError(w.t, err)
	require.NoError(w.t, w.cmd.Wait(), "%s", said)
	require.NoError(w.t, json.Unmarshal(w.out.Bytes(), &counted))
	return counted
}
