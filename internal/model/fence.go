package model

import "fmt"

const (
	nodes      = 3
	quorum     = 2
	maxClients = 3
)

// What a node may do.
const (
	serving    int8 = iota
	quarantine      // it lost its memory: no grants until every lease of its former life is over
	seeding         // it takes its counter from the others before the first grant
)

// What a client is at. One that has no use for the lock is a contender that nothing was granted to yet.
const (
	contending int8 = iota
	holding
)

type fenceNode struct {
	owner    int8 // 1 + client, 0 for none
	departed bool // the owner is an attempt that is over
	counter  int8
	grant    int8 // counter at the grant in force
	mode     int8
	seeded   uint8 // nodes whose counters its seed has
	remind   int8  // a winner's token that is on its way to it as a seed, 0 for none
}

type fenceClient struct {
	phase   int8
	token   int8
	passed  bool        // another came to hold while this one had no quorum any more
	belief  [nodes]int8 // the counter known of each node believed in, 0 for no belief
	former  uint8       // nodes whose belief dates from before they lost their memory
	late    uint8       // nodes with an acquire of a former attempt on its way
	owed    uint8       // nodes that a release is still owed to
	ghost   [nodes]int8 // a grant of a former life that was pushed and not heard
	proof   [nodes]int8 // counters that nodes were raised to, owned or not; unguarded writes only
	writeTo int8        // 1 + node that a write-back is on its way to, 0 for none
	write   int8
	stray   bool // that write-back is of a former attempt
	tells   int8 // the token that a holder tells forgetful nodes by itself; HolderTells, StoppedTells only
}

// fenceState is three nodes and the clients that hold quorums of them. A belief implies ownership at its node, as the
// tests of a single Redis show, except where the node lost its memory. It ends before the node's lease, at any time.
type fenceState struct {
	node    [nodes]fenceNode
	client  [maxClients]fenceClient
	issued  int8 // highest token given to a holder
	repeat  bool // a holder got a token that is not above all before
	revived bool // a hold came back to life after a later one
	losses  int8 // of memory, that may still come
	votedAt int8 // 1 + node whose counter a stopped contender has of old, 0 for none; SeedBefore, SeedSentBefore only
	vote    int8 // that counter
}

// FenceRules switches rules off. The zero value is the protocol.
type FenceRules struct {
	NoQuarantine   bool // a node that lost its memory grants at once
	NoSeed         bool // it counts from nothing after its quarantine
	SeedBefore     bool // it is seeded from votes that were answered before it said that it forgot
	SeedSentBefore bool // from votes that were sent before, and answered after
	SeedEarly      bool // from what is asked while it is quarantined
	RemindEarly    bool // a winner tells it its token while it is quarantined
	HolderTells    bool // a holder that a quorum keeps the lock for tells it its token, and asks no counters for that
	StoppedTells   bool // so does one whose hold was over before the node forgot
	BelieveFormer  bool // a grant of a node's former life counts when it is heard
	UnguardedWrite bool // a write-back does not ask whether the lock is still held
	NoWrite        bool // the highest counter becomes the token without a write-back
	LowestCounter  bool // the token is the lowest counter of the quorum
	MedianCounter  bool // the token is the median of the counters, evidence or not
	ReleaseHeard   bool // releases go only to nodes that answered
	NoLeftMark     bool // a release does not stop an acquire that comes after it
	ReviveHold     bool // a hold that lapsed counts again when its nodes are regained
}

// FenceScope is how much is explored.
type FenceScope struct {
	Clients int
	Spread  int8 // of the nodes' counters: how far the highest may be ahead
	Losses  int8 // of a node's memory
	Late    bool // acquires may come after the release of their attempt
	Repair  bool // holders may regain nodes that they lost
	Force   bool // nodes may be taken from a holder, who is not told: exclusion is not asked for then
}

type fenceSystem struct {
	FenceScope
	rules FenceRules
}

// Fence is the system of clients that hold locks by quorum, with fencing tokens and nodes that may lose their memory.
func Fence(scope FenceScope, rules FenceRules) System[fenceState] {
	w := &fenceSystem{scope, rules}
	demands := []Rule[fenceState]{{"tokens rise", tokensRise}, {"no orphan", w.noOrphan}}
	if !scope.Force {
		demands = append(demands, Rule[fenceState]{"exclusion", w.exclusion}, Rule[fenceState]{"no revival", noRevival})
	}
	return System[fenceState]{
		Name:  fmt.Sprintf("quorum %+v", scope),
		Init:  fenceState{losses: scope.Losses},
		Steps: w.steps,
		Canon: w.canon,
		Rules: demands,
		Show:  fenceState.String,
	}
}

func (c *fenceClient) votes() int {
	n := 0
	for _, b := range c.belief {
		if b > 0 {
			n++
		}
	}
	return n
}

func (w *fenceSystem) steps(s fenceState, emit func(Step[fenceState])) {
	settle := emit
	emit = func(step Step[fenceState]) {
		w.tidy(&step.To)
		settle(step)
	}
	for c := range w.Clients {
		w.attempt(s, c, emit)
		for n := range nodes {
			w.serve(s, c, n, emit)
			w.hear(s, c, n, emit)
		}
		w.fence(s, c, emit)
	}
	for n := range nodes {
		w.forget(s, n, emit)
		w.recover(s, n, emit)
		w.stalls(s, n, emit)
		w.force(s, n, emit)
		w.tells(s, n, emit)
	}
}

// tidy drops releases that find nothing to do, and votes that no seed will be made of.
func (w *fenceSystem) tidy(s *fenceState) {
	seeds := s.losses > 0
	for n := range s.node {
		seeds = seeds || s.node[n].mode != serving
	}
	if !seeds {
		s.votedAt, s.vote = 0, 0
	}
	for c := range w.Clients {
		for n := range nodes {
			owes := int(s.node[n].owner) == c+1 && s.node[n].departed || s.client[c].late&(1<<n) != 0
			if !owes {
				s.client[c].owed &^= 1 << n
			}
		}
	}
}

// low is the lowest number that still counts for anything.
func (s *fenceState) low() int8 {
	low := int8(127)
	s.numbers(func(number *int8) {
		if *number > 0 {
			low = min(low, *number)
		}
	})
	for n := range s.node {
		if s.node[n].mode == serving {
			low = min(low, s.node[n].counter)
		}
	}
	return low
}

// numbers visits what was taken from counters and may still be compared with them.
func (s *fenceState) numbers(visit func(*int8)) {
	visit(&s.vote)
	for n := range s.node {
		visit(&s.node[n].remind)
	}
	for n := range s.node {
		node := &s.node[n]
		if node.owner > 0 && !node.departed && s.client[node.owner-1].phase == contending {
			visit(&node.grant)
		}
	}
	for c := range s.client {
		mine := &s.client[c]
		visit(&mine.write)
		visit(&mine.tells)
		if mine.phase == contending {
			for n := range nodes {
				visit(&mine.ghost[n])
				visit(&mine.belief[n])
				visit(&mine.proof[n])
			}
		}
	}
}

func step(s fenceState, text string, args ...int) Step[fenceState] {
	act := Action{Text: text}
	for i, a := range args {
		act.Args[i] = int8(a)
	}
	return Step[fenceState]{Act: act, To: s}
}
