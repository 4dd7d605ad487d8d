package run

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/relock-go/relock/bench/internal/results"
	"github.com/relock-go/relock/bench/internal/worker"
)

// tally adds up the rounds of one peer in one cell.
type tally struct {
	rounds   int
	elapsed  time.Duration
	workers  []int64 // acquisitions of each
	total    int64
	wait     *hdrhistogram.Histogram
	handover *hdrhistogram.Histogram
	pair     *hdrhistogram.Histogram
	usage    worker.Usage
	load     load
	failed   int64
	failure  string
	overlaps int64
	passed   passed
	unrated  bool // nothing can be said per second
	err      error
	spread   map[string]results.Span
}

// round is what one round measured.
type round struct {
	replies []worker.Reply
	begin   int64 // of what counts
	elapsed time.Duration
	load    load // during the round
	unrated bool // it had pauses: how often somebody got the lock tells nothing
}

func merge(into **hdrhistogram.Histogram, encoded []byte) error {
	if len(encoded) == 0 {
		return nil
	}
	h, err := hdrhistogram.Decode(encoded)
	if err != nil {
		return fmt.Errorf("histogram of a worker: %w", err)
	}
	if *into == nil {
		*into = hdrhistogram.New(1, int64(time.Hour), 3)
	}
	(*into).Merge(h)
	return nil
}

// add puts a round into the tally.
func (t *tally) add(r round) error {
	one := tally{rounds: 1}
	if err := one.collect(r); err != nil {
		return err
	}
	if err := t.collect(r); err != nil {
		return err
	}
	t.rounds++
	if t.spread == nil {
		t.spread = make(map[string]results.Span)
	}
	single := one.result()
	for _, m := range results.Measures() {
		v := m.Of(&single)
		if v == nil {
			continue
		}
		s, ok := t.spread[m.Name]
		if !ok {
			s = results.Span{*v, *v}
		}
		t.spread[m.Name] = results.Span{min(s[0], *v), max(s[1], *v)}
	}
	return nil
}

func (t *tally) collect(r round) error {
	t.elapsed += r.elapsed
	t.unrated = r.unrated
	t.load.cpu += r.load.cpu
	t.load.calls += r.load.calls
	n := 0
	t.passed.add(r.begin, r.replies)
	for _, rep := range r.replies {
		for _, count := range rep.Counts {
			if n == len(t.workers) {
				t.workers = append(t.workers, 0)
			}
			t.workers[n] += count
			t.total += count
			n++
		}
		t.usage = sum(t.usage, rep.Usage)
		t.note(rep)
		for _, h := range []struct {
			into **hdrhistogram.Histogram
			from []byte
		}{{&t.wait, rep.Wait}, {&t.handover, rep.Handover}, {&t.pair, rep.Pair}} {
			if err := merge(h.into, h.from); err != nil {
				return err
			}
		}
	}
	return nil
}

// note keeps what went wrong.
func (t *tally) note(rep worker.Reply) {
	t.failed += rep.Failed
	t.overlaps += rep.Overlaps
	if rep.Failure != "" {
		t.failure = rep.Failure
	}
	if rep.Hung > 0 && t.err == nil {
		t.err = fmt.Errorf("%w: %d goroutines did not come back after their context had ended", errHung, rep.Hung)
	}
}

func sum(a, b worker.Usage) worker.Usage {
	sent := make(map[string]int64)
	for _, u := range []worker.Usage{a, b} {
		for name, n := range u.Commands {
			sent[name] += n
		}
	}
	return worker.Usage{Commands: sent, CPU: a.CPU + b.CPU, Allocs: a.Allocs + b.Allocs, Bytes: a.Bytes + b.Bytes}
}

// base is the result without any rate.
func (t *tally) base() results.Result {
	r := results.Result{
		Rounds: t.rounds, Acquisitions: t.total, Failed: t.failed, Failure: t.failure, Overlaps: t.overlaps,
	}
	if t.err != nil {
		r.Error = t.err.Error()
	}
	return r
}

