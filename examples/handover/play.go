package main

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/relock-go/relock/examples/internal/embedded"
	"github.com/relock-go/relock/examples/internal/workers"
)

// What this file does is the show: it sends requests, starts and kills workers, and checks. Nobody needs to copy it.

type setting struct {
	Redis  embedded.Redis
	Lease  time.Duration
	Pickup time.Duration
	Takes  time.Duration
	Logf   func(string, ...any)
}

const report = "42"

// show is the API's process, and what it knows of the workers'. Its first failure ends the play.
type show struct {
	setting
	ctx     context.Context
	rdb     *redis.Client
	url     string
	copies  int // how often the queue delivers a job
	journal *workers.Journal[event]
	asked   time.Time // the last request that was accepted, or is to be
	err     error
}

// play plays the scenes. It fails if one ends otherwise than it should.
func play(ctx context.Context, s setting) error {
	end, err := s.Redis.Start()
	if err != nil {
		return err
	}
	defer end()
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	rdb, locks, err := connect(s.Redis, "api", s.Lease)
	if err != nil {
		return err
	}
	defer rdb.Close()
	defer locks.Close()
	defer rdb.Del(context.WithoutCancel(ctx), queue, stateKey(report))
	p := &show{setting: s, ctx: ctx, rdb: rdb, copies: 1}
	reports := http.NewServeMux()
	reports.Handle("POST /reports/{report}", &api{locks, rdb, s.Pickup, func(ctx context.Context, job string) error {
		for range p.copies - 1 {
			if err := rdb.LPush(ctx, queue, job).Err(); err != nil {
				return err
			}
		}
		return rdb.LPush(ctx, queue, job).Err()
	}})
	server := httptest.NewServer(reports)
	defer server.Close()
	p.url = server.URL + "/reports/" + report
	for _, scene := range []func(){p.finished, p.deliveredTwice, p.workerKilled, p.nobodyComes} {
		if err := rdb.Del(ctx, queue, stateKey(report)).Err(); err != nil {
			return err
		}
		p.journal = new(workers.Journal[event])
		if scene(); p.err != nil {
			return p.err
		}
	}
	return nil
}

func (p *show) finished() {
	p.Logf("A worker finishes what the API began, and nobody else has the report meanwhile.")
	p.post(http.StatusAccepted)
	first := p.token()
	p.post(http.StatusConflict)
	stop := p.worker(p.Takes)
	defer stop(syscall.SIGTERM)
	if e := p.await(begins); e.Token <= first {
		p.fail("the worker's token %d is not above the API's, %d", e.Token, first)
	}
	p.post(http.StatusConflict)
	p.await(writes)
	p.written(1)
}

func (p *show) deliveredTwice() {
	p.Logf("The queue delivers a job twice: it is done once.")
	p.copies = 2
	defer func() { p.copies = 1 }()
	stop := p.worker(0)
	defer stop(syscall.SIGTERM)
	p.post(http.StatusAccepted)
	p.await(writes)
	p.await(refused)
	p.written(1)
}

func (p *show) workerKilled() {
	p.Logf("The worker dies: the lock ends with its lease, and the next request is accepted.")
	stop := p.worker(time.Minute)
	p.post(http.StatusAccepted)
	dead := p.await(begins)
	stop(syscall.SIGKILL)
	p.journal = new(workers.Journal[event])
	p.post(http.StatusConflict)
	p.untilAccepted(p.Lease)
	stop = p.worker(0)
	defer stop(syscall.SIGTERM)
	if e := p.await(begins); e.Token <= dead.Token {
		p.fail("token %d is not above that of the dead worker, %d", e.Token, dead.Token)
	}
	p.await(writes)
	p.written(1)
}

func (p *show) nobodyComes() {
	p.Logf("No worker comes: the lock ends when the handle's time is up. A worker that comes too late drops the job.")
	p.post(http.StatusAccepted)
	p.post(http.StatusConflict)
	p.untilAccepted(p.Pickup)
	stop := p.worker(0)
	defer stop(syscall.SIGTERM)
	p.await(refused) // the first request's job
	p.await(writes)
	p.written(1)
}

