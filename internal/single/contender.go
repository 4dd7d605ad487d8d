package single

import (
	"context"
	"time"

	"github.com/relock-go/relock/internal/claim"
	"github.com/relock-go/relock/internal/clock"
	"github.com/relock-go/relock/internal/driver"
	"github.com/relock-go/relock/internal/hub"
	"github.com/relock-go/relock/internal/link"
	"github.com/relock-go/relock/internal/node"
	"github.com/relock-go/relock/internal/wire"
)

// contender is an entry's claim at the one Redis, and what its goroutine remembers of it.
//
// It learns of a grant in two ways: from the answer to its own poll, or from a message that the
// release of the holder before sends. The two are not ordered, and each may be lost:
//
//   - A message may come while a poll is out, before its answer. The contender looks for one after
//     each poll, even after one that failed.
//   - A message may go out before the subscription stands. The subscription, once it stands, wakes
//     the contender, which polls.
//   - A message may be lost. The next poll finds the entry to be the owner.
//   - A poll's answer may be lost. The entry is then in the queue, or owns the lock, without
//     knowing it: the next poll or a message tells.
//   - A message may be an old one, or come late. It says nothing of when Redis granted, so
//     node.Belief counts the lease from the last answered poll, and believes no earlier grant.
type contender struct {
	node.Claim
	entry wire.Entry
	node  *node.Node
	wake  clock.Signal // there may be news: a message, or a subscription that stands

	report  claim.Report
	failure error // of the last poll that ended; nil when it was answered
	ticket  string
	holder  string // the owner that was in the way
	ttl     time.Duration
	asked   clock.Stamp   // when the last answered poll was sent
	answers int           // how many told it to wait, without those after which it asked again soon
	crowd   wire.Crowd    // holders that were not told that it waits
	soon    time.Duration // the pause until it asks again to tell them, 0 for the usual pause
	queued  bool          // a release queued the entry: the release's answer replaces the first poll
}

// Of returns the entry.
func (c *contender) Of() *wire.Entry { return &c.entry }

// Wait polls, sleeps until there may be news or for as long as it is safe, and polls again. A
// message that can be believed ends the wait without another poll.
func (c *contender) Wait(ctx context.Context, report claim.Report) (node.Grant, error) {
	c.report = report
	c.Enter() // before the first poll: from then on a message may come
	failing := clock.Backoff{Least: 5 * time.Millisecond, Most: 250 * time.Millisecond}
	for {
		rest, g, err := c.look(ctx, &failing)
		if g.Token > 0 || err != nil {
			return g, err
		}
		if err := c.sleep(ctx, rest); err != nil {
			return node.Grant{}, err
		}
		if c.Told(clock.Now()) {
			return c.granted(), nil
		}
	}
}

// look polls, unless a release has just queued the entry, and returns how long to rest if no
// message comes. It fails where no message can reach this client: a granted lock must not be kept
// then (Verdict), and to wait for a message would be in vain (Deafness).
func (c *contender) look(ctx context.Context, failing *clock.Backoff) (time.Duration, node.Grant, error) {
	if !c.queued {
		g, err := c.poll(ctx)
		switch {
		case g.Token > 0:
			return 0, g, c.Ear().Verdict(ctx)
		case ctx.Err() != nil:
			return 0, g, c.gaveUp(ctx, err != nil)
		case err != nil && !wire.Transient(err):
			return 0, g, err
		case err != nil:
			c.polled(err)
			return failing.Next(), g, nil
		}
		c.polled(nil)
	}
	c.queued = false
	failing.Reset()
	// A message that was sent between the poll and here may have gone unheard: the subscription that
	// begins now wakes the contender once it stands.
	c.Ear().Listen()
	pause := c.entry.LookAgain(c.ttl, c.answers)
	if c.soon > 0 {
		pause = min(pause, c.soon)
	}
	rest := max(pause-clock.Now().Since(c.asked), wire.MinLook)
	return rest, node.Grant{}, c.Ear().Deafness()
}

// sleep returns when there may be news, or after rest: an expiry of the holder's lease publishes
// nothing. It fails if the caller gives up or the client is closed.
func (c *contender) sleep(ctx context.Context, rest time.Duration) error {
	t := time.NewTimer(rest)
	defer t.Stop()
	select {
	case <-c.wake:
	case <-t.C:
	case <-ctx.Done():
		return c.gaveUp(ctx, false)
	case <-c.node.Done():
		return wire.ErrClosed
	}
	return nil
}

