package wire

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/relock-go/relock/internal/driver"
	"github.com/relock-go/relock/internal/link"
)

// Tokens are a grant's fencing tokens: the first, and how many. A count of 0 stands for the whole
// block, which is what an older client grants without saying so.
type Tokens struct {
	First int64
	Count int
}

// Among returns how many tokens the grant has, if a grant reserves block tokens.
func (t Tokens) Among(block int) int {
	if t.Count == 0 {
		return block
	}
	return min(t.Count, block)
}

// Answer is what a Redis answers to a question for a lock.
type Answer struct {
	Mine   bool
	Number int64         // Mine: the grant's number, which is its first fencing token; else the fencing counter
	Count  int           // Mine: how many tokens it has, 0 for the whole block
	Ticket string        // not Mine, where Redis decides alone: place in the queue, "" when not queued
	Holder string        // not Mine: owner field of the holder, "" for none
	TTL    time.Duration // what is left of its lease; without a holder, how long the lock is left to Redisson's waiters
	Low    int64         // of a vote: lowest ticket among the owner's and the queue's, 0 when there is none
	Now    int64         // of a vote: the node's clock, microseconds
	Barred error         // why the node may grant nothing, where an unvote found that
	Wanted bool          // not Mine: the holder's client was told that the lock is wanted
	Untold int           // not Mine: how many holders were not told that, if the first waiter should ask again soon for them
}

// Tokens returns a grant's tokens.
func (a *Answer) Tokens() Tokens { return Tokens{a.Number, a.Count} }

// NoTicket is the ticket of an entry that does not wait.
const NoTicket = "-"

// Acquire takes the lock for e, or enters the hold of e's shared owner. If it can do neither, it queues
// e, unless ticket is NoTicket. Sent again, it looks whether e has the lock by now. over is the turn
// of Redisson's waiters that is known to be over, "" for none. late hears of an answer that comes
// after the caller has left.
func (r *Redis) Acquire(ctx context.Context, way Route, e *Entry, ticket, over string, late link.Latecomer) (Answer, error) {
	var room [acquireArgs]string // an append to it allocates nothing
	args, known := r.asks(room[:0], way, e, ticket, over)
	v, err := r.link.Share(ctx, e.Timeout, r.of(e.Names.Kind).acquire, e.Names.keysTo(4), trim(args, acquireSpare), late)
	if err != nil {
		return Answer{}, err
	}
	a, err := parseAnswer(v)
	if err == nil && !known {
		r.vetted.note(e.Names.rights)
	}
	return a, err
}

// asks appends the arguments of acquire to args. known says that they do not ask for rights.
func (r *Redis) asks(args []string, way Route, e *Entry, ticket, over string) (_ []string, known bool) {
	args = append(args, MS(e.Lease), lastBlock.text(int64(e.Asks())), e.ID, e.Owner, ticket, over, way.Inbox, way.Publish)
	return r.vetted.ask(args, way, e)
}

// Reply is what a command for several entries answers one of them.
type Reply struct {
	Answer
	Asked bool  // if not, the entry is where it was before
	Err   error // of this entry alone
}

// Gather asks for several free locks in one command: for all of them or, if one is set, for the first that
// is free. Their entries are of one kind, wait in no line and have no shared owners; in a Cluster they are of
// one slot. If all are wanted and one is not free, that one is asked alone. late is as in Acquire, for all.
func (r *Redis) Gather(ctx context.Context, way Route, entries []*Entry, one bool, late link.Latecomer) ([]Reply, error) {
	args, keys := []string{strconv.Itoa(len(entries)), "all"}, []string(nil)
	if one {
		args[1] = "one"
	}
	timeout, vetted := time.Duration(0), make([]bool, len(entries))
	for i, e := range entries {
		args, vetted[i] = r.asks(args, way, e, NoTicket, "")
		keys, timeout = append(keys, e.Names.keysTo(4)...), max(timeout, e.Timeout)
	}
	v, err := r.link.Do(ctx, timeout, r.of(entries[0].Names.Kind).gather, keys, args, late)
	if err != nil {
		return nil, err
	}
	got, err := v.Values()
	if err == nil && len(got) != len(entries) {
		err = fmt.Errorf("gather: %d answers to %d entries", len(got), len(entries))
	}
	if err != nil {
		return nil, err
	}
	replies := make([]Reply, len(entries))
	for i, answer := range got {
		reply := &replies[i]
		if reply.Err = answer.Err(); reply.Err == nil && answer.IsList() {
			reply.Answer, reply.Err = parseAnswer(answer)
		} else if reply.Err == nil {
			continue // 0
		}
		if reply.Asked = true; reply.Err == nil && !vetted[i] {
			r.vetted.note(entries[i].Names.rights)
		}
	}
	return replies, nil
}

