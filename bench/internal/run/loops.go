package run

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/relock-go/relock/bench/internal/board"
	"github.com/relock-go/relock/bench/internal/peer"
	"github.com/relock-go/relock/bench/internal/results"
	"github.com/relock-go/relock/bench/internal/wire"
	"github.com/relock-go/relock/bench/internal/worker"
)

const (
	openLimit  = 60 * time.Second
	replyLimit = 20 * time.Second // for a loop's goroutines to come back, and the reply
	headStart  = 15 * time.Millisecond
	jvmWarm    = 300 * time.Millisecond // more for the JVM, whose code is compiled as it runs
)

// loops is a round in which processes lock and unlock as fast as they can: connect, get going, measure, disconnect.
func (r *runner) loops(ctx context.Context, c cell, s peer.Spec, _ int, t *measured) error {
	return r.round(ctx, c, s, t, r.loop)
}

// round has the workers of a cell connected for as long as do takes, and adds up what it measured.
func (r *runner) round(ctx context.Context, c cell, s peer.Spec, t *measured,
	do func(context.Context, cell, peer.Spec, []*process) (round, error)) error {
	procs, err := r.connected(ctx, c, s)
	if err != nil {
		return err
	}
	rd, err := do(ctx, c, s, procs)
	if err != nil {
		return err
	}
	if err := t.add(rd); err != nil {
		return err
	}
	if t.err != nil { // goroutines that hang would disturb what comes next
		r.poolOf(s).close()
		return t.err
	}
	_, err = askAll(ctx, procs, openLimit, func(int) worker.Request { return worker.Request{Do: worker.Close} })
	return err
}

// connected returns workers with the peer open.
func (r *runner) connected(ctx context.Context, c cell, s peer.Spec) ([]*process, error) {
	procs, fresh, err := r.poolOf(s).get(c.processes())
	if err != nil {
		return nil, err
	}
	open, err := r.open(c, s)
	if err != nil {
		return nil, err
	}
	if s.JVM != "" && len(fresh) > 0 {
		if err := r.heat(ctx, c, s, open, fresh); err != nil {
			return nil, err
		}
	}
	_, err = askAll(ctx, procs, openLimit, func(int) worker.Request { return open })
	return procs, err
}

// heat lets new JVMs compile what they will run. The more of them share the cores, the longer it takes.
func (r *runner) heat(ctx context.Context, c cell, s peer.Spec, open worker.Request, procs []*process) error {
	d := heatOf(len(procs))
	if _, err := askAll(ctx, procs, openLimit+d, func(int) worker.Request { return open }); err != nil {
		return err
	}
	key, begin := r.key(s), board.Now()
	_, err := askAll(ctx, procs, d+replyLimit, func(i int) worker.Request {
		return worker.Request{Do: worker.Loop, Key: fmt.Sprint(key, i), Slot: i, Goroutines: 4, Permits: min(1, c.params.Permits),
			Locks: c.params.Locks, Together: c.params.Together,
			Start: begin, Millis: d.Milliseconds()}
	})
	return err
}

// heatOf is how long n new JVMs are given.
func heatOf(n int) time.Duration { return 2*time.Second + time.Duration(n)*time.Second/2 }

// loop runs all processes at the same time.
func (r *runner) loop(ctx context.Context, c cell, s peer.Spec, procs []*process) (round, error) {
	d, warm := r.plan.sliceOf(c), r.plan.warmOf(c)
	if s.JVM != "" {
		warm += jvmWarm
	}
	begin := startOf(len(procs), warm)
	req := r.loopRequest(c, r.key(s), begin, warm)
	slots := 1
	if c.keyEach {
		slots = c.params.Goroutines
	}
	slots = max(slots, c.params.Locks)
	for i := range slots {
		r.board.Clear(i)
	}
	type observed struct {
		load load
		err  error
	}
	seen := make(chan observed, 1)
	go func() {
		l, err := r.watch(ctx, c, s, board.Time(begin), board.Time(begin+int64(d)))
		seen <- observed{l, err}
	}()
	replies, err := askAll(ctx, procs, warm+d+replyLimit, func(int) worker.Request { return req })
	o := <-seen
	if err != nil {
		return round{}, err
	}
	return round{replies: replies, begin: begin, elapsed: d, load: o.load}, o.err
}

// startOf is when what counts begins in a loop of n processes that is asked for now.
func startOf(n int, warm time.Duration) int64 {
	return board.Now() + int64(headStart+time.Duration(n)*500*time.Microsecond+warm)
}

