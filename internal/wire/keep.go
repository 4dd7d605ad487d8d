package wire

import (
	"context"
	"fmt"
	"iter"
	"strconv"
	"time"

	"github.com/relock-go/relock/internal/driver"
	"github.com/relock-go/relock/internal/link"
)

// SetCount writes the hold count of e and lengthens its lease. It returns false when e does not hold
// the lock any more.
func (r *Redis) SetCount(ctx context.Context, e *Entry, count int, lease time.Duration) (bool, error) {
	args := []string{e.ID, strconv.Itoa(count), MS(lease)}
	n, err := integer(r.link.Do(ctx, e.Timeout, r.of(e.Names.Kind).setCount, e.Names.renewalKeys(e.ID), args, nil))
	return n == 1, r.vetted.heard(err)
}

// Refill reserves the next block of tokens for e at a Redis that decides alone. It returns the zero
// Tokens if e does not hold the lock any more, or if another entry waits for the lock.
func (r *Redis) Refill(ctx context.Context, way Route, e *Entry) (Tokens, error) {
	args := []string{e.ID, strconv.Itoa(e.Block), way.Publish}
	v, err := r.link.Do(ctx, e.Timeout, r.of(e.Names.Kind).refill, e.Names.keys, args, nil)
	if err != nil {
		return Tokens{}, err
	}
	got, err := v.Ints()
	if err != nil || len(got) == 0 {
		return Tokens{}, err
	}
	if len(got) != 2 {
		return Tokens{}, fmt.Errorf("refill: %d words in the answer", len(got))
	}
	return Tokens{First: got[0], Count: int(got[1])}, nil
}

// Move lets the field to have the lock in place of the field from, at a Redis that decides alone. One of them
// is e's id, the other is HandleField's. With a block it also reserves as many tokens. The answer says whether
// to has the lock now, and if not, why. Sent again it changes nothing, but that it lengthens the lease of an e
// that has the lock. grant is the first token of the grant that is to move, 0 for any.
func (r *Redis) Move(ctx context.Context, way Route, e *Entry, from, to string, lease time.Duration, block int, grant int64,
	late link.Latecomer) (a Answer, why string, err error) {
	args, known := make([]string, 0, acquireArgs), true
	args = append(args, from, to, MS(lease), strconv.Itoa(block), way.Publish, proposal(grant))
	if block > 0 { // a taker, who may have asked for no lock before
		args, known = r.vetted.ask(append(args, "", ""), way, e)
	}
	v, err := r.link.Do(ctx, e.Timeout, r.of(e.Names.Kind).move, e.Names.keysTo(4), args, late)
	got, moved, err := first(v, r.vetted.heard(err))
	if err == nil && !known {
		r.vetted.note(e.Names.rights)
	}
	if err == nil && moved {
		a, err = parseAnswer(driver.List(got...))
	} else if err == nil && len(got) == 2 {
		why, err = got[1].Text()
	}
	return a, why, err
}

// Resize says how many permits a semaphore has, if Redis keeps no number yet, or in any case if anew is
// set. It reports whether it set the number.
func (r *Redis) Resize(ctx context.Context, way Route, n *Names, permits int, anew bool) (bool, error) {
	args := []string{strconv.Itoa(permits), "", way.Publish}
	if anew {
		args[1] = "1"
	}
	set, err := integer(r.link.Do(ctx, r.link.Timeout, r.of(n.Kind).resize, n.keysTo(4), args, nil))
	return set == 1, err
}

// Renewal asks to lengthen one lease.
type Renewal struct {
	Claim interface{ Of() *Entry } // the claim that has the lease
	Count int                      // hold count to write; 0 leaves it alone
	Lease time.Duration

	Timeout time.Duration // of the command
}

// Result is what became of a renewal.
type Result int

// The zero Result says that the lease may or may not have been lengthened.
const (
	Unanswered Result = iota
	Renewed
	Lost
)

// MaxBatch bounds how many leases one command renews. For about 0.4 ms Redis then serves no other
// client; for 0.9 ms if those are of readers or permits, which have more keys.
const MaxBatch = 200

// MaxWeight bounds the weight of the entries in one command: for permits by the hundred Redis takes a
// microsecond each.
const MaxWeight = 256

// Commands parts entries into those of one command each: most at most, and no more than MaxWeight
// together. of returns a T's entry.
func Commands[T any](all []T, most int, of func(T) *Entry) iter.Seq[[]T] {
	return func(yield func([]T) bool) {
		from, weight := 0, 0
		for i, one := range all {
			w := of(one).Weight()
			if weight += w; i-from == most || weight > MaxWeight && i > from {
				if !yield(all[from:i:i]) {
					return
				}
				from, weight = i, w
			}
		}
		if from < len(all) {
			yield(all[from:])
		}
	}
}

