package run

import (
	"fmt"
	"io"
	"time"

	"github.com/relock-go/relock/bench/internal/board"
)

// progress tells what is being measured and how long it will take.
type progress struct {
	w     io.Writer
	live  bool
	left  time.Duration
	total time.Duration
	last  string
}

func (p *progress) show(format string, args ...any) {
	if p.w == nil {
		return
	}
	if p.total == 0 {
		p.total = p.left
	}
	percent := 0
	if p.total > 0 {
		percent = int(100 * (p.total - p.left) / p.total)
	}
	line := fmt.Sprintf("%3d %%  %s left  ", percent, max(0, p.left).Round(time.Second)) + fmt.Sprintf(format, args...)
	if p.live {
		fmt.Fprintf(p.w, "\r\x1b[K%s", line)
	} else if line != p.last {
		fmt.Fprintln(p.w, line)
	}
	p.last = line
}

func (p *progress) spent(d time.Duration) {
	if p.total == 0 {
		p.total = p.left
	}
	p.left -= d
}

func (p *progress) end() {
	if p.w != nil && p.live {
		fmt.Fprint(p.w, "\r\x1b[K")
	}
}

func now() int64 { return board.Now() }