// poll asks for the lock once. The grant may also come as a message while the question is out: then
// the contender has the lock, whatever the answer says, and also if the answer is lost.
func (c *contender) poll(ctx context.Context) (node.Grant, error) {
	a, sent, err := c.Ask(ctx, c.ticket)
	if err == nil && !a.Mine {
		c.noteWait(&a, sent)
	}
	switch {
	case err == nil && a.Mine, c.Told(clock.Now()):
		return c.granted(), nil
	case err != nil:
		return node.Grant{}, &wire.NodeError{Op: driver.Acquire, Name: c.entry.Names.Name, Err: err}
	}
	return node.Grant{}, nil
}

// granted tells the ear of the believed grant, and returns it.
func (c *contender) granted() node.Grant {
	b := &c.Belief
	return node.Grant{Token: b.Number, Passes: c.Ear().Granted(b.Tokens()), Sent: b.Sent, Fresh: b.Fresh}
}

// noteWait records the answer "you wait" to a command sent at sent.
func (c *contender) noteWait(a *wire.Answer, sent clock.Stamp) {
	c.ticket, c.holder, c.ttl, c.asked = a.Ticket, a.Holder, a.TTL, sent
	if c.entry.Past {
		c.Ear().WantFrom(a.Holder)
	}
	if c.soon = c.crowd.Soon(a.Untold, c.entry.Lease); c.soon == 0 {
		c.answers++
	}
}

// polled keeps the error of a poll, nil where Redis answered. It reports that to the goroutines of
// this process that wait behind this one for the same lock.
func (c *contender) polled(failure error) {
	c.failure = failure
	if c.report != nil {
		c.report(c.entry.Gate(), failure)
	}
}

// gaveUp returns the error of a contender whose ctx has ended. out says that a poll is out. The lock
// is busy if Redis has answered lately. Redis does not answer if the last poll failed, if none was
// ever answered, or if one is out and the last answer is older than a command's timeout.
func (c *contender) gaveUp(ctx context.Context, out bool) error {
	err := c.failure
	if err == nil && (c.asked.IsZero() || out && clock.Now().Since(c.asked) > c.entry.Timeout) {
		err = wire.ErrNoAnswer
	}
	if err == nil {
		return wire.ErrBusy
	}
	return wire.GivenUp(driver.Acquire, c.entry.Names.Name, err, wire.CauseOf(ctx))
}

// Try takes the lock if it is free.
func (c *contender) Try(ctx context.Context) (node.Grant, error) {
	c.Enter()
	a, _, err := c.Ask(ctx, wire.NoTicket)
	switch {
	case err != nil:
		c.End(link.MayHaveRun(err))
		return node.Grant{}, &wire.NodeError{Op: driver.Acquire, Name: c.entry.Names.Name, Err: err}
	case !a.Mine:
		c.Forget()
		return node.Grant{}, &wire.HeldError{Name: c.entry.Names.Name, Holder: a.Holder, TTL: a.TTL, Wanted: a.Wanted}
	}
	return c.granted(), nil
}

// Release repeats its command until it is answered or one command's timeout is over; then the sweeper
// goes on. The first command also queues next. If that command is not answered, next may be queued or
// not. A repeated command cannot tell, since it finds the entry gone: so next then polls for itself.
// Before, next is made known to the hub, because its grant may come as a message before the answer.
func (c *contender) Release(ctx context.Context, next claim.Claim) (node.Grant, bool, error) {
	c.Ear().Releasing()
	n, _ := next.(*contender)
	var queue *node.Claim
	if n != nil {
		n.Enter()
		queue = &n.Claim
	}
	began, failure := clock.Now(), error(nil)
	pause := clock.Backoff{Least: 5 * time.Millisecond, Most: 100 * time.Millisecond}
	for {
		sent := clock.Now()
		held, a, err := c.Claim.Release(ctx, queue)
		if err == nil {
			c.Released(nil)
			if !held && failure == nil {
				return node.Grant{}, false, wire.ErrLost
			}
			g, granted := n.after(&a, sent)
			return g, granted, nil
		}
		if failure == nil {
			rest, cancel := context.WithTimeoutCause(ctx, c.entry.Timeout-clock.Now().Since(began), wire.ErrNoAnswer)
			defer cancel()
			ctx, failure = rest, err
		} else if ctx.Err() == nil {
			failure = err // if ctx has ended, the failure before says more
		}
		n, queue = nil, nil
		if !wire.Transient(err) || !clock.Sleep(ctx, pause.Next()) {
			c.Released(err)
			return node.Grant{}, false, &wire.NodeError{Op: driver.Release, Name: c.entry.Names.Name, Err: failure}
		}
	}
}

