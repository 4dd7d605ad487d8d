package results

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// Checks puts relock's figures in a cell in relation to what relock promises, a line each; none where it promises
// nothing.
func Checks(cell []Result) []string {
	var lines []string
	for i := range cell {
		r := &cell[i]
		if family(r.Peer) != "relock" || r.Broken() {
			continue
		}
		var text string
		switch {
		case r.Scenario == "uncontended":
			text = againstRaw(r, cell)
		case r.Scenario == "hot-local" && r.Peer == "relock":
			text = againstBest(r, cell)
		case r.Scenario == "hot-processes":
			text = turnsTaken(r)
		case r.Scenario == "idle-waiters":
			text = "sent in all: " + byName(r.Cmds)
		}
		if text != "" {
			lines = append(lines, r.Peer+": "+text)
		}
	}
	return lines
}

// againstRaw compares Lock and Unlock with two bare scripts.
func againstRaw(r *Result, cell []Result) string {
	for i := range cell {
		if raw := cell[i].Pair; cell[i].Peer == "raw" && raw != nil && r.Pair != nil {
			return fmt.Sprintf("the median Lock and Unlock takes %s × two raw script calls", Decimal(r.Pair.P50/raw.P50))
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
