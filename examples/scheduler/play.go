package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"syscall"
	"time"

	"github.com/relock-go/relock/examples/internal/embedded"
	"github.com/relock-go/relock/examples/internal/workers"
)

// What this file does is the show: it starts the processes, kills one, and checks. Nobody needs to copy it.

const (
	processes = 3
	whole     = 20 * time.Millisecond // Redis counts whole milliseconds, clocks differ a little, and commands take their time
)

type setting struct {
	Redis  embedded.Redis
	Every  time.Duration
	Ticks  int // of each process
	KillAt int // the tick in which the process that runs the job is killed, 0 for none
	Logf   func(string, ...any)
}

// stagger is how far apart the processes start.
func (s setting) stagger() time.Duration { return s.Every / 5 }

// atLeast is the middle of how far apart the ticks of the processes lie, and of the time from one tick to the next.
func (s setting) atLeast() time.Duration { return ((processes-1)*s.stagger() + s.Every) / 2 }

// slack is how late a process may be without a change in which process runs the job.
func (s setting) slack() time.Duration { return s.Every - s.atLeast() }

type result struct {
	Once, Plain int           // runs
	Failed      int           // tries that Redis did not answer in time
	Late        time.Duration // how late a process was at most
}

// play plays the ticks. It fails if a tick's job ran twice, or not at all.
func play(ctx context.Context, s setting) (got result, err error) {
	end, err := s.Redis.Start()
	if err != nil {
		return got, err
	}
	defer end()
	ctx, cancel := context.WithTimeout(ctx, time.Duration(s.Ticks)*s.Every+time.Minute)
	defer cancel()
	var journal workers.Journal[event]
	tell := func(e event) {
		if e.Way == onceWay && e.Did == ran {
			s.Logf("process %d runs the job", e.Process)
		}
		journal.Add(e)
	}
	var running []*workers.Worker
	start := workers.Now() + time.Second // for all to be there
	for i := range processes {
		at := start + time.Duration(i)*s.stagger()
		w, err := workers.Start(ctx, worker{s.Redis, i, at, s.Ticks, s.Every, s.atLeast()}, tell)
		if err != nil {
			return got, err
		}
		defer w.Wait()
		defer w.Signal(syscall.SIGTERM)
		running = append(running, w)
	}
	killed := -1
	if s.KillAt > 0 {
		e, err := journal.Await(ctx, func(e event) bool { return e.Way == onceWay && e.Did == ran && e.Tick == s.KillAt })
		if err != nil {
			return got, err
		}
		killed = e.Process
		running[killed].Signal(syscall.SIGKILL)
		s.Logf("process %d is killed", killed)
	}
	for i, w := range running {
		if err := w.Wait(); err != nil && i != killed {
			return got, fmt.Errorf("process %d: %w", i, err)
		}
	}
	for _, e := range journal.All() {
		due := start + time.Duration(e.Process)*s.stagger() + time.Duration(e.Tick)*s.Every
		if e.Way == onceWay {
			got.Late = max(got.Late, e.After-due)
			if e.Did == failed {
				got.Failed++
			}
		}
	}
	once, plain := runs(journal.All(), onceWay), runs(journal.All(), plainWay)
	got.Once, got.Plain = len(once), len(plain)
	return got, check(journal.All(), s.atLeast())
}

// runs returns the runs by a way, in order.
func runs(events []event, way string) []event {
	events = slices.DeleteFunc(slices.Clone(events), func(e event) bool { return e.Way != way || e.Did != ran })
	slices.SortFunc(events, func(a, b event) int { return cmp.Compare(a.Before, b.Before) })
	return events
}

// check fails if a job ran twice within atLeast. It also fails if a process was refused the job though no process had begun it
// within atLeast: then a tick was lost. Neither may happen, however late a process is.
func check(events []event, atLeast time.Duration) error {
	all := runs(events, onceWay)
	for i, e := range all[min(1, len(all)):] {
		if before := all[i]; e.After-before.Before < atLeast-whole {
			return fmt.Errorf("process %d ran the job again, %v after process %d", e.Process, e.After-before.Before, before.Process)
		}
	}
	tries := make(map[[2]int]event) // by process and tick, as the process last spoke of them
	for _, e := range events {
		if e.Way == onceWay {
			tries[[2]int{e.Process, e.Tick}] = e
		}
	}
	for _, e := range tries {
		if e.Did != busy {
			continue
		}
		held := false
		for _, r := range tries {
			switch r.Did {
			case ran:
				held = held || r.Before <= e.After && e.Before <= r.After+atLeast+whole
			case failed, asks: // it may have got the lock at any time since, and not heard of it, or not said so: it was killed
				held = held || r.Before <= e.After
			}
		}
		if !held {
			return fmt.Errorf("process %d was refused the job of its tick %d, and no other process ran it", e.Process, e.Tick)
		}
	}
	return nil
}
