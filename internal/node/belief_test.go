package node

import (
	"testing"
	"time"

	"github.com/relock-go/relock/internal/clock"
	"github.com/relock-go/relock/internal/wire"
	"github.com/stretchr/testify/require"
)

// The entry of this file's tests has a lease of a second, so that a grant is believed for less the margin, and a block
// of 16 tokens.
const (
	second   = 1000
	believed = 988
	block    = 16
	unknown  = -1 // the counter before an answer told it
)

// at is an instant that both clocks show as so many milliseconds; clocks is one that they do not agree on.
func at(ms int64) clock.Stamp { return clocks(ms, ms) }

func clocks(mono, wall int64) clock.Stamp {
	return clock.At(mono*int64(time.Millisecond), wall*int64(time.Millisecond))
}

// event is what a belief is told, or asked.
type event func(t *testing.T, b *Belief, e *wire.Entry)

func begin(ms int64) event {
	return func(_ *testing.T, b *Belief, _ *wire.Entry) { b.Begin(at(ms)) }
}

// mine is the answer to a question sent at ms, that the entry has the lock.
func mine(votes bool, number int64, count int, ms int64, want bool) event {
	return func(t *testing.T, b *Belief, e *wire.Entry) {
		t.Helper()
		a := wire.Answer{Mine: true, Number: number, Count: count}
		require.Equal(t, want, b.Answered(&a, e, votes, at(ms)), "granted %d", number)
	}
}

const (
	alone = false
	votes = true
)

// others is the answer that another entry has it, and how far Redis has counted.
func others(counter, ms int64) event {
	return func(t *testing.T, b *Belief, e *wire.Entry) {
		t.Helper()
		a := wire.Answer{Number: counter}
		require.True(t, b.Answered(&a, e, votes, at(ms)), "nothing is to be given back")
	}
}

// told is a message of a grant, looked at when the clocks show now.
func told(first int64, count int, now clock.Stamp, want bool) event {
	return func(t *testing.T, b *Belief, e *wire.Entry) {
		t.Helper()
		require.Equal(t, want, b.Told(wire.Tokens{First: first, Count: count}, e, now), "told %d", first)
	}
}

func owns(now clock.Stamp, want bool) event {
	return func(t *testing.T, b *Belief, e *wire.Entry) {
		t.Helper()
		require.Equal(t, want, b.Owns(e, now))
	}
}

func drop(_ *testing.T, b *Belief, _ *wire.Entry) { b.Drop() }

// state is what is believed in the end. Stamps of both clocks, in milliseconds; zero for none.
type state struct {
	number  int64
	count   int
	sent    int64
	counter int64
	base    int64
}

func (s state) check(t *testing.T, b *Belief) {
	t.Helper()
	require.Equal(t, s.number, b.Number, "number")
	require.Equal(t, s.counter, b.Counter, "counter")
	require.Equal(t, at(s.base), b.Base, "base")
	if s.number > 0 {
		require.Equal(t, s.count, b.Count, "count")
		require.Equal(t, at(s.sent), b.Sent, "sent")
		require.Equal(t, wire.Tokens{First: s.number, Count: s.count}, b.Tokens())
	}
}

