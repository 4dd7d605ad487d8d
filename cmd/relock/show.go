package main

import (
	"time"

	"github.com/relock-go/relock/internal/operator"
	"github.com/relock-go/relock/internal/wire"
)

// seenLock is a lock as -json prints it. Durations are milliseconds.
type seenLock struct {
	Name    string      `json:"name"`
	Kind    string      `json:"kind,omitempty"` // relock, relock read, relock write, redisson, redisson read, redisson write
	Held    bool        `json:"held"`
	Holder  string      `json:"holder,omitempty"` // the owner field in Redis
	By      *seenClient `json:"by,omitempty"`     // the holder's client, if it has a name
	Count   int         `json:"count"`
	Age     *int64      `json:"age_ms,omitempty"` // since the grant; absent where it is unknown
	TTL     int64       `json:"ttl_ms"`           // -1 for a lock that never ends
	Waiters int         `json:"waiters"`
	Longest int64       `json:"longest_wait_ms,omitempty"`
	Token   int64       `json:"token,omitempty"`    // the first fencing token of the grant
	Nodes   int         `json:"nodes,omitempty"`    // how many nodes of a quorum keep the lock
	Last    int64       `json:"reserved,omitempty"` // the last fencing token reserved
	Readers []seenHold  `json:"readers,omitempty"`  // the holders of a read-write lock's read side; some, if very many
	Queue   []seenPlace `json:"queue,omitempty"`
}

// seenHold is one of several holders as -json prints it.
type seenHold struct {
	Holder string      `json:"holder"`
	By     *seenClient `json:"by,omitempty"`
}

// seenPlace is a waiter as -json prints it.
type seenPlace struct {
	Client string      `json:"client"`
	Owner  string      `json:"owner"`
	By     *seenClient `json:"by,omitempty"`
	Side   string      `json:"side,omitempty"` // of a read-write lock: read or write
	Waited int64       `json:"waiting_ms"`
}

// seenClient is what a client tells of itself, as -json prints it.
type seenClient struct {
	Name    string     `json:"name"`
	Host    string     `json:"host,omitempty"`
	PID     int        `json:"pid,omitempty"`
	Started *time.Time `json:"started,omitempty"`
	Version string     `json:"version,omitempty"`
}

// clientOf returns nil for a client that tells nothing of itself.
func clientOf(by wire.Card) *seenClient {
	if by == (wire.Card{}) {
		return nil
	}
	c := &seenClient{Name: by.Name, Host: by.Host, PID: by.PID, Version: by.Version}
	if !by.Started.IsZero() {
		c.Started = &by.Started
	}
	return c
}

func seenOf(s *operator.Sighting) seenLock {
	l := seenLock{
		Name: s.Names.Name, Kind: s.Kind, Held: s.Held, Holder: s.Holder, Count: s.Count, TTL: s.TTL.Milliseconds(),
		Waiters: s.Waiters, Longest: s.Longest.Milliseconds(), Token: s.Token, Nodes: s.Nodes,
		By: clientOf(s.By),
	}
	if s.TTL < 0 {
		l.TTL = -1
	}
	if s.Held && s.Age >= 0 {
		age := s.Age.Milliseconds()
		l.Age = &age
	}
	return l
}
