package relockotel

import (
	"maps"
	"strconv"
	"sync"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/relock-go/relock"
)

// Outcomes of a command: indices in outcomes and in a tally.
const (
	answered = iota
	refused
	unanswered
)

var outcomes = [...]string{answered: "answered", refused: "refused", unanswered: "unanswered"}

// command is a kind of commands at one Redis.
type command struct {
	node int
	name string
}

// tally counts the commands of one kind by their outcomes.
type tally [len(outcomes)]int64

// servers counts what the Redis servers of all clients answer.
type servers struct {
	mu      sync.Mutex              // guards the fields below
	clients map[*relock.Client]bool // not closed yet
	ended   map[command]tally       // sums of clients that were closed
	nodes   map[int]bool            // all nodes that clients have or had
	known   map[string]labels       // made by labelled
}

func newServers() *servers {
	return &servers{
		clients: map[*relock.Client]bool{}, ended: map[command]tally{}, nodes: map[int]bool{}, known: map[string]labels{},
	}
}

// join counts the commands of a client, until left is called.
func (s *servers) join(c *relock.Client) (left func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.clients[c] = true
	for _, of := range c.Stats().Commands {
		s.nodes[of.Node] = true
	}
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.clients, c)
		add(s.ended, c.Stats().Commands)
	}
}

// add adds a client's commands to the sums.
func add(to map[command]tally, sent []relock.CommandStats) {
	for _, of := range sent {
		at := command{node: of.Node, name: string(of.Command)}
		sum := to[at]
		sum[answered] += int64(of.Answered)
		sum[refused] += int64(of.Refused)
		sum[unanswered] += int64(of.Unanswered)
		if sum != (tally{}) {
			to[at] = sum
		}
	}
}

// tell reports to the instruments how many clients get no answer from each node, and the counts of
// commands. It reports no kind of commands before the first was sent.
func (s *servers) tell(o metric.Observer, down, commands metric.Int64Observable) {
	s.mu.Lock()
	defer s.mu.Unlock()
	sums, silent := maps.Clone(s.ended), map[int]int64{}
	for c := range s.clients {
		stats := c.Stats()
		add(sums, stats.Commands)
		for _, node := range stats.Down {
			silent[node]++
		}
	}
	if len(s.nodes) == 0 {
		o.ObserveInt64(down, 0)
	}
	for node := range s.nodes { // a node that is not down is reported too, with 0
		o.ObserveInt64(down, silent[node], s.labelled(node)...)
	}
	for of, sum := range sums {
		for i, n := range sum {
			o.ObserveInt64(commands, n, s.labelled(of.node, keyFor.String(of.name), keyResult.String(outcomes[i]))...)
		}
	}
}

// labelled returns the attributes of a node, and more. The caller holds s.mu.
func (s *servers) labelled(node int, more ...attribute.KeyValue) []metric.ObserveOption {
	key := strconv.Itoa(node)
	for _, of := range more {
		key += " " + of.Value.AsString()
	}
	l, known := s.known[key]
	if !known {
		if node > 0 {
			more = append(more, keyNode.String(strconv.Itoa(node)))
		}
		l = labelled(more...)
		s.known[key] = l
	}
	return l.observe
}
