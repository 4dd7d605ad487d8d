package world

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/link"
)

// Classes are the classes of faults that a seed may be run under.
var Classes = []string{"none", "net", "refusals", "counter", "restart", "failover", "clock", "operator", "mixed"}

// Plan is all that is drawn before a run.
type Plan struct {
	Seed     uint64
	Class    string // of faults; a scene that makes its own has its name here
	Scene    string // "" for none
	Topology topology
	Procs    int
	Actors   int // of each process
	Throng   int // actors of the first process, 0 for as many as the others have
	JVMs     int // processes that use Redisson
	Threads  int // of each JVM
	Rounds   int // of each actor
	Names    []string
	Lease    time.Duration   // of the clients
	Leases   []time.Duration // that locks are taken with
	Rates    rates
	Crowded  int     // link.BatchFrom
	Handoff  handoff // of calls that ask for none, where there is a throng
	Events   []event
	Instants bool          // contexts end in the instant of a grant
	Kind     Kind          // of locks, where a scene draws it
	Dog      time.Duration // WithRedissonWatchdog, 0 for the default
	Ahead    time.Duration // the clocks of JVMs
	Fresh    bool          // nobody has initialized guarded nodes
	Strict   bool          // WithStrictRestartGuard for guarded ones
	Longer   time.Duration // the longest lease by WithRestartGuard of the first process, 0 for the same as the others
}

// topology is the servers and how clients use them.
type topology struct {
	Name    string
	Nodes   int // independent masters
	Replica bool
	Quorum  bool // NewRedlock
	Guarded bool
}

var (
	alone        = topology{Name: "alone", Nodes: 1}
	guarded      = topology{Name: "guarded", Nodes: 1, Guarded: true}
	pair         = topology{Name: "pair", Nodes: 1, Replica: true}
	guardedPair  = topology{Name: "guarded pair", Nodes: 1, Replica: true, Guarded: true}
	quorumOf3    = topology{Name: "quorum of 3", Nodes: 3, Quorum: true, Guarded: true}
	quorumOf5    = topology{Name: "quorum of 5", Nodes: 5, Quorum: true, Guarded: true}
	topologies   = []topology{alone, guarded, pair, guardedPair, quorumOf3, quorumOf5}
	usedTopology = []topology{alone, alone, alone, guarded, pair, guardedPair, quorumOf3, quorumOf3, quorumOf5}
)

// rates are how likely a command or a message meets which fate.
type rates struct {
	Delay                                   time.Duration // of each way, at most, where nothing is wrong
	Slow, LoseCall, LoseReply, Twice, Late  float64
	Refused, Hang, LoseMessage, SlowMessage float64
	LoseSubscribe                           float64 // of those that LoseCall leaves
	Lag                                     float64 // of renewals: their answers are slow, though they come in time
}

// String is the rates above 0, in percent.
func (r rates) String() string {
	text := fmt.Sprintf("delays up to %v", r.Delay)
	for _, rate := range []struct {
		what string
		is   float64
	}{
		{"slow", r.Slow}, {"calls lost", r.LoseCall}, {"replies lost", r.LoseReply}, {"run twice", r.Twice}, {"run late", r.Late},
		{"refused", r.Refused}, {"hang", r.Hang}, {"messages lost", r.LoseMessage}, {"messages slow", r.SlowMessage},
		{"SUBSCRIBEs lost", r.LoseSubscribe}, {"renewals lag", r.Lag},
	} {
		if rate.is > 0 {
			text += fmt.Sprintf(", %.1f %% %s", 100*rate.is, rate.what)
		}
	}
	return text
}

// Longest is the longest lease of the plan.
func (p *Plan) Longest() time.Duration {
	longest := p.Lease
	for _, lease := range p.Leases {
		longest = max(longest, lease)
	}
	return longest
}

// Timeout is the longest time that the clients give one command.
func (p *Plan) Timeout() time.Duration {
	if p.Topology.Quorum || p.Topology.Guarded {
		return min(p.Longest()/20, time.Second)
	}
	return min(p.Longest()/6, 2*time.Second)
}

// Draw makes the plan of a seed. Where class or topology is "" the seed chooses.
func Draw(seed uint64, class, topo string) *Plan {
	r := throw(seed, "plan").stream()
	p := &Plan{Seed: seed, Class: Classes[r.IntN(len(Classes))], Topology: usedTopology[r.IntN(len(usedTopology))]}
	if class != "" {
		p.Class = class
	}
	for _, t := range topologies {
		if t.Name == topo {
			p.Topology = t
		}
	}
	if p.Class == "failover" && !p.Topology.Replica {
		p.Topology = []topology{pair, guardedPair}[r.IntN(2)]
	}
	p.Procs, p.Actors, p.Rounds = 2+r.IntN(3), 2+r.IntN(4), 14+r.IntN(20)
	for i := range 1 + r.IntN(3) {
		p.Names = append(p.Names, "orders-"+strconv.Itoa(i))
	}
	if r.IntN(20) == 0 {
		for i := range 300 {
			p.Names = append(p.Names, "item-"+strconv.Itoa(i))
		}
	}
	p.leases(r)
	if r.IntN(3) == 0 && !p.Topology.Quorum {
		p.JVMs, p.Threads = 1+r.IntN(2), 1+r.IntN(3)
	}
	p.Fresh = r.IntN(4) == 0
	p.Strict = !p.Fresh && r.IntN(2) == 0
	p.Rates = drawRates(r, p)
	p.throng()
	p.Events = drawEvents(r, p)
	p.closeThrong()
	p.tag()
	p.crowd()
	return p
}

