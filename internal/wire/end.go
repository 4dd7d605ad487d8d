package wire

import (
	"context"
	"fmt"
	"strconv"

	"github.com/relock-go/relock/internal/driver"
	"github.com/relock-go/relock/internal/link"
)

// Release ends e, whether it holds the lock or waits for it, and reports whether it held it. A lock
// that was held goes to the first waiter; with turns it is left to Redisson's waiters for a moment, if
// any listen.
//
// If e held the lock and next is not nil, the same step queues next behind all waiters. forNext is
// then what Acquire would return for next. It is the zero Answer if next was not queued, because other
// entries still share the lock or Redis failed.
func (r *Redis) Release(ctx context.Context, way Route, e *Entry, turns bool, next *Entry,
	late link.Latecomer) (held bool, forNext Answer, err error) {
	args := releaseArgs(way, e, turns, next)
	v, err := r.link.Share(ctx, e.Timeout, r.of(e.Names.Kind).release, e.Names.keys, trim(args[:], releaseSpare), late)
	got, held, err := first(v, r.vetted.heard(err))
	if err != nil || len(got) <= 1 {
		return held, Answer{}, err
	}
	forNext, err = parseAnswer(driver.List(got[1:]...))
	return true, forNext, err
}

// releaseArgs returns the arguments of release; those for next are "" if next is nil.
func releaseArgs(way Route, e *Entry, turns bool, next *Entry) [10]string {
	args := [...]string{e.ID, MS(e.Lease), lastBlock.text(int64(e.Asks())), e.Owner, "", "", "", "", way.Inbox, way.Publish}
	if !turns {
		args[4] = "0"
	}
	if next != nil {
		args[5], args[6], args[7] = next.ID, MS(next.Lease), strconv.Itoa(next.Asks())
	}
	return args
}

// Count is what a node is told of a quorum's fencing tokens.
type Count struct {
	Reached int64 // how far the quorum has counted
	Least   int64 // token that the next grant should begin at or above, 0 for none
}

// Unvote ends e at a node of a quorum, whether it holds the lock there or waits, and reports whether it
// held it. If next is not nil, the same step queues next there by its ticket, even if e did not hold
// the lock. forNext is then what Vote would return for next; from a node that may grant nothing it has
// only Barred.
func (r *Redis) Unvote(ctx context.Context, e *Entry, n Count, next *Entry, ticket string,
	late link.Latecomer) (held bool, forNext Answer, err error) {
	args := unvoteArgs(e, n)
	if next != nil {
		args[6], args[7], args[8], args[9] = next.ID, MS(next.Lease), strconv.Itoa(next.Block), ticket
	}
	v, err := r.link.Do(ctx, e.Timeout, r.of(e.Names.Kind).unvote, e.Names.voteKeys(), trim(args, voteSpare), late)
	got, held, err := first(v, r.vetted.heard(err))
	if err != nil || next == nil {
		return held, Answer{}, err
	}
	if len(got) == 2 && got[1].Err() != nil {
		return held, Answer{Barred: got[1].Err()}, nil
	}
	forNext, err = parseVote(got[1:])
	return held, forNext, err
}

// unvoteArgs returns the arguments of unvote, with "" for those of a next entry.
func unvoteArgs(e *Entry, n Count) []string {
	reached := strconv.FormatInt(n.Reached, 10)
	return []string{MS(e.Lease), strconv.Itoa(e.Block), e.ID, reached, proposal(n.Least), e.Owner, "", "", "", ""}
}

// first reads whether the caller held the lock: the answer is 1 or 0, or a list that begins with that.
// It returns the list, nil where there is none.
func first(v driver.Value, err error) ([]driver.Value, bool, error) {
	if err != nil {
		return nil, false, err
	}
	if !v.IsList() {
		held, err := v.Int64()
		return nil, held == 1, err
	}
	got, err := v.Values()
	if err != nil {
		return nil, false, err
	}
	if len(got) == 0 {
		return nil, false, fmt.Errorf("script answered nothing")
	}
	held, err := got[0].Int64()
	return got, held == 1, err
}

// Sweep gathers entries of one kind that are to be ended with one command. All of them are added by
// Release, or all by Unvote.
type Sweep struct {
	kind       *Kind
	entries    int
	keys, args []string
}

// Release adds the end of an entry where Redis decides alone.
func (s *Sweep) Release(way Route, e *Entry, turns bool) {
	args := releaseArgs(way, e, turns, nil)
	s.add(e.Names.Kind, e.Names.keys, args[:])
}

// Unvote adds the end of an entry at a node of a quorum.
func (s *Sweep) Unvote(e *Entry, n Count) {
	s.add(e.Names.Kind, e.Names.voteKeys(), unvoteArgs(e, n))
}

// add appends one entry. All entries of a sweep are of one kind, so they have as many arguments each:
// the script is told how many.
func (s *Sweep) add(k *Kind, keys, args []string) {
	if s.args == nil {
		s.kind, s.args = k, append(s.args, strconv.Itoa(len(args)))
	}
	s.entries++
	s.keys, s.args = append(s.keys, keys...), append(s.args, args...)
}

// Sweep ends all entries that s gathered. It returns for each whether it was ended. An entry that was
// not ended stands as before, and did not stop the others. After an error nothing is known of any.
func (r *Redis) Sweep(ctx context.Context, s *Sweep) ([]bool, error) {
	v, err := r.link.Do(ctx, r.link.Timeout, r.of(s.kind).sweep, s.keys, s.args, nil)
	if r.vetted.heard(err) != nil {
		return nil, err
	}
	got, err := v.Ints()
	if err != nil {
		return nil, err
	}
	if len(got) != s.entries {
		return nil, fmt.Errorf("sweep: %d answers to %d entries", len(got), s.entries)
	}
	ended := make([]bool, len(got))
	for i, n := range got {
		if ended[i] = n >= 0; !ended[i] {
			r.vetted.forget() // a right may be missing: a sweep does not tell why it failed
		}
	}
	return ended, nil
}