// result is what the tally comes to.
func (t *tally) result() results.Result {
	r := t.base()
	if t.rounds == 0 || t.elapsed == 0 && !t.unrated {
		return r
	}
	if !t.unrated {
		t.rates(&r)
	}
	r.Wait, r.WaitCDF = quantiles(t.wait), cdf(t.wait)
	r.Handover, r.Pair = quantiles(t.handover), quantiles(t.pair)
	if t.total > 0 {
		t.perAcquisition(&r)
	}
	if len(t.workers) > 1 {
		t.fairness(&r)
	}
	if t.passed.seen {
		r.PassedMost, r.PassedOver = &t.passed.most, &t.passed.over
	}
	r.Spread = t.spread
	return r
}

func (t *tally) rates(r *results.Result) {
	seconds := t.elapsed.Seconds()
	r.Seconds = seconds
	r.AcqPerS = ptr(float64(t.total) / seconds)
	r.ClientCPU = ptr(100 * t.usage.CPU.Seconds() / seconds)
	if t.load.calls > 0 {
		r.RedisCPU = ptr(100 * t.load.cpu.Seconds() / seconds)
	}
}

func (t *tally) perAcquisition(r *results.Result) {
	n := float64(t.total)
	r.Cmds = make(map[string]float64)
	var sent int64
	for name, count := range t.usage.Commands {
		if !overheadCommand(name) {
			r.Cmds[name] = float64(count) / n
			sent += count
		}
	}
	r.CmdsPerAcq = ptr(float64(sent) / n)
	if t.load.calls > 0 {
		r.CallsPerAcq = ptr(float64(t.load.calls) / n)
	}
	if t.usage.Allocs > 0 {
		r.AllocsPerAcq = ptr(float64(t.usage.Allocs) / n)
		r.BytesPerAcq = ptr(float64(t.usage.Bytes) / n)
	}
}

// fairness compares the workers: Jain's index is 1 when all got the same and 1/n when one got all.
func (t *tally) fairness(r *results.Result) {
	var sum, squares float64
	for _, n := range t.workers {
		sum += float64(n)
		squares += float64(n) * float64(n)
	}
	if sum == 0 {
		return
	}
	n := float64(len(t.workers))
	least, most := float64(slices.Min(t.workers)), float64(slices.Max(t.workers))
	r.Jain = ptr(sum * sum / (n * squares))
	r.WorstBest = ptr(least / most)
	r.ShareMin, r.ShareMax = ptr(least*n/sum), ptr(most*n/sum)
}

func quantiles(h *hdrhistogram.Histogram) *results.Quantiles {
	if h == nil || h.TotalCount() == 0 {
		return nil
	}
	at := func(q float64) float64 { return micros(h.ValueAtQuantile(q)) }
	return &results.Quantiles{
		P50: at(50), P90: at(90), P99: at(99), P999: at(99.9), Max: micros(h.Max()), N: h.TotalCount(),
	}
}

// cdf returns points of the distribution, denser towards its tail.
func cdf(h *hdrhistogram.Histogram) [][2]float64 {
	if h == nil || h.TotalCount() == 0 {
		return nil
	}
	var points [][2]float64
	for _, q := range []float64{
		0, 1, 5, 10, 20, 30, 40, 50, 60, 70, 75, 80, 85, 90, 93, 95, 97, 98, 99, 99.5, 99.9, 99.99, 100,
	} {
		points = append(points, [2]float64{micros(h.ValueAtQuantile(q)), q / 100})
	}
	return points
}

func micros(ns int64) float64 { return float64(ns) / 1000 }

// ptr rounds to six digits, more than any of these figures has.
func ptr(v float64) *float64 {
	if v != 0 {
		scale := math.Pow(10, 5-math.Floor(math.Log10(math.Abs(v))))
		v = math.Round(v*scale) / scale
	}
	return &v
}

func median(v []float64) float64 {
	v = slices.Sorted(slices.Values(v))
	return v[len(v)/2]
}
