package world

import (
	"slices"
	"strings"
	"time"

	"github.com/relock-go/relock/internal/driver"
	"github.com/relock-go/relock/internal/wire"
)

// Places: a caller that gives up leaves its place in Redis's queue to the next of its process. So no process gives its ticket
// up while callers of its wait at the gate: they would stand behind all others.

// placed is what is known of the place of one acquisition. The world's mutex guards it.
type placed struct {
	lock  string // of its questions
	waits bool   // it was told to wait, which gave it a place in the queue
	got   bool   // an answer told that it was granted
	apart bool   // it was asked for past the gate
	down  bool   // a writer of its process is to become it
}

// queues notes what a question says of its place, which is another one where it is sent past the gate. The caller holds the
// world's mutex.
func (w *World) queues(s *stay, c *command, args []string, at int) {
	owner, ticket := at+1, at+2
	arg := func(i int) string {
		if i < len(args) {
			return args[i]
		}
		return ""
	}
	s.placed.lock = c.lock
	_, results := w.kind.(*flights) // whose runs ask past the gate, for one token; its locks linger, and so ask for more
	s.placed.apart = s.placed.apart || arg(owner) != "" || arg(ticket) == wire.NoTicket || results && arg(at-1) == "1"
	c.heard = append(c.heard, func(v driver.Value) {
		list, err := v.Values()
		if err == nil && v.Err() == nil && len(list) > 0 {
			if (answer{list[0]}).number() == 1 {
				w.cutsShort(s.proc, c.lock)
			}
			s.placed.got = s.placed.got || (answer{list[0]}).number() == 1
			s.placed.waits = s.placed.waits || (answer{list[0]}).number() == 0
		}
	})
}

// comesBeside notes that a question asks to come in beside a hold of its process: it is a downgrade's. The caller holds the
// world's mutex.
func (w *World) comesBeside(args []string, id string) {
	client, _, _ := strings.Cut(id, ":")
	for _, arg := range args {
		if s := w.stays[arg]; s != nil && strings.HasPrefix(arg, client+":") {
			s.placed.down = true
		}
	}
}

// leavesPlace looks at the first command that ends an acquisition. It is called under the world's mutex.
func (w *World) leavesPlace(s *stay) {
	p, lock := s.proc, s.placed.lock
	// Of what several may hold, a place is for as much as its caller wants, and readers may ask past their gate.
	if !s.placed.waits || s.placed.got || s.handed || s.given || s.placed.apart || s.copied || p.closed || p.dead || w.forbade || w.form.Shared() ||
		w.plan.Topology.Guarded {
		return
	}
	// All and Any may give a place up before they return.
	at := asking{p, lock}
	unseen := w.calling[at] > 0 || !w.backAt[at].Before(s.first)
	w.after(time.Microsecond, func() { // those that leave in this instant have returned by then
		if p.closed || p.dead || s.handed {
			return
		}
		if c := w.judge.behind(p, lock, s.first, unseen); c != nil {
			w.failed(lock, "p%d gives the place of %s in the queue up, while another of its callers has waited for %v", p.index, s.id,
				time.Since(c.began))
		}
	})
}

// behind is a call of a process that waits for a lock at its gate, and waited there when the first of those returned that may
// have had a place since then, nil for none. What ends the place may be sent much later than its caller left. With unseen, the
// place may have been left at any time since.
func (j *judge) behind(p *process, lock string, since time.Time, unseen bool) *call {
	j.mu.Lock()
	defer j.mu.Unlock()
	r := j.of(lock)
	left := since
	if !unseen {
		i := slices.IndexFunc(r.returned[p], func(at time.Time) bool { return !at.Before(since) })
		if i < 0 {
			return nil
		}
		left = r.returned[p][i]
	}
	for c := range r.waiting {
		if c.proc == p && c.lines && c.began.Before(left) {
			return c
		}
	}
	return nil
}
