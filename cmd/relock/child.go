package main

import (
	"fmt"
	"os"
	"runtime"
	"time"
)

// command runs the command under the hold and returns its exit status, and whether the lock was
// lost meanwhile. The command starts once checked is closed.
func (l *locked) command(held hold, checked <-chan struct{}) (status int, lost bool) {
	c := l.child
	if err := l.ready(held, checked, c.ready()); err != nil {
		return l.unready(err)
	}
	l.cmd.Env = l.environ(held)
	// On Linux the command is killed when its parent dies, and the kernel takes the thread that started it for
	// the parent: that thread must not end.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := c.start(); err != nil {
		l.unused = true // another host that can run it may have the lock
		return l.cannotStart(err), false
	}
	gone := held.Context().Done()
	var kill <-chan time.Time
	for {
		select {
		case s := <-l.sigs:
			l.signalled = l.signalled || ends(s)
			c.pass(s, gone)
		case s := <-c.control:
			// If the lock was lost while relock was stopped, SIGCONT waits for terminate: the command goes on
			// only to get SIGTERM.
			if lost || !goesOn(s) || held.Context().Err() == nil {
				c.pass(s, gone)
			}
		case c.stopped = <-c.changed:
			c.stopWithCommand()
		case <-gone:
			lost, gone = true, nil
			c.terminate()
			kill = time.After(l.grace)
			l.say(statusLost, fmt.Errorf("%w, the command is being stopped", l.lost(held)))
		case <-kill:
			kill = nil
			c.send(os.Kill)
		case <-c.ended:
			for kill != nil && c.leaves() { // the command's children may ignore SIGTERM
				select {
				case <-kill:
					kill = nil
					c.send(os.Kill)
				case s := <-l.sigs:
					c.send(s)
				case <-time.After(leftEvery):
				}
			}
			return c.status, lost
		}
	}
}

// leftEvery is the pause between two looks for processes that the command has left behind.
const leftEvery = 20 * time.Millisecond
