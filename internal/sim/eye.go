package sim

import (
	"math"
	"time"
)

// Keeps reports whether a field stands in the hash of a key, and for how long yet as time goes outside of the server. It
// changes nothing, is counted by nobody, and sees what a server does not tell while it loads.
func (s *Server) Keeps(key, field string) (left time.Duration, kept bool) {
	e := s.keys[key]
	if e == nil || e.kind != hashKind || e.hash.find(field) < 0 {
		return 0, false
	}
	if e.expires == 0 || s.clock.rate == 0 {
		return math.MaxInt64, true
	}
	micros := (e.expires+1)*1000 - s.clock.Micro() // a key is there for the whole of its last millisecond
	return time.Duration(float64(micros) / s.clock.rate * float64(time.Microsecond)), micros > 0
}
