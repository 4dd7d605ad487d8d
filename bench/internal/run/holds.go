package run

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/relock-go/relock/bench/internal/peer"
	"github.com/relock-go/relock/bench/internal/results"
	"github.com/relock-go/relock/bench/internal/worker"
)

// cast is fresh worker processes with a peer open, for one turn.
type cast struct {
	r     *runner
	procs []*process
	key   string
	n     int // of a semaphore's permits
	lease time.Duration
}

func (r *runner) cast(ctx context.Context, c cell, s peer.Spec, n int) (*cast, error) {
	k := &cast{r: r, key: r.key(s), n: c.params.Permits, lease: s.Lease}
	if c.params.LeaseMS > 0 {
		k.lease = time.Duration(c.params.LeaseMS) * time.Millisecond
	}
	r.board.Clear(0)
	open, err := r.open(c, s)
	if err != nil {
		return nil, err
	}
	for range n {
		p, err := start(r.poolOf(s).command)
		if err != nil {
			k.dismiss()
			return nil, err
		}
		k.procs = append(k.procs, p)
	}
	if _, err := askAll(ctx, k.procs, openLimit, func(int) worker.Request { return open }); err != nil {
		k.dismiss()
		return nil, err
	}
	return k, nil
}

// holder is cast with the lock held by the first process.
func (r *runner) holder(ctx context.Context, c cell, s peer.Spec, n int) (*cast, error) {
	k, err := r.cast(ctx, c, s, n)
	if err != nil {
		return nil, err
	}
	if _, err := k.ask(ctx, 0, worker.Hold, 1, openLimit); err != nil {
		k.dismiss()
		return nil, err
	}
	return k, nil
}

// dismiss ends the processes. They disconnect first, so that a peer's own cleaning up is not left to time-outs.
func (k *cast) dismiss() {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	var alive []*process
	for _, p := range k.procs {
		if p.alive() {
			alive = append(alive, p)
		}
	}
	_, _ = askAll(ctx, alive, 5*time.Second, func(int) worker.Request { return worker.Request{Do: worker.Close} })
	for _, p := range k.procs {
		p.kill()
	}
}

// ask sends a request about the turn's lock to one of the processes.
func (k *cast) ask(ctx context.Context, i int, do string, goroutines int, limit time.Duration) (worker.Reply, error) {
	req := worker.Request{Do: do, Key: k.key, Permits: k.n, Goroutines: goroutines, Millis: limit.Milliseconds()}
	return k.procs[i].ask(ctx, req, limit+replyLimit)
}

// stay is what a worker used up and Redis did during a long hold.
type stay struct {
	after   worker.Usage // since the worker began
	used    worker.Usage // since before
	elapsed time.Duration
	hold    time.Duration
	redis   load
}

// stay lets the cell's hold pass and looks at the process i, which had used up before when it began.
func (k *cast) stay(ctx context.Context, i int, c cell, before worker.Usage) (*stay, error) {
	st := &stay{hold: time.Duration(c.params.HoldMS) * time.Millisecond}
	begin := time.Now()
	var err error
	if st.redis, err = observe(ctx, k.r.server, begin, begin.Add(st.hold)); err != nil {
		return nil, err
	}
	rep, err := k.ask(ctx, i, worker.Stats, 0, openLimit)
	st.after, st.used, st.elapsed = rep.Usage, rep.Usage.Sub(before), time.Since(begin)
	return st, err
}

func (st *stay) cpu(res *results.Result) {
	res.ClientCPU = ptr(100 * st.used.CPU.Seconds() / st.elapsed.Seconds())
	res.RedisCPU = ptr(100 * st.redis.cpu.Seconds() / st.hold.Seconds())
}

// idle has many goroutines of one process wait behind the hold of another, and looks at what waiting costs.
func (r *runner) idle(ctx context.Context, c cell, s peer.Spec, t *measured) error {
	k, err := r.holder(ctx, c, s, 2)
	if err != nil {
		return err
	}
	defer k.dismiss()
	before, err := k.ask(ctx, 1, worker.Stats, 0, openLimit)
	if err != nil {
		return err
	}
	n := c.params.Goroutines
	if _, err := k.ask(ctx, 1, worker.Wait, n, openLimit); err != nil {
		return err
	}
	if err := sleepUntil(ctx, time.Now().Add(settle)); err != nil {
		return err
	}
	asked, err := k.ask(ctx, 1, worker.Stats, 0, openLimit)
	if err != nil {
		return err
	}
	st, err := k.stay(ctx, 1, c, before.Usage)
	if err != nil {
		return err
	}
	listening, err := r.server.subscribers(ctx)
	if err != nil {
		return err
	}
	if err := k.sendHome(ctx, n, t); err != nil {
		return err
	}
	t.rounds++
	t.extra = func(res *results.Result) {
		res.CmdsTotal, res.Cmds = commands(st.after.Commands)
		meanwhile, _ := commands(st.after.Sub(asked.Usage).Commands)
		res.CmdsPerS = ptr(float64(*meanwhile) / st.elapsed.Seconds())
		st.cpu(res)
		res.PerWaiter = ptr(float64(max(0, int64(st.after.Memory)-int64(before.Usage.Memory))) / float64(n))
		listening = max(0, listening-1) // the holder's own
		res.PubSubConns = &listening
	}
	return nil
}

// sendHome frees the lock and lets the waiters have it, as many as can in a short time.
func (k *cast) sendHome(ctx context.Context, n int, t *measured) error {
	freed, err := k.ask(ctx, 0, worker.Release, 0, openLimit)
	if err != nil {
		return err
	}
	rep, err := k.ask(ctx, 1, worker.Join, n, 2*time.Second)
	if err != nil {
		return err
	}
	rep.Overlaps += freed.Overlaps
	rep.Failed, rep.Failure = 0, "" // cancelled by us, not given up
	t.note(rep)
	return t.err
}

