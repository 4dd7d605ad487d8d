package overgoredis

import (
	"context"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/relock-go/relock/internal/driver"
)

const (
	redirects = 3               // how often a subscription follows its slot before it fails
	leaveWait = 1 * time.Second // bounds the unsubscribing at the end of a subscription
)

// shard is the connection to one master for sharded subscriptions. All followers of channels there
// share it. The driver's mutex guards its maps and users.
type shard struct {
	line    *line
	users   int
	of      map[string]map[*follower]struct{} // by channel
	follows map[*follower]struct{}
}

// follower is one call of Follow.
type follower struct {
	h        driver.Handler
	channels []string
	moved    chan struct{} // receives when the server ended a subscription, or the slot has another master
}

// move ends the call, since the subscription is no longer at its slot's master.
func (f *follower) move() {
	select {
	case f.moved <- struct{}{}:
	default:
	}
}

// Follow subscribes sharded channels of one slot, at the master that the library knows for it. The
// library itself might choose a replica.
func (d *Redis) Follow(ctx context.Context, h driver.Handler, channels ...string) error {
	if d.cluster == nil {
		return d.follow(ctx, d.node, h, channels)
	}
	for turn := 0; ; turn++ {
		master, err := d.cluster.MasterForKey(ctx, channels[0])
		if err != nil {
			return failure(err)
		}
		err = d.follow(ctx, master, h, channels)
		reply, refused := err.(*driver.ReplyError)
		if !refused || !strings.HasPrefix(reply.Text, "MOVED ") || turn == redirects {
			if ctx.Err() == nil {
				d.reloadMasters(err)
			}
			return err
		}
		d.cluster.ReloadState(ctx)
	}
}

// follow subscribes at one master, and passes messages on until the subscription ends.
func (d *Redis) follow(ctx context.Context, master *redis.Client, h driver.Handler, channels []string) error {
	f := &follower{h: h, channels: channels, moved: make(chan struct{}, 1)}
	s, err := d.join(master, f)
	if err != nil {
		return err
	}
	defer d.leave(master, s, f)
	if err := s.line.ask(ctx, "ssubscribe", channels...); err != nil {
		d.unsubscribe(s, f)
		return err
	}
	select {
	case <-ctx.Done():
		d.unsubscribe(s, f)
		return ctx.Err()
	case <-f.moved:
		d.unsubscribe(s, f)
		if d.cluster != nil {
			d.cluster.ReloadState(context.WithoutCancel(ctx))
		}
		return nil
	case <-s.line.ctx.Done():
		return context.Cause(s.line.ctx)
	}
}

// join adds f to the shard of a master, and makes that if there is none that works.
func (d *Redis) join(master *redis.Client, f *follower) (*shard, error) {
	if d.crew.Ended() {
		return nil, driver.ErrClosed
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	s := d.lines[master]
	if s == nil || s.line.ctx.Err() != nil {
		s = &shard{of: map[string]map[*follower]struct{}{}, follows: map[*follower]struct{}{}}
		each := func(channel string, do func(*follower)) {
			d.mu.Lock()
			followers := make([]*follower, 0, 1)
			for f := range s.of[channel] {
				followers = append(followers, f)
			}
			d.mu.Unlock()
			for _, f := range followers {
				do(f)
			}
		}
		s.line = d.newLine(master.SSubscribe(context.Background()), events{
			subscribed: func(channel string) { each(channel, func(f *follower) { f.h.Subscribed(channel) }) },
			left:       func(channel string) { each(channel, (*follower).move) },
			message:    func(channel, payload string) { each(channel, func(f *follower) { f.h.Message(channel, payload) }) },
			alive:      func() { d.endMoved(master, s) },
			ended:      func(error) {},
		})
		d.lines[master] = s
	}
	s.users++
	s.follows[f] = struct{}{}
	for _, channel := range f.channels {
		if s.of[channel] == nil {
			s.of[channel] = map[*follower]struct{}{}
		}
		s.of[channel][f] = struct{}{}
	}
	return s, nil
}

// endMoved ends the subscriptions whose slot has another master by now. A master that was made a
// replica keeps its subscriptions, but scripts at the new master do not count them. The library
// knows the slots, so nothing is sent.
func (d *Redis) endMoved(master *redis.Client, s *shard) {
	if d.cluster == nil {
		return
	}
	d.mu.Lock()
	follows := make([]*follower, 0, len(s.follows))
	for f := range s.follows {
		follows = append(follows, f)
	}
	d.mu.Unlock()
	for _, f := range follows {
		if now, err := d.cluster.MasterForKey(s.line.ctx, f.channels[0]); err == nil && now != master {
			f.move()
		}
	}
}

// forget takes f off its channels, and returns the channels that no other follower hears.
func (d *Redis) forget(s *shard, f *follower) (unheard []string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(s.follows, f)
	for _, channel := range f.channels {
		followers, known := s.of[channel]
		if _, heard := followers[f]; !known || !heard {
			continue
		}
		if delete(followers, f); len(followers) == 0 {
			delete(s.of, channel)
			unheard = append(unheard, channel)
		}
	}
	return unheard
}

// unsubscribe ends the subscriptions of f at the server, except those of channels that others hear.
// If that fails, they end with the connection. The channels are chosen while no other request is
// written: if another follower joins one of them later, its own request is also written later.
func (d *Redis) unsubscribe(s *shard, f *follower) {
	ctx, cancel := context.WithTimeout(context.Background(), leaveWait)
	defer cancel()
	if r, err := s.line.send(ctx, "sunsubscribe", func() []string { return d.forget(s, f) }); err == nil {
		_ = s.line.answer(ctx, r)
	}
}

// leave takes f off the shard, and closes the shard's connection if f was its last user.
func (d *Redis) leave(master *redis.Client, s *shard, f *follower) {
	d.forget(s, f)
	d.mu.Lock()
	s.users--
	last := s.users == 0
	if last && d.lines[master] == s {
		delete(d.lines, master)
	}
	d.mu.Unlock()
	if last {
		s.line.close()
	}
}
