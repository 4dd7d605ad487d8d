package results

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// A Measure is a figure by which peers are compared.
type Measure struct {
	Name   string
	Title  string // of a table's column
	Higher bool   // the higher, the better
	Ranked bool   // a winner is named
	Of     func(*Result) *float64
	Format func(float64) string
}

// Measures returns all figures in the order of the tables. A table shows those that somebody in it has.
func Measures() []Measure {
	return []Measure{
		{"throughput", "acq/s", true, true, func(r *Result) *float64 { return r.AcqPerS }, Count},
		{"acquisitions", "acq in all", true, false, bounded, Count},
		{"wait p50", "wait p50", false, false, quantile(waitOf, p50), Micros},
		{"wait p99", "p99", false, true, quantile(waitOf, p99), Micros},
		{"wait p99.9", "p99.9", false, false, quantile(waitOf, p999), Micros},
		{"wait max", "max", false, false, quantile(waitOf, longest), Micros},
		{"hand-over p50", "hand-over", false, true, quantile(handoverOf, p50), Micros},
		{"lock+unlock p50", "lock+unlock", false, true, quantile(pairOf, p50), Micros},
		{"recovery", "recovery p50", false, true, quantile(recoverOf, p50), Micros},
		{"recovery max", "max", false, false, quantile(recoverOf, longest), Micros},
		{"beyond the lease", "past lease", false, false, quantile(overOf, longest), Micros},
		{"commands", "cmds/acq", false, true, func(r *Result) *float64 { return r.CmdsPerAcq }, Decimal},
		{"commands per node", "cmds/acq/node", false, false, func(r *Result) *float64 { return r.CmdsPerNode }, Decimal},
		{"commands in all", "cmds", false, true, func(r *Result) *float64 { return integer(r.CmdsTotal) }, Count},
		{"commands while idle", "cmds/s", false, false, func(r *Result) *float64 { return r.CmdsPerS }, Count},
		{"commands per 100 renewals", "cmds/100 ren.", false, true,
			func(r *Result) *float64 { return r.CmdsPer100 }, Decimal},
		{"passed most", "passed by", false, false, func(r *Result) *float64 { return integer(r.PassedMost) }, Count},
		{"passed by more than the line", "by > line", false, true,
			func(r *Result) *float64 { return integer(r.PassedOver) }, Count},
		{"lost leases", "lost", false, false, func(r *Result) *float64 { return integer(r.Lost) }, Count},
		{"fairness", "Jain", true, true, func(r *Result) *float64 { return r.Jain }, Decimal},
		{"worst to best worker", "worst/best", true, false, func(r *Result) *float64 { return r.WorstBest }, Decimal},
		{"bytes per waiter", "B/waiter", false, true, func(r *Result) *float64 { return r.PerWaiter }, Count},
		{"Pub/Sub connections", "Pub/Sub", false, false, func(r *Result) *float64 { return integer(r.PubSubConns) }, Count},
		{"allocations", "allocs/acq", false, false, func(r *Result) *float64 { return r.AllocsPerAcq }, Decimal},
		{"CPU of clients", "client CPU %", false, false, func(r *Result) *float64 { return r.ClientCPU }, Decimal},
		{"CPU of Redis", "Redis CPU %", false, false, func(r *Result) *float64 { return r.RedisCPU }, Decimal},
	}
}

func waitOf(r *Result) *Quantiles     { return r.Wait }
func handoverOf(r *Result) *Quantiles { return r.Handover }
func pairOf(r *Result) *Quantiles     { return r.Pair }
func recoverOf(r *Result) *Quantiles  { return r.Recover }
func overOf(r *Result) *Quantiles     { return r.OverLease }

func p50(q *Quantiles) float64     { return q.P50 }
func p99(q *Quantiles) float64     { return q.P99 }
func p999(q *Quantiles) float64    { return q.P999 }
func longest(q *Quantiles) float64 { return q.Max }

// bounded is how often a lock was had in the time given, where that may be hardly ever.
func bounded(r *Result) *float64 {
	if r.Params.Hung == 0 || r.Seconds == 0 {
		return nil
	}
	return integer(&r.Acquisitions)
}

func quantile(of func(*Result) *Quantiles, which func(*Quantiles) float64) func(*Result) *float64 {
	return func(r *Result) *float64 {
		q := of(r)
		if q == nil || q.N == 0 {
			return nil
		}
		v := which(q)
		return &v
	}
}

func integer(n *int64) *float64 {
	if n == nil {
		return nil
	}
	v := float64(*n)
	return &v
}

// Winner returns the indexes in cell of the best peer by m, and of those whose rounds overlap with the best one's: no
// winner can be told from them. Baselines and broken peers do not take part. There is none when fewer than two compete.
func (m Measure) Winner(cell []Result) []int {
	best, competing := -1, 0
	for i := range cell {
		v := m.Of(&cell[i])
		if v == nil || cell[i].Baseline || cell[i].Broken() {
			continue
		}
		competing++
		if best < 0 || m.better(*v, *m.Of(&cell[best])) {
			best = i
		}
	}
	if competing < 2 {
		return nil
	}
	winners := []int{best}
	for i := range cell {
		v := m.Of(&cell[i])
		if i != best && v != nil && !cell[i].Baseline && !cell[i].Broken() && m.tied(&cell[best], &cell[i]) {
			winners = append(winners, i)
		}
	}
	return winners
}

func (m Measure) better(a, b float64) bool {
	if m.Higher {
		return a > b
	}
	return a < b
}

// tied reports whether some round of the other was as good as some round of the best.
func (m Measure) tied(best, other *Result) bool {
	b, o := m.span(best), m.span(other)
	if v, w := *m.Of(best), *m.Of(other); math.Abs(v-w) <= math.Abs(v)/100 {
		return true
	}
	if m.Higher {
		return o[1] >= b[0]
	}
	return o[0] <= b[1]
}

func (m Measure) span(r *Result) Span {
	if s, ok := r.Spread[m.Name]; ok {
		return s
	}
	v := *m.Of(r)
	return Span{v, v}
}

// Count formats a number of something.
func Count(v float64) string {
	if v < 10 && v != math.Trunc(v) {
		return Decimal(v)
	}
	s := strconv.FormatInt(int64(math.Round(v)), 10)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// Decimal formats a ratio with as many digits as tell something.
func Decimal(v float64) string {
	switch a := math.Abs(v); {
	case a >= 1000:
		return Count(v)
	case a >= 100:
		return strconv.FormatFloat(v, 'f', 0, 64)
	case a >= 10:
		return strconv.FormatFloat(v, 'f', 1, 64)
	case a > 0 && a < 0.1:
		return strconv.FormatFloat(v, 'g', 2, 64)
	}
	return strconv.FormatFloat(v, 'f', 2, 64)
}

// Micros formats microseconds as a duration of three digits.
func Micros(us float64) string {
	sign := ""
	if us < 0 {
		sign, us = "-", -us
	}
	units := []struct {
		name string
		size float64
	}{{"s", float64(time.Second / time.Microsecond)}, {"ms", 1000}, {"µs", 1}}
	for _, u := range units {
		if us >= u.size*0.9995 || u.size == 1 {
			v := us / u.size
			digits := max(0, 2-int(math.Log10(max(1, v*1.0005))))
			text := strconv.FormatFloat(v, 'f', digits, 64)
			if strings.Contains(text, ".") {
				text = strings.TrimRight(strings.TrimRight(text, "0"), ".")
			}
			return fmt.Sprintf("%s%s %s", sign, text, u.name)
		}
	}
	return ""
}
