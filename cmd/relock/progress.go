package main

import (
	"fmt"
	"io"
	"os"
	"time"
)

// progress shows how far the demo is: on a terminal by a line that it rewrites, elsewhere by a line every second.
type progress struct {
	out   io.Writer
	live  bool
	since time.Time
	dirty bool // the terminal shows a line that is to be rewritten
}

func newProgress(out io.Writer) *progress {
	return &progress{out: out, live: isTerminal(out), since: time.Now()}
}

// isTerminal reports whether w is a character device other than the null device.
func isTerminal(w any) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	if err != nil || info.Mode()&os.ModeCharDevice == 0 {
		return false
	}
	null, err := os.Stat(os.DevNull)
	return err != nil || !os.SameFile(info, null)
}

// every returns how often to call status.
func (p *progress) every() time.Duration {
	if p.live {
		return 100 * time.Millisecond
	}
	return time.Second
}

// say prints a line that stays.
func (p *progress) say(format string, args ...any) {
	p.wipe()
	fmt.Fprintf(p.out, "%5.1f s  %s\n", time.Since(p.since).Seconds(), fmt.Sprintf(format, args...))
}

// status prints a line. On a terminal the next line replaces it.
func (p *progress) status(format string, args ...any) {
	if !p.live {
		p.say(format, args...)
		return
	}
	p.wipe()
	fmt.Fprintf(p.out, "%5.1f s  %s", time.Since(p.since).Seconds(), fmt.Sprintf(format, args...))
	p.dirty = true
}

// wipe clears the line that status left.
func (p *progress) wipe() {
	if p.dirty {
		fmt.Fprint(p.out, "\r\x1b[K")
		p.dirty = false
	}
}
