package main

import (
	"context"
	"errors"
	"log/slog"
	"math"
	"net"
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/redis/go-redis/v9"
	"github.com/relock-go/relock"
	"github.com/relock-go/relock/contrib/relockgoredis"
	"github.com/relock-go/relock/contrib/relockotel"
	exporter "go.opentelemetry.io/otel/exporters/prometheus"
	"go.opentelemetry.io/otel/sdk/metric"
)

// service settles orders: one order in one request at a time, among all processes.
type service struct {
	wait  time.Duration                                 // for the lock, until a request is answered 409
	grace time.Duration                                 // for requests under way, when the process is to end
	work  func(ctx context.Context, order string) error // it returns soon after its context has ended
	locks *relock.Client
}

func (s *service) settle(w http.ResponseWriter, r *http.Request) {
	id := r.PathValue("id")
	order := s.locks.Mutex("order:"+id, relock.WithWait(s.wait))
	err := order.Do(r.Context(), func(ctx context.Context) error { return s.work(ctx, id) })
	code := status(err)
	if code >= http.StatusInternalServerError {
		slog.Error("an order is not settled", "order", id, "status", code, "error", err)
	}
	if code == http.StatusNoContent {
		w.WriteHeader(code)
		return
	}
	var held *relock.HeldError
	if errors.As(err, &held) {
		w.Header().Set("Retry-After", strconv.Itoa(int(math.Ceil(held.RetryAfter.Seconds()))))
	}
	http.Error(w, http.StatusText(code), code)
}

// status has a line for each class of error. An error is of one class at most, so their order does not matter.
func status(err error) int {
	switch {
	case err == nil:
		return http.StatusNoContent
	case errors.Is(err, relock.ErrNotAcquired): // another request has the order
		return http.StatusConflict
	case errors.Is(err, relock.ErrUnavailable), // Redis does not answer
		errors.Is(err, relock.ErrLost),   // the lock was lost during the work
		errors.Is(err, relock.ErrClosed), // this process is on its way down
		errors.Is(err, errStopped):
		return http.StatusServiceUnavailable
	case errors.Is(err, relock.ErrInvalidName): // the name was made of the request
		return http.StatusBadRequest
	case errors.Is(err, relock.ErrRefused), errors.Is(err, relock.ErrMisuse): // an operator is needed
		return http.StatusInternalServerError
	case errors.Is(err, context.Canceled): // the client has left, and reads no answer
		return 499
	}
	return http.StatusInternalServerError // the work failed
}

// health answers 200 also while Redis is down: a new process would not reach it either.
func (s *service) health(w http.ResponseWriter, _ *http.Request) {
	answer := "ok\n"
	if len(s.locks.Stats().Down) > 0 {
		answer = "ok, but Redis does not answer\n"
	}
	_, _ = w.Write([]byte(answer))
}

// errStopped is why work ends that takes too long to wait for.
var errStopped = errors.New("the process stops")

// run serves until ctx ends. Then it stops in order. The server takes no more requests, and waits for those under way: after
// grace it ends their contexts. Then the locks are closed, and last the Redis client.
func (s *service) run(ctx context.Context, listener net.Listener, options *redis.Options) error {
	rdb := redis.NewClient(options)
	defer rdb.Close()
	registry := prometheus.NewRegistry()
	reader, err := exporter.New(exporter.WithRegisterer(registry), exporter.WithoutScopeInfo(), exporter.WithoutTargetInfo())
	if err != nil {
		return err
	}
	observer, err := relockotel.New(relockotel.WithMeterProvider(metric.NewMeterProvider(metric.WithReader(reader))))
	if err != nil {
		return err
	}
	s.locks, err = relockgoredis.New(rdb,
		relock.WithClientName("orders"), relock.WithLogger(slog.Default()), relock.WithObserver(observer))
	if err != nil {
		return err
	}
	defer s.locks.Close() // of a lock that is still held then, others wait for the end of its lease

	mux := http.NewServeMux()
	mux.HandleFunc("POST /orders/{id}/settle", s.settle)
	mux.HandleFunc("GET /healthz", s.health)
	mux.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	going := context.WithoutCancel(ctx) // requests go on when ctx ends
	requests, end := context.WithCancelCause(going)
	defer end(nil)
	server := &http.Server{
		Handler:           mux,
		ReadHeaderTimeout: 5 * time.Second,
		BaseContext:       func(net.Listener) context.Context { return requests },
	}
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(listener) }()
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
	}
	slog.Info("stops", "because", context.Cause(ctx))
	defer time.AfterFunc(s.grace, func() { end(errStopped) }).Stop()
	bounded, cancel := context.WithTimeout(going, s.grace+5*time.Second)
	defer cancel()
	return server.Shutdown(bounded)
}
