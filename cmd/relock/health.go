package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync/atomic"
	"time"
)

// health answers probes: whether the lock is waited for, held or lost.
type health struct {
	lease  atomic.Pointer[context.Context] // of the hold, once there is one
	server *http.Server
}

// held stores that the lock is held as long as ctx lives.
func (h *health) held(ctx context.Context) { h.lease.Store(&ctx) }

// state returns waiting, held or lost.
func (h *health) state() string {
	lease := h.lease.Load()
	switch {
	case lease == nil:
		return "waiting"
	case (*lease).Err() != nil:
		return "lost"
	default:
		return "held"
	}
}

// serve answers probes at addr until close.
func (h *health) serve(addr string) error {
	listener, err := net.Listen("tcp", addr)
	if err != nil {
		return fmt.Errorf("-healthz: %w", err)
	}
	probes := http.NewServeMux()
	answer := func(good func(state string) bool) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			state := h.state()
			if !good(state) {
				w.WriteHeader(http.StatusServiceUnavailable)
			}
			_, _ = io.WriteString(w, state+"\n")
		}
	}
	probes.HandleFunc("/healthz", answer(func(state string) bool { return state != "lost" }))
	probes.HandleFunc("/readyz", answer(func(state string) bool { return state == "held" }))
	h.server = &http.Server{Handler: probes, ReadHeaderTimeout: 5 * time.Second}
	go func() { _ = h.server.Serve(listener) }() // until close
	return nil
}

func (h *health) close() { _ = h.server.Close() }
