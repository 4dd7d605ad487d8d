package relock

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

// single is the arbiter over one Redis: a single server, a Sentinel group or a Cluster. Its waiters
// sleep until a message tells them of their grant, or to look again.
type single struct{ node *node.Node }

func newSingle(rdb driver.Redis, id string, cfg *config) *single {
	return &single{newNode(rdb, id, cfg, 0)}
}

// newNode returns the node with that index. A quorum's nodes are numbered from 1. Index 0 is the
// Redis that decides alone.
func newNode(rdb driver.Redis, id string, cfg *config, index int) *node.Node {
	return node.New(rdb, node.Config{
		Options: wire.Options{Votes: index > 0, Retention: cfg.retention, Longest: cfg.longest}, Client: id, Timeout: cfg.commandTimeout, Plain: cfg.plain,
		Reachable: func(cause error) { cfg.answers(index, cause) },
		Impaired:  func(cause error) { cfg.impaired(index, cause) },
		Mended:    func(cause error) { cfg.mended(index, cause) },
	})
}

func (s *single) Claim(e wire.Entry) claim.Claim {
	c := &contender{entry: e, single: s, wake: clock.NewSignal()}
	c.Start(s.node, &c.entry, c.wake)
	return c
}

// contender is an entry's claim at the one Redis, and what its goroutine remembers of it.
//
// It learns of a grant in two ways: from the answer to its own poll, or from a message that the
// release of the holder before sends. The two are not ordered, and each may be lost:
//
//   - A message may come while a poll is out, before its answer. It is looked for after each poll,
//     also after one that failed.
//   - A message may go out before the subscription stands. That then wakes the contender, which
//     polls.
//   - A message may be lost. The next poll finds the entry to be the owner.
//   - A poll's answer may be lost. The entry is then in the queue, or owns the lock, without
//     knowing it: the next poll or a message tells.
//   - A message may be an old one, or come late. It says nothing of when Redis granted, so
//     node.Belief counts the lease from the last answered poll, and believes no earlier grant.
type contender struct {
	node.Claim
	entry  wire.Entry
	single *single
	wake   clock.Signal // there may be news: a message, or a subscription that stands

	report  claim.Report
	failure error // of the last poll that ended; nil when it was answered
	ticket  string
	holder  string // the owner that was in the way
	ttl     time.Duration
	asked   clock.Stamp   // when the last answered poll was sent
	answers int           // that told it to wait, but for those after which it asked again soon
	crowd   wire.Crowd    // holders that were not told that it waits
	soon    time.Duration // when to ask again for their sake, 0 for no sooner than else
	queued  bool          // by a release: its answer stands for the first poll
}

// Of is the entry.
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
	// A message that was sent between the poll and here may have gone unheard: what is subscribed
	// from now on wakes the contender once it stands.
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
	case <-c.single.node.Done():
		return ErrClosed
	}
	return nil
}

// poll asks for the lock once. The grant may also come as a message while the question is out: then
// the contender has the lock, whatever the answer says, and also if the answer is lost.
func (c *contender) poll(ctx context.Context) (node.Grant, error) {
	a, sent, err := c.Ask(ctx, c.ticket)
	if err == nil && !a.Mine {
		c.answered(&a, sent)
	}
	switch {
	case err == nil && a.Mine, c.Told(clock.Now()):
		return c.granted(), nil
	case err != nil:
		return node.Grant{}, &wire.NodeError{Op: "acquire", Name: c.entry.Names.Name, Err: err}
	}
	return node.Grant{}, nil
}

// granted is the grant that is believed.
func (c *contender) granted() node.Grant {
	b := &c.Belief
	return node.Grant{Token: b.Number, Passes: c.Ear().Granted(b.Tokens()), Sent: b.Sent, Fresh: b.Fresh}
}

// answered notes the answer "you wait" to a command sent at sent.
func (c *contender) answered(a *wire.Answer, sent clock.Stamp) {
	c.ticket, c.holder, c.ttl, c.asked = a.Ticket, a.Holder, a.TTL, sent
	if c.soon = c.crowd.Soon(a.Untold, c.entry.Lease); c.soon == 0 {
		c.answers++
	}
}

// polled keeps the error of a poll, nil where Redis answered. It reports that to the goroutines of
// this process that wait behind this one for the same lock.
func (c *contender) polled(failure error) {
	c.failure = failure
	if c.report != nil {
		c.report(c.entry.Names.Gate(), failure)
	}
}

// gaveUp is the error of a contender whose ctx has ended, with a poll out or not. The lock is busy
// if Redis has answered lately. Redis is not there if the last poll failed, if none was ever
// answered, or if one is out and the answer before is older than a command may take.
func (c *contender) gaveUp(ctx context.Context, out bool) error {
	err := c.failure
	if err == nil && (c.asked.IsZero() || out && clock.Now().Since(c.asked) > c.entry.Timeout) {
		err = wire.ErrNoAnswer
	}
	if err == nil {
		return wire.ErrBusy
	}
	return wire.GivenUp("acquire", c.entry.Names.Name, err, wire.CauseOf(ctx))
}

