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
		if res.Peer == "relock" {
			lines = append(lines, againstEarlier(res, cell)...)
		}
		if strings.Contains(res.Peer, "@") {
			continue
		}
		if text := r.check(res, cell); text != "" {
			lines = append(lines, res.Peer+": "+text)
		}
	}
	return lines
}

// check is what the scenario's promise is about.
func (r *Run) check(res *Result, cell []Result) string {
	switch {
	case res.Scenario == "uncontended":
		return againstRaw(res, cell)
	case res.Scenario == "many-keys":
		return againstScripts(res, cell)
	case res.Scenario == "cached":
		return fromCache(res, cell)
	case res.Scenario == "giving-way" && res.Params.Holder == "idle" && res.Params.Nodes == 0:
		return roundTrips(res, rowOf(cell, "relock"), r.Machine.RTTMicros)
	case res.Scenario == "giving-way" && res.Params.Processes > 1:
		return againstUncached(res, cell)
	case res.Scenario == "hot-local" && res.Peer == "relock":
		return againstBest(res, cell)
	case res.Scenario == "rw":
		return againstBest(res, cell)
	case res.Scenario == "hot-processes":
		return turnsTaken(res)
	case res.Scenario == "idle-waiters":
		return "sent in all: " + byName(res.Cmds)
	case res.Scenario == "semaphore":
		return permits(res, cell)
	case res.Scenario == "several":
		return several(res, cell)
	case res.Params.Hung > 0:
		return againstHealthy(res, r.Results)
	case res.Scenario == "redlock":
		return againstOneNode(res, cell)
	}
	return ""
}

// ratio is "2.00 × what" by a figure of two results, "" where one lacks it.
func ratio(r, other *Result, of func(*Result) *float64, what string) string {
	if r == nil || other == nil || of(r) == nil || of(other) == nil || *of(other) == 0 {
		return ""
	}
	return Decimal(*of(r) / *of(other)) + " × " + what
}

func rate(r *Result) *float64 { return r.AcqPerS }

// redisPer is Redis's CPU time for an acquisition.
func redisPer(r *Result) *float64 {
	if r.RedisCPU == nil || r.AcqPerS == nil || *r.AcqPerS == 0 {
		return nil
	}
	v := *r.RedisCPU / *r.AcqPerS
	return &v
}

func joined(parts ...string) string {
	return strings.Join(slices.DeleteFunc(parts, func(s string) bool { return s == "" }), "; ")
}

// againstEarlier compares relock with what it was at earlier commits, a line each.
func againstEarlier(r *Result, cell []Result) []string {
	var lines []string
	for i := range cell {
		old := &cell[i]
		if !strings.HasPrefix(old.Peer, "relock@") || old.Broken() {
			continue
		}
		text := joined(ratio(r, old, rate, "the acquisitions"), ratio(r, old, quantile(waitOf, p50), "the p50 wait"),
			ratio(r, old, quantile(waitOf, p99), "the p99 wait"), ratio(r, old, quantile(pairOf, p50), "the Lock and Unlock"),
			ratio(r, old, redisPer, "Redis's CPU per acquisition"))
		if text != "" {
			lines = append(lines, fmt.Sprintf("relock to %s: %s", old.Peer, text))
		}
	}
	return lines
}

// againstScripts compares locks of many keys with what do least: two scripts, or SET and one. On a Cluster it compares
// with a single Redis.
func againstScripts(r *Result, cell []Result) string {
	var parts []string
	for _, rival := range []string{"rueidislock", "spin", "one-node"} {
		parts = append(parts, ratio(r, rowOf(cell, rival), rate, "the acquisitions of "+rival))
	}
	if text := joined(parts...); text != "" && r.WorstBest != nil {
		return text + "; worst/best worker " + Decimal(*r.WorstBest)
	}
	return ""
}

// fromCache compares repeated locking with the best of those that are no relock.
func fromCache(r *Result, cell []Result) string {
	best := bestOf(cell, func(o *Result) bool { return family(o.Peer) != "relock" && !o.Baseline })
	if best == nil || r.CmdsPerAcq == nil {
		return ""
	}
	text := joined(ratio(r, best, rate, "the acquisitions of "+best.Peer+", the best of the other peers"),
		Decimal(100**r.CmdsPerAcq)+" commands per 100 acquisitions")
	if r.AllocsPerAcq != nil {
		text += "; " + Decimal(*r.AllocsPerAcq) + " allocations each"
	}
	return text
}

