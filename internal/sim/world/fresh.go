package world

import (
	"math/rand/v2"
	"time"

	"github.com/relock-go/relock/internal/sim"
	"github.com/relock-go/relock/internal/wire"
)

// Fresh: no client has used the nodes of a quorum yet, so the first client declares them new and locks. Then one node loses
// its memory. Another client may have found all nodes fresh before, since some of its questions or answers are slow. It may not
// declare that node new.

func init() {
	Scenes = append(Scenes, Scene{"fresh", shapeFresh, func() Kind { return Mutexes{} }})
}

func shapeFresh(p *Plan, r *rand.Rand) {
	p.Topology = pick(r, []topology{quorumOf3, quorumOf3, quorumOf5})
	p.Fresh, p.Strict = true, false
	p.lasts(pick(r, []time.Duration{3 * time.Second, 10 * time.Second}))
	p.Procs, p.Actors, p.Rounds = 4, 2, 2
	p.Rates = rates{Delay: p.Rates.Delay, Slow: .05}
	p.with(r, 1, "forget", forgetOne)
	e := &p.Events[0]
	e.Round, e.After = 1, time.Duration(r.Int64N(int64(p.Timeout()/2)))
}

// forgetOne takes the memory of one node. If another node has a marker by then, this one waits for its quarantine: a client
// that finds this one fresh looks at the others once more before it declares anything, and sees that marker.
func forgetOne(w *World, e event) {
	n := w.nodes[e.Node]
	w.forgets(n, false)
	for _, other := range w.nodes {
		if other != n && other.server.Field(wire.IncarnationKey, "run") != "" {
			n.mute, n.unseen = time.Now().Add(w.plan.Longest()), true
		}
	}
	n.server.Stop()
	n.server.Start(sim.Nothing)
}
