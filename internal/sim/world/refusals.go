package world

import "github.com/relock-go/relock/internal/sim"

// user is whom the clients log in as, so that the judge keeps its rights.
const user = "app"

// permit lets the clients do everything. It returns false where the server is down.
func permit(s *sim.Server) bool { return rule(s, "reset", "on", "nopass", "~*", "&*", "+@all") }

// permitAgain does so as soon as the server is up.
func (w *World) permitAgain(s *sim.Server) {
	if !permit(s) {
		w.after(w.plan.Timeout(), func() { w.permitAgain(s) })
	}
}

// rule changes the rights of the clients. It returns false where the server is down.
func rule(s *sim.Server, words ...string) bool {
	c := s.Open("", "", nil, nil)
	if c == nil {
		return false
	}
	s.Exec(c, append([]string{"ACL", "SETUSER", user}, words...))
	c.Close()
	return true
}

// forbidden are the rights that are taken away together.
var forbidden = [...][]string{
	{"-pexpire"}, {"-publish"}, {"-subscribe"}, {"-evalsha"}, {"-evalsha", "-eval"}, {"-hset"}, {"-del"}, {"-zadd"},
	{"-set"}, {"-pubsub|numsub"}, {"resetchannels"}, {"resetchannels", "&redisson_lock__channel:*", "&relock_listen:*"},
	{"resetchannels", "&relock_inbox:*"},
}

// endless reports whether Redisson's scripts leave a lock that never ends where these rights are missing: without PEXPIRE, and of a
// read-write lock's reader without the right to write the key by which it lives.
func (w *World) endless(at int) bool {
	if w.plan.JVMs == 0 {
		return false
	}
	return at == 0 || w.form.RW && (at >= len(forbidden) || forbidden[at][0] == "-set")
}

// forbid takes a right away for a while: a command, channels, or the keys of all locks but some.
// Who may not hear any more is cut off, as a server does when channels are forbidden.
func forbid(w *World, e event) {
	n := w.nodes[e.Node]
	w.excuse(e.Last)
	if w.plan.Topology.Quorum { // two may need a node where one of them is not heard
		w.excuse(e.Last + askedAgain)
	}
	w.forbade = true
	n.disturb(e.Last)
	n.refuses(e.Last + unused) // what may not be subscribed is asked for again after half a minute at most
	s := n.server              // which a failover may replace meanwhile
	permit(s)                  // one at a time: who may neither let a key expire nor delete it leaves it behind
	at := e.N % (len(forbidden) + 2)
	if w.endless(at) {
		at = 1
	}
	if at < len(forbidden) {
		rule(s, forbidden[at]...)
	} else {
		keys := []string{"resetkeys", "~relock_*", "~redisson_*"}
		for i, name := range w.plan.Names {
			if i%2 == at%2 {
				keys = append(keys, "~"+name)
			}
		}
		rule(s, keys...)
	}
	if words := forbidden[at%len(forbidden)]; words[0] == "resetchannels" || words[0] == "-subscribe" && e.N%2 == 0 {
		for _, ear := range append([]*listener(nil), n.ears...) {
			ear.drop(errBroken)
		}
	}
	w.after(e.Last, func() { w.permitAgain(s) })
}

// demote makes a replica of a master, which refuses to write then, and a master again after a
// while. Nothing is lost.
func demote(w *World, e event) {
	n := w.nodes[e.Node]
	if n.former != nil || !n.server.Running() {
		return
	}
	w.excuse(e.Last)
	n.disturb(e.Last)
	n.former = newServer(w, e.Name, n.server.Clock())
	n.former.ReplicaOf(n.server)
	n.former.Promote()
	n.server.ReplicaOf(n.former)
	w.after(e.Last, n.promote)
}

// promote ends what demote began, unless the node has another server since.
func (n *node) promote() {
	if n.former != nil && n.server.Master() == n.former {
		n.server.Promote()
	}
	n.former = nil
}