// tagged is the lock whose name is the hash tag of orders-0: the two share an unlock channel and a counter.
const tagged = "{orders-0}"

// tag has a quarter of the plans lock that too. It wakes who waits for the other, which costs more than is judged without
// faults, and a thread of Redisson's that waits for both of them is not simulated.
func (p *Plan) tag() {
	if p.Class != "none" && p.JVMs == 0 && throw(p.Seed, "tagged").stream().IntN(4) == 0 {
		p.Names = append(p.Names, tagged)
	}
}

// beside is a key or channel that belongs to a lock.
func beside(prefix, name string) string {
	if strings.Contains(name, "{") {
		return prefix + name
	}
	return prefix + "{" + name + "}"
}

// crowd has many actors of a quarter of the plans lock many names, and what they ask for go together.
func (p *Plan) crowd() {
	p.Crowded = link.BatchFrom
	if p.Topology.Quorum || throw(p.Seed, "crowded").stream().IntN(4) > 0 {
		return
	}
	p.Crowded = 1
	if p.Throng > 0 {
		return
	}
	p.Actors += 6
	for i := range 6 {
		p.Names = append(p.Names, "crowd-"+strconv.Itoa(i))
	}
}

var someLeases = []time.Duration{
	200 * time.Millisecond, 300 * time.Millisecond, 500 * time.Millisecond, time.Second, 3 * time.Second, 10 * time.Second,
	30 * time.Second,
}

// leases draws one for the clients and some for locks, not all too far apart.
func (p *Plan) leases(r *rand.Rand) {
	i := r.IntN(len(someLeases))
	p.Lease = someLeases[i]
	p.Leases = []time.Duration{p.Lease, p.Lease}
	if r.IntN(2) == 0 {
		p.Leases = append(p.Leases, someLeases[min(i+1, len(someLeases)-1)], someLeases[max(i-1, 0)])
	}
}

func drawRates(r *rand.Rand, p *Plan) rates {
	out := rates{Delay: min(p.shortest()/100, time.Duration(20+r.IntN(1000))*time.Microsecond)}
	if p.Class == "none" || p.Class != "net" && p.Class != "mixed" && r.IntN(2) == 0 {
		return out
	}
	some := func(most float64) float64 {
		if r.IntN(3) == 0 {
			return 0
		}
		return most * r.Float64()
	}
	out.Slow, out.LoseCall, out.LoseReply, out.Twice = some(.04), some(.03), some(.03), some(.03)
	out.Late, out.Refused, out.Hang = some(.02), some(.01), some(.01)
	out.LoseMessage, out.SlowMessage = some(.08), some(.08)
	return out
}

// options are those of every client of the plan.
func (p *Plan) options() []relock.ClientOption {
	opts := []relock.ClientOption{relock.WithLease(p.Lease)}
	if p.Topology.Guarded {
		opts = append(opts, p.guard(p.Longest()))
	}
	if p.Seed%4 == 0 { // no dice: the other seeds go on as they went
		opts = append(opts, relock.WithClientName("billing"))
	}
	if p.JVMs > 0 && p.Seed%2 == 0 { // in the others Redisson counts first
		opts = append(opts, relock.WithTokenRetention(0))
	}
	if p.Dog > 0 {
		opts = append(opts, relock.WithRedissonWatchdog(p.Dog))
	}
	return opts
}

func (p *Plan) guard(longest time.Duration) relock.ClientOption {
	if p.Strict {
		return relock.WithStrictRestartGuard(longest)
	}
	return relock.WithRestartGuard(longest)
}

func (p *Plan) String() string {
	who := fmt.Sprintf("%d processes of %d actors, %d JVMs of %d threads", p.Procs, p.Actors, p.JVMs, p.Threads)
	if p.Throng > 0 {
		who = fmt.Sprintf("a throng of %d actors in p0, handed over %v; ", p.Throng, p.Handoff) + who
	}
	return fmt.Sprintf("seed %d: %s, %s; %s, %d rounds, %d names, leases %v of %v, crowded at %d; %v", p.Seed, p.Class,
		p.Topology.Name, who, p.Rounds, len(p.Names), p.Leases, p.Lease, p.Crowded, p.Rates)
}
