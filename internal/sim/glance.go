package sim

import (
	"math"
	"time"
)

// What follows is for a judge: it reads a server's memory as it is, counts as no command, changes nothing, and works while
// the server loads, is full, or is down.

// Waiting is a member of a sorted set with its score.
type Waiting struct {
	Member string
	Ticket float64
}

// glance returns what a key holds, nil where that has expired.
func (s *Server) glance(key string) *entry {
	e := s.keys[key]
	if e == nil || e.expires != 0 && s.clock.Micro()/1000 > e.expires {
		return nil
	}
	return e
}

// Stands reports whether a key is there.
func (s *Server) Stands(key string) bool { return s.glance(key) != nil }

// Field is a field of a hash, "" where there is none.
func (s *Server) Field(key, field string) string {
	if e := s.glance(key); e != nil && e.kind == hashKind {
		value, _ := e.hash.get(field)
		return value
	}
	return ""
}

// Keeps reports whether a field stands in the hash of a key, and for how long yet as time goes outside of the server.
func (s *Server) Keeps(key, field string) (left time.Duration, kept bool) {
	e := s.glance(key)
	switch {
	case e == nil || e.kind != hashKind || e.hash.find(field) < 0:
		return 0, false
	case e.expires == 0 || s.clock.rate == 0:
		return math.MaxInt64, true
	}
	micros := (e.expires+1)*1000 - s.clock.Micro() // a key is there for the whole of its last millisecond
	return time.Duration(float64(micros) / s.clock.rate * float64(time.Microsecond)), true
}

// Fields calls do with the names of a hash's fields.
func (s *Server) Fields(key string, do func(name string)) {
	if e := s.glance(key); e != nil && e.kind == hashKind {
		for i := range e.hash.fields {
			do(e.hash.fields[i].name)
		}
	}
}

// Text is a string, "" where there is none.
func (s *Server) Text(key string) string {
	if e := s.glance(key); e != nil && e.kind == stringKind {
		return e.text
	}
	return ""
}

// Left is how many milliseconds a key has left, negative where it is not there or has no end.
func (s *Server) Left(key string) int64 {
	if e := s.glance(key); e != nil && e.expires != 0 {
		return e.expires - s.clock.Micro()/1000
	}
	return -1
}

// Line appends the members of a sorted set, the lowest score first.
func (s *Server) Line(key string, to []Waiting) []Waiting {
	if e := s.glance(key); e != nil && e.kind == zsetKind {
		for _, m := range e.zset.sorted {
			to = append(to, Waiting{m.member, m.score})
		}
	}
	return to
}

// Listeners is how many are subscribed to a channel.
func (s *Server) Listeners(channel string) int { return len(s.hub.channels[channel]) }

// Listed reports whether a member stands in the sorted set of a key, and for how long its score, in milliseconds of the
// server's clock, lies ahead as time goes outside of the server.
func (s *Server) Listed(key, member string) (left time.Duration, listed bool) {
	for _, m := range s.Line(key, nil) {
		if m.Member == member && s.clock.rate == 0 {
			return math.MaxInt64, true
		} else if m.Member == member {
			micros := m.Ticket*1000 - float64(s.clock.Micro())
			return time.Duration(micros / s.clock.rate * float64(time.Microsecond)), true
		}
	}
	return 0, false
}
