//go:build unix

package main

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	"github.com/spf13/cobra"
)

// witness is a process of relock's in its own process group. It tells which signals reach it: those came
// to the whole group, as those that are typed at a terminal do, and so the command got them as well.
// Go does not tell which process sent a signal, and a terminal's and a shell's must not come twice.
type witness struct {
	cmd   *exec.Cmd
	in    io.WriteCloser // questions, a line each; the process ends with it
	heard chan word      // closed once it tells no more
	asked int            // questions
	last  map[int]time.Time
}

// word is what a witness tells.
type word struct {
	n  int // of a signal; below zero of the question that is answered; zero: it is ready
	at time.Time
}

const (
	witnessName = "witness"
	// witnessPause is how long a witness that is asked waits for a signal that is on its way to it.
	witnessPause = 200 * time.Millisecond
	// witnessTime is how long an answer is waited for, and the witness itself.
	witnessTime = 5 * time.Second
	// witnessAgain is for how long a signal that comes again is taken to have come to the whole group again:
	// of two that are close, one process may get a single one.
	witnessAgain = 250 * time.Millisecond
)

// newWitness returns nil where none can be started.
func newWitness() *witness {
	self, err := os.Executable()
	if err != nil {
		return nil
	}
	w := &witness{cmd: exec.Command(self, witnessName), heard: make(chan word, 16), last: make(map[int]time.Time)}
	if w.in, err = w.cmd.StdinPipe(); err != nil {
		return nil
	}
	out, err := w.cmd.StdoutPipe()
	if err != nil || w.cmd.Start() != nil {
		return nil
	}
	go func() {
		defer close(w.heard)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			n, _ := strconv.Atoi(lines.Text())
			w.heard <- word{n, time.Now()}
		}
	}()
	return w
}

// ready waits until the witness sees signals, and returns it, or nil where it does not.
func (w *witness) ready() *witness {
	if w == nil {
		return nil
	}
	select {
	case _, ok := <-w.heard:
		if ok {
			return w
		}
	case <-time.After(witnessTime):
	}
	w.close()
	return nil
}

// saw reports whether s came to the whole group, as far as that is known before gone or ended. Without a
// witness that answers it is taken for so where a terminal sends it.
func (w *witness) saw(s os.Signal, gone, ended <-chan struct{}) bool {
	number, ok := s.(syscall.Signal)
	if w == nil || !ok {
		return typed(s)
	}
	w.asked++
	if _, err := fmt.Fprintln(w.in, w.asked); err != nil {
		return typed(s)
	}
	late := time.NewTimer(witnessTime)
	defer late.Stop()
	for time.Since(w.last[int(number)]) > witnessAgain {
		select {
		case said, ok := <-w.heard:
			switch {
			case !ok:
				return typed(s)
			case said.n == -w.asked:
				return false
			case said.n > 0:
				w.last[said.n] = said.at
			}
		case <-late.C:
			return typed(s)
		case <-gone:
			return false
		case <-ended:
			return false
		}
	}
	return true
}

func (w *witness) close() {
	if w == nil {
		return
	}
	_ = w.in.Close()
	go func() { // so that the one that reads can end
		for range w.heard {
		}
	}()
	_ = w.cmd.Process.Kill()
	_ = w.cmd.Wait()
}

// witnessCommand is what relock run starts its own binary with.
func (a *app) witnessCommand() []*cobra.Command {
	return []*cobra.Command{{
		Use:    witnessName,
		Hidden: true,
		Args:   cobra.NoArgs,
		Run: func(*cobra.Command, []string) {
			sigs := make(chan os.Signal, 16)
			signal.Notify(sigs, append(forwarded(), control()...)...)
			defer signal.Stop(sigs)
			fmt.Fprintln(a.std.out, 0)
			tellSignals(a.std, sigs)
		},
	}}
}

// tellSignals tells of signals, and answers questions, until the input ends.
func tellSignals(std stdio, sigs <-chan os.Signal) {
	questions := make(chan string)
	go func() {
		defer close(questions)
		for lines := bufio.NewScanner(std.in); lines.Scan(); {
			questions <- lines.Text()
		}
	}()
	var due <-chan time.Time
	var asked string
	for {
		select {
		case s := <-sigs:
			fmt.Fprintln(std.out, int(s.(syscall.Signal)))
		case question, ok := <-questions:
			if !ok {
				return
			}
			asked, due = question, time.After(witnessPause)
		case <-due:
			fmt.Fprintln(std.out, "-"+asked)
		}
	}
}
