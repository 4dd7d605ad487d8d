package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/rueidis"
	"github.com/relock-go/relock"
)

// nodes are the Redis servers that keep the demo's lock. Without -nodes it is the one that has the counter too.
type nodes []*server

// openNodes starts n servers, or returns the given one for n of 1.
func openNodes(n int, one *server) (nodes, error) {
	if n == 1 {
		return nodes{one}, nil
	}
	var ns nodes
	for range n {
		s, err := openServer(target{})
		if err != nil {
			ns.close()
			return nil, err
		}
		ns = append(ns, s)
	}
	return ns, nil
}

func (ns nodes) close() {
	for _, s := range ns {
		s.close()
	}
}

func (ns nodes) targets() []target {
	var ts []target
	for _, s := range ns {
		ts = append(ts, s.target)
	}
	return ts
}

// String says what is used.
func (ns nodes) String() string {
	if len(ns) == 1 {
		return ns[0].String()
	}
	return fmt.Sprintf("a quorum of %d embedded miniredis", len(ns))
}

// lockCommands returns how many commands of locks all nodes have received so far.
func (ns nodes) lockCommands(ctx context.Context) (int64, error) {
	var sum int64
	for _, s := range ns {
		n, err := s.lockCommands(ctx)
		if err != nil {
			return 0, err
		}
		sum += n
	}
	return sum, nil
}

// openLocksOn returns a client of locks on the servers' clients. Only a quorum's guard needs to know how long a node
// that forgot must be kept out: as long as the longest lease.
func openLocksOn(rdbs []rueidis.Client, lease time.Duration, opts ...relock.Option) (*relock.Client, error) {
	if len(rdbs) == 1 {
		return relock.New(rdbs[0], opts...)
	}
	return relock.NewRedlock(rdbs, append(opts, relock.WithLease(lease), relock.WithRestartGuard(lease))...)
}

// faults is what a demo does to a quorum: one node hangs, another is stopped, and comes back having forgotten
// everything. With three nodes only the other. One goroutine plays it, step by step.
type faults struct {
	ns    nodes
	lock  string
	pause time.Duration // how long two are out
	show  *progress
	due   <-chan time.Time // the next step, nil when there is none
	step  func() error

	out   time.Time // the nodes were taken away
	empty time.Time // one was started again, empty
	back  time.Time // it granted the lock again
}

const (
	hangs = 1 // index of the node that hangs
	stops = 2 // index of the node that is stopped
)

// minority is how many nodes are taken away.
func (f *faults) minority() int { return min(2, (len(f.ns)-1)/2) }

func (f *faults) after(d time.Duration, step func() error) {
	f.due, f.step = time.After(d), step
}

// begin takes nodes away, unless there is no quorum.
func (f *faults) begin() {
	if len(f.ns) == 1 || !f.out.IsZero() {
		return
	}
	f.out = time.Now()
	what := fmt.Sprintf("node %d is stopped", stops+1)
	f.ns[stops].mini.Close()
	if f.minority() == 2 {
		f.ns[hangs].hang()
		what = fmt.Sprintf("node %d hangs, %s", hangs+1, what)
	}
	f.show.say("%s: %d of %d nodes are left", what, len(f.ns)-f.minority(), len(f.ns))
	f.after(f.pause, f.restart)
}

func (f *faults) restart() error {
	if err := f.ns[stops].restartEmpty(); err != nil {
		return fmt.Errorf("node %d does not start again: %w", stops+1, err)
	}
	f.empty = time.Now()
	f.show.say("node %d is back and has forgotten everything: it may grant nothing for a lease", stops+1)
	f.after(0, f.look)
	return nil
}

// look waits for the node to be given a vote again.
func (f *faults) look() error {
	if !f.ns[stops].mini.Exists(f.lock) {
		f.after(5*time.Millisecond, f.look)
		return nil
	}
	f.back, f.due = time.Now(), nil
	f.show.say("node %d grants the lock again, %v after its restart", stops+1, f.back.Sub(f.empty).Round(time.Millisecond))
	return nil
}

// end lets a node go on that hangs, so that it can be closed.
func (f *faults) end() {
	if !f.out.IsZero() && f.minority() == 2 {
		f.ns[hangs].resume()
	}
}

// checkNodes returns what is wrong with the flags where there is a quorum.
func (o *demoOptions) checkNodes() error {
	switch {
	case o.nodes == 1:
		return nil
	case o.nodes < 3 || o.nodes > 9:
		return fmt.Errorf("-nodes %d: it is 1, or from 3 to 9 to have a quorum without some", o.nodes)
	case o.redis != "":
		return errors.New("-nodes and -redis: the demo stops nodes, so they are its own")
	case !o.locked():
		return errors.New("-nodes and -lock none: without a lock there is nothing for nodes to keep")
	case o.run < 4*o.lease:
		return fmt.Errorf("-for %v: four times the lease of %v is needed to see a node forget", o.run, o.lease)
	}
	return nil
}
