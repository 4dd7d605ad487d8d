package world

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"
)

var workers = flag.Int("workers", 0, "run seeds in so many processes, -1 for as many as there are processors; 0 for this one")

// apart is how far the seeds of two processes lie from one another: more than fresh ones rise in a year.
const apart = 1 << 40

// runWorkers runs this program once for each worker, each with seeds of its own: a process simulates on one processor.
func runWorkers(t *testing.T, first uint64) {
	n := *workers
	if n < 0 {
		n = runtime.NumCPU()
	}
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() { runWorker(t, first+uint64(i)*apart, (*seeds+n-1)/n) })
	}
	all.Wait()
}

// runWorker runs one, and tells all that it printed if it failed, else what it ran.
func runWorker(t *testing.T, first uint64, count int) {
	args := append(os.Args[1:len(os.Args):len(os.Args)], "-test.v", "-test.testlogfile=", "-workers=0", "-fresh=false",
		fmt.Sprintf("-from=%d", first), fmt.Sprintf("-seeds=%d", count))
	worker := exec.Command(os.Args[0], args...)
	var printed bytes.Buffer
	worker.Stdout, worker.Stderr = &printed, &printed
	began := time.Now()
	if err := worker.Run(); err != nil {
		t.Errorf("seeds from %d on: %v after %v\n%s", first, err, time.Since(began).Round(time.Second), printed.String())
		return
	}
	for line := range strings.Lines(printed.String()) {
		if _, told, ok := strings.Cut(line, ": seeds "); ok {
			t.Logf("seeds %s", strings.TrimSpace(told))
		}
	}
}