// acquireArgs is the number of arguments of acquire, and of vote.
const acquireArgs = 11

// The values that a script takes for arguments that are left out at the end: the route of a Redis that
// is no Cluster, and "" for all others.
var (
	acquireSpare = []string{6: Plain.Inbox, 7: Plain.Publish, acquireArgs - 1: ""}
	releaseSpare = []string{8: Plain.Inbox, 9: Plain.Publish}
	voteSpare    = make([]string, acquireArgs) // and unvote's: nodes of a quorum are no Clusters
)

// trim leaves out the last arguments that are the same as spare's. Redis reads and copies each
// argument, and most locks need three.
func trim(args, spare []string) []string {
	n := len(args)
	for n > 0 && args[n-1] == spare[n-1] {
		n--
	}
	return args[:n]
}

// MS is a duration on the wire: whole milliseconds, at least one.
func MS(d time.Duration) string { return lastMS.text(max(1, d.Milliseconds())) }

// lastMS and lastBlock keep what was sent last: most locks have the same lease, and the same block.
var lastMS, lastBlock spelled

// spelled keeps the text of the last number, so that a caller that needs the same allocates none.
type spelled struct{ last atomic.Pointer[number] }

type number struct {
	n    int64
	text string
}

// text returns the decimal digits of n.
func (s *spelled) text(n int64) string {
	last := s.last.Load()
	if last == nil || last.n != n {
		last = &number{n, strconv.FormatInt(n, 10)}
		s.last.Store(last)
	}
	return last.text
}

// parseAnswer reads a grant, {1, first token, how many} or the same in one word, or the answer to wait:
// {0, counter, ticket, TTL, holder}, and behind it perhaps how many holders heard that the lock is
// wanted, and how many were not told.
func parseAnswer(v driver.Value) (a Answer, err error) {
	if !v.IsList() {
		return parseTokens(v)
	}
	got, _ := v.Values()
	if len(got) == 3 {
		n, err := numbers("acquire", got)
		if err != nil {
			return a, err
		}
		return grant("acquire", n[0], n[1], n[2])
	}
	if len(got) < 5 || len(got) > 7 {
		return a, fmt.Errorf("acquire: answer of %d parts", len(got))
	}
	n, err := numbers("acquire", got, 2, 4)
	if err != nil {
		return a, err
	}
	a.Number, a.TTL, a.Wanted, a.Untold = n[1], time.Duration(n[3])*time.Millisecond, n[5] > 0, int(n[6])
	if a.Ticket, err = got[2].Text(); err != nil {
		return a, err
	}
	a.Holder, err = got[4].Text()
	return a, err
}

// parseTokens reads a grant in one word, as a script for many has it: <first token>:<how many>.
func parseTokens(v driver.Value) (Answer, error) {
	text, err := v.Text()
	if err != nil {
		return Answer{}, err
	}
	token, many, _ := strings.Cut(text, ":")
	first, err1 := strconv.ParseInt(token, 10, 64)
	count, err2 := strconv.ParseInt(many, 10, 64)
	if err1 != nil || err2 != nil {
		return Answer{}, fmt.Errorf("acquire: granted %q", text)
	}
	return grant("acquire", 1, first, count)
}

// numbers reads the integers of an answer that has eight parts at most. It skips the parts whose
// indices are in texts.
func numbers(op string, got []driver.Value, texts ...int) (n [8]int64, err error) {
	for i, part := range got {
		if slices.Contains(texts, i) {
			continue
		}
		if n[i], err = part.Int64(); err != nil {
			return n, fmt.Errorf("%s: %w", op, err)
		}
	}
	return n, nil
}

