package main

import (
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode"
)

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

func (s *sighting) seen() seenLock {
	l := seenLock{
		Name: s.names.Name, Kind: s.kind, Held: s.held, Holder: s.holder, Count: s.count, TTL: s.ttl.Milliseconds(),
		Waiters: s.waiters, Longest: s.longest.Milliseconds(), Token: s.token, Nodes: s.nodes,
	}
	if s.ttl < 0 {
		l.TTL = -1
	}
	if s.held && s.age >= 0 {
		age := s.age.Milliseconds()
		l.Age = &age
	}
	return l
}

// What the columns say.

func (s *sighting) holderText() string {
	if !s.held && s.nodes > 0 {
		return fmt.Sprintf("nobody; %d nodes keep it for %s", s.nodes, plain(s.holder))
	}
	if !s.held {
		return "nobody"
	}
	return plain(s.holder)
}

func (s *sighting) ageText() string {
	if !s.held || s.age < 0 {
		return "-"
	}
	return short(s.age)
}

func (s *sighting) ttlText() string {
	switch {
	case !s.held:
		return "-"
	case s.ttl < 0:
		return "never ends"
	}
	return short(s.ttl)
}

func (s *sighting) waitText() string {
	if s.waiters == 0 {
		return "-"
	}
	return short(s.longest)
}

// short is a duration in a few characters.
func short(d time.Duration) string {
	switch {
	case d < 10*time.Second:
		return strconv.FormatFloat(d.Seconds(), 'f', 1, 64) + "s"
	case d < time.Hour:
		return d.Round(time.Second).String()
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh%02dm", int(d.Hours()), int(d.Minutes())%60)
	default:
		return fmt.Sprintf("%dd%02dh", int(d.Hours())/24, int(d.Hours())%24)
	}
}

// plain is a name as it can stand on a terminal, where control characters would do as they like.
func plain(name string) string {
	if strings.ContainsFunc(name, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return strconv.Quote(name)
	}
	return name
}
