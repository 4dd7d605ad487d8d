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
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"
)

// witness is a second process of relock, in the same process group. A signal that it gets too came to the
// whole group, as from a key at a terminal: the command has it already, and relock must not pass it on.
// Go does not tell which process sent a signal.
type witness struct {
	cmd   *exec.Cmd
	in    io.WriteCloser    // takes questions, a number a line; the process ends when it is closed
	heard chan word         // what the process has written; closed at its end
	knows chan struct{}     // closed once the process catches signals, or will not come to that
	asked int               // number of the last question
	last  map[int]time.Time // when the process last got a signal, by the signal's number
}

// word is a line that the witness process has written.
type word struct {
	n  int // above zero: it got this signal; below: it answers question -n; zero, which goes no further: it is ready
	at time.Time
}

const (
	witnessName = "witness"
	// witnessPause is how long the witness delays an answer: the signal may still be on its way to it.
	witnessPause = 200 * time.Millisecond
	// witnessTime is how long relock waits for an answer, and for the witness to be ready.
	witnessTime = 5 * time.Second
	// witnessAgain: when the same signal follows sooner than this, relock assumes that it came to the whole
	// group again. The kernel may have merged the two into one for the witness.
	witnessAgain = 250 * time.Millisecond
)

// newWitness starts a witness. It returns nil if that fails.
func newWitness() *witness {
	self, err := os.Executable()
	if err != nil {
		return nil
	}
	w := &witness{cmd: exec.Command(self, witnessName), heard: make(chan word, 16),
		knows: make(chan struct{}), last: make(map[int]time.Time)}
	if w.in, err = w.cmd.StdinPipe(); err != nil {
		return nil
	}
	out, err := w.cmd.StdoutPipe()
	if err != nil || w.cmd.Start() != nil {
		return nil
	}
	go func() {
		defer close(w.heard)
		begun := sync.OnceFunc(func() { close(w.knows) })
		defer begun()
		defer time.AfterFunc(witnessTime, begun).Stop()
		for lines := bufio.NewScanner(out); lines.Scan(); {
			n, _ := strconv.Atoi(lines.Text())
			if n == 0 {
				begun()
				continue
			}
			w.heard <- word{n, time.Now()}
		}
	}()
	return w
}

// ready returns a channel that is closed once the witness catches signals, has ended, or is too slow.
func (w *witness) ready() <-chan struct{} {
	if w == nil {
		none := make(chan struct{})
		close(none)
		return none
	}
	return w.knows
}

// saw reports whether s came to the whole group. It returns false once gone or ended is closed. If the witness
// does not answer, it guesses: true for signals that a key at a terminal sends.
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

// pid returns the number of the process, 0 if there is none.
func (w *witness) pid() int {
	if w == nil {
		return 0
	}
	return w.cmd.Process.Pid
}

func (w *witness) close() {
	if w == nil {
		return
	}
	_ = w.in.Close()
	go func() { // empties the channel, so that newWitness's goroutine can end
		for range w.heard {
		}
	}()
	_ = w.cmd.Process.Kill()
	_ = w.cmd.Wait()
}

// witnessCommand returns the hidden subcommand that a witness process runs.
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

// tellSignals writes the number of each signal it gets, and answers questions, until the input ends.
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
