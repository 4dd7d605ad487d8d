package main

import (
	"context"
	"fmt"
	"time"

	"github.com/relock-go/relock"
)

// scene is a demo under way, as the parent sees it. One goroutine plays it.
type scene struct {
	o       *demoOptions
	srv     *server // Redis with the counter
	ns      nodes   // Redis servers with the lock
	job     job
	mutex   *relock.Mutex
	show    *progress
	fleet   *fleet
	journal *journal
	exhibit *exhibit // nil for none
	faults  faults

	began   time.Time // when the workers got orderGo
	sent    int64     // lock commands that the nodes had received by then
	sentErr error     // why sent is unknown
	looks   int64     // lock commands that the scene itself has sent since
	crash   *crash    // nil until a worker was killed
	stopped bool      // the workers got orderStop
	told    int       // sections at the last status
	toldAt  time.Time
}

// crash is the death of a worker that held the lock.
type crash struct {
	worker    int
	token     int64        // of the section it died in
	asked     time.Time    // when Redis was asked for before
	before    relock.State // the lock just before the signal was sent
	killed    time.Time    // when the signal was sent
	after     relock.State // the lock once the process was reaped
	recovered time.Time    // when another worker was first in a section; zero if none was
}

// watch starts the work, has one worker killed, stops the others, and returns when all have ended.
func (s *scene) watch(ctx context.Context) error {
	if err := s.muster(ctx); err != nil {
		return err
	}
	s.sent, s.sentErr = s.ns.lockCommands(ctx)
	s.began = time.Now()
	s.toldAt = s.began
	s.fleet.order(orderGo)
	tick := time.NewTicker(s.show.every())
	defer tick.Stop()
	var strike <-chan time.Time
	if s.o.locked() {
		strike = time.After(s.o.run / 4)
	}
	end, late := time.After(s.o.run), s.began.Add(s.o.run+2*s.o.lease)
	for s.fleet.living() > 0 {
		select {
		case m := <-s.fleet.news:
			if err := s.hear(ctx, m); err != nil {
				return err
			}
		case now := <-tick.C:
			s.tell(now)
		case <-strike:
			s.fleet.orderOne(victim, orderHold)
		case <-s.faults.due:
			if err := s.faults.step(); err != nil {
				return err
			}
		case <-end:
			if s.faults.due != nil && time.Now().Before(late) {
				end = time.After(20 * time.Millisecond) // a node has yet to come back
				continue
			}
			s.show.say("stopping")
			s.stopped = true
			s.fleet.order(orderStop)
		case <-ctx.Done():
			return fmt.Errorf("ended early, %d of %d workers were still at work: %w",
				s.fleet.living(), workers, context.Cause(ctx))
		}
	}
	return nil
}

// muster waits until every worker has connected.
func (s *scene) muster(ctx context.Context) error {
	for !s.fleet.allReady() {
		select {
		case m := <-s.fleet.news:
			if err := s.hear(ctx, m); err != nil {
				return err
			}
		case <-ctx.Done():
			return fmt.Errorf("the workers did not start: %w", context.Cause(ctx))
		}
	}
	return nil
}

// hear handles one piece of news. It fails if the demo cannot go on.
func (s *scene) hear(ctx context.Context, m news) error {
	if m.ended {
		return s.mourn(ctx, m)
	}
	if m.err != nil {
		return m.err
	}
	s.journal.note(m.worker, m.event, m.at)
	if err := s.exhibit.note(m.worker, m.event); err != nil {
		return err
	}
	switch m.event.Kind {
	case kindReady:
		s.fleet.procs[m.worker].client = m.event.Client
	case kindFail:
		return fmt.Errorf("worker %d: %s", m.worker+1, m.event.Text)
	case kindHold:
		return s.strike(ctx, m)
	case kindBegin:
		if c := s.crash; c != nil && c.recovered.IsZero() && m.event.Token > c.token {
			c.recovered = m.at
			s.show.say("worker %d has the lock, %v after the kill", m.worker+1, c.outage().Round(time.Millisecond))
			s.faults.begin()
		}
	}
	return nil
}

// outage is how long only the dead worker held the lock.
func (c *crash) outage() time.Duration { return c.recovered.Sub(c.killed) }

// strike kills a worker that reports to hold the lock, and notes the lock's state before. The worker stays in its
// section until the signal comes: it holds the lock then, however long this takes.
func (s *scene) strike(ctx context.Context, m news) (err error) {
	c := &crash{worker: m.worker, token: m.event.Token, asked: time.Now()}
	if c.before, err = s.look(ctx); err != nil {
		return err
	}
	c.killed = time.Now()
	if err := s.fleet.kill(m.worker); err != nil {
		return fmt.Errorf("kill worker %d: %w", m.worker+1, err)
	}
	s.crash = c
	s.show.say("SIGKILL to worker %d: it holds the lock %d times, token %d, %v left, %d wait",
		m.worker+1, c.before.Count, c.token, c.before.TTL, c.before.Waiters)
	return nil
}

// mourn handles the end of a worker process.
func (s *scene) mourn(ctx context.Context, m news) (err error) {
	p := s.fleet.procs[m.worker]
	p.ended = true
	switch {
	case p.killed:
		s.exhibit.forget(m.worker)
		s.crash.after, err = s.look(ctx)
	case m.err != nil:
		err = fmt.Errorf("worker %d ended: %w", m.worker+1, m.err)
	case !s.stopped:
		err = fmt.Errorf("worker %d ended before it was told to", m.worker+1)
	}
	return err
}

// look asks Redis for the lock's state, up to three times. With short leases a command on a quorum has little time, and
// may fail only because the machine is busy.
func (s *scene) look(ctx context.Context) (st relock.State, err error) {
	for range 3 {
		s.looks += int64(len(s.ns))
		if st, err = s.mutex.State(ctx); err == nil || ctx.Err() != nil {
			break
		}
	}
	return st, err
}

// tell prints how far the work is.
func (s *scene) tell(now time.Time) {
	n := len(s.journal.sections)
	rate := float64(n-s.told) / now.Sub(s.toldAt).Seconds()
	s.told, s.toldAt = n, now
	s.show.status("%s increments, %s a second, %d of %d workers",
		thousands(n), thousands(int(rate)), s.fleet.living(), workers)
}

// report collects the measurements. All workers have ended.
func (s *scene) report(ctx context.Context) (*report, error) {
	r := &report{o: s.o, sections: s.journal.sections, crash: s.crash, began: s.began, faults: &s.faults}
	var err error
	r.found, err = s.srv.rdb.Do(ctx, s.srv.rdb.B().Get().Key(s.job.Counter).Build()).AsInt64()
	if err != nil {
		return nil, fmt.Errorf("read the counter: %w", err)
	}
	sent, err := s.ns.lockCommands(ctx)
	r.commands, r.commandsErr = sent-s.sent-s.looks, err
	if s.sentErr != nil {
		r.commandsErr = s.sentErr
	}
	if r.left, err = s.look(ctx); err != nil {
		return nil, err
	}
	if s.crash != nil {
		r.client = s.fleet.procs[s.crash.worker].client
	}
	return r, nil
}
