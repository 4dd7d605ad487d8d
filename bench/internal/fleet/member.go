package fleet

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/relock-go/relock/bench/internal/board"
)

// Env is the environment variable that makes a process a member. It has the member's task.
const Env = "RELOCK_BENCH_MEMBER"

// A task is what a member does until SIGTERM.
type task struct {
	Peer  string        `json:"peer"`
	Addr  string        `json:"addr"`
	Name  string        `json:"name"`            // the member's own
	Job   time.Duration `json:"job,omitempty"`   // of a scheduler: how long its job takes
	Start int64         `json:"start,omitempty"` // of a scheduler: when it starts
}

// What a member says.
const (
	leads  = "leads"  // it believes that it leads, from then on
	lost   = "lost"   // it believed so until then
	began  = "began"  // a job began
	failed = "failed" // with the error as the text
)

// event is what a member says of itself.
type event struct {
	At   int64  `json:"at"` // of board.Now
	What string `json:"what"`
	Text string `json:"text,omitempty"`
	from *member
}

// voice writes events, one a line.
type voice struct {
	mu  sync.Mutex // guards out
	out *json.Encoder
}

func (v *voice) say(at int64, what, text string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	_ = v.out.Encode(event{At: at, What: what, Text: text})
}

// Serve does the task in text, and writes what happens to out. Each line of in makes it resign.
func Serve(text string, in io.Reader, out io.Writer) error {
	var t task
	if err := json.Unmarshal([]byte(text), &t); err != nil {
		return fmt.Errorf("%s: %w", Env, err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	v := &voice{out: json.NewEncoder(out)}
	var err error
	if open := schedulers[t.Peer]; open != nil {
		err = schedule(ctx, t, open, v)
	} else {
		err = elect(ctx, t, in, v)
	}
	if err != nil && ctx.Err() == nil {
		v.say(board.Now(), failed, err.Error())
	}
	return err
}

// A candidate takes part in an election until ctx ends. It calls lead in each of its terms.
type candidate interface {
	run(ctx context.Context, lead func(trusted func() bool)) error
	resign()
}

func elect(ctx context.Context, t task, in io.Reader, v *voice) error {
	c, err := candidates[t.Peer](t)
	if err != nil {
		return err
	}
	go func() {
		for lines := bufio.NewScanner(in); lines.Scan(); {
			c.resign()
		}
	}()
	return c.run(ctx, func(trusted func() bool) {
		last := board.Now()
		v.say(last, leads, "")
		for at := last; trusted(); at = board.Now() { // from before it asks: the answer may be old at once
			last = at
			time.Sleep(time.Millisecond)
		}
		v.say(last, lost, "")
	})
}
