package relock

import "github.com/relock-go/relock/internal/driver"

// Stats is what a Client has counted since it was made. It is no snapshot: commands go on while it
// is read.
type Stats struct {
	// Commands are what the client sent to Redis: for each node one entry for each Command, in an
	// order that is the same for each call, whether or not there were any.
	//
	// A command that several goroutines share counts once. So does a script that is sent again because
	// Redis did not know it.
	Commands []CommandStats

	// Down lists the nodes that left a command unanswered and have answered none since. Each is asked
	// every second whether it answers again. A single Redis is node 0. EventNodeDown and EventNodeUp
	// tell when a node goes down and up.
	Down []int
}

// CommandStats counts the commands of one kind that one Redis was sent. A command is counted when it
// is answered, or the Redis client gives it up.
type CommandStats struct {
	Node       int // of a quorum, from 1; else 0
	Command    Command
	Answered   uint64
	Refused    uint64 // answered with an error
	Unanswered uint64 // not answered, or not sent because there was no connection
}

// Stats returns what the client has counted. It sends no command, and works on a closed client too.
func (c *Client) Stats() Stats {
	k := c.coreOrNil()
	if k == nil {
		return Stats{}
	}
	nodes := k.arbiter.Nodes()
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
			s := CommandStats{Node: at, Command: Command(op.String())}
			s.Answered, s.Refused, s.Unanswered = n.Sent(op)
			all.Commands = append(all.Commands, s)
		}
	}
	return all
}

// A ClientObserver is an Observer that is given the clients it observes, to read their Stats. It is
// optional: WithObserver looks whether its Observer is one.
type ClientObserver interface {
	Observer
	// ObserveClient is called once for each client, before New or NewRedlock returns it. It may keep
	// the client to read its Stats, and must not use it otherwise. What it returns, unless nil, is
	// called at the end of Close, when nothing is counted any more.
	ObserveClient(c *Client) (closed func())
}
