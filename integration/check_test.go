//go:build unix

package integration

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// span is the time through which a worker trusted one lease: from the first to the last of its points.
//
// A point is a reading of the shared clock after which the lease was asked and said that it was still valid. A lease
// that was lost never comes back, so one that is valid after a reading was valid at the reading. However long the
// process was stopped between the two, a point is therefore an instant at which the lease was valid; and since it was
// granted before the first point, it was valid from the first to the last. So if the library keeps its promise, spans
// of two leases of one lock cannot overlap: an overlap is a fault of the library and never of the measurement.
//
// What a worker does between a point and its next look at the lease is not covered. No process can know that it is
// about to be stopped; there only the fencing token helps.
type span struct {
	who         string
	token       int64
	first, last time.Duration
	shared      bool // a reader's
}

func (s span) String() string {
	return fmt.Sprintf("%s token %d [%v, %v]", s.who, s.token, s.first, s.last)
}

// spans returns the spans of one lock, by their points. The token decides between leases whose points are all the same:
// both were then held within one grain of the clock, and the journals do not tell which was first.
func spans(events []event, lock string) []span {
	type lease struct {
		who   string
		token int64
	}
	found := make(map[lease]int) // indices in out
	var out []span
	for _, e := range events {
		if e.lock != lock {
			continue
		}
		key := lease{e.who, e.token}
		if e.kind == granted {
			delete(found, key) // a Redis that forgot its counter grants a token again
		}
		if e.kind != trusted {
			continue
		}
		if i, known := found[key]; known {
			out[i].first, out[i].last = min(out[i].first, e.at), max(out[i].last, e.at)
		} else {
			found[key] = len(out)
			out = append(out, span{who: e.who, token: e.token, first: e.at, last: e.at, shared: e.note == reads})
		}
	}
	slices.SortFunc(out, func(a, b span) int {
		return cmp.Or(cmp.Compare(a.first, b.first), cmp.Compare(a.last, b.last), cmp.Compare(a.token, b.token))
	})
	return out
}

// overlap is a pair of leases that were valid at one instant.
type overlap struct{ earlier, later span }

func (o overlap) String() string {
	return fmt.Sprintf("%v and %v were valid at once", o.earlier, o.later)
}

// overlaps returns, for each span that begins before another one has ended, that pair, unless both are readers'. One that
// begins with the reading at which another one ends may have begun later: a clock has a grain.
func overlaps(sorted []span) []overlap {
	var out []overlap
	var reader, writer span // those that last longest so far
	for _, s := range sorted {
		for _, before := range []span{reader, writer} {
			if s.first < before.last && !(s.shared && before.shared) {
				out = append(out, overlap{before, s})
				break
			}
		}
		longest := &writer
		if s.shared {
			longest = &reader
		}
		if s.last > longest.last {
			*longest = s
		}
	}
	return out
}

// disorder returns, for each lease with a token not above all earlier ones, what is wrong. A reader's is above all earlier
// writers' alone.
func disorder(sorted []span) []string {
	var out []string
	var reader, writer span // those with the highest token so far
	for _, s := range sorted {
		last := &writer
		if s.token <= writer.token || !s.shared && s.token <= reader.token {
			before := writer
			if s.token > writer.token {
				before = reader
			}
			out = append(out, fmt.Sprintf("%v came after %v", s, before))
		}
		if s.shared {
			last = &reader
		}
		if s.token > last.token {
			*last = s
		}
	}
	return out
}

// repeated returns the tokens of one lock that were granted twice, be it to leases that were never valid. Readers may share one.
func repeated(events []event, lock string) []int64 {
	var out []int64
	seen := make(map[int64]bool)
	for _, e := range only(events, kind(granted, lock)) {
		if e.note == reads {
			continue
		}
		if seen[e.token] {
			out = append(out, e.token)
		}
		seen[e.token] = true
	}
	return out
}

// idle returns how long the lock was free beside a waiter, each time that it was. It counts from when the holder began
// to unlock, or from when somebody wanted the lock that was free, to the next grant.
func idle(events []event, lock string) []time.Duration {
	var out []time.Duration
	waiting := make(map[string]time.Duration)
	var free time.Duration
	for _, e := range events {
		if e.lock != lock {
			continue
		}
		switch e.kind {
		case want:
			waiting[e.who] = e.at
		case gaveUp:
			delete(waiting, e.who)
		case unlocking, lost:
			free = e.at
		case granted:
			earliest := e.at
			for _, at := range waiting {
				earliest = min(earliest, at)
			}
			out = append(out, e.at-max(free, earliest))
			delete(waiting, e.who)
		}
	}
	return out
}

// waits returns how long each wait for the lock was that ended with a grant.
func waits(events []event, lock string) []time.Duration {
	var out []time.Duration
	since := make(map[string]time.Duration)
	for _, e := range events {
		switch {
		case e.lock == lock && e.kind == want:
			since[e.who] = e.at
		case e.lock == lock && e.kind == granted:
			out = append(out, e.at-since[e.who])
		}
	}
	return out
}
