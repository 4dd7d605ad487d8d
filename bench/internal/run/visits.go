package run

import (
	"context"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/relock-go/relock/bench/internal/board"
	"github.com/relock-go/relock/bench/internal/peer"
	"github.com/relock-go/relock/bench/internal/worker"
)

const (
	visitPause = time.Millisecond // for a holder to become idle, or busy again
	visitLimit = 10 * time.Second // to have a lock that nobody works under
)

// visits measures how long a process waits for a lock that another one had last.
func (r *runner) visits(ctx context.Context, c cell, s peer.Spec, t *measured) error {
	if c.params.Holder == "busy" {
		return r.round(ctx, c, s, t, r.visitBusy)
	}
	return r.round(ctx, c, s, t, r.visitIdle)
}

// visitor asks one or two workers, by turns, to have a lock once.
type visitor struct {
	procs   []*process
	request worker.Request
	next    int
	waits   *hdrhistogram.Histogram
	sum     worker.Reply
}

func newVisitor(key string, procs ...*process) *visitor {
	return &visitor{
		procs:   procs,
		request: worker.Request{Do: worker.Visit, Key: key, Goroutines: 1},
		waits:   hdrhistogram.New(1, int64(time.Hour), 3),
		sum:     worker.Reply{Counts: []int64{0}},
	}
}

// visit lets the next worker have the lock, if it can within limit.
func (v *visitor) visit(ctx context.Context, limit time.Duration) (worker.Reply, error) {
	p := v.procs[v.next%len(v.procs)]
	v.next++
	r := v.request
	r.Millis = max(1, limit.Milliseconds())
	return p.ask(ctx, r, limit+replyLimit)
}

// until visits as long as there is time, the last time for patience longer. Those who did not get the lock at all have
// waited, too.
func (v *visitor) until(ctx context.Context, end time.Time, patience time.Duration) error {
	for time.Now().Before(end) {
		rep, err := v.visit(ctx, time.Until(end)+patience)
		if err != nil {
			return err
		}
		_ = v.waits.RecordValue(rep.Waited)
		for _, n := range rep.Counts {
			v.sum.Counts[0] += n
		}
		v.sum.Failed, v.sum.Overlaps = v.sum.Failed+rep.Failed, v.sum.Overlaps+rep.Overlaps
		if rep.Failure != "" {
			v.sum.Failure = rep.Failure
		}
		if err := sleepUntil(ctx, time.Now().Add(visitPause)); err != nil {
			return err
		}
	}
	return nil
}

// counted is until with the commands that the visitors sent meanwhile.
func (v *visitor) counted(ctx context.Context, patience time.Duration, end func() time.Time) (worker.Reply, error) {
	before, err := v.usage(ctx)
	if err != nil {
		return v.sum, err
	}
	if err := v.until(ctx, end(), patience); err != nil {
		return v.sum, err
	}
	after, err := v.usage(ctx)
	if err != nil {
		return v.sum, err
	}
	v.sum.Usage = worker.Usage{Commands: after.Sub(before).Commands}
	v.sum.Wait, err = v.waits.Encode(hdrhistogram.V2CompressedEncodingCookieBase)
	return v.sum, err
}

func (v *visitor) usage(ctx context.Context) (worker.Usage, error) {
	replies, err := askAll(ctx, v.procs, openLimit, func(int) worker.Request { return worker.Request{Do: worker.Stats} })
	var all worker.Usage
	for _, rep := range replies {
		all = sum(all, rep.Usage)
	}
	return all, err
}

// visitIdle has two processes take the lock by turns, so that the other one has always unlocked it and idles.
func (r *runner) visitIdle(ctx context.Context, c cell, s peer.Spec, procs []*process) (round, error) {
	r.board.Clear(0)
	v := newVisitor(r.key(s), procs...)
	for warm := time.Now().Add(r.plan.warmOf(c)); v.next < 2*len(procs) || time.Now().Before(warm); {
		if _, err := v.visit(ctx, visitLimit); err != nil {
			return round{}, err
		}
	}
	rep, err := v.counted(ctx, visitLimit, func() time.Time { return time.Now().Add(r.plan.sliceOf(c)) })
	return round{replies: []worker.Reply{rep}, unrated: true}, err
}

// visitBusy has one process take, now and then, what the goroutines of the other lock again and again.
func (r *runner) visitBusy(ctx context.Context, c cell, s peer.Spec, procs []*process) (round, error) {
	r.board.Clear(0)
	d, warm := r.plan.sliceOf(c), r.plan.warmOf(c)
	key := r.key(s)
	v := newVisitor(key, procs[1])
	if _, err := v.visit(ctx, visitLimit); err != nil { // connects, while the lock is free
		return round{}, err
	}
	begin := startOf(len(procs), warm)
	loop := r.loopRequest(c, key, begin, warm)
	type ended struct {
		rep worker.Reply
		err error
	}
	holder := make(chan ended, 1)
	go func() {
		rep, err := procs[0].ask(ctx, loop, warm+d+replyLimit)
		holder <- ended{rep, err}
	}()
	// Nobody is waited for once the holder has stopped: some locks stay taken if a waiter is sent home.
	rep, err := v.counted(ctx, 0, func() time.Time {
		_ = sleepUntil(ctx, board.Time(begin)) // visits, or the next question, find that ctx has ended
		return board.Time(begin + int64(d))
	})
	held := <-holder
	if err == nil {
		err = held.err
	}
	rep.Overlaps, rep.Hung = rep.Overlaps+held.rep.Overlaps, held.rep.Hung
	return round{replies: []worker.Reply{rep}, unrated: true}, err
}
