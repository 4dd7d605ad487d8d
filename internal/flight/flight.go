// Package flight has the goroutines of a process that ask for the same thing share one question: one
// asks, and the others wait in memory for what it brings. A goroutine takes no answer to a question that
// was sent before it came: what it asks for may have changed by then.
package flight

import (
	"context"
	"errors"
	"sync"
)

// ErrOver says that the waiters are to leave.
var ErrOver = errors.New("flights are over")

// Flights are the questions under way, one for each name at most. The zero Flights has none.
type Flights struct {
	mu  sync.Mutex // guards what follows, and the fields of each Flight; locked alone
	all map[string]*Flight
	now uint64 // counts the questions that were sent
}

// Flight is a goroutine's way to an answer, on which it may ask several times. The goroutine that leads
// it calls Asks before each question, writes Result and Found, and calls Land; the others read them once it
// has landed.
type Flight struct {
	Result string
	Found  bool // the flight has a result: without one, another goroutine begins the next

	of     *Flights
	name   string
	asked  uint64        // when the latest question was sent
	landed chan struct{} // closed by Land
	next   *Flight       // that of callers that waited for this one in vain
}

// Enter returns a flight of that name with a result that was asked for since the call; or a new one,
// without a result, which the caller leads and has to land. Meanwhile it waits, until ctx ends, whose cause
// is then the error, or over is closed.
func (fs *Flights) Enter(ctx context.Context, name string, over <-chan struct{}) (*Flight, error) {
	f, came, leads := fs.board(name)
	for !leads {
		select {
		case <-f.landed:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-over:
			return nil, ErrOver
		}
		if f.Found && f.asked > came {
			return f, nil
		}
		f, leads = fs.follow(f)
	}
	return f, nil
}

// board returns the flight of a name, when the caller came, and whether it has begun the flight.
func (fs *Flights) board(name string) (f *Flight, came uint64, leads bool) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	f, leads = fs.of(name)
	return f, fs.now, leads
}

// follow returns the next flight for callers that waited for one in vain. It may have landed: to one that
// wakes up late it is still good.
func (fs *Flights) follow(f *Flight) (next *Flight, leads bool) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	if f.next == nil {
		f.next, leads = fs.of(f.name)
	}
	return f.next, leads
}

// of returns the flight of a name, a new one if there is none. The caller holds fs.mu.
func (fs *Flights) of(name string) (f *Flight, begun bool) {
	if f = fs.all[name]; f != nil {
		return f, false
	}
	if fs.all == nil {
		fs.all = make(map[string]*Flight)
	}
	f = &Flight{of: fs, name: name, landed: make(chan struct{})}
	fs.all[name] = f
	return f, true
}

// Asks notes that a question is about to be sent.
func (f *Flight) Asks() {
	f.of.mu.Lock()
	defer f.of.mu.Unlock()
	f.of.now++
	f.asked = f.of.now
}

// Land ends the flight: those that wait for it go on. It acts once.
func (f *Flight) Land() {
	f.of.mu.Lock()
	defer f.of.mu.Unlock()
	if f.of.all[f.name] == f {
		delete(f.of.all, f.name)
		close(f.landed)
	}
}