// bestOf is the result with the highest throughput among those of the cell that may be compared with.
func bestOf(cell []Result, may func(*Result) bool) *Result {
	var best *Result
	for i := range cell {
		o := &cell[i]
		if may(o) && !o.Broken() && o.AcqPerS != nil && (best == nil || *o.AcqPerS > *best.AcqPerS) {
			best = o
		}
	}
	if best == nil || *best.AcqPerS == 0 {
		return nil
	}
	return best
}

// roundTrips tells the wait in round trips to Redis, and beside that of the plain lock, which is one of them.
func roundTrips(r, plain *Result, rtt float64) string {
	trip := rtt + float64(r.Params.DelayUS)
	if r.Wait == nil || trip <= 0 {
		return ""
	}
	text := fmt.Sprintf("p50 wait is %s and p99 %s × a PING's round trip, which takes %s",
		Decimal(r.Wait.P50/trip), Decimal(r.Wait.P99/trip), Micros(trip))
	if r.Peer == "relock" {
		return text
	}
	return joined(text, ratio(r, plain, quantile(waitOf, p50), "the p50 wait of relock"),
		ratio(r, plain, quantile(waitOf, p99), "its p99"))
}

// againstUncached compares a cache with the same lock without it.
func againstUncached(r *Result, cell []Result) string {
	if r.Peer == "relock" {
		return ""
	}
	return ratio(r, rowOf(cell, "relock"), rate, "the acquisitions of relock")
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
	best := bestOf(cell, func(o *Result) bool {
		return slices.Contains([]string{"redsync", "redislock", "rueidislock"}, o.Peer)
	})
	if best == nil || r.ShareMin == nil {
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

// permits compares a semaphore with the best of the others, with n mutexes, and with one without Redis.
func permits(r *Result, cell []Result) string {
	if r.CmdsPerS != nil {
		return Decimal(*r.CmdsPerS) + " commands a second while all wait; sent in all: " + byName(r.Cmds)
	}
	if r.Recover != nil && r.OverLease != nil && r.Lost != nil {
		return fmt.Sprintf("%d kills: the next had a permit %s past the lease at most; %d permits were missing 1 s after",
			r.Rounds, Micros(r.OverLease.Max), *r.Lost)
	}
	var parts []string
	if best := bestOf(cell, func(o *Result) bool { return family(o.Peer) != "relock" && !o.Baseline }); best != nil {
		parts = append(parts, ratio(r, best, rate, "the acquisitions of "+best.Peer+", the best of the other peers"),
			ratio(r, best, quantile(waitOf, p99), "its p99 wait"))
	}
	if mutex := rowOf(cell, "mutex"); mutex != nil && mutex.AcqPerS != nil {
		all := *mutex.AcqPerS * float64(r.Params.Permits)
		parts = append(parts, ratio(r, &Result{AcqPerS: &all}, rate, fmt.Sprintf("%d × the mutex", r.Params.Permits)))
	}
	parts = append(parts, ratio(r, rowOf(cell, "x/sync"), rate, "x/sync in the process"))
	if r.WorstBest != nil && r.CmdsPerAcq != nil {
		parts = append(parts, fmt.Sprintf("worst/best worker %s; %s commands per acquisition",
			Decimal(*r.WorstBest), Decimal(*r.CmdsPerAcq)))
	}
	return joined(parts...)
}

// several compares locks taken together, or any one of several, with the best of the others, and with what relock had before.
func several(r *Result, cell []Result) string {
	var parts []string
	if best := bestOf(cell, func(o *Result) bool { return family(o.Peer) != "relock" && !o.Baseline }); best != nil {
		parts = append(parts, ratio(r, best, rate, "the acquisitions of "+best.Peer+", the best of the other peers"),
			ratio(r, best, quantile(waitOf, p99), "its p99 wait"))
	}
	for _, name := range []string{"one-by-one", "permit"} {
		parts = append(parts, ratio(r, rowOf(cell, name), rate, "the acquisitions of "+name))
	}
	if r.CmdsPerAcq != nil {
		parts = append(parts, Decimal(*r.CmdsPerAcq)+" commands per acquisition")
	}
	if r.WorstBest != nil {
		parts = append(parts, "worst/best worker "+Decimal(*r.WorstBest))
	}
	return joined(parts...)
}

func byName(counts map[string]float64) string {
	var s []string
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		s = append(s, fmt.Sprintf("%s %s", Count(counts[name]), name))
	}
	return strings.Join(s, ", ")
}
