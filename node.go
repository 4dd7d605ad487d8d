package relock

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"
	"github.com/relock-go/relock/internal/clock"
)

// node is the arbiter over one Redis: a single server, a Sentinel group or a Cluster.
type node struct {
	link    *link
	scripts scripts
	hub     *hub
	sweeper *sweeper
	pubsub  PubSubMode
	timeout time.Duration // of inspect, force and the mode's probe

	// mode is 0 until the kind of channels is known; only a Cluster has to be asked.
	mode    atomic.Int32
	modeMu  sync.Mutex // guards probing; never held across a round trip
	probing *probe     // the question that is out, nil for none
}

func newNode(rdb rueidis.Client, id string, cfg *config) *node {
	l := newLink(rdb, cfg.commandTimeout())
	n := &node{link: l, scripts: newScripts(l, cfg.retention), pubsub: cfg.pubsub, timeout: l.timeout}
	n.sweeper = newSweeper(l, n.end, n.group, func() bool { return false })
	n.hub = newHub(rdb, id, cfg.log, n.sweeper.orphan)
	if rdb.Mode() != rueidis.ClientModeCluster {
		n.mode.Store(modePlain)
		n.hub.startPlain(true)
	}
	return n
}

// enter makes a known here before its first command is sent.
func (n *node) enter(a *acquisition) {
	if a.sweeper == nil { // else a late answer may read it just now
		a.sweeper = n.sweeper
	}
	n.hub.enter(a)
}

func (n *node) contend(ctx context.Context, a *acquisition) (grant, error) {
	n.enter(a)
	failing := backoff{least: 5 * time.Millisecond, most: 250 * time.Millisecond}
	for {
		rest, g, err := n.look(ctx, a, &failing)
		if g.token > 0 || err != nil {
			return g, err
		}
		select {
		case <-a.wake:
		case <-time.After(rest):
		case <-ctx.Done():
			return grant{}, n.gaveUp(ctx, a, false)
		case <-n.hub.done:
			return grant{}, ErrClosed
		}
		if g, held := n.granted(a); held {
			return g, nil
		}
	}
}

// look polls, unless a release has just queued a, and returns how long to rest if no message comes.
func (n *node) look(ctx context.Context, a *acquisition, failing *backoff) (time.Duration, grant, error) {
	if !a.primed {
		g, held, err := n.poll(ctx, a)
		switch {
		case held:
			return 0, g, n.hub.firstVerdict(ctx, a)
		case ctx.Err() != nil:
			return 0, g, n.gaveUp(ctx, a, err != nil)
		case err != nil && !transient(err):
			return 0, g, err
		case err != nil:
			a.polled(err)
			return failing.next(), g, nil
		}
		a.polled(nil)
	}
	a.primed = false
	failing.reset()
	n.hub.listen(a)
	return a.nextPoll(), grant{}, n.hub.deafness(a)
}

// gaveUp is the error of a contender whose ctx has ended, with a poll out or not.
func (n *node) gaveUp(ctx context.Context, a *acquisition, out bool) error {
	if err := a.unheard(out, clock.Now()); err != nil {
		return notHeard("acquire", a.names.name, err, causeOf(ctx))
	}
	return errBusy
}

func (n *node) silence(name string, cause error) error {
	return &NodeError{Op: "acquire", Name: name, Err: errNoAnswer, Cause: cause}
}

// poll asks for the lock once. An answer moves forward the instant from which a later grant is dated.
func (n *node) poll(ctx context.Context, a *acquisition) (grant, bool, error) {
	sent, rep, err := n.acquire(ctx, a, a.ticket)
	if err != nil {
		if g, held := n.granted(a); held {
			return g, true, nil
		}
		return grant{}, false, err
	}
	if rep.owner {
		n.hub.hold(a, rep.tokens)
		return grant{token: rep.tokens.first, sent: sent}, true, nil
	}
	a.queued(rep, sent)
	g, held := n.granted(a)
	return g, held, nil
}

func (n *node) acquire(ctx context.Context, a *acquisition, ticket string) (clock.Stamp, reply, error) {
	r, err := n.route(ctx, &a.names)
	if err != nil {
		return clock.Stamp{}, reply{}, &NodeError{Op: "acquire", Name: a.names.name, Err: err}
	}
	sent := clock.Now()
	if a.base.IsZero() {
		a.base, a.counter = sent, -1
	}
	rep, err := n.scripts.acquire(ctx, r, a, ticket, n.hub.turnOver(a))
	a.noted(err)
	if err != nil {
		err = &NodeError{Op: "acquire", Name: a.names.name, Err: err}
	}
	return sent, rep, err
}

// granted takes the grant that came through the inbox, if it can be believed: its token must be above the counter of
// the last answered poll, or it may be of an ownership that has lapsed since; and it is dated from that poll.
func (n *node) granted(a *acquisition) (grant, bool) {
	given, _ := n.hub.take(a)
	if given.first == 0 || given.first <= a.counter || a.base.Add(a.lease-margin(a.lease)).Reached(clock.Now()) {
		return grant{}, false
	}
	n.hub.hold(a, given)
	return grant{token: given.first, sent: a.base}, true
}

const noTicket = "-"

func (n *node) try(ctx context.Context, a *acquisition) (grant, error) {
	n.enter(a)
	sent, rep, err := n.acquire(ctx, a, noTicket)
	switch {
	case err != nil:
		n.abandonOrForget(a, mayHaveRun(err))
		return grant{}, err
	case !rep.owner:
		n.hub.forget(a)
		return grant{}, &HeldError{Name: a.names.name, Holder: rep.blocker.holder, TTL: rep.blocker.ttl}
	}
	n.hub.hold(a, rep.tokens)
	return grant{token: rep.tokens.first, sent: sent}, nil
}