func (p *show) fail(format string, args ...any) {
	p.err = cmp.Or(p.err, fmt.Errorf(format, args...))
}

func (p *show) request() (status int, retryAfter string) {
	r, err := http.NewRequestWithContext(p.ctx, http.MethodPost, p.url, nil)
	if err == nil {
		var answer *http.Response
		if answer, err = http.DefaultClient.Do(r); err == nil {
			answer.Body.Close()
			return answer.StatusCode, answer.Header.Get("Retry-After")
		}
	}
	p.fail("POST: %w", err)
	return 0, ""
}

func (p *show) post(want int) {
	if p.err != nil {
		return
	}
	if want == http.StatusAccepted {
		p.asked = time.Now()
	}
	got, retryAfter := p.request()
	switch {
	case got != want:
		p.fail("POST is answered %d, not %d", got, want)
	case got == http.StatusConflict && retryAfter == "":
		p.fail("409 without Retry-After")
	case got == http.StatusConflict:
		p.Logf("  POST is answered 409, Retry-After: %s", retryAfter)
	default:
		p.Logf("  POST is answered %d", got)
	}
}

// untilAccepted repeats the request until it is accepted. The lock has to stand for so long, and to end soon then.
func (p *show) untilAccepted(stands time.Duration) {
	const slack = 10 * time.Second // for a machine that is very busy
	for p.err == nil {
		got, _ := p.request()
		took := time.Since(p.asked)
		switch {
		case got != http.StatusAccepted && took <= stands+slack:
			time.Sleep(20 * time.Millisecond)
			continue
		case got != http.StatusAccepted || took < stands:
			p.fail("the lock ends %v after the first request, not after %v", took, stands)
		}
		p.Logf("  POST is answered 202, %v after the first one", took.Round(10*time.Millisecond))
		return
	}
}

// worker starts a worker process, and returns what ends it.
func (p *show) worker(takes time.Duration) (stop func(syscall.Signal)) {
	w, err := workers.Start(p.ctx, process{p.Redis, p.Lease, takes}, p.journal.Add)
	if err != nil {
		p.fail("a worker: %w", err)
		return func(syscall.Signal) {}
	}
	return func(s syscall.Signal) {
		w.Signal(s)
		if err := w.Wait(); err != nil && s != syscall.SIGKILL {
			p.fail("a worker: %w", err)
		}
		p.Logf("  the worker gets %v", s)
	}
}

func (p *show) await(what string) (e event) {
	if p.err != nil {
		return e
	}
	e, err := p.journal.Await(p.ctx, func(e event) bool { return e.What == what || e.What == failed })
	switch {
	case err != nil:
		p.fail("no worker said that it %s the report: %w", what, err)
	case e.What == failed:
		p.fail("a worker failed: %s", e.Text)
	case e.Token > 0:
		p.Logf("  a worker %s report %s, under token %d", e.What, e.Report, e.Token)
	case e.Text != "":
		p.Logf("  a worker %s report %s: %s", e.What, e.Report, e.Text)
	default:
		p.Logf("  a worker %s report %s", e.What, e.Report)
	}
	return e
}

// token returns the token of the report's last write.
func (p *show) token() int64 {
	token, err := p.rdb.HGet(p.ctx, stateKey(report), "fence").Int64()
	if err != nil {
		p.fail("the report's token: %w", err)
	}
	return token
}

// written checks that the report was written so many times.
func (p *show) written(times int) {
	if p.err != nil {
		return
	}
	switch got, err := p.rdb.HGet(p.ctx, stateKey(report), "written").Int(); {
	case err != nil:
		p.fail("the report: %w", err)
	case got != times:
		p.fail("the report was written %d times, not %d", got, times)
	}
}