func TestBelief(t *testing.T) {
	type row struct {
		what   string
		events []event
		want   state
	}
	for _, rows := range [][]row{
		{ // answers
			{"nothing was asked", []event{owns(at(1), false)}, state{}},
			{"the first question", []event{begin(10), owns(at(10), false)}, state{counter: unknown, base: 10}},
			{"another question keeps the base", []event{begin(10), begin(50)}, state{counter: unknown, base: 10}},
			{"a question after an answer", []event{begin(10), others(5, 20), begin(50)}, state{counter: 5, base: 20}},
			{"granted", []event{
				begin(10), mine(alone, 17, 3, 10, true), owns(at(11), true),
			}, state{17, 3, 10, unknown, 10}},
			{"granted by a vote", []event{begin(10), mine(votes, 17, 3, 10, true)}, state{17, 3, 10, unknown, 10}},
			{"count 0 is the block", []event{
				begin(10), mine(alone, 17, 0, 10, true),
			}, state{17, block, 10, unknown, 10}},
			{"a count beyond the block", []event{
				begin(10), mine(votes, 17, 99, 10, true),
			}, state{17, block, 10, unknown, 10}},
			{"granted again, dated anew", []event{
				begin(10), mine(alone, 17, 3, 10, true), mine(alone, 17, 3, 500, true), owns(at(10+believed), true),
			}, state{17, 3, 500, unknown, 10}},
			{"granted again in other words keeps the count", []event{
				begin(10), mine(votes, 17, 3, 10, true), mine(votes, 17, 0, 20, true),
			}, state{17, 3, 20, unknown, 10}},
			{"a second grant has a count of its own", []event{
				begin(10), mine(votes, 17, 3, 10, true), mine(votes, 33, 0, 20, true),
			}, state{33, block, 20, unknown, 10}},
			{"refused", []event{begin(10), others(5, 10), owns(at(10), false)}, state{counter: 5, base: 10}},
			{"refused by a Redis that never counted", []event{begin(10), others(0, 10)}, state{counter: 0, base: 10}},
			{"refused again, counted on", []event{
				begin(10), others(5, 10), others(9, 40),
			}, state{counter: 9, base: 40}},
			{"the counter went back", []event{begin(10), others(9, 10), others(5, 40)}, state{counter: 9, base: 40}},
		},
		{ // numbers that were counted before
			{"alone Redis has the last word", []event{
				begin(10), others(20, 10), mine(alone, 17, 3, 30, true),
			}, state{17, 3, 30, 20, 10}},
			{"a vote that forgot how far it counted", []event{
				begin(10), others(20, 10), mine(votes, 17, 3, 30, false), owns(at(30), false),
			}, state{counter: 20, base: 10}},
			{"a vote at the counter", []event{
				begin(10), others(17, 10), mine(votes, 17, 3, 30, false),
			}, state{counter: 17, base: 10}},
			{"a vote just above it", []event{
				begin(10), others(16, 10), mine(votes, 17, 3, 30, true),
			}, state{17, 3, 30, 16, 10}},
			{"an old vote beside a younger grant", []event{
				begin(10), others(16, 10), mine(votes, 33, 3, 30, true), mine(votes, 12, 5, 20, true),
			}, state{33, 3, 30, 16, 10}},
			{"lost to others since", []event{
				begin(10), mine(votes, 17, 3, 10, true), others(40, 20), owns(at(20), false),
			}, state{counter: 40, base: 20}},
			{"lost, and no entry had it since", []event{
				begin(10), mine(votes, 17, 3, 10, true), others(17, 20),
			}, state{counter: 17, base: 20}},
			{"refused before it was granted", []event{
				begin(10), told(17, 3, at(30), true), others(16, 20), owns(at(30), true),
			}, state{17, 3, 10, 16, 20}},
		},
		{ // messages
			{"a message before any question", []event{told(17, 3, at(5), false)}, state{}},
			{"a message before any answer", []event{
				begin(10), told(17, 3, at(30), true),
			}, state{17, 3, 10, unknown, 10}},
			{"a message is dated from the answer before", []event{
				begin(10), others(5, 20), told(17, 3, at(900), true), owns(at(20+believed-1), true), owns(at(20+believed), false),
			}, state{17, 3, 20, 5, 20}},
			{"count 0 in a message", []event{begin(10), told(17, 0, at(30), true)}, state{17, block, 10, unknown, 10}},
			{"no grant", []event{begin(10), told(0, 0, at(30), false)}, state{counter: unknown, base: 10}},
			{"a late message", []event{
				begin(10), others(20, 10), told(17, 3, at(30), false),
			}, state{counter: 20, base: 10}},
			{"a message at the counter", []event{
				begin(10), others(17, 10), told(17, 3, at(30), false),
			}, state{counter: 17, base: 10}},
			{"a message just above it", []event{
				begin(10), others(16, 10), told(17, 3, at(30), true),
			}, state{17, 3, 10, 16, 10}},
			{"late, though the counter went back", []event{
				begin(10), others(20, 10), others(5, 20), told(17, 3, at(30), false),
			}, state{counter: 20, base: 20}},
			{"told twice", []event{
				begin(10), told(17, 3, at(30), true), told(17, 5, at(40), false),
			}, state{17, 3, 10, unknown, 10}},
			{"an older grant after a younger", []event{
				begin(10), told(33, 3, at(30), true), told(17, 5, at(40), false),
			}, state{33, 3, 10, unknown, 10}},
			{"a younger grant after an older", []event{
				begin(10), told(17, 3, at(30), true), told(33, 5, at(40), true),
			}, state{33, 5, 10, unknown, 10}},
			{"a message of what was answered", []event{
				begin(10), mine(alone, 17, 3, 500, true), told(17, 0, at(510), false),
			}, state{17, 3, 500, unknown, 10}},
			{"an older message after an answer", []event{
				begin(10), mine(votes, 17, 3, 500, true), told(12, 0, at(510), false),
			}, state{17, 3, 500, unknown, 10}},
			{"answered after the message, dated anew", []event{
				begin(10), told(17, 3, at(30), true), mine(votes, 17, 3, 500, true),
			}, state{17, 3, 500, unknown, 10}},
		},
		{ // leases that end
			{"a lease less the margin", []event{
				begin(10), mine(alone, 17, 3, 10, true), owns(at(10+believed-1), true), owns(at(10+believed), false),
			}, state{17, 3, 10, unknown, 10}},
			{"it ends while the machine sleeps", []event{
				begin(10), mine(alone, 17, 3, 10, true), owns(clocks(20, 10+believed-1), true), owns(clocks(20, 10+believed), false),
			}, state{17, 3, 10, unknown, 10}},
			{"it ends though the wall clock went back", []event{
				begin(10), mine(votes, 17, 3, 10, true), owns(clocks(10+believed-1, -9999), true),
				owns(clocks(10+believed, -9999), false),
			}, state{17, 3, 10, unknown, 10}},
			{"a message after a lease", []event{
				begin(10), told(17, 3, at(10+believed), false),
			}, state{counter: unknown, base: 10}},
			{"a message just before", []event{
				begin(10), told(17, 3, at(10+believed-1), true),
			}, state{17, 3, 10, unknown, 10}},
			{"a message after a sleep", []event{
				begin(10), told(17, 3, clocks(20, 10+believed), false),
			}, state{counter: unknown, base: 10}},
			{"a message after the wall clock went back", []event{
				begin(10), told(17, 3, clocks(10+believed, 0), false),
			}, state{counter: unknown, base: 10}},
			{"a message after another answer", []event{
				begin(10), others(5, second), told(17, 3, at(10+second), true),
			}, state{17, 3, second, 5, second}},
		},
		{ // what was given back
			{"dropped", []event{
				begin(10), mine(votes, 17, 3, 10, true), drop, owns(at(11), false),
			}, state{counter: 17, base: 10}},
			{"dropped before anything", []event{begin(10), drop}, state{counter: 0, base: 10}},
			{"dropped below the counter", []event{
				begin(10), others(20, 10), mine(alone, 17, 3, 20, true), drop,
			}, state{counter: 20, base: 10}},
			{"told late of what was dropped", []event{
				begin(10), mine(votes, 17, 3, 10, true), drop, told(17, 3, at(20), false),
			}, state{counter: 17, base: 10}},
			{"a vote for what was dropped", []event{
				begin(10), mine(votes, 17, 3, 10, true), drop, mine(votes, 17, 3, 20, false),
			}, state{counter: 17, base: 10}},
			{"a vote for more", []event{
				begin(10), mine(votes, 17, 3, 10, true), drop, mine(votes, 33, 0, 20, true),
			}, state{33, block, 20, 17, 10}},
			{"told of more", []event{
				begin(10), mine(votes, 17, 3, 10, true), drop, told(33, 0, at(30), true),
			}, state{33, block, 10, 17, 10}},
			{"refused at the counter before the drop", []event{
				begin(10), mine(votes, 17, 3, 10, true), drop, others(5, 20), told(17, 3, at(30), false),
			}, state{counter: 17, base: 20}},
		},
	} {
		for _, r := range rows {
			t.Run(r.what, func(t *testing.T) {
				var b Belief
				e := &wire.Entry{Lease: second * time.Millisecond, Block: block}
				for _, event := range r.events {
					event(t, &b, e)
				}
				r.want.check(t, &b)
			})
		}
	}
}