// commands is what was sent in all, without the greetings of connections.
func commands(sent map[string]int64) (*int64, map[string]float64) {
	var total int64
	by := make(map[string]float64)
	for name, n := range sent {
		if !overheadCommand(name) {
			total += n
			by[name] = float64(n)
		}
	}
	return &total, by
}

// leases has one process hold many locks for long.
func (r *runner) leases(ctx context.Context, c cell, s peer.Spec, t *measured) error {
	k, err := r.cast(ctx, c, s, 1)
	if err != nil {
		return err
	}
	defer k.dismiss()
	n := c.params.Leases
	for i := range n {
		r.board.Clear(i)
	}
	limit := openLimit + time.Duration(n)*time.Millisecond
	taken, err := k.ask(ctx, 0, worker.Take, n, limit)
	if err != nil {
		return err
	}
	before, err := k.ask(ctx, 0, worker.Stats, 0, openLimit)
	if err != nil {
		return err
	}
	st, err := k.stay(ctx, 0, c, before.Usage)
	if err != nil {
		return err
	}
	dropped, err := k.ask(ctx, 0, worker.Drop, 0, limit)
	if err != nil {
		return err
	}
	t.note(worker.Reply{Overlaps: taken.Overlaps + dropped.Overlaps, Failure: dropped.Failure})
	t.rounds++
	t.extra = func(res *results.Result) {
		res.CmdsTotal, res.Cmds = commands(st.used.Commands)
		renewals := float64(n) * st.elapsed.Seconds() / s.RenewEvery(k.lease).Seconds()
		res.CmdsPer100 = ptr(100 * float64(*res.CmdsTotal) / renewals)
		st.cpu(res)
		res.Lost = &dropped.Lost
		res.PerWaiter = nil
	}
	return nil
}

// crash kills the process that holds the lock, or the first that waits for it, and measures when the next has it.
func (r *runner) crash(ctx context.Context, c cell, s peer.Spec, n int, t *measured) error {
	if s.Baseline && s.Worker == nil {
		return errors.New("nothing to measure: it does not wait")
	}
	if c.params.Crash == "holder" {
		return r.killHolder(ctx, c, s, n, t)
	}
	return r.killWaiter(ctx, c, s, t)
}

// patience is how long a lock may stay free before waiting for it is given up.
func (k *cast) patience() time.Duration { return 2*k.lease + 5*time.Second }

// stuck notes a lock that nobody got.
func (m *measured) stuck(limit time.Duration) {
	m.rounds++
	m.failed++
	m.failure = fmt.Sprintf("nobody had the lock %v after the kill", limit)
}

const settle = 150 * time.Millisecond // for a waiter to be in line

func (r *runner) killHolder(ctx context.Context, c cell, s peer.Spec, n int, t *measured) error {
	k, err := r.holder(ctx, c, s, 2)
	if err != nil {
		return err
	}
	defer k.dismiss()
	if _, err := k.ask(ctx, 1, worker.Wait, 1, openLimit); err != nil {
		return err
	}
	// The kill comes at another point of the lease in each round.
	if err := sleepUntil(ctx, time.Now().Add(settle+time.Duration(n%5)*k.lease/5)); err != nil {
		return err
	}
	killed := now()
	k.procs[0].kill()
	r.board.Clear(0)
	took, err := k.next(ctx, 1, killed, t)
	if took > 0 {
		t.over = append(t.over, micros(took-int64(k.lease)))
	}
	if err != nil || k.n == 0 {
		return err
	}
	return k.countBack(ctx, time.Now().Add(permitsBack), t)
}

const (
	permitsBack    = time.Second            // after the first of a killed process's permits, all must be back
	permitsCounted = 500 * time.Millisecond // for counting them
)

// countBack finds, at an instant, how many permits there are. It notes those that are missing.
func (k *cast) countBack(ctx context.Context, at time.Time, t *measured) error {
	if err := sleepUntil(ctx, at); err != nil {
		return err
	}
	rep, err := k.ask(ctx, 1, worker.Count, 0, permitsCounted)
	if err != nil {
		return err
	}
	t.note(rep)
	t.lost += max(0, int64(k.n)-rep.Counts[0])
	t.extra = func(res *results.Result) { res.Lost = &t.lost }
	return nil
}

// next waits until process i has the lock, and notes and returns how long after from that was; 0 if it did not get it.
func (k *cast) next(ctx context.Context, i int, from int64, t *measured) (int64, error) {
	limit := k.patience()
	rep, err := k.ask(ctx, i, worker.Join, 1, limit)
	if err != nil {
		return 0, err
	}
	t.note(rep)
	if rep.At == 0 {
		t.stuck(limit)
		return 0, nil
	}
	t.rounds++
	t.recover = append(t.recover, micros(rep.At-from))
	return rep.At - from, nil
}

func (r *runner) killWaiter(ctx context.Context, c cell, s peer.Spec, t *measured) error {
	k, err := r.holder(ctx, c, s, 3)
	if err != nil {
		return err
	}
	defer k.dismiss()
	for i := 1; i <= 2; i++ {
		if _, err := k.ask(ctx, i, worker.Wait, 1, openLimit); err != nil {
			return err
		}
		if err := sleepUntil(ctx, time.Now().Add(settle/2)); err != nil {
			return err
		}
	}
	k.procs[1].kill()
	freed, err := k.ask(ctx, 0, worker.Release, 0, openLimit)
	if err != nil {
		return err
	}
	t.note(worker.Reply{Overlaps: freed.Overlaps})
	_, err = k.next(ctx, 2, freed.At, t)
	return err
}
