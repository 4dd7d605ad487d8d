package quorum

import (
	"cmp"
	"context"
	"sync"

	"github.com/relock-go/relock/internal/claim"
	"github.com/relock-go/relock/internal/clock"
	"github.com/relock-go/relock/internal/driver"
	"github.com/relock-go/relock/internal/link"
	"github.com/relock-go/relock/internal/wire"
)

// Renew asks all nodes at once, and calls settle once for each renewal, from any goroutine. A lease
// is renewed once a quorum has confirmed it, and lost once no quorum can. The stamp is from before
// the first command.
func (q *Quorum) Renew(ctx context.Context, batch []claim.Renewal, settle claim.Settle) {
	t := &renewalRound{q: q, sent: clock.Now(), settle: settle, batch: batch, answers: make([]renewalAnswers, len(batch))}
	q.askAll(ctx, driver.Renew, func(ctx context.Context, m *member) error {
		m.Renew(ctx, batch, func(i int, r wire.Result, err error) { t.add(m, i, r, err) })
		return nil
	})
	// A loss may be repaired once it is a timeout old: a second round does that. It settles nothing,
	// so it makes no lease believed for longer.
	if again := t.finish(); len(again) > 0 {
		q.crew.Start(func() {
			if clock.Sleep(q.ctx, q.cfg.Timeout) {
				q.Renew(q.ctx, again, func(int, wire.Result, clock.Stamp, error) {})
			}
		})
	}
}

// renewalRound counts the nodes' answers to a batch of renewals. The answer that completes a quorum
// decides a lease, so a node that hangs delays none.
type renewalRound struct {
	q      *Quorum
	sent   clock.Stamp // before the first of the commands
	settle claim.Settle
	batch  []claim.Renewal

	mu      sync.Mutex // guards answers
	answers []renewalAnswers
}

// renewalAnswers is what the nodes have answered about one lease.
type renewalAnswers struct {
	held    int      // nodes that confirmed it
	lostAt  []*voter // at nodes that answered that the lock is not held there
	failure error    // of the last node that did not answer
	decided bool
}

// add counts one node's answer, and settles the lease if the answer decides it. It calls settle
// without the mutex, since the work that follows a lost lock must not delay other locks.
func (t *renewalRound) add(m *member, i int, result wire.Result, err error) {
	if verdict := t.decide(m, i, result, err); verdict != wire.Unanswered {
		t.settle(i, verdict, t.sent, nil)
	}
}

// decide counts an answer. If the answer decides the lease, it returns the result, otherwise
// [wire.Unanswered]. A lease is decided once.
func (t *renewalRound) decide(m *member, i int, result wire.Result, err error) wire.Result {
	t.mu.Lock()
	defer t.mu.Unlock()
	r, v := &t.answers[i], t.batch[i].Claim.(*Claim).at(m)
	if result == wire.Renewed && !v.confirms(t.sent) {
		result, err = wire.Unanswered, errYielding
	}
	switch result {
	case wire.Unanswered:
		r.failure = err
	case wire.Renewed:
		r.held++
		v.missingSince.Store(nil)
	case wire.Lost:
		r.lostAt = append(r.lostAt, v)
		v.missingSince.CompareAndSwap(nil, &t.sent) // the pointer tells finish which round found it
	}
	switch {
	case r.decided:
	case r.held >= t.q.need:
		r.decided = true
		return wire.Renewed
	case len(r.lostAt) > len(t.q.members)-t.q.need: // the rest is no quorum, whatever it answers
		r.decided = true
		return wire.Lost
	}
	return wire.Unanswered
}

// finish settles the leases that no quorum has decided: all nodes have answered by now, or will not.
// If a quorum keeps a lock, finish takes it again at the nodes that lost it.
//
// It returns the leases that this round first found to be lost at a node. They are to be renewed once
// more as soon as that loss may be repaired. The next regular renewal is a third of a lease away:
// until then another node may restart, and two losses may end the hold.
func (t *renewalRound) finish() (again []claim.Renewal) {
	for i, r := range t.answers {
		if !r.decided {
			t.settle(i, wire.Unanswered, t.sent, cmp.Or(r.failure, wire.ErrNoAnswer))
		} else if r.held >= t.q.need {
			found := false
			for _, v := range r.lostAt {
				t.repair(v)
				found = found || v.missingSince.Load() == &t.sent
			}
			if found {
				again = append(again, claim.Renewal{Claim: t.batch[i].Claim, Lease: t.batch[i].Lease})
			}
		}
	}
	return again
}

// repair takes a lock again at a node that lost it, if it is free there, so that the hold survives
// the loss of another node. It lengthens no belief: only the next renewals do, while a quorum still
// keeps the hold.
//
// The loss must have been found by a renewal that is a command timeout older. A lock that is forced
// open is freed node by node, and the first node tells the holder. If the holder took that node back
// before the others are reached, the lock would stay held.
func (t *renewalRound) repair(v *voter) {
	found := v.missingSince.Load()
	if found == nil || t.sent.Mono()-found.Mono() < t.q.cfg.Timeout {
		return
	}
	take := func() error {
		a, err := v.Vote(t.q.ctx, wire.Ballot{Ticket: v.contest.ticketText, How: wire.ToTry})
		v.Noted(err)
		if a.Mine || link.Unanswered(err) {
			v.missingSince.CompareAndSwap(found, nil) // the node may be ours: its next loss is another one
		}
		return err
	}
	t.q.crew.Start(func() {
		r := wire.RefusalOf(take())
		if r.Born == "" {
			return
		}
		// The node forgot how far the lock was counted: it grants nothing before it is told.
		if reached, known := v.contest.askHolders(t.q.ctx); known && v.sendSeed(seed{r.Born, max(reached, r.Counter)}) == nil {
			_ = take()
		}
	})
}
