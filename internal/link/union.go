package link

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/relock-go/relock/internal/driver"
)

// Union makes the calls of Share that several goroutines are about to make go as one command: as one for
// each script and, in a Cluster, each slot. Each goroutine makes its call under a Part of its own.
type Union struct {
	// mu guards what follows. Invariant: the goroutine of a missing part waits for nothing but
	// mutexes. So a call waits for steps of other goroutines here, and never for the answer of a
	// Redis to another part.
	mu      sync.Mutex
	missing int // parts that have neither called nor left
	calls   []united
}

// united is a call that waits for those of the other parts.
type united struct {
	link   *Link
	of     *batcher
	script *Script
	call   *command
}

// Part is the context of one goroutine of a Union. If its first call is one of Share, that call waits
// until each other part has called, or has left. Further calls, and those under a context that
// derives from it, do not wait.
type Part struct {
	context.Context
	union *Union
	came  atomic.Bool // it has called or left
}

// NewUnion returns a union of n parts.
func NewUnion(n int) *Union { return &Union{missing: n} }

// Part returns one of the parts, whose values and end are those of ctx. Its goroutine calls Leave in the end.
func (u *Union) Part(ctx context.Context) *Part { return &Part{Context: ctx, union: u} }

// Leave says that the part makes no call. After a call it does nothing.
func (p *Part) Leave() {
	if p.comes() {
		p.union.add(nil)
	}
}

// Done is that of the part's context. What waits under a context asks for it first: any other
// command, a mutex that is locked for as long as a command, a context with a deadline. So the part
// leaves.
func (p *Part) Done() <-chan struct{} {
	p.Leave()
	return p.Context.Done()
}

// comes reports whether the part has neither called nor left before.
func (p *Part) comes() bool { return p.came.CompareAndSwap(false, true) }

// add adds a part's call, or that it makes none. The last part sends all calls.
func (u *Union) add(c *united) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if c != nil {
		u.calls = append(u.calls, *c)
	}
	if u.missing--; u.missing > 0 {
		return
	}
	for len(u.calls) > 0 {
		first, rest := u.calls[0], u.calls[:0:0]
		ready := &batch{script: first.script, since: time.Now()}
		for _, c := range u.calls {
			if c.of == first.of && c.script == first.script && len(ready.calls) < first.script.Most {
				ready.calls = append(ready.calls, c.call)
			} else {
				rest = append(rest, c)
			}
		}
		first.of.sends(len(ready.calls))
		first.link.dispatch(first.of, ready)
		u.calls = rest
	}
}

// sends counts a command for n callers as out.
func (b *batcher) sends(n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.out += n
	b.inFlight++
}

// share is Share under a part whose first call this is.
func (p *Part) share(l *Link, timeout time.Duration, s *Script, keys, args []string, late Latecomer) (driver.Value, error) {
	c := l.newCommand(p, timeout, keys, args, late)
	p.union.add(&united{l, l.batcherOf(keys), s, c})
	got, answered := c.wait(nil)
	if answered {
		l.recycle(c)
	}
	return got.value, got.err
}
