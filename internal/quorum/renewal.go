package quorum

import (
	"cmp"
	"context"
	"sync"

	"github.com/relock-go/relock/internal/claim"
	"github.com/relock-go/relock/internal/clock"
	"github.com/relock-go/relock/internal/wire"
)

// Renew asks all nodes at once, and calls settle once for each renewal, from any goroutine. A lease
// is renewed when a quorum confirmed it, and lost when none can. The stamp is from before the first
// command.
func (q *Quorum) Renew(ctx context.Context, batch []claim.Renewal, settle claim.Settle) {
	t := &tally{q: q, sent: clock.Now(), settle: settle, batch: batch, rows: make([]row, len(batch))}
	asks := make([]wire.Renewal, len(batch))
	for i, r := range batch {
		asks[i] = wire.Renewal{Entry: r.Claim.Of(), Count: r.Count, Lease: r.Lease}
	}
	var wg sync.WaitGroup
	for i, idle := range q.idle() {
		m := q.members[i]
		if idle {
			continue
		}
		wg.Go(func() {
			ctx, cancel := context.WithTimeout(ctx, q.cfg.Timeout)
			defer cancel()
			m.Renew(ctx, asks, func(i int, r wire.Result, err error) { t.note(m, i, r, err) })
		})
	}
	wg.Wait()
	if again := t.close(); len(again) > 0 {
		q.crew.Start(func() {
			if clock.Sleep(q.ctx, q.cfg.Timeout) {
				q.Renew(q.ctx, again, func(int, wire.Result, clock.Stamp, error) {})
			}
		})
	}
}

// tally counts the nodes' answers to a batch of renewals.
type tally struct {
	q      *Quorum
	sent   clock.Stamp // before the first of the commands
	settle claim.Settle
	batch  []claim.Renewal

	mu   sync.Mutex // guards rows
	rows []row
}

type row struct {
	held, lost int
	settled    bool
	failure    error     // of the last node that did not answer
	absent     []*member // nodes that answered that the lock is not held there
}

// note counts one node's answer. Without the mutex it tells what that decides: what a lost lock
// leads to should hold no other lock up.
func (t *tally) note(m *member, i int, result wire.Result, err error) {
	if verdict := t.count(m, i, result, err); verdict != wire.Unanswered {
		t.settle(i, verdict, t.sent, nil)
	}
}

// count returns what is decided by this answer, [wire.Unanswered] for nothing.
func (t *tally) count(m *member, i int, result wire.Result, err error) wire.Result {
	t.mu.Lock()
	defer t.mu.Unlock()
	r, v := &t.rows[i], t.voter(i, m)
	if result == wire.Renewed && !v.confirms(t.sent) {
		result, err = wire.Unanswered, errYielding
	}
	switch result {
	case wire.Unanswered:
		r.failure = err
	case wire.Renewed:
		r.held++
		v.missing.Store(nil)
	case wire.Lost:
		r.lost++
		r.absent = append(r.absent, m)
		v.missing.CompareAndSwap(nil, &t.sent)
	}
	switch {
	case r.settled:
	case r.held >= t.q.need:
		r.settled = true
		return wire.Renewed
	case r.lost > len(t.q.members)-t.q.need:
		r.settled = true
		return wire.Lost
	}
	return wire.Unanswered
}

func (t *tally) voter(i int, m *member) *voter {
	return t.batch[i].Claim.(*Claim).contest.voters[m.index-1]
}

// close settles what no quorum has decided, and has the others taken again where they were lost. All
// nodes have answered, or will not. It returns what is to be renewed once more as soon as losses that
// were found now may be repaired: a node that waits for the next renewal, a third of a lease away,
// may come too late for the restart of another. Nothing is believed by that.
func (t *tally) close() (again []claim.Renewal) {
	for i, r := range t.rows {
		if !r.settled {
			t.settle(i, wire.Unanswered, t.sent, cmp.Or(r.failure, wire.ErrNoAnswer))
		} else if r.held >= t.q.need {
			found := false
			for _, m := range r.absent {
				v := t.voter(i, m)
				t.repair(v)
				found = found || v.missing.Load() == &t.sent
			}
			if found {
				again = append(again, claim.Renewal{Claim: t.batch[i].Claim, Lease: t.batch[i].Lease})
			}
		}
	}
	return again
}

// repair takes a lock again at a node that lost it, if it is free there, so that the hold survives
// the loss of another node. It adds nothing to what is believed: that only the next renewals do,
// while the hold still stands on a quorum.
//
// The loss must have been found by a renewal that is a command time-out older. A lock that is
// forced open is freed node by node, and the holder is told by the first of them: were it to take
// that one back at once, before the others are reached, the lock would stay held.
func (t *tally) repair(v *voter) {
	found := v.missing.Load()
	if found == nil || t.sent.Mono()-found.Mono() < t.q.cfg.Timeout {
		return
	}
	written := v.contest.written
	t.q.crew.Start(func() {
		b := wire.Ballot{Ticket: written, How: wire.ToTry}
		_, err := v.Vote(t.q.ctx, b)
		v.Noted(err)
		r := wire.RefusalOf(err)
		if r.Born == "" {
			return
		}
		if reached, known := v.contest.kept(t.q.ctx); known && v.plant(t.q.ctx, seed{r.Born, max(reached, r.Counter)}) == nil {
			_, err = v.Vote(t.q.ctx, b)
			v.Noted(err)
		}
	})
}
