package run

import (
	"slices"

	"github.com/relock-go/relock/bench/internal/worker"
)

// passed is how far acquisitions were granted in another order than they were asked for.
type passed struct {
	seen bool
	most int64 // later arrivals that were granted before an earlier one
	over int64 // acquisitions that more later ones passed than had been in line before them
}

// visit is when an acquisition was asked for and granted.
type visit struct{ arrived, granted int64 }

// add counts in what the workers of a round noted of acquisitions that were asked for from begin on. Those before take
// part: their processes were still connecting.
func (p *passed) add(begin int64, replies []worker.Reply) {
	var all []visit
	for _, rep := range replies {
		for i := range rep.Arrived {
			all = append(all, visit{rep.Arrived[i], rep.Granted[i]})
		}
	}
	slices.SortFunc(all, func(a, b visit) int { return int(a.arrived - b.arrived) })
	var waiting []visit // those before v that may still be in line
	for i, v := range all {
		waiting = slices.DeleteFunc(waiting, func(w visit) bool { return w.granted <= v.arrived })
		p.judge(v, len(waiting), all[i+1:], begin)
		waiting = append(waiting, v)
	}
}

// judge counts those of the later ones that passed v, before which line others waited when it came.
func (p *passed) judge(v visit, line int, after []visit, begin int64) {
	if v.arrived < begin {
		return
	}
	p.seen = true
	by := int64(0)
	for _, later := range after {
		if later.arrived >= v.granted {
			break
		}
		if later.granted < v.granted {
			by++
		}
	}
	p.most = max(p.most, by)
	if by > int64(line) {
		p.over++
	}
}
