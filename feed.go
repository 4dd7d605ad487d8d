package relock

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/rueidis"
)

// feed subscribes for a hub: all locks over one connection, or a subscription for each lock's Cluster slot.
type feed interface {
	// All are called with the hub's mutex held.
	open(r *room)  // a room wants its channels
	close(r *room) // it no longer does
	listen()       // the inbox is wanted
}

// plainFeed holds all subscriptions of a hub on one connection of its own.
type plainFeed struct {
	h       *hub
	inbox   string        // "" when grants cannot be sent
	changed chan struct{} // one slot: stale is not empty

	// Of the run goroutine.
	began  time.Time // when the session got its connection, zero while there is none
	worked time.Time // when the connection was last known to work
	warned bool      // the logger was told that it does not

	// Guarded by the hub's mutex. Invariant: a channel whose subscription is not as it is wanted is in stale, or being
	// sent, or denied.
	up    bool     // a session is up; without one nothing is noted
	stale []string // channels to look at
}

// startPlain subscribes over one dedicated connection, the inbox included unless grants cannot be sent.
func (h *hub) startPlain(inbox bool) {
	f := &plainFeed{h: h, changed: make(chan struct{}, 1)}
	h.mu.Lock()
	defer h.mu.Unlock()
	if inbox {
		f.inbox = inboxPrefix + h.client
	} else {
		h.vet()
	}
	h.feed = f
	h.spawn(f.run)
	h.spawn(h.tidy)
}

func (f *plainFeed) open(r *room)  { f.change(r.names.unlock, r.names.listen) }
func (f *plainFeed) close(r *room) { f.change(r.names.unlock, r.names.listen) }

func (f *plainFeed) listen() {
	if f.inbox != "" {
		f.change(f.inbox)
	}
}

func (f *plainFeed) change(channels ...string) {
	if !f.up {
		return // a session begins with all that is wanted
	}
	f.stale = append(f.stale, channels...)
	select {
	case f.changed <- struct{}{}:
	default:
	}
}

// slowConnection is how long nothing may be heard before the logger is told.
const slowConnection = 2 * time.Second

// run keeps a session up. A new one starts at once after a drop, then with growing pauses while it fails early.
func (f *plainFeed) run() {
	pause := backoff{least: 2 * time.Millisecond, most: 250 * time.Millisecond}
	f.heard()
	for f.h.ctx.Err() == nil {
		began := time.Now()
		f.end(f.session(f.h.ctx))
		if time.Since(began) > time.Second {
			pause.reset()
		}
		sleep(f.h.ctx, pause.next())
	}
}

// session subscribes on a fresh connection and follows changes until the connection is lost or ctx ends.
func (f *plainFeed) session(ctx context.Context) error {
	conn, release, err := f.dedicate(ctx)
	if err != nil {
		return err
	}
	dead := conn.SetPubSubHooks(rueidis.PubSubHooks{
		OnMessage: func(m rueidis.PubSubMessage) { f.h.receive(m.Channel, m.Message) },
		OnSubscription: func(s rueidis.PubSubSubscription) {
			if s.Kind == "subscribe" {
				f.h.subscribed(s.Channel)
			}
		},
	})
	f.begin()
	err = f.follow(ctx, conn, dead)
	if errors.Is(err, errDropped) {
		release()
		return err
	}
	// Nothing of ours may stay on a connection that goes back to the user's pool. Closing one whose server hangs takes
	// the client library a second.
	f.h.wg.Go(conn.Close)
	return err
}

var (
	errDropped = errors.New("the connection was dropped")
	errNoConn  = errors.New("the client hands out no dedicated connection, its BlockingPoolSize may be used up")
)

// dedicate takes a connection out of the user's pool. The client library waits for one without a bound where all are in
// use. That wait is left behind when ctx ends: whenever the connection comes it is given back unused.
func (f *plainFeed) dedicate(ctx context.Context) (rueidis.DedicatedClient, func(), error) {
	type dedicated struct {
		conn    rueidis.DedicatedClient
		release func()
	}
	got := make(chan dedicated)
	f.h.wg.Go(func() {
		conn, release := f.h.rdb.Dedicate()
		select {
		case got <- dedicated{conn, release}:
		case <-ctx.Done():
			release()
		}
	})
	slow := time.NewTimer(slowConnection)
	defer slow.Stop()
	for {
		select {
		case d := <-got:
			return d.conn, d.release, nil
		case <-slow.C:
			f.end(errNoConn)
		case <-ctx.Done():
			return nil, nil, ctx.Err()
		}
	}
}

// begin lists what a new session is to subscribe: first what somebody waits for.
func (f *plainFeed) begin() {
	f.began = time.Now()
	f.h.mu.Lock()
	defer f.h.mu.Unlock()
	f.up, f.stale = true, nil
	if f.h.inbox {
		f.listen()
	}
	for _, r := range f.h.rooms {
		if r.vacancy == nil {
			f.open(r)
		}
	}
	for e := f.h.vacant.Front(); e != nil; e = e.Next() {
		f.open(e.Value.(*room))
	}
}

