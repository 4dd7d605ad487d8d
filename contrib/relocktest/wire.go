package relocktest

import (
	"context"
	"net"
	"os"
	"sync"
	"syscall"

	"github.com/relock-go/relock/internal/crew"
	"github.com/relock-go/relock/internal/driver"
)

// Errors as from a server that is down: errRefused of a command that was not sent, errBroken of one that
// may have run.
var (
	errRefused = driver.Unsent(&net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)})
	errBroken  = &net.OpError{Op: "read", Net: "tcp", Err: os.NewSyscallError("read", syscall.ECONNRESET)}
)

// wire is the driver of one process. It passes calls on to Redis until it is cut.
type wire struct {
	driver.Redis
	crew crew.Crew

	mu    sync.Mutex // guards the fields below
	cuts  int        // how often it was cut
	isCut bool
	ears  map[*ear]bool // the open ones
}

func newWire(redis driver.Redis) *wire { return &wire{Redis: redis, ears: map[*ear]bool{}} }

// cut breaks all connections. Until mend no connection can be opened.
func (w *wire) cut() {
	w.mu.Lock()
	if w.isCut {
		w.mu.Unlock()
		return
	}
	w.cuts, w.isCut = w.cuts+1, true
	ears := w.ears
	w.ears = map[*ear]bool{}
	w.mu.Unlock()
	for e := range ears {
		e.Listener.Close() // the server counts it no longer among its subscribers
		e.drop(errBroken)
	}
}

func (w *wire) mend() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.isCut = false
}

// passes returns how often the wire was cut, or errRefused while it is.
func (w *wire) passes() (cuts int, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.isCut {
		return w.cuts, errRefused
	}
	return w.cuts, nil
}

// whole reports whether the wire was not cut since passes returned cuts. If it was, the answer of a command
// is lost with its connection.
func (w *wire) whole(cuts int) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.cuts == cuts
}

// Run runs a script, unless the wire is cut.
func (w *wire) Run(ctx context.Context, s *driver.Script, keys, args []string) (driver.Value, error) {
	cuts, err := w.passes()
	if err != nil {
		return driver.Value{}, err
	}
	value, err := w.Redis.Run(ctx, s, keys, args)
	if !w.whole(cuts) {
		return driver.Value{}, errBroken
	}
	return value, err
}

// Do sends commands, unless the wire is cut.
func (w *wire) Do(ctx context.Context, commands ...[]string) ([]driver.Value, error) {
	cuts, err := w.passes()
	if err != nil {
		return nil, err
	}
	values, err := w.Redis.Do(ctx, commands...)
	if !w.whole(cuts) {
		return nil, errBroken
	}
	return values, err
}

// Listen opens a connection for subscriptions. It breaks when the wire is cut.
func (w *wire) Listen(ctx context.Context, h driver.Handler) (driver.Listener, error) {
	cuts, err := w.passes()
	if err != nil {
		return nil, err
	}
	e := &ear{w: w, cuts: cuts, dropped: make(chan error, 1), closed: make(chan struct{})}
	if e.Listener, err = w.Redis.Listen(ctx, h); err != nil {
		return nil, err
	}
	w.mu.Lock()
	late := w.cuts != cuts
	if !late {
		w.ears[e] = true
	}
	w.mu.Unlock()
	if late {
		e.Listener.Close()
		return nil, errRefused
	}
	if !w.crew.Start(e.watch) {
		e.Close()
		return nil, driver.ErrClosed
	}
	return e, nil
}

// Close waits for the goroutines of the wire and of its driver.
func (w *wire) Close(ctx context.Context) {
	w.crew.End(ctx)
	w.Redis.Close(ctx)
}

// ear is a connection with subscriptions.
type ear struct {
	driver.Listener
	w       *wire
	cuts    int        // of the wire when it was opened
	dropped chan error // one slot
	closed  chan struct{}
	once    sync.Once
}

// watch passes on that the connection was lost for another reason than a cut.
func (e *ear) watch() {
	select {
	case why := <-e.Listener.Dropped():
		e.drop(why)
	case <-e.closed:
	}
}

func (e *ear) drop(why error) {
	select {
	case e.dropped <- why:
	default:
	}
}

// Subscribe subscribes channels with one command.
func (e *ear) Subscribe(ctx context.Context, channels ...string) error {
	return e.unlessBroken(e.Listener.Subscribe(ctx, channels...))
}

// SubscribeApart subscribes each channel with a command of its own.
func (e *ear) SubscribeApart(ctx context.Context, channels ...string) []error {
	errs := e.Listener.SubscribeApart(ctx, channels...)
	for i := range errs {
		errs[i] = e.unlessBroken(errs[i])
	}
	return errs
}

// Unsubscribe ends subscriptions with one command.
func (e *ear) Unsubscribe(ctx context.Context, channels ...string) error {
	return e.unlessBroken(e.Listener.Unsubscribe(ctx, channels...))
}

// unlessBroken returns err, the answer of a command, or errBroken if the wire was cut meanwhile.
func (e *ear) unlessBroken(err error) error {
	if !e.w.whole(e.cuts) {
		return errBroken
	}
	return err
}

// Dropped receives why the connection was lost.
func (e *ear) Dropped() <-chan error { return e.dropped }

// Close closes the connection.
func (e *ear) Close() {
	e.once.Do(func() {
		close(e.closed)
		e.w.mu.Lock()
		open := e.w.ears[e]
		delete(e.w.ears, e)
		e.w.mu.Unlock()
		if open {
			e.Listener.Close()
		}
	})
}
