package relock

import (
	"context"
	"sync"
	"time"

	"github.com/relock-go/relock/internal/clock"
)

// release ends a at all nodes, and queues next at all of them in the same step. What its nodes answer are votes for
// next. A node that does not answer is told in the background.
func (q *quorum) release(_ context.Context, a, next *acquisition) (grant, bool, error) {
	if next != nil {
		next.election = newElection(q, next)
	}
	now := clock.Now()
	out := newOutcome("release", a.names.name, q)
	idle := q.idle(q.seats)
	for i, l := range a.election.legs {
		l.seat.hub.releasing(l.acquisition)
		l.stretched.Store(a.stretched.Load())
		if idle[i] {
			out.note(l.seat, errIdle)
			l.end(!l.asked.IsZero())
			continue
		}
		if next == nil {
			if !q.crew.start(func() { q.releaseAt(l, nil, out) }) {
				out.note(l.seat, ErrClosed)
				l.end(true)
			}
			continue
		}
		n := next.election.legs[i]
		n.base = now
		answered := n.ask(now)
		if !q.crew.start(func() {
			v := vote{leg: n, sent: now}
			began := time.Now()
			v.ballot, v.err = q.releaseAt(l, n.acquisition, out)
			v.took = time.Since(began)
			next.election.cast(v, answered)
		}) {
			close(answered)
			out.note(l.seat, ErrClosed)
			l.end(true)
		}
	}
	return grant{}, false, out.wait()
}

func (q *quorum) releaseAt(l *leg, next *acquisition, out *outcomes) (ballot, error) {
	l.settle(q.tau())
	held, b, err := l.seat.ballots.unvote(q.ctx, l.acquisition, next)
	l.end(err != nil || !held && l.regranted.Load())
	if err == nil && !held {
		out.note(l.seat, ErrLost)
	} else {
		out.note(l.seat, err)
	}
	if err == nil {
		err = b.mute
	}
	return b, err
}

// renew asks all nodes at once. A lease is renewed when a quorum confirmed it, and lost when none can.
func (q *quorum) renew(ctx context.Context, batch []renewal, settle func(renewal, outcome, clock.Stamp)) {
	t := newTally(q, batch, settle)
	var wg sync.WaitGroup
	for i, idle := range q.idle(q.seats) {
		s := q.seats[i]
		if idle {
			continue
		}
		for from := 0; from < len(batch); from += maxBatch {
			part := batch[from:min(from+maxBatch, len(batch))]
			wg.Go(func() {
				ctx, cancel := context.WithTimeout(ctx, q.cfg.commandTimeout())
				defer cancel()
				s.ballots.renewApart(ctx, part, func(at int, got []outcome, err error) {
					t.note(s, from+at, got)
				})
			})
		}
	}
	wg.Wait()
	t.close()
}

// tally counts the nodes' answers to a batch of renewals.
type tally struct {
	q      *quorum
	sent   clock.Stamp // before the first of the commands
	settle func(renewal, outcome, clock.Stamp)

	mu    sync.Mutex // guards the rest
	batch []renewal
	rows  []row
}

type row struct {
	held, lost int
	settled    bool
	absent     []*seat // nodes that answered that the lock is not held there
}

func newTally(q *quorum, batch []renewal, settle func(renewal, outcome, clock.Stamp)) *tally {
	return &tally{q: q, sent: clock.Now(), settle: settle, batch: batch, rows: make([]row, len(batch))}
}

// note counts one node's answers for the renewals from index from on.
func (t *tally) note(s *seat, from int, got []outcome) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for i, o := range got {
		r := &t.rows[from+i]
		switch o {
		case renewed:
			r.held++
		case lost:
			r.lost++
			r.absent = append(r.absent, s)
		}
		switch {
		case r.settled:
		case r.held >= t.q.need:
			r.settled = true
			t.settle(t.batch[from+i], renewed, t.sent)
		case r.lost > len(t.q.seats)-t.q.need:
			r.settled = true
			t.settle(t.batch[from+i], lost, t.sent)
		}
	}
}

// close settles what no quorum has decided, and has the others taken again where they were lost.
func (t *tally) close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for i, r := range t.rows {
		if !r.settled {
			t.settle(t.batch[i], unanswered, t.sent)
		} else if r.held >= t.q.need {
			for _, s := range r.absent {
				t.q.repair(t.batch[i].hold, s)
			}
		}
	}
}

// repair takes a lock again at a node that lost it, if it is free there, so that the hold survives the loss of another
// node. It adds nothing to what is believed: that only the next renewals do, while the hold still stands on a quorum.
func (q *quorum) repair(h *hold, s *seat) {
	l := h.a.election.legs[s.index-1]
	q.crew.start(func() {
		_, err := s.ballots.vote(q.ctx, l.acquisition, 0, toTry)
		l.straggled(err)
	})
}
