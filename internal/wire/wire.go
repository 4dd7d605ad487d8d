// Package wire speaks the locks' language with one Redis: names, scripts, their arguments and
// answers, messages and classes of errors. It keeps no state of locks, starts no goroutine and
// takes no decision.
package wire

import (
	"sync"
	"sync/atomic"
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

// Redis sends scripts to one Redis: a typed method each, so that positions are written once. They
// are never repeated below it: a second run must be known to its sender, so that it may come late.
type Redis struct {
	link   *link.Link
	from   Options
	vetted vetted
	plain  plainScripts
	latest atomic.Pointer[scripts] // those of the kind that was asked for last: most clients use one
	others sync.Map                // *Kind -> *scripts
}

// New returns the scripts' way to a Redis.
func New(l *link.Link, o Options) *Redis {
	l.Apart = OfOneKey
	return &Redis{link: l, from: o, plain: o.plainScripts()}
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
	kind                                                                *Kind
	acquire, release                                                    *link.Script
	vote, unvote, fence, sweep, force, setCount, renew, refill, inspect *driver.Script
}

// plainScripts are those that are about no lock.
type plainScripts struct{ declare, introduce, whois *driver.Script }

// of returns the scripts of a kind.
func (r *Redis) of(k *Kind) *scripts {
	if s := r.latest.Load(); s != nil && s.kind == k {
		return s
	}
	got, known := r.others.Load(k)
	if !known {
		got, _ = r.others.LoadOrStore(k, r.from.scripts(k))
	}
	s := got.(*scripts)
	r.latest.Store(s)
	return s
}

// made are all scripts that were put together so far: clients of one process share them.
var made sync.Map // making -> *scripts, or plainScripts

// making is what scripts are made from.
type making struct {
	kind *Kind // nil for plainScripts
	lua  lua.Scripts
}

func (o Options) lua() lua.Scripts {
	return lua.Scripts{Quorum: o.Votes, Retention: o.Retention, Longest: o.Longest}
}

func (o Options) scripts(k *Kind) *scripts {
	from := o.lua()
	from.Kind, from.Hooks = k.Name, k.Hooks
	if s, known := made.Load(making{k, from}); known {
		return s.(*scripts)
	}
	s := &scripts{
		kind:     k,
		force:    script(driver.Force)(from.Text("force")),
		setCount: script(driver.Recount)(from.Text("recount")),
		renew:    script(driver.Renew)(from.Text("renew")),
		inspect:  script(driver.Inspect)(from.Text("inspect")),
	}
	if o.Votes {
		s.vote, s.unvote = script(driver.Acquire)(from.Text("vote")), script(driver.Release)(from.Text("unvote"))
		s.fence, s.sweep = script(driver.Fence)(from.Text("fence")), script(driver.Sweep)(from.Sweep("unvote"))
	} else {
		s.acquire = shared(driver.Acquire, from, "acquire", k.Acquires, spare(acquireArgs, acquireRoute))
		s.release = shared(driver.Release, from, "release", k.Releases, spare(releaseCount, releaseRoute))
		s.sweep = script(driver.Sweep)(from.Sweep("release"))
		s.refill = script(driver.Refill)(from.Text("refill"))
	}
	kept, _ := made.LoadOrStore(making{k, from}, s)
	return kept.(*scripts)
}

func (o Options) plainScripts() plainScripts {
	from := o.lua()
	if s, known := made.Load(making{nil, from}); known {
		return s.(plainScripts)
	}
	s := plainScripts{
		introduce: script(driver.Introduce)(from.Text("introduce")),
		whois:     script(driver.Inspect)(from.Text("whois")),
	}
	if o.Votes {
		s.declare = script(driver.Check)(from.Text("declare"))
	}
	kept, _ := made.LoadOrStore(making{nil, from}, s)
	return kept.(plainScripts)
}

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
