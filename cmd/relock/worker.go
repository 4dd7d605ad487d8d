package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"
	"github.com/relock-go/relock"
	"github.com/spf13/cobra"
)

// job is the first line of a worker's standard input. Orders follow, one a line. At the end of input the parent is gone.
type job struct {
	Target     target        `json:"target"` // Redis with the counter
	Nodes      []target      `json:"nodes"`  // Redis servers with the lock
	Lock       string        `json:"lock"`
	Name       string        `json:"name"` // the worker's
	Counter    string        `json:"counter"`
	Locked     bool          `json:"locked"`
	Lease      time.Duration `json:"lease"`
	Goroutines int           `json:"goroutines"`
	Observed   bool          `json:"observed"` // count metrics and send them
}

// order tells a worker what to do next.
type order string

const (
	orderGo   order = "go"   // begin
	orderHold order = "hold" // stay in the next critical section until killed
	orderStop order = "stop" // begin no more sections, and end
)

// worker is the state of a worker process of the demo.
type worker struct {
	job      job
	rdb      rueidis.Client
	mutex    *relock.Mutex
	log      *scribe
	start    chan struct{} // closed by orderGo
	hold     atomic.Bool   // orderHold came, and no goroutine has followed it yet
	stopping atomic.Bool
}

// workerCommand returns the hidden subcommand that a worker process runs.
func (a *app) workerCommand() *cobra.Command {
	return &cobra.Command{
		Use:    "worker",
		Hidden: true,
		Args:   cobra.NoArgs,
		Run:    func(*cobra.Command, []string) { a.status = runWorker(a.std) },
	}
}

func runWorker(std stdio) int {
	// Ctrl-C reaches the whole process group; the parent decides when a worker ends.
	signal.Ignore(os.Interrupt)
	in := bufio.NewReader(std.in)
	w := &worker{log: newScribe(std.out), start: make(chan struct{})}
	line, err := in.ReadBytes('\n')
	if err == nil {
		err = json.Unmarshal(line, &w.job)
	}
	if err != nil {
		return failed(std, statusFailed, "relock worker", fmt.Errorf("it is started by relock demo only: %w", err))
	}
	if err := w.run(in); err != nil {
		_ = w.log.write(event{Kind: kindFail, Text: err.Error()})
		return statusFailed
	}
	return statusOK
}

// run works until told to stop.
func (w *worker) run(in io.Reader) error {
	rdb, err := w.job.Target.open()
	if err != nil {
		return err
	}
	defer rdb.Close()
	w.rdb = rdb
	observer, end, err := w.observe()
	if err != nil {
		return err
	}
	defer end()
	locks, err := w.openLocks(observer)
	if err != nil {
		return err
	}
	defer locks.Close()
	w.mutex = locks.Mutex(w.job.Lock)

	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	go w.obey(in, cancel)
	if err := w.log.write(event{Kind: kindReady, Client: locks.ID()}); err != nil {
		return err
	}
	select {
	case <-w.start:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	return w.work(ctx, cancel)
}

// openLocks connects to the nodes of the lock. The connections end with the process.
func (w *worker) openLocks(opts []relock.ClientOption) (*relock.Client, error) {
	var rdbs []rueidis.Client
	for _, t := range w.job.Nodes {
		rdb, err := t.open()
		if err != nil {
			return nil, err
		}
		rdbs = append(rdbs, rdb)
	}
	return openLocksOn(rdbs, w.job.Lease, append(opts, relock.WithLease(w.job.Lease), relock.WithClientName(w.job.Name))...)
}

// work runs all goroutines. The first that fails ends the others.
func (w *worker) work(ctx context.Context, cancel context.CancelCauseFunc) error {
	var wg sync.WaitGroup
	for g := range w.job.Goroutines {
		wg.Go(func() {
			for !w.stopping.Load() && ctx.Err() == nil {
				if err := w.pass(ctx, g); err != nil {
					cancel(fmt.Errorf("goroutine %d: %w", g, err))
				}
			}
		})
	}
	wg.Wait()
	return context.Cause(ctx)
}

// obey follows the parent's orders. When the input ends, it cancels the work: nobody reads the journal any more.
func (w *worker) obey(in io.Reader, cancel context.CancelCauseFunc) {
	for lines := bufio.NewScanner(in); lines.Scan(); {
		switch order(lines.Text()) {
		case orderGo:
			close(w.start)
		case orderHold:
			w.hold.Store(true)
		case orderStop:
			w.stopping.Store(true)
		}
	}
	cancel(errors.New("the parent process is gone"))
}

// pass runs the critical section once: under the lock and one re-entry of it, or without any lock.
func (w *worker) pass(ctx context.Context, g int) error {
	if !w.job.Locked {
		return w.increment(ctx, event{G: g})
	}
	asked := time.Now()
	return w.mutex.Do(ctx, func(ctx context.Context) error {
		if w.stopping.Load() {
			return nil // many goroutines may still wait, and sections may be slow: leave at once
		}
		begin := event{G: g, Wait: time.Since(asked)}
		outer, err := w.mutex.Held(ctx)
		if err != nil {
			return err
		}
		begin.Token = outer.Token()
		err = w.mutex.Do(ctx, func(ctx context.Context) error {
			inner, err := w.mutex.Held(ctx)
			if err != nil {
				return err
			}
			if inner.Count() != 2 || inner.Token() != outer.Token() {
				return fmt.Errorf("re-entered token %d with count %d and token %d", outer.Token(), inner.Count(), inner.Token())
			}
			return w.increment(ctx, begin)
		})
		if count := outer.Count(); err == nil && count != 1 {
			return fmt.Errorf("count %d after the inner unlock", count)
		}
		return err
	})
}

// increment adds one to the counter by two commands, GET and SET: wrong without a lock. It writes the journal before
// and after the SET, which makes the expected count exact: see journal.go.
func (w *worker) increment(ctx context.Context, begin event) error {
	var err error
	if begin.Read, err = w.rdb.Do(ctx, w.rdb.B().Get().Key(w.job.Counter).Build()).AsInt64(); err != nil {
		return fmt.Errorf("GET of the counter: %w", err)
	}
	begin.Kind = kindBegin
	if w.hold.CompareAndSwap(true, false) {
		begin.Kind = kindHold
	}
	if err := w.log.write(begin); err != nil {
		return err
	}
	next := strconv.FormatInt(begin.Read+1, 10)
	if err := w.rdb.Do(ctx, w.rdb.B().Set().Key(w.job.Counter).Value(next).Build()).Error(); err != nil {
		return fmt.Errorf("SET of the counter: %w", err)
	}
	if begin.Kind == kindHold {
		<-ctx.Done()
		return fmt.Errorf("ordered to hold until killed, not killed: %w", context.Cause(ctx))
	}
	return w.log.write(event{Kind: kindDone, G: begin.G})
}
