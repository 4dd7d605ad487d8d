package relock

import "github.com/relock-go/relock/internal/driver"

// Stats is what a Client has counted since it was made.
type Stats struct {
	// Commands are what it sent to Redis: for each node the kinds of commands, always the same ones
	// in the same order, whether or not there were any. They are acquire (on a quorum a vote), release,
	// renew, recount (of re-entries), refill (of fencing tokens), sweep (of what was left unanswered),
	// fence (a quorum's counters), force, inspect, introduce (by WithClientName), check (whether a Redis
	// was restarted, which channels a Cluster has) and subscribe, its ends included.
	//
	// What several goroutines asked for in one command counts once, and so does a script that is sent
	// again since Redis did not know it. The numbers are read one after the other while commands go on.
	Commands []CommandStats

	// Down are the nodes that left a command unanswered, and have answered none since: those of which
	// EventNodeDown was told and not EventNodeUp. Where one Redis decides it is node 0. A node that comes back
	// is known to be there once it was sent a command.
	Down []int
}

// CommandStats counts the commands of one kind that one Redis was sent. A command is counted when it
// is answered, or the Redis client gives it up.
type CommandStats struct {
	Node       int    // which of a quorum, from 1; 0 where one Redis decides
	Command    string // what it was for, see Stats
	Answered   uint64
	Refused    uint64 // answered with an error
	Unanswered uint64 // not answered, or not sent because there was no connection
}

// Stats returns what the client has counted, which costs microseconds and no command. It works on a
// closed client too.
func (c *Client) Stats() Stats {
	k := c.keeperOf()
	if k == nil {
		return Stats{}
	}
	nodes := k.arb.Nodes()
	all := Stats{Commands: make([]CommandStats, 0, len(nodes)*driver.Ops)}
	for i, n := range nodes {
		at := 0
		if k.cfg.nodes > 0 {
			at = i + 1
		}
		if n.Down() {
			all.Down = append(all.Down, at)
		}
		for op := range driver.Op(driver.Ops) {
			s := CommandStats{Node: at, Command: op.String()}
			s.Answered, s.Refused, s.Unanswered = n.Counts.Of(op)
			all.Commands = append(all.Commands, s)
		}
	}
	return all
}

// A ClientObserver is an Observer that wants to know which clients it observes, to read their Stats.
type ClientObserver interface {
	Observer
	// ObserveClient is called once for each client, before New or NewRedlock returns it. It may keep
	// the client to read its Stats, and must not use it otherwise. What it returns, unless nil, is
	// called at the end of Close, when nothing is counted any more.
	ObserveClient(c *Client) (closed func())
}

// introduce tells who observes the client of it.
func (c *Client) introduce(to Observer) {
	all, several := to.(observers)
	if !several {
		all = observers{to}
	}
	for _, o := range all {
		if o, wants := o.(ClientObserver); wants {
			if closed := o.ObserveClient(c); closed != nil {
				c.closed = append(c.closed, closed)
			}
		}
	}
}
