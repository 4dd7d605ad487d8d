package world

import (
	"sync"

	"github.com/relock-go/relock"
)

// ledger is a client's Observer: what is told of its leases and of the nodes must add up.
type ledger struct {
	p *process

	mu   sync.Mutex
	open map[uint64]string // the locks of the leases that were told to begin and not yet to end, by number
	down map[int]bool      // the nodes that were told to be down
}

func newLedger(p *process) *ledger {
	return &ledger{p: p, open: make(map[uint64]string), down: make(map[int]bool)}
}

// Observe notes an event.
func (l *ledger) Observe(e relock.Event) {
	if e.Kind == relock.EventAcquired && e.Context != nil {
		l.p.w.takes(l.p, e)
	}
	if wrong := l.enter(e); wrong != "" {
		l.p.w.fail(e.Lock, "p%d was told that %s", l.p.index, wrong)
	}
}

// enter returns what cannot be.
func (l *ledger) enter(e relock.Event) (wrong string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch e.Kind {
	case relock.EventAcquired:
		l.open[e.Lease] = e.Lock
	case relock.EventReleased, relock.EventLost:
		if _, told := l.open[e.Lease]; !told {
			return "a lease ended that had not begun, or had ended"
		}
		delete(l.open, e.Lease)
	case relock.EventNodeDown, relock.EventNodeUp:
		down := e.Kind == relock.EventNodeDown
		if l.down[e.Node] == down {
			return "a node went or came twice"
		}
		l.down[e.Node] = down
	}
	return ""
}

// balance demands that all leases were told to be over, once the client is closed and no call of it
// is left.
func (l *ledger) balance() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, lock := range l.open {
		l.p.w.fail(lock, "p%d was not told that %d leases are over", l.p.index, len(l.open))
		return
	}
}
