package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/relock-go/relock"
	"github.com/relock-go/relock/contrib/relockotel"
	exporter "go.opentelemetry.io/otel/exporters/prometheus"
	"go.opentelemetry.io/otel/sdk/metric"
)

// With -otel the workers observe their locks by contrib/relockotel, and send their metrics with their journals. The demo
// serves all metrics at one address, with a label for the worker.

const (
	// countEvery is how often a worker sends its metrics.
	countEvery = 500 * time.Millisecond
	// countPart is how many bytes of metrics go into one line. If the writer is killed, a line must be written whole or
	// not at all: systems promise that only for up to 512 bytes.
	countPart = 300
)

var wireFormat = expfmt.NewFormat(expfmt.TypeProtoDelim)

// counters are a worker's metrics.
type counters struct {
	registry *prometheus.Registry
	observer *relockotel.Observer
}

func newCounters() (*counters, error) {
	c := &counters{registry: prometheus.NewRegistry()}
	durations := relockotel.NewProducer()
	reader, err := exporter.New(exporter.WithRegisterer(c.registry), exporter.WithoutScopeInfo(), exporter.WithoutTargetInfo(),
		exporter.WithProducer(durations))
	if err != nil {
		return nil, err
	}
	c.observer, err = relockotel.New(relockotel.WithMeterProvider(metric.NewMeterProvider(metric.WithReader(reader))),
		relockotel.WithProducer(durations), relockotel.WithLockName(func(string) string { return "relock-demo" }))
	return c, err
}

// write writes the metrics into the journal.
func (c *counters) write(log *scribe) error {
	families, err := c.registry.Gather()
	if err != nil {
		return err
	}
	var all bytes.Buffer
	enc := expfmt.NewEncoder(&all, wireFormat)
	for _, f := range families {
		if err := enc.Encode(f); err != nil {
			return err
		}
	}
	for all.Len() > 0 {
		if err := log.write(event{Kind: kindCount, Data: all.Next(countPart), Last: all.Len() == 0}); err != nil {
			return err
		}
	}
	return nil
}

// observe returns the options for the worker's client, and sends its metrics until end is called. end sends them once
// more.
func (w *worker) observe() (opts []relock.ClientOption, end func(), err error) {
	if !w.job.Observed {
		return nil, func() {}, nil
	}
	c, err := newCounters()
	if err != nil {
		return nil, nil, err
	}
	var wg sync.WaitGroup
	stop := make(chan struct{})
	wg.Go(func() {
		for tick := time.NewTicker(countEvery); ; {
			select {
			case <-tick.C:
				_ = c.write(w.log) // fails if the parent is gone, which obey finds too
			case <-stop:
				tick.Stop()
				_ = c.write(w.log)
				return
			}
		}
	})
	end = func() { close(stop); wg.Wait() }
	return []relock.ClientOption{relock.WithObserver(c.observer)}, end, nil
}

// exhibit serves the workers' metrics. The methods of a nil exhibit do nothing.
type exhibit struct {
	srv *http.Server
	url string

	mu     sync.Mutex
	parts  map[int][]byte              // metrics that are not complete yet, by worker; guarded by mu
	counts map[int][]*dto.MetricFamily // the last complete ones, by worker; guarded by mu
}

// openExhibit listens at addr. It returns nil for "".
func openExhibit(addr string) (*exhibit, error) {
	if addr == "" {
		return nil, nil
	}
	at, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("-otel %s: %w", addr, err)
	}
	x := &exhibit{parts: map[int][]byte{}, counts: map[int][]*dto.MetricFamily{}, url: "http://" + at.Addr().String() + "/metrics"}
	mux := http.NewServeMux()
	mux.Handle("/metrics", promhttp.HandlerFor(prometheus.GathererFunc(x.gather), promhttp.HandlerOpts{}))
	x.srv = &http.Server{Handler: mux, ReadHeaderTimeout: dialTimeout}
	go func() { _ = x.srv.Serve(at) }() // until close
	return x, nil
}

// gather returns the metrics of all workers.
func (x *exhibit) gather() ([]*dto.MetricFamily, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	var all prometheus.Gatherers
	for _, of := range x.counts {
		all = append(all, prometheus.GathererFunc(func() ([]*dto.MetricFamily, error) { return of, nil }))
	}
	return all.Gather()
}

// note takes in a line of a worker's journal.
func (x *exhibit) note(n int, e event) error {
	if x == nil || e.Kind != kindCount {
		return nil
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.parts[n] = append(x.parts[n], e.Data...)
	if !e.Last {
		return nil
	}
	dec := expfmt.NewDecoder(bytes.NewReader(x.parts[n]), wireFormat)
	delete(x.parts, n)
	var of []*dto.MetricFamily
	for {
		f := new(dto.MetricFamily)
		if err := dec.Decode(f); errors.Is(err, io.EOF) {
			x.counts[n] = of
			return nil
		} else if err != nil {
			return fmt.Errorf("what worker %d has counted: %w", n+1, err)
		}
		key, value := "worker", strconv.Itoa(n+1)
		for _, m := range f.Metric {
			m.Label = append(m.Label, &dto.LabelPair{Name: &key, Value: &value})
		}
		of = append(of, f)
	}
}

// forget drops the metrics of a killed worker, which holds nothing and waits for nothing any more.
func (x *exhibit) forget(n int) {
	if x == nil {
		return
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	delete(x.parts, n)
	delete(x.counts, n)
}

// stay returns after d, or if d is 0 when ctx ends. The metrics are served until then.
func (x *exhibit) stay(ctx context.Context, d time.Duration, show *progress) {
	if x == nil {
		return
	}
	if d > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, d)
		defer cancel()
		show.say("metrics stay at %s for %v", x.url, d)
	} else {
		show.say("metrics stay at %s until interrupted", x.url)
	}
	<-ctx.Done()
}

func (x *exhibit) close() {
	if x != nil {
		_ = x.srv.Close()
	}
}
