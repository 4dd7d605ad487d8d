package relockotel

import (
	"maps"
	"strconv"
	"sync"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/relock-go/relock"
)

// What becomes of a command, as an index and in a word.
const (
	answered = iota
	refused
	unanswered
)

var outcomes = [...]string{answered: "answered", refused: "refused", unanswered: "unanswered"}

// command is one kind of them at one Redis.
type command struct {
	node int
	name string
}

// tally is what became of the commands of one kind.
type tally [len(outcomes)]int64

// servers is what is known of the Redis servers of all clients.
type servers struct {
	mu      sync.Mutex // guards what follows
	clients map[*relock.Client]bool
	ended   map[command]tally // of clients that were closed
	nodes   map[int]bool      // that clients have, or had
	known   map[string]labels
}

func newServers() *servers {
	return &servers{
		clients: map[*relock.Client]bool{}, ended: map[command]tally{}, nodes: map[int]bool{}, known: map[string]labels{},
	}
}

// join counts what a client sends, until left is called.
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

// add adds up what a client sent.
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

// tell tells the instruments how many clients get no answer of a node, and what was sent. Of a kind of
// commands nothing is told before there was one.
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
	for node := range s.nodes { // of each that is not down, too
		o.ObserveInt64(down, silent[node], s.labelled(node)...)
	}
	for of, sum := range sums {
		for i, n := range sum {
			o.ObserveInt64(commands, n, s.labelled(of.node, keyFor.String(of.name), keyResult.String(outcomes[i]))...)
		}
	}
}

// labelled are the attributes of a node, and others. The caller holds s.mu.
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
