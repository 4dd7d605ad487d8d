// Package wire speaks the locks' language with one Redis: names, scripts, their arguments and
// answers, messages and classes of errors. It keeps no state of locks, starts no goroutine and
// takes no decision.
package wire

import (
	"sync"
	"time"

	"github.com/relock-go/relock/internal/driver"
	"github.com/relock-go/relock/internal/link"
	"github.com/relock-go/relock/lua"
)

// Options say what a Redis is to its locks.
type Options struct {
	Votes     bool          // it is a node of a quorum; else it decides alone
	Retention time.Duration // how long it keeps a fencing counter after the last grant, 0 for ever
	Longest   time.Duration // of a node: the longest lease that any client may rely on, 0 for no restart guard
}

// Redis sends scripts to one Redis. It has a typed method for each script, so that the places of keys
// and arguments are written once. No package below repeats a script by itself: the second run may
// reach Redis late, and the sender has to reckon with that.
type Redis struct {
	link    *link.Link
	from    Options
	vetted  vetted
	scripts *sync.Map // of made
}

// New returns the Redis at the end of l.
func New(l *link.Link, o Options) *Redis {
	l.Apart = OfOneKey
	all, _ := made.LoadOrStore(o, new(sync.Map))
	return &Redis{link: l, from: o, scripts: all.(*sync.Map)}
}

// made has all scripts that were put together so far: the clients of a process share them. The scripts
// that are about no lock stand under the nil kind.
var made sync.Map // Options -> *sync.Map, which is *Kind -> *scripts

// Route is how grants and wake-ups travel for one lock.
type Route struct {
	Inbox   string // prefix of the inbox channels; "" where grants cannot be sent
	Publish string // PUBLISH or SPUBLISH
}

// Plain is the route of locks on a Redis that is no Cluster.
var Plain = Route{Inbox: InboxPrefix, Publish: "PUBLISH"}

// scripts has the scripts of one kind in one topology, or those that are about no lock. The others are
// nil.
type scripts struct {
	acquire, release                                                                          *link.Script
	gather, vote, unvote, fence, sweep, force, setCount, renew, refill, move, resize, inspect *driver.Script

	result, keep, forget *driver.Script // of a kind whose runs may leave a result

	declare, introduce, whois *driver.Script // about no lock
}

// of returns the scripts of a kind; for nil, the scripts that are about no lock.
func (r *Redis) of(k *Kind) *scripts {
	if s, known := r.scripts.Load(k); known {
		return s.(*scripts)
	}
	s, _ := r.scripts.LoadOrStore(k, r.from.scriptsFor(k))
	return s.(*scripts)
}

// scriptsFor puts together the scripts of a kind; for nil, those that are about no lock.
func (o Options) scriptsFor(k *Kind) *scripts {
	from, s := lua.Scripts{Quorum: o.Votes, Retention: o.Retention, Longest: o.Longest}, new(scripts)
	if k == nil {
		s.declare = script(driver.Check, from.Text, "declare")
		s.introduce, s.whois = script(driver.Introduce, from.Text, "introduce"), script(driver.Inspect, from.Text, "whois")
		return s
	}
	from.Kind = k.Name
	s.force, s.inspect = script(driver.Force, from.Text, "force"), script(driver.Inspect, from.Text, "inspect")
	s.setCount, s.renew = script(driver.Recount, from.Text, "recount"), script(driver.Renew, from.Text, "renew")
	if o.Votes {
		s.vote, s.unvote = script(driver.Acquire, from.Text, "vote"), script(driver.Release, from.Text, "unvote")
		s.fence, s.sweep = script(driver.Fence, from.Text, "fence"), script(driver.Sweep, from.Sweep, "unvote")
		return s
	}
	s.acquire = shared(driver.Acquire, from, "acquire", k.Acquires, acquireSpare)
	s.gather = script(driver.Acquire, from.Gather, "acquire")
	s.release = shared(driver.Release, from, "release", k.Releases, releaseSpare)
	if k.Moves {
		s.move = script(driver.Move, from.Text, "move")
	}
	if k.Results {
		s.result, s.keep = script(driver.Flight, from.Text, "result"), script(driver.Flight, from.Text, "keep")
		s.forget = script(driver.Flight, from.Text, "forget")
	}
	if k.Permits {
		s.resize = script(driver.Resize, from.Text, "resize")
	}
	s.refill, s.sweep = script(driver.Refill, from.Text, "refill"), script(driver.Sweep, from.Sweep, "release")
	return s
}

// shared makes a script that can also be sent for several callers in one command.
func shared(as driver.Op, from lua.Scripts, name string, most int, spare []string) *link.Script {
	return &link.Script{One: script(as, from.Text, name), Many: script(as, from.Many, name), Most: most, Spare: spare}
}

// script makes the script of that name, whose commands are counted as the operation as. Its files are
// embedded, so a missing one is a mistake of this package's.
func script(as driver.Op, from func(name string) (string, error), name string) *driver.Script {
	text, err := from(name)
	if err != nil {
		panic(err)
	}
	s := driver.NewScript(text)
	s.For = as
	return s
}
