package election

import (
	"context"
	"testing"
	"time"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/locktest"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// name is that of the lock, on a Redis of each test's own.
const name = "leader"

// stint is one call of a candidate's function.
type stint struct {
	ctx     context.Context
	token   int64
	returns chan func() error // the function does and returns that
}

// candidate is one process's part in an election, whose Run is under way.
type candidate struct {
	*Election
	t     *testing.T
	terms chan stint // each as it begins
	ended chan error // what Run returned
	stop  context.CancelCauseFunc
}

// deaf has a candidate's function return only when the test says so, whatever becomes of its context.
const deaf = true

// stand has c take part. Unless it is deaf, its function returns nil when its context ends.
func stand(t *testing.T, c *relock.Client, deaf bool, opts ...Option) *candidate {
	t.Helper()
	return standFor(t, New(c.Mutex(name), opts...), deaf)
}

func standFor(t *testing.T, e *Election, deaf bool) *candidate {
	t.Helper()
	ctx, stop := context.WithCancelCause(context.Background())
	c := &candidate{Election: e, t: t, terms: make(chan stint, 100), ended: make(chan error, 1), stop: stop}
	over, over2 := make(chan struct{}), make(chan struct{})
	t.Cleanup(func() { close(over); stop(nil); <-over2 })
	go func() {
		defer close(over2)
		c.ended <- e.Run(ctx, func(ctx context.Context) error {
			is := stint{ctx: ctx, token: relock.Token(ctx), returns: make(chan func() error, 1)}
			c.terms <- is
			done := ctx.Done()
			if deaf {
				done = over
			}
			select {
			case do := <-is.returns:
				return do()
			case <-done:
				return nil
			}
		})
	}()
	return c
}

// leads waits until the candidate begins a term.
func (c *candidate) leads() stint {
	c.t.Helper()
	return locktest.Within(c.t, c.terms)
}

// does not lead, nor has it since its last term was looked at.
func (c *candidate) doesNotLead() {
	c.t.Helper()
	require.Empty(c.t, c.terms)
}

// returned waits for the end of Run.
func (c *candidate) returned() error {
	c.t.Helper()
	return locktest.Within(c.t, c.ended)
}

// over waits until the term's context has ended, and returns why.
func (is stint) over(t *testing.T) error {
	t.Helper()
	locktest.Within(t, is.ctx.Done())
	return context.Cause(is.ctx)
}

// fails has the term's function return err.
func (is stint) fails(err error) { is.returns <- func() error { return err } }

// waiting waits until n processes stand in the lock's queue.
func waiting(t *testing.T, c *relock.Client, n int) {
	t.Helper()
	require.Eventually(t, func() bool {
		st, err := c.Mutex(name).State(t.Context())
		return err == nil && st.Waiters == n
	}, locktest.Patience, time.Millisecond)
}

// passed waits until the lead passes from one candidate to another. It may come back to the first a few times before: an
// unlock passes over a waiter that does not hear messages yet. If resign is set, that one resigns each time.
func passed(t *testing.T, from, to *candidate, resign bool) stint {
	t.Helper()
	late := time.After(locktest.Patience)
	for {
		select {
		case is := <-from.terms:
			if resign {
				from.Resign()
				is.fails(nil) // where it is deaf
			}
		case is := <-to.terms:
			for len(from.terms) > 0 {
				<-from.terms
			}
			return is
		case <-late:
			t.Fatal("the lead is not passed on")
		}
	}
}

// renewed waits until c has renewed a lease once more.
func renewed(t *testing.T, c *relock.Client) {
	t.Helper()
	count := func() (n uint64) {
		for _, cmd := range c.Stats().Commands {
			if cmd.Command == "renew" {
				n += cmd.Answered
			}
		}
		return n
	}
	before := count()
	require.Eventually(t, func() bool { return count() > before }, locktest.Patience, time.Millisecond)
}

// process returns the client of one more process on s.
func process(t *testing.T, s *redistest.Server, opts ...relock.ClientOption) *relock.Client {
	t.Helper()
	return locktest.Client(t, s.Client(), opts...)
}
