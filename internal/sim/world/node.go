package world

import (
	"time"

	"github.com/relock-go/relock/internal/sim"
)

// node is one Redis as the clients see it: a server, or a pair of which one is the master. The
// world's mutex guards it.
type node struct {
	w           *World
	index       int
	server      *sim.Server // the master
	spare       *sim.Server // its replica, nil where there is none
	eye         *sim.Conn   // the judge's connection
	former      *sim.Server // a master that it follows for a while, nil for none
	paused      bool
	off         bool     // its clock was set, or drifts
	setBackDown bool     // it was set back while the node was down
	saved       bool     // a file with the guard's marker
	held        []func() // what arrived while the node was paused
	lines       []*line
	ears        []*listener
	disturbed   time.Time // until when it may not confirm what it granted
	faults      spans     // when it might not
	refusing    time.Time // until when it may refuse what is new
	anew        time.Time // when it last may have forgotten
	forgot      time.Time // until when it counts as one that forgot
	lapsed      time.Time // until when what it confirmed before may be over early
	mute        time.Time // until when it may grant nothing, since it forgot
	unseen      bool      // no command has noticed yet that it forgot
}

// Redises are the servers that may be simulated. "" is Redis 7.0.
var Redises = map[string]sim.Options{"": {}, "6": {Version: 6}, "8": {Version: 8}, "valkey": {Version: 8, Valkey: true}}

// newServer returns a server of the world's version, by a clock of its own where clock is nil.
func newServer(w *World, name string, clock *sim.Clock) *sim.Server {
	o := Redises[w.options.Redis]
	o.Name, o.Clock = w.seedName+name, clock
	return sim.NewServer(o)
}

func newNode(w *World, index int) *node {
	name := string(rune('a' + index))
	n := &node{w: w, index: index, server: newServer(w, name, nil)}
	permit(n.server)
	if w.plan.Topology.Replica {
		n.spare = newServer(w, name+"'", nil)
		permit(n.spare)
		n.spare.ReplicaOf(n.server)
	}
	return n
}

// ask runs a command that nobody counts, for the judge and the operator. ok is false while the node
// is down.
func (n *node) ask(args ...string) (v answer, ok bool) {
	if n.eye == nil || n.eye.Closed() {
		if n.eye = n.server.Open("", "", nil, nil); n.eye == nil {
			return v, false
		}
	}
	return answer{n.server.Exec(n.eye, args)}, true
}

// clock is what the node's servers show at least, in microseconds.
func (n *node) clock() int64 {
	now := n.server.Clock().Micro()
	if n.spare != nil {
		now = min(now, n.spare.Clock().Micro())
	}
	return now
}

// whenAwake does what arrives now, or when the node goes on.
func (n *node) whenAwake(do func()) {
	if n.paused {
		n.held = append(n.held, do)
		return
	}
	do()
}

func (n *node) pause() { n.paused = true }

func (n *node) resume() {
	n.paused = false
	held := n.held
	n.held = nil
	for _, do := range held {
		do()
	}
}

// cutAll breaks every connection to the node.
func (n *node) cutAll(why error) {
	for _, l := range n.lines {
		l.cut(why)
	}
	for _, e := range append([]*listener(nil), n.ears...) {
		e.drop(why)
	}
}

// failover makes the replica the master, without the last units of what it was to copy. The old
// master comes back as its replica, empty.
func (n *node) failover(lost int) {
	n.spare.CatchUp(max(n.spare.Lag()-lost, 0))
	old := n.server
	old.Stop()
	n.cutAll(errBroken)
	n.spare.Promote()
	n.server, n.spare = n.spare, old
	old.Start(sim.Nothing)
	old.ReplicaOf(n.server)
	n.eye = nil
}
