package model

import "fmt"

// How a hold is offered at the gate: to the first in line, who is called, and until it comes to whoever enters.

// Whether one in line was called.
const (
	uncalled int8 = iota
	called        // and has yet to come
	inVain        // it came, and was overtaken
)

// mostPast is how often one in line may be overtaken. Four goroutines that lock once each show more than once.
const mostPast = 1

// offer is Gates.Offer. When the time to overtake is over is open: pass is always possible too.
func (w *localSystem) offer(s *localState, baton int8) bool {
	if s.line[0] == 0 {
		return false
	}
	first := &s.routine[s.line[0]-1]
	switch {
	case first.call == uncalled && !w.rules.NoCall:
		first.call = called
	case first.call == uncalled, w.rules.Unbounded:
	case first.call == inVain || first.past >= mostPast:
		return s.pass(baton)
	}
	s.offered = baton
	return true
}

// takeOffer ends an offer and returns its baton.
func (s *localState) takeOffer() (baton int8) {
	baton, s.offered = s.offered, 0
	return baton
}

// leave is Gates.Leave.
func (s *localState) leave(rules *LocalRules) {
	if !rules.KeepOffer {
		s.takeOffer()
	}
	s.taken = s.pass(1)
}

// comes emits that g, who was called, sees whether it was overtaken.
func (w *localSystem) comes(s localState, g int, emit localEmit) {
	me := &s.routine[g]
	if me.call != called {
		return
	}
	if s.offered == 0 {
		me.call = inVain
		emit("{c} comes in vain", s, false, g)
		return
	}
	s.quit(g)
	me.call, me.baton = uncalled, s.takeOffer()
	emit("{c} comes for the hold", s, false, g)
}

// quits emits that g gives up in line. What is offered to it then it takes, to hand it on.
func (w *localSystem) quits(s localState, g int, emit localEmit) {
	first := int(s.line[0]) == g+1
	s.quit(g)
	me := &s.routine[g]
	if s.offered == 0 || !first || w.rules.StrandOffer {
		s.done(g)
		emit("{c} gives up behind the gate", s, s.close == open, g)
		return
	}
	me.call, me.baton = uncalled, s.takeOffer()
	if s.close == open {
		me.at, me.hold, me.baton = finishing, me.baton-1, 0
	}
	emit("{c} takes the hold as it gives up", s, s.close == open, g)
}

// noSleepBesideOffer: what is offered is so to one who was called and has yet to come.
func noSleepBesideOffer(s localState) string {
	switch {
	case s.offered == 0:
	case s.line[0] == 0:
		return fmt.Sprintf("h%d is offered, and nobody is in line", s.offered-1)
	case s.routine[s.line[0]-1].call != called:
		return fmt.Sprintf("h%d is offered to %s, who sleeps", s.offered-1, letter(int(s.line[0]-1)))
	}
	return ""
}

func boundedOvertaking(s localState) (broken string) {
	for g := range routines {
		if past := s.routine[g].past; past > mostPast {
			broken = fmt.Sprintf("%s was overtaken %d times", letter(g), past)
		}
	}
	return broken
}