// end notes that nothing is heard, and tells the logger once if that lasts: waiters poll meanwhile.
func (f *plainFeed) end(why error) {
	f.h.mu.Lock()
	f.up, f.stale = false, nil
	f.h.vet()
	f.h.mu.Unlock()
	if !f.began.IsZero() && time.Since(f.began) > slowConnection {
		f.heard()
	}
	f.began = time.Time{}
	if !f.warned && f.h.ctx.Err() == nil && time.Since(f.worked) >= slowConnection {
		f.warned = true
		f.h.log.Warn("relock: hears no messages, locks are handed over late", "reason", why)
	}
}

// heard notes that the connection works.
func (f *plainFeed) heard() { f.worked, f.warned = time.Now(), false }

// follow keeps a session's subscriptions as they are wanted.
func (f *plainFeed) follow(ctx context.Context, conn rueidis.DedicatedClient, dead <-chan error) error {
	s := subscriber{feed: f, conn: conn, have: make(map[string]bool)}
	for {
		if err := s.update(ctx); err != nil {
			return err
		}
		var retry <-chan time.Time
		if left, some := f.h.nextRetry(time.Now()); some {
			retry = time.After(left)
		}
		select {
		case err := <-dead:
			return fmt.Errorf("%w: %v", errDropped, err)
		case <-f.changed:
		case <-retry:
			s.retry(time.Now())
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// subscriber sends what changes between the channels that one connection has and those that are wanted.
type subscriber struct {
	feed *plainFeed
	conn rueidis.DedicatedClient
	have map[string]bool
}

// changes is what one step sends.
type changes struct {
	add     []string
	suspect []string // to add, but refused the last time: each is asked for by itself
	drop    []string
}

// update works the stale channels off, batch by batch.
func (s *subscriber) update(ctx context.Context) error {
	for {
		step, more := s.next()
		if !more {
			return nil
		}
		if err := s.add(ctx, step.add); err != nil {
			return err
		}
		if err := s.addSingly(ctx, step.suspect); err != nil {
			return err
		}
		if len(step.drop) > 0 {
			if err := s.do(ctx, s.conn.B().Unsubscribe().Channel(step.drop...).Build()); err != nil {
				return err
			}
		}
		s.feed.heard()
	}
}

// next takes a batch off the stale channels and compares it with what the connection has. It returns false when there
// was none.
func (s *subscriber) next() (step changes, more bool) {
	f, h := s.feed, s.feed.h
	h.mu.Lock()
	defer h.mu.Unlock()
	n := min(len(f.stale), maxChannels)
	for _, channel := range f.stale[:n] {
		want := channel == f.inbox && h.inbox || h.roomOf(channel) != nil
		switch {
		case want && s.have[channel]:
			h.confirm(channel) // a room was ended, and opened anew before that was sent
		case want && h.denied[channel] != nil:
			step.suspect = append(step.suspect, channel)
		case want:
			step.add = append(step.add, channel)
		case s.have[channel]:
			step.drop = append(step.drop, channel)
		}
		if want {
			s.have[channel] = true
		} else {
			delete(s.have, channel)
		}
	}
	if f.stale = f.stale[n:]; len(f.stale) == 0 {
		f.stale = nil
	}
	return step, n > 0
}

// retry makes those refused channels stale that are to be asked for again.
func (s *subscriber) retry(now time.Time) {
	f := s.feed
	f.h.mu.Lock()
	defer f.h.mu.Unlock()
	for channel, d := range f.h.denied {
		if !d.again.After(now) {
			f.change(channel)
		}
	}
}

// add subscribes channels with one command. Redis refuses all of them for one that is not allowed: then each is asked
// for by itself, so that no lock's channel costs another lock its messages.
func (s *subscriber) add(ctx context.Context, channels []string) error {
	if len(channels) == 0 {
		return nil
	}
	err := s.do(ctx, s.conn.B().Subscribe().Channel(channels...).Build())
	if denies(err) {
		return s.addSingly(ctx, channels)
	}
	return err
}

// addSingly subscribes each channel with a command of its own, all in one round trip.
func (s *subscriber) addSingly(ctx context.Context, channels []string) error {
	if len(channels) == 0 {
		return nil
	}
	cmds := make([]rueidis.Completed, len(channels))
	for i, channel := range channels {
		cmds[i] = s.conn.B().Subscribe().Channel(channel).Build()
	}
	ctx, cancel := context.WithTimeout(ctx, subscribeTimeout)
	defer cancel()
	for i, res := range s.conn.DoMulti(ctx, cmds...) {
		if err := res.Error(); denies(err) {
			delete(s.have, channels[i])
			s.feed.h.deny(channels[i], err)
		} else if err != nil {
			return err
		}
	}
	return nil
}

func (s *subscriber) do(ctx context.Context, cmd rueidis.Completed) error {
	ctx, cancel := context.WithTimeout(ctx, subscribeTimeout)
	defer cancel()
	return s.conn.Do(ctx, cmd).Error()
}
