// Package flight has the goroutines of a process that ask for the same thing share one question: one
// asks, and the others wait in memory for what it brings.
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
	mu  sync.Mutex // guards all, and the order of Land and Detach; locked alone
	all map[string]*Flight
}

// Flight is one question. The goroutine that leads it writes Result and Found, and then calls Land; the
// others read them once it has landed.
type Flight struct {
	Result string
	Found  bool // the flight has a result: without one, another goroutine begins the next flight

	of     *Flights
	name   string
	landed chan struct{}
}

// Enter returns a flight of that name which brought a result; or a new one, without a result, which the
// caller leads and has to land. It waits for the flight under way, until ctx ends, whose cause is then
// the error, or over is closed.
func (fs *Flights) Enter(ctx context.Context, name string, over <-chan struct{}) (*Flight, error) {
	for {
		f, leads := fs.board(name)
		if leads {
			return f, nil
		}
		select {
		case <-f.landed:
			if f.Found {
				return f, nil
			}
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-over:
			return nil, ErrOver
		}
	}
}

// board returns the flight of a name, and whether the caller has begun it.
func (fs *Flights) board(name string) (f *Flight, leads bool) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
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

// Land ends the flight: those that wait for it go on. It acts once.
func (f *Flight) Land() {
	f.of.mu.Lock()
	defer f.of.mu.Unlock()
	select {
	case <-f.landed:
		return
	default:
		close(f.landed)
	}
	if f.of.all[f.name] == f {
		delete(f.of.all, f.name)
	}
}

// Detach keeps the flight of a name under way from goroutines that come from now on.
func (fs *Flights) Detach(name string) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	delete(fs.all, name)
}