// Renew lengthens leases of one kind's locks, which share a slot, and tells what became of each.
func (r *Redis) Renew(ctx context.Context, batch []Renewal) ([]Result, error) {
	keys, args := make([]string, 0, len(batch)), make([]string, 0, 3*len(batch))
	for _, one := range batch {
		e := one.Claim.Of()
		keys = append(keys, e.Names.renewalKeys(e.ID)...)
		args = append(args, e.ID, strconv.Itoa(one.Count), MS(one.Lease))
	}
	v, err := r.link.Urge(ctx, r.of(batch[0].Claim.Of().Names.Kind).renew, keys, args)
	if r.vetted.heard(err) != nil {
		return nil, err
	}
	got, err := v.Values()
	if err != nil {
		return nil, err
	}
	if len(got) != len(batch) {
		return nil, fmt.Errorf("renew: %d answers to %d leases", len(got), len(batch))
	}
	results := make([]Result, len(got))
	for i, part := range got {
		switch n, err := part.Int64(); {
		case err != nil:
			return nil, err
		case n == 1:
			results[i] = Renewed
		case n == 0:
			results[i] = Lost
		}
	}
	return results, nil
}

// RenewApart renews a batch. Redis refuses a batch as a whole if the user has lost the rights to one of
// its keys. A refused part is sent again in halves, the larger parts first, down to single locks, so
// that one lock's refusal does not fail the others.
//
// It calls note for each part whose results are known, with the index at which the part begins. If err
// is not nil, all its results are Unanswered.
func (r *Redis) RenewApart(ctx context.Context, batch []Renewal, note func(from int, got []Result, err error)) {
	type part struct{ from, to int }
	parts := []part{{0, len(batch)}}
	for i := 0; i < len(parts); i++ {
		p := parts[i]
		got, err := r.Renew(ctx, batch[p.from:p.to])
		if middle := (p.from + p.to) / 2; OfOneKey(err) && middle > p.from {
			parts = append(parts, part{p.from, middle}, part{middle, p.to})
			continue
		}
		if err != nil {
			got = make([]Result, p.to-p.from)
		}
		note(p.from, got, err)
	}
}

// Raise raises the fencing counter if e holds the lock here. It returns false if e does not.
func (r *Redis) Raise(ctx context.Context, e *Entry, counter int64) (bool, error) {
	n, err := r.fence(ctx, e, "hold", e.ID, counter)
	return n == 1, err
}

// Counter returns the fencing counter if e holds the lock here, and 0 if e does not.
func (r *Redis) Counter(ctx context.Context, e *Entry) (int64, error) {
	return r.fence(ctx, e, "hold", e.ID, 0)
}

// Seed tells a node that forgot its counter how far the others counted. It returns false if the node
// is not the incarnation born any more.
func (r *Redis) Seed(ctx context.Context, e *Entry, born string, counter int64) (bool, error) {
	n, err := r.fence(ctx, e, "seed", born, counter)
	return n == 1, err
}

// fence runs the script fence. id is an entry's if how is "hold", an incarnation's if how is
// "seed".
func (r *Redis) fence(ctx context.Context, e *Entry, how, id string, counter int64) (int64, error) {
	args := []string{how, id, strconv.FormatInt(counter, 10)}
	return integer(r.link.Do(ctx, r.link.Timeout, r.of(e.Names.Kind).fence, e.Names.voteKeys(), args, nil))
}

// Declare says that a node is new, so that it has forgotten no lock. run is the run id that the node's
// process told, "" for none. It returns false if the node has a marker by now, or is another process.
func (r *Redis) Declare(ctx context.Context, run string, longest time.Duration) (bool, error) {
	if run == "" {
		run = "unknown" // as in guard.lua
	}
	n, err := integer(r.link.Do(ctx, r.link.Timeout, r.of(nil).declare, nil, []string{run, MS(longest)}, nil))
	return n == 1, err
}

// Force frees a lock, whichever owner holds it, and returns false if none did. A node of a quorum also
// tells the owner. If owners are given, only they lose the node, and their places in its queue.
func (r *Redis) Force(ctx context.Context, way Route, n *Names, owners ...string) (freed bool, owner string, err error) {
	keys := n.keysTo(4)
	if r.from.Votes {
		keys = n.voteKeys()
	}
	v, err := r.link.Do(ctx, r.link.Timeout, r.of(n.Kind).force, keys, append([]string{way.Inbox, way.Publish}, owners...), nil)
	if err == nil && r.from.Votes {
		owner, err = v.Text()
		return owner != "", owner, err
	}
	was, err := integer(v, err)
	return was == 1, "", err
}

// Inspect reads a lock's state.
func (r *Redis) Inspect(ctx context.Context, n *Names) (State, error) {
	v, err := r.link.Do(ctx, r.link.Timeout, r.of(n.Kind).inspect, n.keysTo(3), nil, nil)
	if err != nil {
		return State{}, err
	}
	return parseState(v, n.Kind)
}

// integer returns a script's answer as a number, or the error of the script.
func integer(v driver.Value, err error) (int64, error) {
	if err != nil {
		return 0, err
	}
	return v.Int64()
}
