//go:build unix

package integration

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// stage is a hold of the lock and how it went on, by its holder's journal.
type stage struct {
	token  int64
	got    time.Duration
	by     string        // the handle, or "" for a grant to a waiter
	stands time.Duration // up to when the lock stood at least, if it was not handed over
	given  time.Duration // when HandOver or Unlock was called, or 0
	freed  bool          // by Unlock, or a HandOver that failed
	handle string
}

// try is a call of TakeOver.
type try struct {
	at, until time.Duration
	end       string // granted, refused, gaveUp; "" if the caller was killed
}

// unsound returns what is wrong with how the lock went from holder to holder: two trusted it at once; tokens did not rise; a
// handle was used twice, or for another hold than the next one; a handle that stood was refused; or a waiter got the lock while
// the hold or the handle before had time left.
func unsound(events []event) (out []string) {
	sorted := spans(events, moved)
	for _, both := range overlaps(sorted) {
		out = append(out, both.String())
	}
	out = append(out, disorder(sorted)...)
	for _, token := range repeated(events, moved) {
		out = append(out, fmt.Sprintf("token %d was granted twice", token))
	}
	stages, tries := stagesOf(events)
	handing := make(map[string]time.Duration)
	for i, s := range stages {
		if s.handle != "" {
			handing[s.handle] = s.given
		}
		switch {
		case i == 0:
		case s.by != "" && s.by != stages[i-1].handle:
			out = append(out, fmt.Sprintf("token %d was not taken over from the hold before, token %d", s.token, stages[i-1].token))
		case s.by == "":
			if earliest := stages[i-1].ends(tries); s.got+grain < earliest {
				out = append(out, fmt.Sprintf("token %d was granted %v before the end of token %d", s.token, earliest-s.got, stages[i-1].token))
			}
		}
	}
	for handle, of := range tries {
		grants := 0
		for _, one := range of {
			if one.end == granted {
				grants++
			}
		}
		if grants > 1 {
			out = append(out, fmt.Sprintf("handle %s was used %d times", handle, grants))
		}
		// A lone taker whose first command ran without an answer may be told so after its lease.
		first := of[0]
		if len(of) == 1 && first.end == refused && first.until+grain < min(handing[handle]+moveStays, first.at+moveLease) {
			out = append(out, fmt.Sprintf("handle %s was refused %v after HandOver began", handle, first.until-handing[handle]))
		}
	}
	return out
}

// grain is what Redis, which counts milliseconds of another clock, may differ from the journals by.
const grain = 5 * time.Millisecond

// ends returns the earliest instant at which Redis may have let a waiter have the lock.
func (s *stage) ends(tries map[string][]*try) time.Duration {
	switch {
	case s.freed:
		return s.given
	case s.given == 0:
		return s.stands
	case s.handle == "": // the holder was killed during HandOver
		return min(s.stands, s.given+moveStays)
	}
	end := s.given + moveStays
	for _, one := range tries[s.handle] {
		switch one.end {
		case gaveUp: // what its commands did is undone in the background
			end = min(end, one.at)
		case "":
			end = min(end, one.at+moveLease)
		}
	}
	return end
}

// stagesOf returns the holds in the order of their tokens, and the calls of TakeOver by their handles.
func stagesOf(events []event) ([]*stage, map[string][]*try) {
	stages, tries, pending := make(map[int64]*stage), make(map[string][]*try), make(map[string]*try)
	for _, e := range events {
		s := stages[e.token]
		switch e.kind {
		case granted:
			stages[e.token] = &stage{token: e.token, got: e.at, by: e.note, stands: e.at}
		case trusted:
			stands, _ := strconv.ParseInt(e.note, 10, 64)
			s.stands = max(s.stands, time.Duration(stands))
		case handing:
			s.given = e.at
		case unlocking:
			s.given, s.freed = e.at, true
		case unhanded:
			s.freed = true
		case handed:
			s.handle = e.note
		case taking:
			pending[e.who] = &try{at: e.at}
			tries[e.note] = append(tries[e.note], pending[e.who])
		}
		if one := pending[e.who]; one != nil && (e.kind == granted || e.kind == refused || e.kind == gaveUp) {
			one.until, one.end = e.at, e.kind
		}
	}
	byToken := func(a, b *stage) int { return cmp.Compare(a.token, b.token) }
	return slices.SortedFunc(maps.Values(stages), byToken), tries
}

