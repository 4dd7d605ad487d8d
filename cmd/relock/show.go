package main

import (
	"time"

	"github.com/relock-go/relock/internal/operator"
	"github.com/relock-go/relock/internal/wire"
)

// seenLock is a lock as -json prints it. Durations are milliseconds.
type seenLock struct {
	Name    string      `json:"name"`
	Kind    string      `json:"kind,omitempty"` // relock or redisson, also with read or write behind it; semaphore
	Held    bool        `json:"held"`
	Holder  string      `json:"holder,omitempty"`      // the owner field in Redis
	By      *seenClient `json:"by,omitempty"`          // the holder's client, if it has a name
	Handed  bool        `json:"handed_over,omitempty"` // by that client, and not taken over yet
	Count   int         `json:"count"`
	Age     *int64      `json:"age_ms,omitempty"` // since the grant; absent where it is unknown
	TTL     int64       `json:"ttl_ms"`           // -1 for a lock that never ends
	Waiters int         `json:"waiters"`
	Longest *int64      `json:"longest_wait_ms,omitempty"`
	Token   int64       `json:"token,omitempty"`    // the first fencing token of the grant
	Nodes   int         `json:"nodes,omitempty"`    // how many nodes of a quorum keep the lock
	Last    int64       `json:"reserved,omitempty"` // the last fencing token reserved
	Readers []seenHold  `json:"readers,omitempty"`  // the holders of a read-write lock's read side; some, if very many
	Permits *int        `json:"permits,omitempty"`  // of a semaphore: its size; absent where it is unknown
	Free    *int        `json:"free,omitempty"`     // of a semaphore: permits
	Holders []seenPart  `json:"holders,omitempty"`  // of a semaphore; some, if very many
	Queue   []seenPlace `json:"queue,omitempty"`
}

// seenHold is one of several holders as -json prints it.
type seenHold struct {
	Holder string      `json:"holder"`
	By     *seenClient `json:"by,omitempty"`
}

// seenPart is a holder of a semaphore as -json prints it.
type seenPart struct {
	seenHold
	Count int   `json:"count"`  // permits
	TTL   int64 `json:"ttl_ms"` // -1 for a lease that never ends
}

// seenPlace is a waiter as -json prints it.
type seenPlace struct {
	Client string      `json:"client"`
	Owner  string      `json:"owner"`
	By     *seenClient `json:"by,omitempty"`
	Side   string      `json:"side,omitempty"`    // of a read-write lock: read or write
	Wants  int         `json:"permits,omitempty"` // of a semaphore: how many it waits for
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
		Name: s.Names.Name, Kind: s.Kind, Held: s.Held, Holder: s.Holder, Count: s.Count, TTL: ttlOf(s.TTL),
		Waiters: s.Waiters, Token: s.Token, Nodes: s.Nodes, By: clientOf(s.By),
		Handed: wire.IsHandleField(s.Holder),
	}
	if s.Semaphore() && s.Permits >= 0 {
		l.Permits, l.Free = &s.Permits, &s.Free
	}
	if s.Held && s.Age >= 0 {
		age := s.Age.Milliseconds()
		l.Age = &age
	}
	if s.Waiters > 0 { // 0 for one that has just come
		longest := s.Longest.Milliseconds()
		l.Longest = &longest
	}
	return l
}

// ttlOf returns a TTL in milliseconds, -1 for one that never ends.
func ttlOf(ttl time.Duration) int64 {
	if ttl < 0 {
		return -1
	}
	return ttl.Milliseconds()
}