// after takes a release's answer for c, the contender that the release was to queue; nil for none. An
// empty answer says that c was not queued: then c polls.
func (c *contender) after(a *wire.Answer, sent clock.Stamp) (node.Grant, bool) {
	switch {
	case c == nil || *a == wire.Answer{}:
		return node.Grant{}, false
	case a.Mine:
		return c.granted(), true
	}
	c.noteWait(a, sent)
	c.queued = true
	return node.Grant{}, false
}

// HandOver repeats its command until it is answered or one command's timeout is over. Then the sweeper ends
// the entry. If the command did run, it finds nothing, and the handle has the lock for as long as it stays.
func (c *contender) HandOver(ctx context.Context, handle string, stays time.Duration) error {
	ctx, cancel := context.WithTimeoutCause(ctx, c.entry.Timeout, wire.ErrNoAnswer)
	defer cancel()
	pause := clock.Backoff{Least: 5 * time.Millisecond, Most: 100 * time.Millisecond}
	for {
		moved, err := c.Claim.HandOver(ctx, handle, stays)
		switch {
		case err != nil && wire.Transient(err) && clock.Sleep(ctx, pause.Next()):
			continue
		case err != nil:
			c.Released(err)
			return &wire.NodeError{Op: driver.Move, Name: c.entry.Names.Name, Err: err}
		}
		if c.Released(nil); !moved {
			return wire.ErrLost
		}
		return nil
	}
}

// TakeOver repeats its command until it is answered, ctx ends, or the client is closed. If it then has no
// answer, the entry may have the lock or get it: the sweeper ends it.
func (c *contender) TakeOver(ctx context.Context, handle string) (node.Grant, error) {
	c.Enter()
	pause := clock.Backoff{Least: 5 * time.Millisecond, Most: 250 * time.Millisecond}
	for {
		mine, why, err := c.Claim.TakeOver(ctx, handle)
		c.failure = &wire.NodeError{Op: driver.Move, Name: c.entry.Names.Name, Err: err}
		switch {
		case err == nil && mine:
			return c.granted(), nil
		case err == nil:
			c.End(false)
			return node.Grant{}, wire.NoHandle(c.entry.Names, whyLost(why))
		case !wire.Transient(err):
			c.End(true) // a script that is refused half way has done what stands before
			return node.Grant{}, c.failure
		}
		if err := c.sleep(ctx, pause.Next()); err != nil {
			c.End(true)
			return node.Grant{}, err
		}
	}
}

// whyLost says of a handle that has no lock what Redis knows of the lock.
func whyLost(word string) string {
	switch word {
	case "used":
		return "the handle was used, and the lock is held since"
	case "free":
		return "no process holds the lock; the handle was used, its time is over, or the lock was forced open"
	}
	return "another holder has the lock; the handle was used, its time is over, or the lock was forced open"
}

// SetCount writes the hold count, and lengthens the lease.
func (c *contender) SetCount(ctx context.Context, count int, lease time.Duration) (clock.Stamp, error) {
	sent := clock.Now()
	held, err := c.Claim.SetCount(ctx, count, lease)
	switch {
	case err != nil:
		return sent, &wire.NodeError{Op: driver.Recount, Name: c.entry.Names.Name, Err: err}
	case !held:
		return sent, wire.ErrLost
	}
	return sent, nil
}

// Attend reports whether the entry, which holds the lock, hears that another wants it.
func (c *contender) Attend() bool { return c.Ear().Attend() }

// Seen returns the owner that was last in the way, and what was left of its lease.
func (c *contender) Seen() (holder string, ttl time.Duration) { return c.holder, c.ttl }

// Watch makes w hear what messages say of the entry.
func (c *contender) Watch(w *hub.Watcher) { c.Ear().Watch(w) }

// Abandon ends the claim in the background.
func (c *contender) Abandon() { c.End(true) }
