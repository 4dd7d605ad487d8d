package world

import (
	"fmt"
	"strings"
	"time"
)

// portion is what is played of a run: the rounds, faults and names that a shrunken run is left with. Each list is nil where
// nothing is left out. A round is "p1a2r7", an event "event 3 step"; behind an @ stands when it began, since the run began:
// so it begins then, whatever was left out before it.
type portion struct {
	rounds, faults map[string]time.Duration // -1 for no time
	names          map[string]bool
	begun          []string // rounds that were begun, in that order
}

func newPortion(o Options) portion {
	p := portion{rounds: timed(o.Rounds), faults: timed(o.Only)}
	if o.Names != nil {
		p.names = map[string]bool{}
		for _, name := range o.Names {
			p.names[name] = true
		}
	}
	return p
}

// timed takes the times from the names of a list, nil for nil.
func timed(list []string) map[string]time.Duration {
	if list == nil {
		return nil
	}
	m := map[string]time.Duration{}
	for _, entry := range list {
		name, at, told := strings.Cut(entry, "@")
		if d, err := time.ParseDuration(at); told && err == nil {
			m[name] = d
		} else {
			m[entry] = -1
		}
	}
	return m
}

// at is how a name is written that something begins under now.
func (w *World) at(name string) string { return name + "@" + w.now().String() }

// turn waits until a round is to begin, and reports whether it is played at all.
func (w *World) turn(process, actor, round int) bool {
	name := fmt.Sprintf("p%da%dr%d", process, actor, round)
	at, played := w.left.rounds[name]
	if w.left.rounds != nil && !played {
		return false
	}
	if wait := at - w.now(); played && wait > 0 {
		t := time.NewTimer(wait)
		defer t.Stop()
		select {
		case <-t.C:
		case <-w.ctx.Done():
			return false
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.what == "" {
		w.left.begun = append(w.left.begun, w.at(name))
	}
	return true
}

// plays reports whether locks of that name are taken.
func (w *World) plays(name string) bool { return w.left.names == nil || w.left.names[name] }

// due has an event happen that is left with its time.
func (w *World) due(e event) (timed bool) {
	at, left := w.left.faults[e.Name]
	if !left || at < 0 {
		return false
	}
	w.after(at, func() { w.happen(e) })
	return true
}
