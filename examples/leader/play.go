package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/election"
	"github.com/relock-go/relock/examples/internal/embedded"
	"github.com/relock-go/relock/examples/internal/workers"
)

// What this file does is the show: it starts the processes, sends their leader signals, and checks. Nobody needs to copy it.

const (
	lockName  = "example:leader"
	processes = 3
	bound     = time.Minute // of one round beside its lease, for a machine that is very busy
)

// upset is a signal that the leader gets.
type upset struct {
	name   string
	signal os.Signal
}

var (
	sigterm = upset{"SIGTERM", syscall.SIGTERM}
	sigkill = upset{"kill -9", syscall.SIGKILL}
)

type setting struct {
	Redis  embedded.Redis
	Lease  time.Duration
	Rounds int
	Upsets []upset // of each round
	Pause  time.Duration
	Logf   func(string, ...any)
}

// show is a play under way.
type show struct {
	setting
	looks   *election.Election // takes no part
	journal workers.Journal[event]
	started int
	running map[int]*workers.Worker
}

func processName(number int) string { return fmt.Sprintf("process-%d", number) }

// play returns how long it took from each signal until the next process led. It fails if two processes led at once.
func play(ctx context.Context, s setting) (map[string][]time.Duration, error) {
	end, err := s.Redis.Start()
	if err != nil {
		return nil, err
	}
	defer end()
	rdb, err := connect(s.Redis)
	if err != nil {
		return nil, err
	}
	defer rdb.Close()
	locks, err := relock.New(rdb, relock.WithClientName("show"))
	if err != nil {
		return nil, err
	}
	defer locks.Close()
	p := &show{setting: s, looks: election.New(locks.Mutex(lockName)), running: make(map[int]*workers.Worker)}

	ctx, cancel := context.WithCancel(ctx)
	var watching sync.WaitGroup
	watching.Go(func() { watch(ctx, p.looks, func(text string) { s.Logf("Watch: %s", text) }) })
	took, err := p.rounds(ctx)
	cancel() // the processes get SIGTERM
	watching.Wait()
	for number, w := range p.running {
		if ended := w.Wait(); ended != nil && err == nil {
			err = fmt.Errorf("%s: %w", processName(number), ended)
		}
	}
	if err != nil {
		return nil, err
	}
	return took, check(p.journal.All())
}

func (p *show) rounds(ctx context.Context) (map[string][]time.Duration, error) {
	took := make(map[string][]time.Duration)
	for range processes {
		if err := p.start(ctx); err != nil {
			return nil, err
		}
	}
	for range p.Rounds {
		for _, u := range p.Upsets {
			for again := true; again; {
				d, err := p.round(ctx, u)
				if err != nil {
					return nil, fmt.Errorf("%s: %w", u.name, err)
				}
				// If the leader had lost its lead before the signal, on a very busy machine, the round shows nothing.
				if again = d < 0; !again {
					took[u.name] = append(took[u.name], d)
				}
			}
		}
	}
	_, err := p.settled(ctx) // so that a process which has just begun hears SIGTERM
	return took, err
}

func (p *show) start(ctx context.Context) error {
	p.started++
	w, err := workers.Start(ctx, job{p.Redis, p.Lease, p.started}, p.journal.Add)
	if err == nil {
		p.running[p.started] = w
	}
	return err
}

// round sends the leader a signal, returns how long it took until another process led, and replaces the one that ended.
func (p *show) round(all context.Context, u upset) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(all, p.Lease+bound)
	defer cancel()
	was, err := p.settled(ctx)
	if err != nil {
		return 0, err
	}
	p.Logf("%s leads under token %d, and two processes wait", processName(was.Process), was.Token)
	select {
	case <-time.After(p.Pause):
	case <-ctx.Done():
		return 0, context.Cause(ctx)
	}
	at := workers.Now()
	p.running[was.Process].Signal(u.signal)
	p.Logf("%s gets %s", processName(was.Process), u.name)
	next, err := p.journal.Await(ctx, func(e event) bool { return e.What == leads && e.Token > was.Token && e.Process != was.Process })
	if err != nil {
		return 0, err
	}
	took := next.At - at
	p.Logf("%s leads, after %v", processName(next.Process), took.Round(100*time.Microsecond))
	if err := p.running[was.Process].Wait(); err != nil && u.signal != syscall.SIGKILL {
		return 0, fmt.Errorf("%s: %w", processName(was.Process), err)
	}
	delete(p.running, was.Process)
	return took, p.start(all)
}

// settled waits until one process leads, as it says and Redis too, and the others wait. It returns the begin of the term.
func (p *show) settled(ctx context.Context) (begin event, err error) {
	for {
		now, err := p.looks.Leader(ctx)
		if err != nil {
			return begin, err
		}
		for _, e := range p.journal.All() {
			switch e.What {
			case leads:
				begin = e
			case failed:
				return begin, fmt.Errorf("%s: %s", processName(e.Process), e.Text)
			}
		}
		if now.Held && now.Client.Name == processName(begin.Process) && now.Waiters == processes-1 {
			return begin, nil
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
			return begin, context.Cause(ctx)
		}
	}
}

// term is a time in which a process leads.
type term struct {
	process     int
	token       int64
	from, until time.Duration
}

// check fails if two terms overlap, or a later one has no greater token.
func check(events []event) error {
	terms := make(map[int64]*term)
	for _, e := range events {
		t := terms[e.Token]
		switch {
		case e.What == failed:
			return fmt.Errorf("%s: %s", processName(e.Process), e.Text)
		case e.What == leads:
			if t != nil {
				return fmt.Errorf("%s and %s lead under token %d", processName(t.process), processName(e.Process), e.Token)
			}
			terms[e.Token] = &term{e.Process, e.Token, e.At, e.At}
		case e.What == works: // a process that is killed may say no more: it leads until its lease ends
			t.until = max(t.until, e.Until)
		case e.What == ended: // by itself, before it gave the lock back; or the lease had ended
			t.until = min(t.until, e.At)
		}
	}
	var sorted []*term
	for _, t := range terms {
		sorted = append(sorted, t)
	}
	slices.SortFunc(sorted, func(a, b *term) int { return cmp.Compare(a.from, b.from) })
	for i, t := range sorted[1:] {
		if before := sorted[i]; t.from < before.until || t.token <= before.token {
			return fmt.Errorf("%s leads under token %d, %v before the end of the term of %s under token %d",
				processName(t.process), t.token, before.until-t.from, processName(before.process), before.token)
		}
	}
	return nil
}