func (r *runner) loopRequest(c cell, key string, begin int64, warm time.Duration) worker.Request {
	return worker.Request{
		Do: worker.Loop, Key: key, KeyEach: c.keyEach, KeyOnce: c.keyOnce, Goroutines: c.params.Goroutines, Depth: c.params.Depth, Reads: c.params.Reads,
		Permits: c.params.Permits, Weights: c.params.Weights, Locks: c.params.Locks, Together: c.params.Together,
		CSMicros: *c.params.CSMicros, Start: begin, WarmMS: warm.Milliseconds(), Millis: r.plan.sliceOf(c).Milliseconds(),
	}
}

// watch returns what the peer's servers did between two instants.
func (r *runner) watch(ctx context.Context, c cell, s peer.Spec, from, to time.Time) (load, error) {
	switch {
	case c.params.Nodes > 0:
		return r.observeNodes(ctx, c.params.Hung, from, to)
	case c.params.Masters > 0 && s.Cluster:
		return observe(ctx, r.masters, from, to)
	}
	return observe(ctx, r.server, from, to)
}

// observe returns what m did between two instants.
func observe(ctx context.Context, m meter, from, to time.Time) (load, error) {
	if err := sleepUntil(ctx, from); err != nil {
		return load{}, err
	}
	before, err := m.load(ctx)
	if err != nil {
		return load{}, err
	}
	if err := sleepUntil(ctx, to); err != nil {
		return load{}, err
	}
	after, err := m.load(ctx)
	return load{cpu: after.cpu - before.cpu, calls: after.calls - before.calls}, err
}

func sleepUntil(ctx context.Context, t time.Time) error {
	timer := time.NewTimer(time.Until(t))
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// delayed puts a proxy that holds every request for us microseconds before all servers of a request.
func (r *runner) delayed(us int64, req worker.Request) (worker.Request, error) {
	if strings.HasPrefix(req.Redis, "rediss:") {
		return req, errNoTLS
	}
	addr := r.server.addr
	if req.Redis != r.server.url {
		addr = strings.TrimPrefix(req.Redis, "redis://")
	}
	p, err := r.proxy(us, addr)
	if err != nil {
		return req, err
	}
	req.Redis = strings.Replace(req.Redis, addr, p.Addr(), 1)
	for i, url := range req.Nodes {
		if p, err = r.proxy(us, strings.TrimPrefix(url, "redis://")); err != nil {
			return req, err
		}
		req.Nodes[i] = "redis://" + p.Addr()
	}
	if req.Etcd != "" {
		if p, err = r.proxy(us, req.Etcd); err != nil {
			return req, err
		}
		req.Etcd = p.Addr()
	}
	return req, nil
}

// delay tells proxies apart.
type delay struct {
	us     int64
	target string
}

// proxy returns the proxy before target, made at the first call.
func (r *runner) proxy(us int64, target string) (*wire.DelayProxy, error) {
	d := delay{us, target}
	if p := r.delays[d]; p != nil {
		return p, nil
	}
	p, err := wire.NewDelayProxy(target, time.Duration(us)*time.Microsecond)
	if err != nil {
		return nil, fmt.Errorf("delay proxy: %w", err)
	}
	r.delays[d] = p
	return p, nil
}

// overhead measures what the bench itself costs: an uncontended loop with no lock.
func (r *runner) overhead(ctx context.Context) {
	spec := peer.Spec{Name: "none"}
	c := cell{params: soloCells(0)[0].params}
	saved := r.plan
	r.plan.slice, r.plan.warm = 100*time.Millisecond, 20*time.Millisecond
	defer func() { r.plan = saved }()
	var t measured
	if err := r.loops(ctx, c, spec, 0, &t); err != nil || t.total == 0 {
		if ctx.Err() == nil {
			r.note("the bench's own overhead could not be measured: %v", err)
		}
		return
	}
	r.report.Machine.OverheadNS = float64(t.elapsed.Nanoseconds()) / float64(t.total)
}

// measured is a tally with what only the cells of long holds have.
type measured struct {
	tally
	extra   func(*results.Result)
	recover []float64 // microseconds from a kill to the next grant
	over    []float64 // the same, less the lease
	lost    int64     // permits that did not come back
}

func (m *measured) result() results.Result {
	r := m.tally.result()
	r.Recover, r.OverLease = few(m.recover), few(m.over)
	if m.extra != nil {
		m.extra(&r)
	}
	return r
}

// few are the quantiles of a handful of figures.
func few(v []float64) *results.Quantiles {
	if len(v) == 0 {
		return nil
	}
	most := v[0]
	for _, x := range v {
		most = max(most, x)
	}
	return &results.Quantiles{P50: median(v), P90: most, P99: most, P999: most, Max: most, N: int64(len(v))}
}
