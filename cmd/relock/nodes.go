package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/rueidis"
	"github.com/relock-go/relock"
)

// nodes are the Redis servers that keep the demo's lock. Without -nodes it is one, which has the counter too.
type nodes []*server

// openNodes starts n servers. If n is 1, it returns one.
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

// String describes the servers for the user.
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

// openLocksOn returns a client of locks on one Redis, or on a quorum of several. A quorum gets a guard that keeps a
// node out for the longest lease after it has forgotten locks.
func openLocksOn(rdbs []rueidis.Client, lease time.Duration, opts ...relock.ClientOption) (*relock.Client, error) {
	if len(rdbs) == 1 {
		return relock.New(rdbs[0], opts...)
	}
	return relock.NewRedlock(rdbs, append(opts, relock.WithLease(lease), relock.WithRestartGuard(lease))...)
}

// faults is what a demo does to a quorum: one node hangs, and another is stopped and restarted empty. Of three nodes
// none hangs. One goroutine calls the methods, step by step.
type faults struct {
	ns    nodes
	lock  string
	pause time.Duration // how long the nodes are out
	show  *progress
	due   <-chan time.Time // when to call step, nil if there is none
	step  func() error     // the next step

	out   time.Time // when the nodes were taken away
	empty time.Time // when one was started again, empty
	back  time.Time // when that one granted the lock again
}

const (
	hangs = 1 // index of the node that hangs
	stops = 2 // index of the node that is stopped
)

// minority returns how many nodes are taken away.
func (f *faults) minority() int { return min(2, (len(f.ns)-1)/2) }

func (f *faults) after(d time.Duration, step func() error) {
	f.due, f.step = time.After(d), step
}

// begin takes the nodes away, once, if there is a quorum.
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

// look notes whether the restarted node has granted the lock again. If not, it comes again soon.
func (f *faults) look() error {
	if !f.ns[stops].mini.Exists(f.lock) {
		f.after(5*time.Millisecond, f.look)
		return nil
	}
	f.back, f.due = time.Now(), nil
	f.show.say("node %d grants the lock again, %v after its restart", stops+1, f.back.Sub(f.empty).Round(time.Millisecond))
	return nil
}

// end lets the node that hangs go on, so that it can be closed.
func (f *faults) end() {
	if !f.out.IsZero() && f.minority() == 2 {
		f.ns[hangs].resume()
	}
}

// checkNodes returns what is wrong with the flags for a quorum.
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
