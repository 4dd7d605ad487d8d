package wire

import (
	"context"
	"fmt"
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

// Among returns how many of a block the grant has.
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
}

// Tokens are those of a grant.
func (a *Answer) Tokens() Tokens { return Tokens{a.Number, a.Count} }

// NoTicket leaves without waiting.
const NoTicket = "-"

// Acquire takes the lock for e, enters it, or queues e unless ticket is NoTicket. over is the turn
// of Redisson's waiters that is known to be over. late hears of an answer that comes after the
// caller has left.
func (r *Redis) Acquire(ctx context.Context, way Route, e *Entry, ticket, over string, late link.Latecomer) (Answer, error) {
	n := e.Names
	var room [acquireArgs]string
	args := append(room[:0], MS(e.Lease), lastBlock.text(int64(e.Block)), e.ID, e.Owner, ticket, over, way.Inbox, way.Publish)
	args, known := r.vetted.ask(args, way, e)
	v, err := r.link.Share(ctx, e.Timeout, r.of(n.Kind).acquire, n.keysTo(4), trim(args, acquireRoute), late)
	if err != nil {
		return Answer{}, err
	}
	if !v.IsList() {
		a, err := parseTokens(v)
		if err == nil && !known {
			r.vetted.note(n.rights)
		}
		return a, err
	}
	got, err := v.Values()
	if err != nil {
		return Answer{}, err
	}
	if !known {
		r.vetted.note(n.rights)
	}
	return parseAnswer(got)
}

// parseTokens reads a grant in one word, as a script for many has it: <first token>:<how many>.
func parseTokens(v driver.Value) (a Answer, err error) {
	text, err := v.Text()
	if err != nil {
		return a, err
	}
	first, count, _ := strings.Cut(text, ":")
	a.Number, err = strconv.ParseInt(first, 10, 64)
	if err != nil || a.Number < 1 {
		return Answer{}, fmt.Errorf("acquire: granted %q", text)
	}
	a.Count, err = strconv.Atoi(count)
	if err != nil || a.Count < 1 {
		return Answer{}, fmt.Errorf("acquire: granted %q", text)
	}
	a.Mine = true
	return a, nil
}

// acquireArgs is how many arguments acquire takes, and vote.
const acquireArgs = 11

// acquireRoute and releaseRoute are the places of the route in their arguments.
const (
	acquireRoute = 6
	releaseRoute = 8
)

// none is the place of the route in arguments that have none.
const none = -9

// trim leaves out the last arguments that are as a script takes them to be where they are missing:
// inbox and PUBLISH, at place route and behind it, as where Redis is no Cluster, and others empty.
// Redis reads and copies each, and most locks need three.
func trim(args []string, route int) []string {
	for n := len(args); n > 0; n = len(args) {
		spare := ""
		switch n - 1 {
		case route:
			spare = Plain.Inbox
		case route + 1:
			spare = Plain.Publish
		}
		if args[n-1] != spare {
			break
		}
		args = args[:n-1]
	}
	return args
}

// spare are the arguments that a script takes those to be that trim has left out.
func spare(n, route int) []string {
	args := make([]string, n)
	args[route], args[route+1] = Plain.Inbox, Plain.Publish
	return args
}

// MS is a duration on the wire: whole milliseconds, at least one.
func MS(d time.Duration) string { return lastMS.text(max(1, d.Milliseconds())) }

// lastMS and lastBlock are what was told last: most locks have the same lease, and the same block.
var lastMS, lastBlock spelled

// spelled is a number as text, kept for the next caller that needs the same.
type spelled struct{ last atomic.Pointer[number] }

type number struct {
	n    int64
	text string
}

func (s *spelled) text(n int64) string {
	last := s.last.Load()
	if last == nil || last.n != n {
		last = &number{n, strconv.FormatInt(n, 10)}
		s.last.Store(last)
	}
	return last.text
}

// parseAnswer reads {1, first token, how many} or {0, counter, ticket, TTL, holder}, and how many
// heard that the lock is wanted, where any was told.
func parseAnswer(got []driver.Value) (a Answer, err error) {
	granted := len(got) == 3
	if !granted && len(got) != 5 && len(got) != 6 {
		return a, fmt.Errorf("acquire: answer of %d parts", len(got))
	}
	var n [6]int64
	for i, part := range got {
		if i == 2 && !granted || i == 4 {
			continue
		}
		if n[i], err = part.Int64(); err != nil {
			return a, fmt.Errorf("acquire: %w", err)
		}
	}
	a.Number = n[1]
	if granted {
		a.Mine, a.Count = true, int(n[2])
		if n[0] != 1 || n[1] < 1 || n[2] < 1 {
			return a, fmt.Errorf("acquire: granted %d tokens from %d on", n[2], n[1])
		}
		return a, nil
	}
	a.TTL, a.Wanted = time.Duration(n[3])*time.Millisecond, n[5] > 0
	if a.Ticket, err = got[2].Text(); err != nil {
		return a, err
	}
	a.Holder, err = got[4].Text()
	return a, err
}

// How a vote treats a lock that is taken.
const (
	ToWait  = "wait"
	ToTry   = "try"   // leave without waiting
	ToNudge = "nudge" // wait, and make the owner look again
)

// An entry that shares an owner may have given back a grant that other sharers keep. A vote then has one
// of these in place of the number of a grant to give back.
const (
	Apart int64 = -1 // stay out of the owner's hold
	Again int64 = -2 // enter it, under another number
)

// Ballot is what a vote says beside its entry.
type Ballot struct {
	Ticket string
	Yield  int64 // grant of that number to give back to a lower ticket, or Apart or Again; 0 for none
	How    string
	Least  int64 // token that a grant should begin at or above, 0 for none
}

// Vote acquires at a node of a quorum, looks again there, or gives a grant back, as b says.
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
	args = trim(args, none)
	v, err := r.link.Do(ctx, e.Timeout, r.of(e.Names.Kind).vote, e.Names.voteKeys(), args, late)
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

// proposal is a token to begin at, as it travels.
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
	var n [8]int64
	for i, part := range got {
		if i == 4 {
			continue
		}
		if n[i], err = part.Int64(); err != nil {
			return a, fmt.Errorf("vote: %w", err)
		}
	}
	a.Mine, a.Number, a.Low, a.Now, a.Count = n[0] == 1, n[1], n[2], n[5], int(n[6])
	a.TTL, a.Wanted = time.Duration(n[3])*time.Millisecond, n[7] > 0
	a.Holder, err = got[4].Text()
	return a, err
}

// parseGrant reads {1, first token, the node's clock, how many tokens}, which answers a vote for an
// idle lock: the rest is what e says.
func parseGrant(got []driver.Value, e *Entry) (a Answer, err error) {
	var n [4]int64
	for i, part := range got {
		if n[i], err = part.Int64(); err != nil {
			return a, fmt.Errorf("vote: %w", err)
		}
	}
	if n[0] != 1 || n[1] < 1 || n[3] < 1 {
		return a, fmt.Errorf("vote: granted %d tokens from %d on", n[3], n[1])
	}
	return Answer{Mine: true, Number: n[1], Now: n[2], Count: int(n[3]), Holder: e.ID, TTL: e.Lease}, nil
}