// release repeats until answered or unlockTimeout is over. Only its first command queues next: a repeated one finds a
// gone, and next must then find out by its own poll whether it was queued.
func (n *node) release(ctx context.Context, a, next *acquisition) (grant, bool, error) {
	n.hub.releasing(a)
	if next != nil {
		n.enter(next)
		next.base, next.counter = clock.Now(), -1
	}
	began := clock.Now()
	pause := backoff{least: 5 * time.Millisecond, most: 100 * time.Millisecond}
	for again := false; ; again = true {
		sent := clock.Now()
		held, rep, err := n.releaseOnce(ctx, a, next)
		if next != nil {
			next.noted(err)
		}
		if err == nil {
			n.abandonOrForget(a, !held && a.regranted.Load())
			if !held && !again {
				return grant{}, false, ErrLost
			}
			if rep == (reply{}) {
				return grant{}, false, nil // next, if there is one, has to ask for itself
			}
			if rep.owner {
				n.hub.hold(next, rep.tokens)
				return grant{token: rep.tokens.first, sent: sent}, true, nil
			}
			next.queued(rep, sent)
			next.primed = true
			return grant{}, false, nil
		}
		next = nil
		if !transient(err) || clock.Now().Since(began) > unlockTimeout(a) || !sleep(ctx, pause.next()) {
			n.abandonOrForget(a, true)
			return grant{}, false, &NodeError{Op: "release", Name: a.names.name, Err: err}
		}
	}
}

func (n *node) releaseOnce(ctx context.Context, a, next *acquisition) (bool, reply, error) {
	r, err := n.route(ctx, &a.names)
	if err != nil {
		return false, reply{}, err
	}
	return n.scripts.release(ctx, r, a, n.hub.turnDue(a), next)
}

// end is the sweeper's: one release for each of a batch, without callers.
func (n *node) end(ctx context.Context, batch []*acquisition) ([]bool, error) {
	var call sweepCall
	for _, a := range batch {
		r, err := n.route(ctx, &a.names)
		if err != nil {
			return nil, err
		}
		call.add(releaseCall(r, a, n.hub.turnDue(a), nil))
	}
	return call.send(ctx, n.link, n.scripts.sweeping)
}

// group is what the locks of one command have in common: the slot, on a Cluster.
func (n *node) group(a *acquisition) uint16 {
	if n.mode.Load() == modePlain {
		return 0
	}
	return n.link.slot(a.names.lock)
}

func (n *node) attach(a *acquisition, h *hold) { n.hub.attach(a, h) }

func (n *node) forget(a *acquisition) { n.hub.forget(a) }

func (n *node) abandon(a *acquisition) { n.abandonOrForget(a, true) }

// abandonOrForget ends a's life here. It must be swept if it may still hold or be queued, or if an acquire of it was
// never answered and may come late.
func (n *node) abandonOrForget(a *acquisition, open bool) {
	n.hub.forget(a)
	if open && a.mayStand() || a.mayRunLate() {
		n.sweeper.sweep(a, !open)
	}
}

func (n *node) recount(ctx context.Context, a *acquisition, count int, lease time.Duration) (clock.Stamp, error) {
	sent := clock.Now()
	held, err := n.scripts.recount(ctx, a.timeout, &a.names, a.id, count, lease)
	switch {
	case err != nil:
		return sent, &NodeError{Op: "recount", Name: a.names.name, Err: err}
	case !held:
		return sent, ErrLost
	}
	return sent, nil
}

// maxBatch bounds a renewal's script: it keeps everyone else waiting for about 0.3 ms.
const maxBatch = 200

func (n *node) renew(ctx context.Context, batch []renewal, settle func(renewal, outcome, clock.Stamp)) {
	var wg sync.WaitGroup
	for _, group := range n.bySlot(batch) {
		for len(group) > 0 {
			part := group[:min(len(group), maxBatch)]
			group = group[len(part):]
			wg.Go(func() { n.renewPart(ctx, part, settle) })
		}
	}
	wg.Wait()
}

func (n *node) renewPart(ctx context.Context, part []renewal, settle func(renewal, outcome, clock.Stamp)) {
	sent := clock.Now()
	n.scripts.renewApart(ctx, part, func(from int, got []outcome, _ error) {
		for i, o := range got {
			settle(part[from+i], o, sent)
		}
	})
}

// bySlot splits a batch so that each part can be one command on a Cluster.
func (n *node) bySlot(batch []renewal) map[uint16][]renewal {
	if n.mode.Load() == modePlain {
		return map[uint16][]renewal{0: batch}
	}
	groups := make(map[uint16][]renewal)
	for _, r := range batch {
		slot := n.link.slot(r.lock)
		groups[slot] = append(groups[slot], r)
	}
	return groups
}

func (n *node) inspect(ctx context.Context, nm *names) (State, error) {
	ctx, cancel := context.WithTimeout(ctx, n.timeout)
	defer cancel()
	st, err := n.scripts.inspect(ctx, nm)
	if err != nil {
		return State{}, &NodeError{Op: "inspect", Name: nm.name, Err: err}
	}
	return st, nil
}

func (n *node) force(ctx context.Context, nm *names) (bool, error) {
	r, err := n.route(ctx, nm)
	if err == nil {
		ctx, cancel := context.WithTimeout(ctx, n.timeout)
		defer cancel()
		var freed bool
		if freed, err = n.scripts.force(ctx, r, nm); err == nil {
			return freed, nil
		}
	}
	return false, &NodeError{Op: "force unlock", Name: nm.name, Err: err}
}

func (n *node) stop() { n.hub.stop() }

func (n *node) close() {
	n.sweeper.close()
	n.link.close()
	n.hub.close()
}
