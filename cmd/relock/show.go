package main

import "github.com/relock-go/relock/internal/operator"

// seenLock is a lock as -json prints it. Durations are milliseconds.
type seenLock struct {
	Name    string      `json:"name"`
	Kind    string      `json:"kind,omitempty"` // relock, redisson, redisson read, redisson write
	Held    bool        `json:"held"`
	Holder  string      `json:"holder,omitempty"` // the owner field in Redis
	Count   int         `json:"count"`
	Age     *int64      `json:"age_ms,omitempty"` // since the grant; absent where it is unknown
	TTL     int64       `json:"ttl_ms"`           // -1 for a lock that never ends
	Waiters int         `json:"waiters"`
	Longest int64       `json:"longest_wait_ms,omitempty"`
	Token   int64       `json:"token,omitempty"`    // the first fencing token of the grant
	Nodes   int         `json:"nodes,omitempty"`    // of a quorum, how many keep it
	Last    int64       `json:"reserved,omitempty"` // the last fencing token reserved
	Queue   []seenPlace `json:"queue,omitempty"`
}

// seenPlace is a waiter as -json prints it.
type seenPlace struct {
	Client string `json:"client"`
	Owner  string `json:"owner"`
	Waited int64  `json:"waiting_ms"`
}

func seenOf(s *operator.Sighting) seenLock {
	l := seenLock{
		Name: s.Names.Name, Kind: s.Kind, Held: s.Held, Holder: s.Holder, Count: s.Count, TTL: s.TTL.Milliseconds(),
		Waiters: s.Waiters, Longest: s.Longest.Milliseconds(), Token: s.Token, Nodes: s.Nodes,
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
