package run

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/relock-go/relock/internal/redistest"
)

// meter is what tells the load of the servers under a lock.
type meter interface {
	load(context.Context) (load, error)
}

// nodes are the independent masters that the cells with a quorum run on, or the masters of a Cluster. They are always
// the bench's own, since some of them are stopped.
type nodes struct {
	host    host
	servers []*redistest.Server
	admins  []*server // a connection to each
	hung    int       // of them, the last ones
}

// startNodes starts n servers, with further options as on their command lines.
func startNodes(ctx context.Context, n int, args ...string) (*nodes, error) {
	q := &nodes{}
	for range n {
		s, err := q.host.start(args...)
		if err != nil {
			q.close()
			return nil, err
		}
		admin := &server{url: "redis://" + s.Addr(), close: func() {}}
		if err := admin.connect(ctx); err != nil {
			q.close()
			return nil, err
		}
		q.servers, q.admins = append(q.servers, s), append(q.admins, admin)
	}
	return q, nil
}

func (q *nodes) urls() []string {
	var urls []string
	for _, a := range q.admins {
		urls = append(urls, a.url)
	}
	return urls
}

// hang stops the last n nodes as a long stall would: they accept connections and answer nothing.
func (q *nodes) hang(n int) error {
	q.hung = n
	for _, s := range q.servers[len(q.servers)-n:] {
		if err := q.host.try(s.Pause); err != nil {
			return errors.Join(err, q.resume())
		}
	}
	return nil
}

// resume lets all nodes go on.
func (q *nodes) resume() error {
	var errs []error
	for _, s := range q.servers[len(q.servers)-q.hung:] {
		errs = append(errs, q.host.try(s.Resume))
	}
	q.hung = 0
	return errors.Join(errs...)
}

// load adds up what the nodes did that do not hang.
func (q *nodes) load(ctx context.Context) (load, error) {
	var sum load
	for i, a := range q.admins[:len(q.admins)-q.hung] {
		l, err := a.load(ctx)
		if err != nil {
			return sum, fmt.Errorf("node %d: %w", i+1, err)
		}
		sum.cpu, sum.calls = sum.cpu+l.cpu, sum.calls+l.calls
	}
	return sum, nil
}

func (q *nodes) close() {
	for _, a := range q.admins {
		a.disconnect()
	}
	q.host.close()
}

// observeNodes is observe over a quorum. The nodes that are to hang do so from the instant that counting begins, so
// what it takes a lock to notice is in its figures; they go on when it ends, so that nobody is stuck after the round.
func (r *runner) observeNodes(ctx context.Context, hung int, from, to time.Time) (load, error) {
	if hung == 0 {
		return observe(ctx, r.nodes, from, to)
	}
	if err := sleepUntil(ctx, from); err != nil {
		return load{}, err
	}
	if err := r.nodes.hang(hung); err != nil {
		return load{}, err
	}
	l, err := observe(ctx, r.nodes, from, to)
	return l, errors.Join(err, r.nodes.resume())
}

// findNodes starts what the cells with a quorum need, or takes them out of the plan.
func (r *runner) findNodes(ctx context.Context) {
	n := 0
	for _, c := range r.plan.cells {
		n = max(n, c.params.Nodes)
	}
	if n == 0 {
		return
	}
	var err error
	if r.nodes, err = startNodes(ctx, n); err != nil {
		r.note("redlock left out, as is all that needs a quorum: its nodes cannot be started: %v", err)
		r.plan.cells = slices.DeleteFunc(r.plan.cells, func(c cell) bool { return c.params.Nodes > 0 })
	}
}
