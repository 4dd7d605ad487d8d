// Command fencedservice shows how an HTTP service refuses a late write: it keeps the highest fencing token of each order.
// Its ETags do the same for clients that bring no token.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/examples/internal/show"
)

var (
	// errStale wraps ErrLost: a later holder wrote, so this one has lost its lock.
	errStale   = fmt.Errorf("a later holder has written: %w", relock.ErrLost)
	errChanged = errors.New("the order has changed since it was read")
)

// call puts an order's state, or gets it if state is "". A header with a value is what the service compares.
func call(ctx context.Context, url, state, header, value string) (*http.Response, error) {
	method := http.MethodGet
	if state != "" {
		method = http.MethodPut
	}
	r, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(state))
	if err != nil {
		return nil, err
	}
	if value != "" {
		r.Header.Set(header, value)
	}
	answer, err := http.DefaultClient.Do(r)
	if err == nil && answer.StatusCode != http.StatusOK && answer.StatusCode != http.StatusPreconditionFailed {
		answer.Body.Close()
		return nil, errors.New(answer.Status)
	}
	return answer, err
}

// put fails with refusal if the service refuses the write.
func put(ctx context.Context, url, state, header, value string, refusal error) error {
	answer, err := call(ctx, url, state, header, value)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode == http.StatusPreconditionFailed {
		return refusal
	}
	return nil
}

func withToken(ctx context.Context, w *show.Worker, lease *relock.Lease) error {
	w.Pause()
	return put(ctx, w.Store, w.Name, "Fencing-Token", strconv.FormatInt(lease.Token(), 10), errStale)
}

func withETag(ctx context.Context, w *show.Worker, _ *relock.Lease) error {
	read, err := call(ctx, w.Store, "", "", "") // under the lock, before the work
	if err != nil {
		return err
	}
	defer read.Body.Close()
	w.Pause()
	return put(ctx, w.Store, w.Name, "If-Match", read.Header.Get("ETag"), errChanged)
}

// without is the control group.
func without(ctx context.Context, w *show.Worker, _ *relock.Lease) error {
	w.Pause()
	return put(ctx, w.Store, w.Name, "", "", nil)
}

var example = show.Example{
	Lock: "order:42",
	Ways: []show.Way{
		{Name: "token", Work: withToken, Refusal: errStale},
		{Name: "etag", Work: withETag, Refusal: errChanged},
		{Name: "without", Work: without},
	},
	Prepare: func(_ context.Context, s *show.Setting) (func(), error) {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		server := &http.Server{Handler: &service{orders: make(map[string]order)}}
		go func() { _ = server.Serve(listener) }()
		s.Store = "http://" + listener.Addr().String() + "/orders/42"
		return func() { server.Close() }, nil
	},
	State: func(ctx context.Context, s *show.Setting) (string, error) {
		answer, err := call(ctx, s.Store, "", "", "")
		if err != nil {
			return "", err
		}
		defer answer.Body.Close()
		state, err := io.ReadAll(answer.Body)
		return string(state), err
	},
}

func main() { show.Main(&example) }
