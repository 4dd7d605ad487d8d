package world

import (
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/relock-go/relock/internal/sim/overlay"
)

// Shrink leaves out processes, actors, rounds, names and faults of a run that failed, as long as it fails alike, and
// returns the last run that did. Without the runtime overlay a run does not repeat exactly, so each choice is tried a few
// times.
func Shrink(play func(Options) *Result, o Options, failed *Result, patience time.Duration) *Result {
	s := &shrinker{play: play, until: time.Now().Add(patience), best: failed, tries: 3}
	if overlay.Active() {
		s.tries = 1
	}
	s.best.options = o
	pinned := o
	pinned.Rounds, pinned.Only = failed.Rounds, failed.Fired
	if s.accepts(pinned, true) { // else a round more or less changes too much
		for left := -1; left != s.best.size(); {
			left = s.best.size()
			s.groups(func(round string) string { return round[:strings.IndexByte(round, 'a')] }) // processes
			s.groups(func(round string) string { return round[:strings.IndexByte(round, 'r')] }) // actors
			s.halve(namesOf)
			s.halve(faultsOf)
			s.halve(roundsOf)
		}
	} else {
		s.halve(faultsOf)
	}
	s.spare()
	return s.best
}

// shrinker looks for ever smaller runs.
type shrinker struct {
	play  func(Options) *Result
	until time.Time
	tries int
	best  *Result
}

func (r *Result) size() int { return len(r.Rounds) + len(r.Fired) + len(r.Names) }

// accepts plays what is left, and keeps it where it fails alike and is smaller, or need not be.
func (s *shrinker) accepts(o Options, likewise bool) bool {
	for range s.tries {
		if time.Now().After(s.until) {
			return false
		}
		res := s.play(o)
		if res.Alike(s.best) && (likewise || res.size() < s.best.size()) {
			res.options = o
			res.options.Only, res.Spare = orEmpty(res.Fired), nil
			if o.Rounds != nil {
				res.options.Rounds = res.Rounds
			}
			s.best = res
			return true
		}
	}
	return false
}

// orEmpty is a list that is not nil: then nothing of its sort is played.
func orEmpty(list []string) []string { return append([]string{}, list...) }

var figures = regexp.MustCompile(`\d[\d.]*(ns|µs|ms|m|s|h)?`)

// Alike reports whether two runs violate the same, but for figures.
func (r *Result) Alike(other *Result) bool {
	first := func(res *Result) string {
		line, _, _ := strings.Cut(res.Violation, "\n")
		return figures.ReplaceAllString(line, "#")
	}
	return r.Violation != "" && first(r) == first(other)
}

// sort is one of the lists that a run is made of.
type sort struct {
	of  func(*Result) []string
	set func(*Options, []string)
}

var (
	faultsOf = sort{func(r *Result) []string { return r.Fired }, func(o *Options, l []string) { o.Only = l }}
	namesOf  = sort{func(r *Result) []string { return r.Names }, func(o *Options, l []string) { o.Names = l }}
	roundsOf = sort{func(r *Result) []string { return r.Rounds }, func(o *Options, l []string) { o.Rounds = l }}
)

// halve leaves out halves of a list, then quarters, and so on.
func (s *shrinker) halve(of sort) {
	for parts := 2; len(of.of(s.best)) > 0 && time.Now().Before(s.until); {
		list := of.of(s.best)
		size := (len(list) + parts - 1) / parts
		switch {
		case s.without(of, size):
			parts = 2
		case parts >= len(list):
			return
		default:
			parts = min(2*parts, len(list))
		}
	}
}

// without looks for a run that fails though one part of that size is left out of a list.
func (s *shrinker) without(of sort, size int) bool {
	list := of.of(s.best)
	for from := len(list); from > 0; from -= size { // what came last is least likely to matter
		o := s.best.options
		of.set(&o, slices.Delete(orEmpty(list), max(from-size, 0), from))
		if s.accepts(o, false) {
			return true
		}
	}
	return false
}

// groups leaves out all rounds of a process, or of an actor.
func (s *shrinker) groups(of func(round string) string) {
	tried := map[string]bool{}
	for _, round := range s.best.Rounds {
		group := of(round)
		if tried[group] {
			continue
		}
		tried[group] = true
		o := s.best.options
		o.Rounds = slices.DeleteFunc(orEmpty(s.best.Rounds), func(r string) bool { return of(r) == group })
		s.accepts(o, false)
	}
}

// spare finds which of the lists need not be given to repeat the failure.
func (s *shrinker) spare() {
	small := s.best
	for _, list := range []struct {
		name string
		take func(*Options)
	}{
		{"ROUNDS", func(o *Options) { o.Rounds = nil }},
		{"NAMES", func(o *Options) { o.Names = nil }},
		{"FAULTS", func(o *Options) { o.Only = nil }},
	} {
		o := small.options
		list.take(&o)
		if res := s.play(o); res.Alike(small) {
			small.Spare = append(small.Spare, list.name)
		}
	}
}
