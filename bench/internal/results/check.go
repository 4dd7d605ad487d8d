package results

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// Checks puts relock's figures in a cell in relation to what relock promises, a line each; none where it promises
// nothing. Some are compared with another cell of the run.
func (r *Run) Checks(cell []Result) []string {
	var lines []string
	for i := range cell {
		res := &cell[i]
		if family(res.Peer) != "relock" || res.Broken() {
			continue
		}
		var text string
		switch {
		case res.Scenario == "uncontended":
			text = againstRaw(res, cell)
		case res.Scenario == "hot-local" && res.Peer == "relock":
			text = againstBest(res, cell)
		case res.Scenario == "hot-processes":
			text = turnsTaken(res)
		case res.Scenario == "idle-waiters":
			text = "sent in all: " + byName(res.Cmds)
		case res.Params.Hung > 0:
			text = againstHealthy(res, r.Results)
		case res.Scenario == "redlock":
			text = againstOneNode(res, cell)
		}
		if text != "" {
			lines = append(lines, res.Peer+": "+text)
		}
	}
	return lines
}

// againstRaw compares Lock and Unlock with two bare scripts.
func againstRaw(r *Result, cell []Result) string {
	if raw := rowOf(cell, "raw"); raw != nil && raw.Pair != nil && r.Pair != nil {
		return fmt.Sprintf("the median Lock and Unlock takes %s × two raw script calls", Decimal(r.Pair.P50/raw.Pair.P50))
	}
	return ""
}

func rowOf(cell []Result, peer string) *Result {
	for i := range cell {
		if cell[i].Peer == peer {
			return &cell[i]
		}
	}
	return nil
}

// againstOneNode compares a quorum with a lock on a single one of its nodes.
func againstOneNode(r *Result, cell []Result) string {
	one := rowOf(cell, "one-node")
	switch {
	case one == nil:
	case r.Pair != nil && one.Pair != nil:
		return fmt.Sprintf("the median Lock and Unlock takes %s × that on one node", Decimal(r.Pair.P50/one.Pair.P50))
	case r.Wait != nil && one.Wait != nil && r.WorstBest != nil && r.CmdsPerNode != nil:
		return fmt.Sprintf("p99 wait is %s × that on one node; worst/best worker %s; %s commands per acquisition and node",
			Decimal(r.Wait.P99/one.Wait.P99), Decimal(*r.WorstBest), Decimal(*r.CmdsPerNode))
	}
	return ""
}

// againstHealthy compares the throughput with that of the same lock while no node hung.
func againstHealthy(r *Result, all []Result) string {
	healthy := *r
	healthy.Params.Hung = 0
	for i := range all {
		o := &all[i]
		if o.Peer == r.Peer && o.Cell() == healthy.Cell() && o.AcqPerS != nil && *o.AcqPerS > 0 && r.AcqPerS != nil {
			return fmt.Sprintf("%s × its throughput while all nodes answered", Decimal(*r.AcqPerS / *o.AcqPerS))
		}
	}
	return ""
}

// againstBest compares the throughput with the best of the libraries a Go program would use instead.
func againstBest(r *Result, cell []Result) string {
	var best *Result
	for i := range cell {
		rival := slices.Contains([]string{"redsync", "redislock", "rueidislock"}, cell[i].Peer)
		if rival && !cell[i].Broken() && cell[i].AcqPerS != nil && (best == nil || *cell[i].AcqPerS > *best.AcqPerS) {
			best = &cell[i]
		}
	}
	if best == nil || *best.AcqPerS == 0 || r.ShareMin == nil {
		return ""
	}
	return fmt.Sprintf("%s × the acquisitions of %s, the best of redsync, redislock and rueidislock; "+
		"workers got %s to %s of the mean",
		Decimal(*r.AcqPerS / *best.AcqPerS), best.Peer, Decimal(*r.ShareMin), Decimal(*r.ShareMax))
}

// turnsTaken compares the wait with what it takes when everybody has one turn.
func turnsTaken(r *Result) string {
	if r.Handover == nil || r.Wait == nil || r.CmdsPerAcq == nil || r.WorstBest == nil {
		return ""
	}
	cs := micros(r.Params.CSMicros)
	turn := float64(cs)/float64(time.Microsecond) + r.Handover.P50
	return fmt.Sprintf("%s commands per acquisition; worst/best worker %s; p99 wait is %s × (%d × (%v + %s))",
		Decimal(*r.CmdsPerAcq), Decimal(*r.WorstBest), Decimal(r.Wait.P99/(float64(r.Params.Processes)*turn)),
		r.Params.Processes, cs, Micros(r.Handover.P50))
}

func byName(counts map[string]float64) string {
	var s []string
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		s = append(s, fmt.Sprintf("%s %s", Count(counts[name]), name))
	}
	return strings.Join(s, ", ")
}
