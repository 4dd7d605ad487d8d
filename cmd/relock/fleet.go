package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"time"
)

// fleet is the demo's worker processes, seen from the parent. Its methods belong to one goroutine.
type fleet struct {
	procs []*proc
	news  chan news
}

// proc is one worker process.
type proc struct {
	cmd    *exec.Cmd
	orders io.WriteCloser // its standard input
	client string         // id of its relock client; "" until it is ready
	killed bool
	ended  bool
}

// news is what a goroutine in read tells the fleet's: a line of a journal, or, with ended set, that the process has
// ended and is reaped.
type news struct {
	worker int
	at     time.Time // when it arrived
	event  event
	ended  bool
	err    error // exit of the process, or a line that is no event
}

// startFleet starts n worker processes of this program, all on job j. If one does not start, it kills the others.
func startFleet(n int, j job, stderr io.Writer) (*fleet, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	f := &fleet{news: make(chan news, 1024)}
	for range n {
		if err := f.start(self, j, stderr); err != nil {
			f.close()
			return nil, fmt.Errorf("start a worker: %w", err)
		}
	}
	return f, nil
}

func (f *fleet) start(self string, j job, stderr io.Writer) error {
	p := &proc{cmd: exec.Command(self, "worker")}
	p.cmd.Stderr = stderr
	var err error
	if p.orders, err = p.cmd.StdinPipe(); err != nil {
		return err
	}
	journal, err := p.cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := p.cmd.Start(); err != nil {
		return err
	}
	f.procs = append(f.procs, p)
	go f.read(len(f.procs)-1, p.cmd, journal)
	j.Name = fmt.Sprintf("relock demo, worker %d", len(f.procs))
	return json.NewEncoder(p.orders).Encode(j)
}

// read passes the lines of a journal on until the process has ended. The lines of a killed process are still in the
// pipe.
func (f *fleet) read(n int, cmd *exec.Cmd, journal io.Reader) {
	for lines := bufio.NewScanner(journal); lines.Scan(); {
		m := news{worker: n, at: time.Now()}
		if err := json.Unmarshal(lines.Bytes(), &m.event); err != nil {
			m.err = fmt.Errorf("worker %d wrote %q into its journal: %w", n+1, lines.Text(), err)
		}
		f.news <- m
	}
	f.news <- news{worker: n, ended: true, err: cmd.Wait(), at: time.Now()}
}

// order sends an order to every living worker. A failed write is ignored: that worker has ended, and news of it follows.
func (f *fleet) order(o order) {
	for n := range f.procs {
		f.orderOne(n, o)
	}
}

func (f *fleet) orderOne(n int, o order) {
	if p := f.procs[n]; !p.ended {
		_, _ = fmt.Fprintln(p.orders, o)
	}
}

// kill sends SIGKILL. News of the process's end follows.
func (f *fleet) kill(n int) error {
	f.procs[n].killed = true
	return f.procs[n].cmd.Process.Kill()
}

// allReady reports whether every worker has connected.
func (f *fleet) allReady() bool {
	for _, p := range f.procs {
		if p.client == "" {
			return false
		}
	}
	return true
}

// living counts the processes that have not ended.
func (f *fleet) living() int {
	n := 0
	for _, p := range f.procs {
		if !p.ended {
			n++
		}
	}
	return n
}

// close kills whoever is left and returns when all are gone.
func (f *fleet) close() {
	for n, p := range f.procs {
		if !p.ended {
			_ = f.kill(n)
		}
	}
	for f.living() > 0 {
		if m := <-f.news; m.ended {
			f.procs[m.worker].ended = true
		}
	}
}
