// Package faults puts faults between a client and Redis, for tests: commands get lost, run twice,
// late or unanswered, and messages do too. A filter decides the fate of each call, by what it
// carries.
//
// NewClient wraps a user's client, NewRedis a driver's Redis; Stub is a Redis without any server.
package faults

import (
	"context"
	"errors"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// ErrNoAnswer is the error of a command whose answer is lost.
var ErrNoAnswer = errors.New("faults: the answer is lost")

// Call is one call on its way: a command, or one of these, which are spelled like commands:
//
//	MESSAGE channel text    a Pub/Sub message on its way to its subscriber
//	CLOSE                   a dedicated connection is closed
type Call struct {
	Context context.Context
	Words   []string
	Script  string // the text of the script that the command runs, "" for any other command
	Send    func() // runs the command once more, now, and drops the answer
}

// Has reports whether all words are among the call's, each as a whole.
func (c *Call) Has(words ...string) bool {
	for _, word := range words {
		if !slices.Contains(c.Words, word) {
			return false
		}
	}
	return true
}

// title finds the headers of scripts' files: name, what the script does, and an empty line of
// comment. If files were put together, the last header names the whole.
var title = regexp.MustCompile(`(?m)^-- ([a-z]+): .*\n--$`)

// titles has the names of the texts that were searched. There are few texts, but to search one
// takes milliseconds. A filter is asked about one call at a time, so on a slow machine commands
// would run out of time behind it.
var titles sync.Map

// ScriptName returns the name of the script that the call runs, as the header of its file has it,
// "" for none.
func (c *Call) ScriptName() string {
	if known, is := titles.Load(c.Script); is {
		return known.(string)
	}
	name := ""
	if all := title.FindAllStringSubmatch(c.Script, -1); len(all) > 0 {
		name = all[len(all)-1][1]
	}
	titles.Store(c.Script, name)
	return name
}

// Filter decides what becomes of each call. It is asked about one call at a time and must not block.
type Filter func(*Call) Fate

// Match picks calls.
type Match func(*Call) bool

// Script picks the calls of the script that has one of these names; see [Call.ScriptName].
func Script(names ...string) Match {
	return func(c *Call) bool { return c.Script != "" && slices.Contains(names, c.ScriptName()) }
}

// AnyScript picks the calls of scripts.
func AnyScript(c *Call) bool { return c.Script != "" }

// Text picks the calls of scripts that contain piece.
func Text(piece string) Match {
	return func(c *Call) bool { return c.Script != "" && strings.Contains(c.Script, piece) }
}

// Command picks the commands that begin with these words, whatever their case.
func Command(words ...string) Match {
	return func(c *Call) bool {
		return len(c.Words) >= len(words) && slices.EqualFunc(words, c.Words[:len(words)], strings.EqualFold)
	}
}

// Carrying picks the calls that have all these words, keys among them.
func Carrying(words ...string) Match {
	return func(c *Call) bool { return c.Has(words...) }
}

// And picks the calls that both pick.
func (m Match) And(n Match) Match {
	return func(c *Call) bool { return m(c) && n(c) }
}

// All gives every call that m picks one fate.
func All(m Match, fate Fate) Filter {
	return func(c *Call) Fate {
		if m(c) {
			return fate
		}
		return Pass
	}
}

// Next gives the next calls that m picks one of fates each, in order; later calls pass.
func Next(m Match, fates ...Fate) Filter {
	return func(c *Call) Fate {
		if len(fates) == 0 || !m(c) {
			return Pass
		}
		fate := fates[0]
		fates = fates[1:]
		return fate
	}
}

// Each asks several filters in order. The first filter that does not let the call pass decides.
func Each(filters ...Filter) Filter {
	return func(c *Call) Fate {
		for _, filter := range filters {
			if fate := filter(c); fate != Pass {
				return fate
			}
		}
		return Pass
	}
}

// Fate is what becomes of a call.
type Fate struct {
	act     act
	reply   string // refuse: what the server answers
	held    bool   // waits for Release before anything else happens
	stalled bool   // sent, but the answer waits for Release
	told    bool   // Line.Told receives the call
	hangs   bool   // a call without an answer fails when its context ends, not at once
}

type act uint8

const (
	send act = iota
	sendTwice
	loseCall
	loseReply
	sendLate
	refuse
)

// What may become of a call. A call without an answer fails at once, with ErrNoAnswer; see
// [Fate.Hanging].
var (
	Pass      = Fate{}                          // sent and answered
	Tell      = Fate{told: true}                // the same, and told once it is answered
	Stall     = Fate{stalled: true, told: true} // sent, and told then; answered by Release
	Hold      = Fate{held: true, told: true}    // told at once, but sent by Release, unless its context ends before
	LoseCall  = Fate{act: loseCall}             // never sent, never answered
	LoseReply = Fate{act: loseReply}            // sent, never answered
	Twice     = Fate{act: sendTwice}            // sent twice; the second answer counts
	Late      = Fate{act: sendLate}             // sent by Flush, never answered
)

// Refuse has the server answer a call with an error.
func Refuse(reply string) Fate { return Fate{act: refuse, reply: reply} }

// Telling returns the same fate, told once it is fulfilled.
func (f Fate) Telling() Fate { f.told = true; return f }

// Held returns the same fate, told at once and fulfilled by Release, unless the call's context ends
// before.
func (f Fate) Held() Fate { f.held, f.told = true, true; return f }

// Hanging returns the same fate for a call without an answer, but the call fails only when its
// context ends.
func (f Fate) Hanging() Fate { f.hangs = true; return f }
