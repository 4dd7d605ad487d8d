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
	Longest   time.Duration // of a node: the longest lease anybody may rely on, 0 for no restart guard
}

// Redis sends scripts to one Redis: a typed method each, so that positions are written once. They
// are never repeated below it: a second run must be known to its sender, so that it may come late.
type Redis struct {
	link   *link.Link
	from   Options
	vetted vetted
	mutex  *scripts // those of Mutex
	others sync.Map // *Kind -> *scripts
}

// New returns the scripts' way to a Redis.
func New(l *link.Link, o Options) *Redis {
	l.Apart = OfOneKey
	return &Redis{link: l, from: o, mutex: o.scripts(Mutex)}
}

// Route is how grants and wake-ups travel for one lock.
type Route struct {
	Inbox   string // prefix of the inbox channels; "" where grants cannot be sent
	Publish string // PUBLISH or SPUBLISH
}

// Plain is the route of all locks but those of a Cluster.
var Plain = Route{Inbox: InboxPrefix, Publish: "PUBLISH"}

// scripts are those of one kind in one topology.
type scripts struct {
	acquire, release                                                             *link.Script
	vote, unvote, fence, declare, sweep, force, setCount, renew, refill, inspect *driver.Script
	introduce, whois                                                             *driver.Script
}

// made are all scripts that were put together so far: clients of one process share them.
var made sync.Map // lua.Scripts -> *scripts

func (o Options) scripts(k *Kind) *scripts {
	from := lua.Scripts{Kind: k.Name, Quorum: o.Votes, Retention: o.Retention, Longest: o.Longest}
	if s, known := made.Load(from); known {
		return s.(*scripts)
	}
	s := &scripts{
		force:    script(driver.Force)(from.Text("force")),
		setCount: script(driver.Recount)(from.Text("recount")),
		renew:    script(driver.Renew)(from.Text("renew")),
		inspect:  script(driver.Inspect)(from.Text("inspect")),

		introduce: script(driver.Introduce)(from.Text("introduce")),
		whois:     script(driver.Inspect)(from.Text("whois")),
	}
	if o.Votes {
		s.vote, s.unvote = script(driver.Acquire)(from.Text("vote")), script(driver.Release)(from.Text("unvote"))
		s.fence, s.sweep = script(driver.Fence)(from.Text("fence")), script(driver.Sweep)(from.Sweep("unvote"))
		s.declare = script(driver.Check)(from.Text("declare"))
	} else {
		s.acquire = shared(driver.Acquire, from, "acquire", mostAcquires, spare(acquireArgs, acquireRoute))
		s.release = shared(driver.Release, from, "release", mostReleases, spare(releaseCount, releaseRoute))
		s.sweep = script(driver.Sweep)(from.Sweep("release"))
		s.refill = script(driver.Refill)(from.Text("refill"))
	}
	kept, _ := made.LoadOrStore(from, s)
	return kept.(*scripts)
}

// What one command does at most, so that it keeps others waiting for some 0.2 ms.
const (
	mostAcquires = 16
	mostReleases = 32
)

// shared is a script that goes for several callers too.
func shared(as driver.Op, from lua.Scripts, name string, most int, spare []string) *link.Script {
	return &link.Script{One: script(as)(from.Text(name)), Many: script(as)(from.Many(name)), Most: most, Spare: spare}
}

// script makes one that is counted as such. Its files are embedded, so that a missing one is a
// mistake of this package's.
func script(as driver.Op) func(text string, err error) *driver.Script {
	return func(text string, err error) *driver.Script {
		if err != nil {
			panic(err)
		}
		s := driver.NewScript(text)
		s.For = as
		return s
	}
}