// grant returns the answer that gives the lock. It fails unless mine is 1 and there is a token.
func grant(op string, mine, first, count int64) (Answer, error) {
	if mine != 1 || first < 1 || count < 1 {
		return Answer{}, fmt.Errorf("%s: granted %d tokens from %d on", op, count, first)
	}
	return Answer{Mine: true, Number: first, Count: int(count)}, nil
}

// How a vote treats a lock that is taken.
const (
	ToWait  = "wait"
	ToTry   = "try"   // leave without waiting
	ToNudge = "nudge" // wait, and make the owner look again
)

// Several entries may share an owner's hold at a node. One of them may have given its part back while
// the others keep theirs. Its later votes say one of these in place of a grant to give back.
const (
	Apart int64 = -1 // stay out of the owner's hold
	Again int64 = -2 // enter it, under another number
)

// Ballot is what a vote says beside its entry.
type Ballot struct {
	Ticket string
	Yield  int64  // number of the grant to give back to a lower ticket, or Apart or Again; 0 for none
	How    string // ToWait, ToTry or ToNudge
	Least  int64  // token that a grant should begin at or above, 0 for none
}

// Vote asks a node of a quorum for the lock, looks again there, or gives a grant back, as b says.
// RefusalOf reads the error of a node that may have forgotten locks.
func (r *Redis) Vote(ctx context.Context, e *Entry, b Ballot, late link.Latecomer) (Answer, error) {
	number := "" // what the script takes for b.Yield: a grant's number, or one of two words
	switch {
	case b.Yield > 0:
		number = strconv.FormatInt(b.Yield, 10)
	case b.Yield == Apart:
		number = "apart"
	case b.Yield == Again:
		number = "again"
	}
	args := make([]string, 0, acquireArgs)
	args = append(args, MS(e.Lease), strconv.Itoa(e.Block), e.ID, b.Ticket, b.How, e.Owner, number, proposal(b.Least))
	args, known := r.vetted.ask(args, Plain, e)
	v, err := r.link.Do(ctx, e.Timeout, r.of(e.Names.Kind).vote, e.Names.voteKeys(), trim(args, voteSpare), late)
	if err != nil {
		return Answer{}, err
	}
	got, err := v.Values()
	if err != nil {
		return Answer{}, err
	}
	if !known {
		r.vetted.note(e.Names.rights)
	}
	if len(got) == 4 {
		return parseGrant(got, e)
	}
	return parseVote(got)
}

// proposal returns the text of the token that a grant should begin at, "" for none.
func proposal(least int64) string {
	if least <= 0 {
		return ""
	}
	return strconv.FormatInt(least, 10)
}

// parseVote reads {1 or 0, number or counter, lowest ticket, TTL, holder, the node's clock, how
// many tokens}, and how many heard that the lock is wanted, where any was told.
func parseVote(got []driver.Value) (a Answer, err error) {
	if len(got) != 7 && len(got) != 8 {
		return a, fmt.Errorf("vote: answer of %d parts", len(got))
	}
	n, err := numbers("vote", got, 4)
	if err != nil {
		return a, err
	}
	a.Mine, a.Number, a.Low, a.Now, a.Count = n[0] == 1, n[1], n[2], n[5], int(n[6])
	a.TTL, a.Wanted = time.Duration(n[3])*time.Millisecond, n[7] > 0
	a.Holder, err = got[4].Text()
	return a, err
}

// parseGrant reads {1, first token, the node's clock, how many tokens}, the answer to a vote for an
// idle lock. Holder and TTL are those of e.
func parseGrant(got []driver.Value, e *Entry) (Answer, error) {
	n, err := numbers("vote", got)
	if err != nil {
		return Answer{}, err
	}
	a, err := grant("vote", n[0], n[1], n[3])
	if err == nil {
		a.Now, a.Holder, a.TTL = n[2], e.ID, e.Lease
	}
	return a, err
}