// No entry waited where the first question of all was answered with the grant, and only there: neither where it was asked
// again, nor where a message told of the grant.
func TestFreshBelief(t *testing.T) {
	for what, tc := range map[string]struct {
		events []event
		want   bool
	}{
		"the first answer":        {[]event{begin(10), mine(alone, 17, 3, 10, true)}, true},
		"the first vote":          {[]event{begin(10), mine(votes, 17, 3, 10, true)}, true},
		"a repeated question":     {[]event{begin(10), begin(50), mine(alone, 17, 3, 50, true)}, false},
		"a repeated one at once":  {[]event{begin(10), begin(10), mine(alone, 17, 3, 10, true)}, false},
		"a repeated vote":         {[]event{begin(10), begin(50), mine(votes, 17, 3, 50, true)}, false},
		"the answer after others": {[]event{begin(10), others(5, 10), mine(alone, 17, 3, 50, true)}, false},
		"a message":               {[]event{begin(10), told(17, 3, at(20), true)}, false},
		"a message after others":  {[]event{begin(10), others(5, 10), told(17, 3, at(20), true)}, false},
		"both answers": {
			[]event{begin(10), mine(alone, 17, 3, 10, true), mine(alone, 17, 3, 50, true)}, false,
		},
	} {
		t.Run(what, func(t *testing.T) {
			b, e := &Belief{}, &wire.Entry{Lease: second * time.Millisecond, Block: block}
			for _, ev := range tc.events {
				ev(t, b, e)
			}
			require.Equal(t, tc.want, b.Fresh)
		})
	}
}
