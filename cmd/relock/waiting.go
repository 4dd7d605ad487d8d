package main

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/operator"
	"github.com/relock-go/relock/internal/wire"
)

// tellAfter is how long relock run waits in silence.
const tellAfter = 2 * time.Second

// tellWaiting prints after tellAfter, in the background, that relock waits and what for. It prints nothing
// any more once quiet, which it returns, has returned.
func (l *locked) tellWaiting(locks *relock.Client) (quiet func()) {
	if l.quiet {
		return func() {}
	}
	ctx, cancel := context.WithCancel(context.Background())
	over := make(chan struct{})
	go func() {
		defer close(over)
		select {
		case <-ctx.Done():
			return
		case <-time.After(tellAfter):
		}
		asked, done := operator.Soon(ctx)
		defer done()
		name := l.heard.waitsFor(l.names[0])
		st, err := l.state(asked, locks, name)
		if ctx.Err() == nil {
			others := ""
			if l.any() && l.of > 1 {
				others = fmt.Sprintf(" or %d more", l.of-1)
			}
			fmt.Fprintf(l.std.err, "relock run: waiting for lock %q%s: %s\n", name, others, obstacle(st, err, l.heard.cause()))
			l.tellSize(st)
		}
	}()
	return func() { cancel(); <-over }
}

// tellSize prints, once, that Redis keeps another number of permits than -n says: that number is in force.
func (l *locked) tellSize(st relock.State) {
	if l.limits() && st.Permits > 0 && st.Permits != l.permits && !l.quiet && !l.told {
		l.told = true
		fmt.Fprintf(l.std.err, "relock run: %q has %d permits, not %d: -resize changes that\n", l.names[0], st.Permits, l.permits)
	}
}

// named adds the name of the holder's client, if it has one, to a HeldError without it: the first refusal by
// Redis brings the owner field alone.
func (l *locked) named(locks *relock.Client, err error) error {
	var held *relock.HeldError
	if !errors.As(err, &held) || held.Client != (relock.ClientInfo{}) {
		return err
	}
	asked, done := operator.Soon(context.Background())
	defer done()
	if st, failed := l.state(asked, locks, held.Name); failed == nil && st.Holder == held.Holder {
		told := *held
		told.Client = st.Client
		return &told
	}
	return err
}

// heard is an Observer that remembers which lock is waited for, and why a Lock waits for Redis, and not for
// a holder.
type heard struct{ lock, why atomic.Value }

// Observe stores the lock that is waited for, and the cause of the wait, if the event has one.
func (h *heard) Observe(e relock.Event) {
	if e.Kind == relock.EventWaiting {
		h.lock.Store(e.Lock)
		if e.Cause != nil {
			h.why.Store(reason{e.Cause})
		}
	}
}

// waitsFor returns the name of the lock that was waited for last, first if there is none.
func (h *heard) waitsFor(first string) string {
	if name, is := h.lock.Load().(string); is {
		return name
	}
	return first
}

// reason gives all errors one type, as atomic.Value demands.
type reason struct{ error }

// cause returns why the Lock waits for Redis, or nil.
func (h *heard) cause() error {
	r, _ := h.why.Load().(reason)
	return r.error
}

// obstacle says what keeps relock from the lock. st and err are the lock's state, why is heard.cause.
func obstacle(st relock.State, err, why error) string {
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return "Redis does not answer"
	case err != nil:
		return cured(err).Error()
	case !st.Held && why != nil:
		return cured(why).Error()
	case !st.Held:
		return "nobody holds it now"
	}
	text := "held by " + operator.Owner(st.Holder, wire.Card(st.Client))
	switch {
	case st.Permits > 0 && st.TTL >= 0:
		return fmt.Sprintf("%d of %d permits are held, the next lease ends in %s unless renewed", st.Count, st.Permits, operator.Short(st.TTL))
	case st.Permits > 0:
		return fmt.Sprintf("%d of %d permits are held", st.Count, st.Permits)
	case st.Readers > 1:
		text = fmt.Sprintf("held by %d readers", st.Readers)
	}
	if age := operator.Since(fmt.Sprint(st.HolderToken), time.Now()); age >= 0 {
		text += " for " + operator.Short(age)
	}
	if st.TTL < 0 {
		return text + ", and it never ends"
	}
	return text + fmt.Sprintf(", for another %s unless renewed", operator.Short(st.TTL))
}
