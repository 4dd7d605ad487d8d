package hub

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/relock-go/relock/internal/clock"
	"github.com/relock-go/relock/internal/driver"
	"github.com/relock-go/relock/internal/wire"
)

// plainFeed holds all subscriptions of a hub on one connection of its own.
type plainFeed struct {
	h       *Hub
	inbox   string       // "" where grants cannot be sent
	changed clock.Signal // stale is not empty

	// Touched by the run goroutine alone.
	tried  time.Time   // when the session began
	began  time.Time   // when it got its connection, zero while there is none
	worked time.Time   // when the connection was last known to work
	told   error       // the failure that the user was told of, nil for none
	asking chan answer // whether Redis answers at all; nil while it is not asked

	// Guarded by the hub's mutex. Invariant: while a session is up, a channel that is wanted and not
	// subscribed, or subscribed and not wanted, is in stale, or being sent, or denied.
	up    bool
	stale []string // channels that are to be compared with what is subscribed
}

// StartPlain makes the hub hear over one dedicated connection. Without inbox, grants cannot be sent
// to this client, and no inbox is subscribed.
func (h *Hub) StartPlain(inbox bool) {
	f := &plainFeed{h: h, changed: clock.NewSignal()}
	h.mu.Lock()
	defer h.mu.Unlock()
	if inbox {
		f.inbox = wire.InboxPrefix + h.client
	} else {
		h.vet()
	}
	h.feed = f
	h.Go(f.run)
	h.Go(h.tidy)
}

func (f *plainFeed) open(sub *subscription)  { f.change(sub.names.Unlock, sub.names.Listen) }
func (f *plainFeed) close(sub *subscription) { f.change(sub.names.Unlock, sub.names.Listen) }

func (f *plainFeed) listen() {
	if f.inbox != "" {
		f.change(f.inbox)
	}
}

// change notes that channels are to be subscribed, or to be left. The session finds out which of
// the two, and does it.
func (f *plainFeed) change(channels ...string) {
	if !f.up {
		return // there is no session; the next one begins by subscribing all that is wanted
	}
	f.stale = append(f.stale, channels...)
	f.changed.Poke()
}

// answer says whether Redis answers commands: err is why it does not.
type answer struct {
	err error
	at  time.Time
}

const (
	slowConnection = 2 * time.Second // how long there may be no working connection before the user is told
	lookAgain      = time.Second     // how often that is checked while the library hands out no connection
)

// run keeps a session up. After one that lasted, a new one starts at once; as long as sessions fail
// within a second, the pauses between them grow.
func (f *plainFeed) run() {
	pause := clock.Backoff{Least: 2 * time.Millisecond, Most: 250 * time.Millisecond}
	f.worked = time.Now()
	for f.h.ctx.Err() == nil {
		f.tried = time.Now()
		f.end(f.session(f.h.ctx))
		if time.Since(f.tried) > time.Second {
			pause.Reset()
		}
		clock.Sleep(f.h.ctx, pause.Next())
	}
}

// session subscribes on a fresh connection and follows changes until the connection is lost or ctx
// ends.
func (f *plainFeed) session(ctx context.Context) error {
	conn, err := f.connect(ctx)
	if err != nil {
		return err
	}
	if errors.Is(f.told, errNoConn) {
		f.heard()
	}
	f.begin()
	err = f.follow(ctx, conn)
	// Nothing of ours may stay on a connection that goes back to the user's pool. Closing one whose
	// server hangs takes the client library a second.
	if !f.h.Go(conn.Close) {
		conn.Close()
	}
	return err
}

var (
	errDropped = errors.New("the connection was dropped")
	errNoConn  = errors.New("the client hands out no dedicated connection, its BlockingPoolSize may be used up")
)

// connect takes a connection. A client library may hand it out only when another connection of its
// pool is given back.
func (f *plainFeed) connect(ctx context.Context) (driver.Listener, error) {
	type result struct {
		conn driver.Listener
		err  error
	}
	got := make(chan result, 1)
	if !f.h.Go(func() {
		conn, err := f.h.rdb.Listen(ctx, f.h)
		got <- result{conn, err}
	}) {
		return nil, ctx.Err()
	}
	slow := time.NewTimer(slowConnection)
	defer slow.Stop()
	for {
		select {
		case r := <-got:
			return r.conn, r.err
		case <-slow.C:
			f.end(errNoConn)
			slow.Reset(lookAgain)
		}
	}
}

// begin lists the channels that a new session is to subscribe: first those that ears want to hear,
// then those of idle subscriptions.
func (f *plainFeed) begin() {
	f.began = time.Now()
	f.h.mu.Lock()
	defer f.h.mu.Unlock()
	f.up, f.stale = true, nil
	if f.h.inboxWanted {
		f.listen()
	}
	for channel, sub := range f.h.subs {
		if sub.idle == nil && channel == sub.names.Unlock { // once for its two channels
			f.open(sub)
		}
	}
	for e := f.h.idle.Front(); e != nil; e = e.Next() {
		f.open(e.Value.(*subscription))
	}
}