// Try takes the lock if it is free.
func (c *contender) Try(ctx context.Context) (node.Grant, error) {
	c.Enter()
	a, _, err := c.Ask(ctx, wire.NoTicket)
	switch {
	case err != nil:
		c.End(link.MayHaveRun(err))
		return node.Grant{}, &wire.NodeError{Op: "acquire", Name: c.entry.Names.Name, Err: err}
	case !a.Mine:
		c.Forget()
		return node.Grant{}, &wire.HeldError{Name: c.entry.Names.Name, Holder: a.Holder, TTL: a.TTL, Wanted: a.Wanted}
	}
	return c.granted(), nil
}

// Release repeats until it is answered or the time of one command is over; then the sweeper goes on.
// Its first command also queues the contender that is to come next. If that command is not answered,
// the next contender may be queued or not. A repeated one cannot tell, since it finds the entry gone.
// So the next contender then polls for itself. It is made known to the hub before, because its grant
// may come as a message before the answer does.
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
			c.Released(held, nil)
			if !held && failure == nil {
				return node.Grant{}, false, ErrLost
			}
			g, granted := n.after(&a, sent)
			return g, granted, nil
		}
		if failure == nil {
			rest, cancel := context.WithTimeoutCause(ctx, c.entry.Timeout-clock.Now().Since(began), wire.ErrNoAnswer)
			defer cancel()
			ctx, failure = rest, err
		} else if ctx.Err() == nil {
			failure = err // else the time was over, and the failure before says more
		}
		n, queue = nil, nil
		if !wire.Transient(err) || !clock.Sleep(ctx, pause.Next()) {
			c.Released(false, err)
			return node.Grant{}, false, &wire.NodeError{Op: "release", Name: c.entry.Names.Name, Err: failure}
		}
	}
}

// after takes what a release answered for c, the waiter that it was to queue next. c is nil where
// the release was to queue no waiter. An empty answer says that c was not queued: it polls.
func (c *contender) after(a *wire.Answer, sent clock.Stamp) (node.Grant, bool) {
	switch {
	case c == nil || *a == wire.Answer{}:
		return node.Grant{}, false
	case a.Mine:
		return c.granted(), true
	}
	c.answered(a, sent)
	c.queued = true
	return node.Grant{}, false
}

// SetCount writes the hold count, and lengthens the lease.
func (c *contender) SetCount(ctx context.Context, count int, lease time.Duration) (clock.Stamp, error) {
	sent := clock.Now()
	held, err := c.Claim.SetCount(ctx, count, lease)
	switch {
	case err != nil:
		return sent, &wire.NodeError{Op: "set count", Name: c.entry.Names.Name, Err: err}
	case !held:
		return sent, ErrLost
	}
	return sent, nil
}

// Attend reports whether the entry, which holds the lock, hears that another wants it.
func (c *contender) Attend() bool { return c.Ear().Attend() }

// Seen tells what the entry last saw.
func (c *contender) Seen() (holder string, ttl time.Duration) { return c.holder, c.ttl }

// Watch makes news about the lock go to what keeps it.
func (c *contender) Watch(w *hub.Watcher) { c.Ear().Watch(w) }

// Abandon ends the claim in the background.
func (c *contender) Abandon() { c.End(true) }

func (s *single) Renew(ctx context.Context, batch []claim.Renewal, settle claim.Settle) {
	sent := clock.Now()
	s.node.Renew(ctx, batch, func(i int, r wire.Result, err error) { settle(i, r, sent, err) })
}

func (s *single) Silence(op, name string, why, cause error) error {
	return &wire.NodeError{Op: op, Name: name, Err: why, Cause: cause}
}

func (s *single) Inspect(ctx context.Context, n *wire.Names) (wire.State, error) {
	st, err := s.node.Inspect(ctx, n)
	if err != nil {
		return wire.State{}, &wire.NodeError{Op: "inspect", Name: n.Name, Err: err}
	}
	return st, nil
}

func (s *single) Force(ctx context.Context, n *wire.Names) (bool, error) {
	freed, _, err := s.node.Force(ctx, n)
	if err != nil {
		return false, &wire.NodeError{Op: "force unlock", Name: n.Name, Err: err}
	}
	return freed, nil
}

// TrustNodes has nothing to declare: without the restart guard Redis is trusted not to forget.
func (s *single) TrustNodes(context.Context) error { return nil }

func (s *single) Nodes() []*node.Node { return []*node.Node{s.node} }

func (s *single) Stop() { s.node.Stop() }

func (s *single) Close() {
	s.node.Settle()
	s.node.Close()
}