// What unsound finds, in times of milliseconds. At first a holds the lock with token 1, from 0 on, and it stands until 600.
func TestMoveCheckerFindsFlaws(t *testing.T) {
	at := func(ms time.Duration, kind, who string, token int64, note string) event {
		return event{at: ms * time.Millisecond, kind: kind, who: who, lock: moved, token: token, note: note}
	}
	first := []event{at(0, granted, "a", 1, ""), at(1, trusted, "a", 1, fmt.Sprint(int64(600*time.Millisecond)))}
	given := slices.Concat(first, []event{at(10, handing, "a2", 1, ""), at(11, handed, "a2", 1, "h")})
	for name, one := range map[string]struct {
		before, then []event
		wrong        int
	}{
		"a move": {given, []event{at(12, taking, "b", 0, "h"), at(13, granted, "b", 2, "h"), at(14, trusted, "b", 2, "1")}, 0},
		"a move to one of two": {given, []event{
			at(12, taking, "b", 0, "h"), at(12, taking, "c", 0, "h"), at(13, granted, "b", 2, "h"), at(14, refused, "c", 0, "h"),
		}, 0},
		"a move to two": {given, []event{
			at(12, taking, "b", 0, "h"), at(12, taking, "c", 0, "h"), at(13, granted, "b", 2, "h"), at(14, granted, "c", 3, "h"),
		}, 2}, // and c's hold does not follow a's
		"trusted on": {given, []event{
			at(12, taking, "b", 0, "h"), at(13, granted, "b", 2, "h"), at(14, trusted, "b", 2, "1"), at(15, trusted, "a", 1, "1"),
		}, 1},
		"a lower token":                {given, []event{at(12, taking, "b", 0, "h"), at(13, granted, "b", 0, "h"), at(14, trusted, "b", 0, "1")}, 2},
		"a token again":                {first, []event{at(700, granted, "b", 2, ""), at(1300, granted, "c", 2, "")}, 1},
		"refused":                      {given, []event{at(12, taking, "b", 0, "h"), at(13, refused, "b", 0, "h")}, 1},
		"refused late":                 {given, []event{at(12, taking, "b", 0, "h"), at(320, refused, "b", 0, "h")}, 0},
		"free by the move":             {given, []event{at(13, granted, "b", 2, "")}, 1},
		"free before the handle's end": {given, []event{at(290, granted, "b", 2, "")}, 1},
		"free at the handle's end":     {given, []event{at(310, granted, "b", 2, "")}, 0},
		"free after a try given up":    {given, []event{at(12, taking, "b", 0, "h"), at(20, gaveUp, "b", 0, "h"), at(25, granted, "c", 2, "")}, 0},
		"free beside a killed taker":   {given, []event{at(12, taking, "b", 0, "h"), at(25, granted, "c", 2, "")}, 1},
		"free before the lease's end":  {first, []event{at(590, granted, "b", 2, "")}, 1},
		"free at the lease's end":      {first, []event{at(601, granted, "b", 2, "")}, 0},
		"free after HandOver failed":   {first, []event{at(10, handing, "a2", 1, ""), at(80, unhanded, "a2", 1, "x"), at(81, granted, "b", 2, "")}, 0},
		"free at a killed giver":       {first, []event{at(10, handing, "a2", 1, ""), at(300, granted, "b", 2, "")}, 1},
		"free after a killed giver":    {first, []event{at(10, handing, "a2", 1, ""), at(310, granted, "b", 2, "")}, 0},
		"free after Unlock":            {first, []event{at(10, unlocking, "a", 1, ""), at(11, granted, "b", 2, "")}, 0},
	} {
		require.Len(t, unsound(slices.Concat(one.before, one.then)), one.wrong, name)
	}
}