// end notes that no messages are heard. Waiters poll meanwhile. If this lasts, the user is told once.
func (f *plainFeed) end(why error) {
	f.h.mu.Lock()
	f.up, f.stale = false, nil
	f.h.vet()
	if f.h.hears.Swap(false) {
		for _, e := range f.h.ears {
			e.want(false) // a message that says so may be missed from now on, until the next session stands
		}
	}
	f.h.mu.Unlock()
	if !f.began.IsZero() && time.Since(f.began) > slowConnection {
		f.worked = time.Now()
	}
	f.began = time.Time{}
	if f.h.ctx.Err() != nil {
		return
	}
	if why != errNoConn {
		f.h.owner.Fails(why)
	}
	if f.told == nil && time.Since(f.worked) >= slowConnection {
		f.reportDeaf(why)
	}
}

// reportDeaf tells the user that no messages are heard, but only if Redis answers commands: an outage
// of Redis is reported elsewhere. The first call starts to ask Redis in the background, later calls
// read the answer. A session that began before the answer proves nothing, since Redis may have been
// down then: the next failure counts. Only errNoConn counts at once, since not Redis causes it but the
// client library.
func (f *plainFeed) reportDeaf(why error) {
	if f.asking == nil {
		asking := make(chan answer, 1)
		if f.h.Go(func() { asking <- answer{f.h.owner.Answers(f.h.ctx), time.Now()} }) {
			f.asking = asking
		}
		return
	}
	select {
	case got := <-f.asking:
		switch {
		case got.err != nil:
			f.asking = nil
		case why == errNoConn || f.tried.After(got.at):
			f.asking, f.told = nil, fmt.Errorf("hears no messages, locks are handed over late: %w", why)
			f.h.owner.Impaired(f.told)
		default:
			f.asking <- got
		}
	default:
	}
}

// heard notes that the connection works, and gives the all-clear if the user was told otherwise.
func (f *plainFeed) heard() {
	f.worked, f.asking = time.Now(), nil
	if told := f.told; told != nil {
		f.told = nil
		f.h.owner.Mended(told)
	}
}

// follow keeps a session's subscriptions as they are wanted.
func (f *plainFeed) follow(ctx context.Context, conn driver.Listener) error {
	s := subscriber{feed: f, conn: conn, have: make(map[string]bool)}
	for {
		if err := s.update(ctx); err != nil {
			return err
		}
		select {
		case err := <-conn.Dropped():
			return fmt.Errorf("%w: %v", errDropped, err)
		case <-f.changed:
		case now := <-f.h.nextRetry(time.Now()):
			s.retry(now)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// subscriber sends the difference between the channels that one connection has and those that are
// wanted.
type subscriber struct {
	feed *plainFeed
	conn driver.Listener
	have map[string]bool
}

// changes are what one step sends.
type changes struct {
	add   []string
	apart []string // to add, but denied the last time: each is asked for by itself
	drop  []string
}

// update sends what stale channels need, batch by batch, until none is stale.
func (s *subscriber) update(ctx context.Context) error {
	for {
		step, more := s.next()
		if !more {
			return nil
		}
		if err := s.add(ctx, step.add); err != nil {
			return err
		}
		if err := s.addApart(ctx, step.apart); err != nil {
			return err
		}
		if err := s.within(ctx, s.conn.Unsubscribe, step.drop); err != nil {
			return err
		}
		s.feed.heard()
	}
}

// next takes a batch of stale channels, and returns what the connection has to send for them. It
// notes them as sent; addApart takes back the note for a denied channel. next returns false if no
// channel was stale.
func (s *subscriber) next() (step changes, more bool) {
	f, h := s.feed, s.feed.h
	h.mu.Lock()
	defer h.mu.Unlock()
	n := min(len(f.stale), maxChannels)
	for _, channel := range f.stale[:n] {
		want := channel == f.inbox && h.inboxWanted || h.subs[channel] != nil
		switch {
		case want && s.have[channel]:
			h.confirm(channel) // it was closed, and opened anew before the end was sent
		case want && h.denied[channel] != nil:
			step.apart = append(step.apart, channel)
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

// retry makes the denied channels stale whose pause is over.
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

// add subscribes channels with one command. Redis refuses the whole command if one of its channels
// is not allowed. Then add asks for each by itself, so that no lock's channel costs another lock
// its messages.
func (s *subscriber) add(ctx context.Context, channels []string) error {
	err := s.within(ctx, s.conn.Subscribe, channels)
	if wire.OfChannel(err) {
		return s.addApart(ctx, channels)
	}
	return err
}

// addApart subscribes each channel with a command of its own, all in one round trip.
func (s *subscriber) addApart(ctx context.Context, channels []string) error {
	if len(channels) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, subscribeTimeout)
	defer cancel()
	for i, err := range s.conn.SubscribeApart(ctx, channels...) {
		if wire.OfChannel(err) {
			delete(s.have, channels[i])
			s.feed.h.deny(channels[i], err)
		} else if err != nil {
			return err
		}
	}
	return nil
}

// within sends one command, if it has channels, and waits for its answer for subscribeTimeout at
// most.
func (s *subscriber) within(ctx context.Context, send func(context.Context, ...string) error, channels []string) error {
	if len(channels) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, subscribeTimeout)
	defer cancel()
	return send(ctx, channels...)
}
