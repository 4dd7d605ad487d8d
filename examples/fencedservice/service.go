package main

import (
	"io"
	"net/http"
	"strconv"
	"sync"
)

type order struct {
	state   string
	token   int64 // the highest of its writes
	version int   // its ETag
}

// service keeps orders by their path. One that keeps them in a database keeps the token beside them, as fencedsql does.
type service struct {
	mu     sync.Mutex // guards orders: a write is compared and made in one step
	orders map[string]order
}

func (s *service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	o := s.orders[r.URL.Path]
	if r.Method == http.MethodGet {
		w.Header().Set("ETag", o.etag())
		_, _ = io.WriteString(w, o.state)
		return
	}
	if text := r.Header.Get("Fencing-Token"); text != "" {
		token, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			http.Error(w, "Fencing-Token is no number", http.StatusBadRequest)
			return
		}
		if token < o.token {
			http.Error(w, "a later holder has written", http.StatusPreconditionFailed)
			return
		}
		o.token = token
	}
	if match := r.Header.Get("If-Match"); match != "" && match != o.etag() {
		http.Error(w, "the order has changed", http.StatusPreconditionFailed)
		return
	}
	o.state, o.version = string(body), o.version+1
	s.orders[r.URL.Path] = o
}

func (o order) etag() string { return `"` + strconv.Itoa(o.version) + `"` }
