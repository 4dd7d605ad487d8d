package main

import (
	"errors"
	"os"
	"strconv"
	"time"

	"github.com/relock-go/relock"
)

// command runs the command under the lease and returns its exit status, and whether the lock was
// lost meanwhile.
func (l *locked) command(lease *relock.Lease) (status int, lost bool) {
	l.cmd.Env = append(l.cmd.Environ(), "RELOCK_TOKEN="+strconv.FormatInt(lease.Token(), 10))
	// At a terminal the command must stay in the foreground group, else it could not read.
	group := !isTerminal(l.std.in)
	if group {
		ownGroup(l.cmd)
	}
	if err := l.cmd.Start(); err != nil {
		l.atLeast = 0 // nothing ran: whoever can run it may have the lock
		return l.cannotStart(err), false
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = l.cmd.Wait() // the exit status is read from the process state
	}()
	gone := lease.Context().Done()
	var kill <-chan time.Time
	for {
		select {
		case s := <-l.sigs:
			// One typed at a terminal has reached the command already.
			if group || !typed(s) {
				send(l.cmd, group, s)
			}
		case <-gone:
			lost, gone = true, nil
			l.say(statusLost, errors.New("the lock is lost, the command is being stopped"))
			terminate(l.cmd, group)
			kill = time.After(l.grace)
		case <-kill:
			send(l.cmd, group, os.Kill)
		case <-ended:
			return exitStatus(l.cmd.ProcessState), lost
		}
	}
}
