package relock

import (
	"context"
	"time"

	"github.com/redis/rueidis"
)

// plainFeed holds all subscriptions of a hub on one connection of its own.
type plainFeed struct {
	h       *hub
	inbox   string // "" when grants cannot be sent
	changed chan struct{}
}

// startPlain subscribes over one dedicated connection, the inbox included unless grants cannot be sent.
func (h *hub) startPlain(inbox bool) {
	f := &plainFeed{h: h, changed: make(chan struct{}, 1)}
	if inbox {
		f.inbox = inboxPrefix + h.client
	}
	h.mu.Lock()
	h.feed = f
	h.mu.Unlock()
	h.wg.Go(f.run)
}

func (f *plainFeed) open(*room)  { f.change() }
func (f *plainFeed) close(*room) { f.change() }
func (f *plainFeed) listen()     { f.change() }

func (f *plainFeed) change() {
	select {
	case f.changed <- struct{}{}:
	default:
	}
}

// run keeps a session up. A new one starts at once after a drop, then with growing pauses while it fails early.
func (f *plainFeed) run() {
	pause := backoff{least: 2 * time.Millisecond, most: 250 * time.Millisecond}
	for f.h.ctx.Err() == nil {
		began := time.Now()
		f.session(f.h.ctx)
		if time.Since(began) > time.Second {
			pause.reset()
		}
		sleep(f.h.ctx, pause.next())
	}
}

// session subscribes on a fresh connection and follows changes until the connection is lost or ctx ends.
func (f *plainFeed) session(ctx context.Context) {
	conn, release := f.h.rdb.Dedicate()
	defer release()
	dead := conn.SetPubSubHooks(rueidis.PubSubHooks{
		OnMessage: func(m rueidis.PubSubMessage) { f.h.receive(m.Channel, m.Message) },
		OnSubscription: func(s rueidis.PubSubSubscription) {
			if s.Kind == "subscribe" {
				f.h.subscribed(s.Channel)
			}
		},
	})
	tidy := time.NewTicker(linger / 2)
	defer tidy.Stop()
	have := make(map[string]bool)
	for {
		if err := f.follow(ctx, conn, have); err != nil {
			return
		}
		select {
		case <-dead:
			return
		case <-f.changed:
		case now := <-tidy.C:
			f.h.idle(now)
		case <-ctx.Done():
			conn.Close() // nothing of ours may stay on a connection that goes back to the user's pool
			return
		}
	}
}

// follow sends what is missing between the channels in have and those wanted now.
func (f *plainFeed) follow(ctx context.Context, conn rueidis.DedicatedClient, have map[string]bool) error {
	want := f.wanted()
	var add, drop []string
	for ch := range want {
		if !have[ch] {
			add = append(add, ch)
			have[ch] = true
		}
	}
	for ch := range have {
		if !want[ch] {
			drop = append(drop, ch)
			delete(have, ch)
		}
	}
	if len(add) > 0 {
		if err := conn.Do(ctx, conn.B().Subscribe().Channel(add...).Build()).Error(); err != nil {
			return err
		}
	}
	if len(drop) > 0 {
		return conn.Do(ctx, conn.B().Unsubscribe().Channel(drop...).Build()).Error()
	}
	return nil
}

func (f *plainFeed) wanted() map[string]bool {
	f.h.mu.Lock()
	defer f.h.mu.Unlock()
	want := make(map[string]bool, 1+2*len(f.h.rooms))
	if f.inbox != "" && f.h.inbox {
		want[f.inbox] = true
	}
	for _, r := range f.h.rooms {
		want[r.names.unlock], want[r.names.listen] = true, true
	}
	return want
}

// shardedFeed subscribes for each lock at the node that owns its slot: the lock's inbox and unlock channel at once.
type shardedFeed struct{ h *hub }

// startSharded subscribes lock by lock, at the Cluster node of the lock's slot.
func (h *hub) startSharded() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.feed = &shardedFeed{h: h}
	h.wg.Go(func() {
		tidy := time.NewTicker(linger / 2)
		defer tidy.Stop()
		for {
			select {
			case now := <-tidy.C:
				h.idle(now)
			case <-h.ctx.Done():
				return
			}
		}
	})
}

func (f *shardedFeed) open(r *room) {
	ctx, cancel := context.WithCancel(f.h.ctx)
	r.stop = cancel
	f.h.wg.Go(func() { f.run(ctx, r.names) })
}

func (f *shardedFeed) close(r *room) { r.stop() }

func (f *shardedFeed) listen() {} // a lock's inbox comes with its room

// run receives until ctx ends. A subscription ends without error too, when its slot moves to another node.
func (f *shardedFeed) run(ctx context.Context, n names) {
	channels := []string{inboxPrefix + n.tag + ":" + f.h.client, n.unlock, n.listen}
	// The client library has no way to leave a Receive but to unsubscribe.
	defer context.AfterFunc(ctx, func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		f.h.rdb.Do(ctx, f.h.rdb.B().Sunsubscribe().Channel(channels...).Build())
	})()
	hooked := rueidis.WithOnSubscriptionHook(ctx, func(s rueidis.PubSubSubscription) {
		if s.Kind == "ssubscribe" {
			f.h.subscribed(s.Channel)
		}
	})
	pause := backoff{least: 2 * time.Millisecond, most: 250 * time.Millisecond}
	for ctx.Err() == nil {
		began := time.Now()
		_ = f.h.rdb.Receive(hooked, f.h.rdb.B().Ssubscribe().Channel(channels...).Build(), func(m rueidis.PubSubMessage) {
			f.h.receive(m.Channel, m.Message)
		})
		if time.Since(began) > time.Second {
			pause.reset()
		}
		sleep(ctx, pause.next())
	}
}
