package drivertest

import (
	"context"
	"errors"
	"maps"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/relock-go/relock/internal/driver"
	"github.com/relock-go/relock/internal/driver/overrueidis"
	"github.com/relock-go/relock/internal/faults"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

// broken is a driver that breaks a rule. What is nil is as it should be.
type broken struct {
	driver.Redis
	rdb    rueidis.Client
	answer func(driver.Value, error) (driver.Value, error) // of Run
	run    func(ctx context.Context, s *driver.Script, keys, args []string) (driver.Value, error)
	do     func(ctx context.Context, commands [][]string) ([]driver.Value, error)
	listen func(ctx context.Context, h driver.Handler) (driver.Listener, error)
	follow func(ctx context.Context, h driver.Handler, channels []string) error
	handle func(h driver.Handler) driver.Handler
	line   func(l driver.Listener, h driver.Handler) driver.Listener
	closes func(ctx context.Context)
	read   func(ctx context.Context, commands [][]string) ([]driver.Value, error)
	single bool // it takes a Cluster for one server
}

func (b *broken) Run(ctx context.Context, s *driver.Script, keys, args []string) (driver.Value, error) {
	if b.run != nil {
		return b.run(ctx, s, keys, args)
	}
	v, err := b.Redis.Run(ctx, s, keys, args)
	if b.answer != nil {
		return b.answer(v, err)
	}
	return v, err
}

func (b *broken) Do(ctx context.Context, commands ...[]string) ([]driver.Value, error) {
	if b.do != nil {
		return b.do(ctx, commands)
	}
	return b.Redis.Do(ctx, commands...)
}

func (b *broken) Listen(ctx context.Context, h driver.Handler) (driver.Listener, error) {
	if b.listen != nil {
		return b.listen(ctx, h)
	}
	if b.handle != nil {
		h = b.handle(h)
	}
	l, err := b.Redis.Listen(ctx, h)
	if err == nil && b.line != nil {
		return b.line(l, h), nil
	}
	return l, err
}

func (b *broken) Follow(ctx context.Context, h driver.Handler, channels ...string) error {
	if b.follow != nil {
		return b.follow(ctx, h, channels)
	}
	return b.Redis.Follow(ctx, h, channels...)
}

func (b *broken) Read(ctx context.Context, commands ...[]string) ([]driver.Value, error) {
	if b.read != nil {
		return b.read(ctx, commands)
	}
	return b.Redis.(driver.Reader).Read(ctx, commands...)
}

func (b *broken) Masters(ctx context.Context) ([]driver.Redis, error) {
	if b.single {
		return []driver.Redis{b.Redis}, nil
	}
	return b.Redis.(driver.Reader).Masters(ctx)
}

func (b *broken) Close(ctx context.Context) {
	if b.closes != nil {
		b.closes(ctx)
	}
	b.Redis.Close(ctx)
}

// brokenLine is a listener that breaks a rule.
type brokenLine struct {
	driver.Listener
	subscribe   func(ctx context.Context, channels []string) error
	apart       func(ctx context.Context, channels []string) []error
	unsubscribe func() error
	dropped     chan error
	closes      func()
}

func (l *brokenLine) Subscribe(ctx context.Context, channels ...string) error {
	if l.subscribe != nil {
		return l.subscribe(ctx, channels)
	}
	return l.Listener.Subscribe(ctx, channels...)
}

func (l *brokenLine) SubscribeApart(ctx context.Context, channels ...string) []error {
	if l.apart != nil {
		return l.apart(ctx, channels)
	}
	return l.Listener.SubscribeApart(ctx, channels...)
}

func (l *brokenLine) Unsubscribe(ctx context.Context, channels ...string) error {
	if l.unsubscribe != nil {
		return l.unsubscribe()
	}
	return l.Listener.Unsubscribe(ctx, channels...)
}

func (l *brokenLine) Dropped() <-chan error {
	if l.dropped != nil {
		return l.dropped
	}
	return l.Listener.Dropped()
}

func (l *brokenLine) Close() {
	if l.closes != nil {
		l.closes()
		return
	}
	l.Listener.Close()
}

// swapped passes each second message on before the one that came before it.
type swapped struct {
	driver.Handler
	first string
}

func (s *swapped) Message(channel, message string) {
	if s.first == "" {
		s.first = message
		return
	}
	s.Handler.Message(channel, message)
	s.Handler.Message(channel, s.first)
	s.first = ""
}

// crowded calls its handler in two goroutines, until they have met there.
type crowded struct{ *ear }

func (c crowded) Subscribed(channel string) {
	var both sync.WaitGroup
	for range 2 {
		both.Go(func() {
			for !c.together.Load() {
				c.enter(func() {})
			}
		})
	}
	both.Wait()
	c.ear.Subscribed(channel)
}

// signals tells of each confirmation.
type signals struct {
	driver.Handler
	confirmed chan<- struct{}
}

func (s signals) Subscribed(channel string) {
	s.Handler.Subscribed(channel)
	s.confirmed <- struct{}{}
}

// changed changes the parts of a list.
func changed(v driver.Value, change func(list []driver.Value) []driver.Value) driver.Value {
	list, err := v.Values()
	if err != nil {
		return v
	}
	return driver.List(change(slices.Clone(list))...)
}

// plain is an error in the same words, and no more.
func plain(err error) error {
	if err == nil {
		return nil
	}
	return errors.New(err.Error())
}

// sends a script as a command.
func (b *broken) sends(command string, of func(*driver.Script) string) {
	b.run = func(ctx context.Context, s *driver.Script, keys, args []string) (driver.Value, error) {
		n := "0"
		if len(keys) > 0 {
			n = "1"
		}
		got, err := b.Redis.Do(ctx, slices.Concat([]string{command, of(s), n}, keys, args))
		if err != nil {
			return driver.Value{}, err
		}
		return got[0], got[0].Err()
	}
}

// cutsCodes makes a driver leave out the first word of what a server refused.
func cutsCodes(_ testing.TB, b *broken) {
	cut := func(err error) *driver.ReplyError {
		reply := new(driver.ReplyError)
		if !errors.As(err, &reply) {
			return nil
		}
		_, text, _ := strings.Cut(reply.Text, " ")
		return &driver.ReplyError{Text: text, Err: reply.Err}
	}
	b.answer = func(v driver.Value, err error) (driver.Value, error) {
		if reply := cut(err); reply != nil {
			err = reply
		}
		return v, err
	}
	b.do = func(ctx context.Context, commands [][]string) ([]driver.Value, error) {
		got, err := b.Redis.Do(ctx, commands...)
		for i, v := range got {
			if reply := cut(v.Err()); reply != nil {
				got[i] = driver.Error(reply)
			}
		}
		return got, err
	}
}

// subscribes is Follow by the library alone.
func (b *broken) subscribes(ctx context.Context, h driver.Handler, channels []string) error {
	hooked := rueidis.WithOnSubscriptionHook(ctx, func(s rueidis.PubSubSubscription) {
		if s.Kind == "ssubscribe" {
			h.Subscribed(s.Channel)
		}
	})
	return b.rdb.Receive(hooked, b.rdb.B().Ssubscribe().Channel(channels...).Build(), func(m rueidis.PubSubMessage) {
		h.Message(m.Channel, m.Message)
	})
}

// flaws are what a driver may do wrong: which check finds it, and what that says.
var flaws = map[string]struct {
	check, says string
	breaks      func(t testing.TB, b *broken)
}{
	"repeats a script": {"a lost answer", "how often the script was sent", func(_ testing.TB, b *broken) {
		b.run = func(ctx context.Context, s *driver.Script, keys, args []string) (driver.Value, error) {
			v, err := b.Redis.Run(ctx, s, keys, args)
			if err != nil && !isReply(err) {
				_, _ = b.Redis.Run(ctx, s, keys, args)
			}
			return v, err
		}
	}},
	"repeats commands": {"a lost answer", "how often the", func(_ testing.TB, b *broken) {
		b.do = func(ctx context.Context, commands [][]string) ([]driver.Value, error) {
			got, err := b.Redis.Do(ctx, commands...)
			if err != nil {
				_, _ = b.Redis.Do(ctx, commands...)
			}
			return got, err
		}
	}},
	"hides that an answer was lost": {"a lost answer", "An error is expected", func(_ testing.TB, b *broken) {
		b.answer = func(v driver.Value, err error) (driver.Value, error) {
			if err != nil && !isReply(err) {
				return driver.Int(1), nil
			}
			return v, err
		}
	}},
	"calls what was sent unsent": {"a hung server", "though it is said that it was not sent", func(_ testing.TB, b *broken) {
		b.answer = func(v driver.Value, err error) (driver.Value, error) {
			if err != nil {
				err = driver.Unsent(err)
			}
			return v, err
		}
	}},
	"calls what a reset connection had unsent": {"a connection that is reset", "in err chain", func(_ testing.TB, b *broken) {
		b.answer = func(v driver.Value, err error) (driver.Value, error) {
			if errors.Is(err, syscall.ECONNRESET) {
				err = driver.Unsent(err)
			}
			return v, err
		}
	}},
	"calls what was written in part unsent": {"a write that fails", "in err chain", func(_ testing.TB, b *broken) {
		b.answer = func(v driver.Value, err error) (driver.Value, error) {
			if op := new(net.OpError); errors.As(err, &op) {
				err = driver.Unsent(err)
			}
			return v, err
		}
	}},
	"never says that nothing was sent": {"no server", "ErrUnsent", func(_ testing.TB, b *broken) {
		b.answer = func(v driver.Value, err error) (driver.Value, error) { return v, plain(err) }
	}},
	"waits for a server that hangs": {"a hung server", "commands to a server that hangs", func(t testing.TB, b *broken) {
		ended := t.Context()
		b.answer = func(v driver.Value, err error) (driver.Value, error) {
			if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, os.ErrDeadlineExceeded) {
				<-ended.Done()
			}
			return v, err
		}
	}},
	"takes a refusal for a failure": {"refusals", "Should be in error chain", func(_ testing.TB, b *broken) {
		b.answer = func(v driver.Value, err error) (driver.Value, error) { return v, plain(err) }
	}},
	"drops the library's error": {"refusals", "the library's error", func(_ testing.TB, b *broken) {
		b.answer = func(v driver.Value, err error) (driver.Value, error) {
			if err != nil {
				err = &driver.ReplyError{Text: err.Error()}
			}
			return v, err
		}
	}},
	"cuts codes off":                    {"codes of refusals", "WRONGTYPE", cutsCodes},
	"cuts codes off, also in a Cluster": {"codes of a Cluster's refusals", "MOVED", cutsCodes},
	"does not sort": {"types of RESP3", "sorted by key", func(_ testing.TB, b *broken) {
		b.answer = func(v driver.Value, err error) (driver.Value, error) {
			return changed(v, func(list []driver.Value) []driver.Value {
				if len(list) == 6 {
					list[0], list[1], list[2], list[3] = list[2], list[3], list[0], list[1]
				}
				return list
			}), err
		}
	}},
	"leaves errors out of lists": {"answers of every kind", "", func(_ testing.TB, b *broken) {
		b.answer = func(v driver.Value, err error) (driver.Value, error) {
			return changed(v, func(list []driver.Value) []driver.Value {
				return slices.DeleteFunc(list, func(v driver.Value) bool { return v.Err() != nil })
			}), err
		}
	}},
	"spells integers as strings": {"answers of every kind", "Not equal", func(_ testing.TB, b *broken) {
		b.answer = func(v driver.Value, err error) (driver.Value, error) {
			if text, none := v.Text(); none == nil {
				return driver.String(text), err
			}
			return v, err
		}
	}},
	"fails all commands for one": {"several commands", "WRONGTYPE", func(_ testing.TB, b *broken) {
		b.do = func(ctx context.Context, commands [][]string) ([]driver.Value, error) {
			got, err := b.Redis.Do(ctx, commands...)
			for _, v := range got {
				err = errors.Join(err, v.Err())
			}
			return got, err
		}
	}},
	"sends texts alone": {"a script that the server forgot", "Not equal", func(_ testing.TB, b *broken) {
		b.sends("EVAL", func(s *driver.Script) string { return s.Text })
	}},
	"sends hashes alone": {"a script that the server forgot", "NOSCRIPT", func(_ testing.TB, b *broken) {
		b.sends("EVALSHA", func(s *driver.Script) string { return s.SHA })
	}},
	"heeds no context": {"an ended context", "An error is expected|in chain", func(_ testing.TB, b *broken) {
		b.run = func(_ context.Context, s *driver.Script, keys, args []string) (driver.Value, error) {
			return b.Redis.Run(context.Background(), s, keys, args)
		}
	}},
	"does not know a closed client": {"a closed client", "the Redis client is closed", func(_ testing.TB, b *broken) {
		b.answer = func(v driver.Value, err error) (driver.Value, error) { return v, plain(err) }
	}},
	"listens after its end": {"a closed driver", "the Redis client is closed", func(_ testing.TB, b *broken) {
		b.listen = func(ctx context.Context, h driver.Handler) (driver.Listener, error) {
			return new(faults.Stub).Listen(ctx, h)
		}
	}},
	"runs nothing after its end": {"a closed driver", "a script's answer", func(_ testing.TB, b *broken) {
		closed := make(chan struct{})
		b.closes = func(context.Context) {
			select {
			case <-closed:
			default:
				close(closed)
			}
		}
		b.answer = func(v driver.Value, err error) (driver.Value, error) {
			select {
			case <-closed:
				return driver.Value{}, driver.ErrClosed
			default:
				return v, err
			}
		}
	}},
	"leaves a goroutine behind": {"nothing is left", "found unexpected goroutines", func(t testing.TB, b *broken) {
		end := make(chan struct{})
		t.Cleanup(func() { close(end) })
		b.line = func(l driver.Listener, _ driver.Handler) driver.Listener {
			go func() { <-end }()
			return l
		}
	}},
	"does not wait for what it sent": {"a confirmation that is late", "it returned before", func(t testing.TB, b *broken) {
		ended := t.Context()
		later := func(subscribe func()) { // than that the check has seen it return
			go func() {
				select {
				case <-time.After(2 * time.Second):
				case <-ended.Done():
				}
				subscribe()
			}()
		}
		b.line = func(l driver.Listener, _ driver.Handler) driver.Listener {
			return &brokenLine{Listener: l, subscribe: func(ctx context.Context, channels []string) error {
				if channels[0] == "first" {
					return l.Subscribe(ctx, channels...)
				}
				later(func() { _ = l.Subscribe(ctx, channels...) })
				return nil
			}, apart: func(ctx context.Context, channels []string) []error {
				later(func() { _ = l.SubscribeApart(ctx, channels...) })
				return make([]error, len(channels))
			}}
		}
	}},
	"confirms by itself": {"a confirmation that is late", "it was confirmed before", func(_ testing.TB, b *broken) {
		b.line = func(l driver.Listener, h driver.Handler) driver.Listener {
			return &brokenLine{Listener: l, subscribe: func(ctx context.Context, channels []string) error {
				h.Subscribed(channels[0])
				return l.Subscribe(ctx, channels...)
			}, apart: func(ctx context.Context, channels []string) []error {
				h.Subscribed(channels[0])
				return l.SubscribeApart(ctx, channels...)
			}}
		}
	}},
	"takes one confirmation for all": {"a channel that is confirmed late", "it returned before all", func(_ testing.TB, b *broken) {
		first := make(chan struct{}, 10)
		b.handle = func(h driver.Handler) driver.Handler { return signals{h, first} }
		b.line = func(l driver.Listener, _ driver.Handler) driver.Listener {
			return &brokenLine{Listener: l, subscribe: func(ctx context.Context, channels []string) error {
				go func() { _ = l.Subscribe(ctx, channels...) }()
				<-first
				return nil
			}, apart: func(ctx context.Context, channels []string) []error {
				go func() { _ = l.SubscribeApart(ctx, channels...) }()
				<-first
				return make([]error, len(channels))
			}}
		}
	}},
	"swallows a drop": {"a connection that is cut", "Dropped", func(_ testing.TB, b *broken) {
		b.line = func(l driver.Listener, _ driver.Handler) driver.Listener {
			return &brokenLine{Listener: l, dropped: make(chan error)}
		}
	}},
	"listens again by itself": {"a connection that is cut", "Dropped", func(t testing.TB, b *broken) {
		ended := t.Context()
		b.line = func(l driver.Listener, h driver.Handler) driver.Listener {
			go func() {
				select {
				case <-l.Dropped():
				case <-ended.Done():
					return
				}
				if l, err := b.Redis.Listen(ended, h); err == nil {
					_ = l.Subscribe(ended, "c")
					<-ended.Done()
					l.Close()
				}
			}()
			return &brokenLine{Listener: l, dropped: make(chan error)}
		}
	}},
	"does not notice silence": {"a connection that is silent", "Dropped", func(_ testing.TB, b *broken) {
		b.line = func(l driver.Listener, _ driver.Handler) driver.Listener {
			return &brokenLine{Listener: l, dropped: make(chan error)}
		}
	}},
	"subscribes apart by one command": {"a forbidden channel", "NOPERM", func(_ testing.TB, b *broken) {
		b.line = func(l driver.Listener, _ driver.Handler) driver.Listener {
			return &brokenLine{Listener: l, apart: func(ctx context.Context, channels []string) []error {
				return slices.Repeat([]error{l.Subscribe(ctx, channels...)}, len(channels))
			}}
		}
	}},
	"subscribes together by many commands": {"a forbidden channel", "Should be empty", func(_ testing.TB, b *broken) {
		b.line = func(l driver.Listener, _ driver.Handler) driver.Listener {
			return &brokenLine{Listener: l, subscribe: func(ctx context.Context, channels []string) error {
				return errors.Join(l.SubscribeApart(ctx, channels...)...)
			}}
		}
	}},
	"goes on hearing": {"listen", "the end of subscriptions", func(_ testing.TB, b *broken) {
		b.line = func(l driver.Listener, _ driver.Handler) driver.Listener {
			return &brokenLine{Listener: l, unsubscribe: func() error { return nil }}
		}
	}},
	"keeps connections": {"listen", "the end of the connection", func(_ testing.TB, b *broken) {
		var kept []driver.Listener
		b.line = func(l driver.Listener, _ driver.Handler) driver.Listener {
			return &brokenLine{Listener: l, closes: func() { kept = append(kept, l) }}
		}
		b.closes = func(context.Context) {
			for _, l := range kept {
				l.Close()
			}
		}
	}},
	"tells messages out of order": {"listen", "Not equal", func(_ testing.TB, b *broken) {
		b.handle = func(h driver.Handler) driver.Handler { return &swapped{Handler: h} }
	}},
	"calls its handler twice at once": {"listen", "called once at a time", func(_ testing.TB, b *broken) {
		b.handle = func(h driver.Handler) driver.Handler { return crowded{h.(*ear)} }
	}},
	"fails where a read is refused": {"reads", "WRONGTYPE", func(_ testing.TB, b *broken) {
		b.read = func(ctx context.Context, commands [][]string) ([]driver.Value, error) {
			got, err := b.Redis.(driver.Reader).Read(ctx, commands...)
			for _, v := range got {
				err = errors.Join(err, v.Err())
			}
			return got, err
		}
	}},
	"reads all at one node": {"a Cluster's reads", "the values", func(_ testing.TB, b *broken) {
		b.read = func(ctx context.Context, commands [][]string) ([]driver.Value, error) {
			nodes := b.rdb.Nodes()
			return overrueidis.New(nodes[slices.Sorted(maps.Keys(nodes))[0]]).Do(ctx, commands...)
		}
	}},
	"knows one master": {"a Cluster's reads", "does not contain", func(_ testing.TB, b *broken) { b.single = true }},
	"asks several nodes": {"a Cluster's commands", "one node answers all", func(_ testing.TB, b *broken) {
		b.do = func(ctx context.Context, commands [][]string) ([]driver.Value, error) {
			nodes := b.rdb.Nodes()
			addrs := slices.Sorted(maps.Keys(nodes))
			var all []driver.Value
			for i, command := range commands {
				got, err := overrueidis.New(nodes[addrs[i%len(addrs)]]).Do(ctx, command)
				if err != nil {
					return nil, err
				}
				all = append(all, got...)
			}
			return all, nil
		}
	}},
	"listens at one node alone": {"listen in a Cluster", "another node", func(_ testing.TB, b *broken) {
		var first string
		b.listen = func(ctx context.Context, h driver.Handler) (driver.Listener, error) {
			nodes := b.rdb.Nodes()
			if first == "" {
				first = slices.Sorted(maps.Keys(nodes))[0]
			}
			if nodes[first] == nil {
				return nil, errors.New("the node is gone")
			}
			return overrueidis.New(nodes[first]).Listen(ctx, h)
		}
	}},
	"does not tell the server that it leaves": {"follow", "subscribers of {a}1: 0", func(_ testing.TB, b *broken) {
		b.follow = func(ctx context.Context, h driver.Handler, channels []string) error {
			return b.subscribes(ctx, h, channels)
		}
	}},
	"leaves a follower deaf when another leaves": {"followers that share a channel", "hears no message", func(_ testing.TB, b *broken) {
		b.follow = func(ctx context.Context, h driver.Handler, channels []string) error {
			if err := b.Redis.Follow(ctx, h, channels...); err != nil { // nil since the library ends the other's subscription
				return err
			}
			<-ctx.Done()
			return ctx.Err()
		}
	}},
	"follows at replicas": {"a follower whose client reads from replicas", "subscribers of {", func(_ testing.TB, b *broken) {
		b.follow = func(ctx context.Context, h driver.Handler, channels []string) error {
			return b.subscribes(ctx, h, channels)
		}
	}},
	"takes a refused follower for lost": {"a follower who may not", "NOPERM", func(_ testing.TB, b *broken) {
		b.follow = func(ctx context.Context, h driver.Handler, channels []string) error {
			return plain(b.Redis.Follow(ctx, h, channels...))
		}
	}},
	"takes a move for a failure": {"a slot that moves", "moved", func(_ testing.TB, b *broken) {
		b.follow = func(ctx context.Context, h driver.Handler, channels []string) error {
			if err := b.Redis.Follow(ctx, h, channels...); err != nil {
				return err
			}
			return errors.New("moved")
		}
	}},
	"does not notice a move": {"a slot that moves", "the end of Follow", func(_ testing.TB, b *broken) {
		b.follow = func(ctx context.Context, h driver.Handler, channels []string) error {
			if err := b.Redis.Follow(ctx, h, channels...); err != nil {
				return err
			}
			<-ctx.Done()
			return ctx.Err()
		}
	}},
}

// Each flaw is found by its check, which finds nothing in a driver without it.
func TestFlawsAreFound(t *testing.T) {
	const short = 5 * time.Second // the patience with a flaw
	sound := make(map[string]bool)
	finds := func(name string) func(t *testing.T, cl *redistest.Cluster) {
		flaw := flaws[name]
		first := !sound[flaw.check]
		sound[flaw.check] = true
		return func(t *testing.T, cl *redistest.Cluster) {
			over := func(breaks func(testing.TB, *broken)) *bed {
				return &bed{cluster: cl, open: func(t testing.TB, to redistest.Target) (driver.Redis, func()) {
					rdb, err := rueidis.NewClient(to.Rueidis())
					require.NoError(t, err)
					b := &broken{Redis: overrueidis.New(rdb), rdb: rdb}
					breaks(t, b)
					return b, rdb.Close
				}}
			}
			check := named(t, flaw.check)
			found := try(t, check, over(flaw.breaks), short)
			if found.skipped {
				t.Skip(found.says())
			}
			require.True(t, found.Failed(), "the check finds nothing")
			require.Regexp(t, flaw.says, found.says())
			if first {
				found = try(t, check, over(func(testing.TB, *broken) {}), driver.Silence)
				require.False(t, found.Failed(), found.says())
			}
		}
	}
	var slots []string
	for _, name := range slices.Sorted(maps.Keys(flaws)) {
		is := func(c check) bool { return c.name == flaws[name].check }
		if slices.ContainsFunc(ofSlots, is) {
			slots = append(slots, name)
			continue
		}
		find := finds(name)
		t.Run(name, func(t *testing.T) {
			if !slices.ContainsFunc(alone, is) {
				t.Parallel()
			}
			find(t, nil)
		})
	}
	t.Run("slots", func(t *testing.T) {
		t.Parallel()
		cl := redistest.StartCluster(t)
		for _, name := range slots {
			find := finds(name)
			t.Run(name, func(t *testing.T) { find(t, cl) })
		}
	})
}

// Each check is one that some flaw needs.
func TestChecksHaveFlaws(t *testing.T) {
	found := make(map[string]bool)
	for _, flaw := range flaws {
		found[flaw.check] = true
	}
	for _, c := range slices.Concat(alone, checks, ofSlots) {
		if c.name != "a refused login" && c.name != "a master that is silent" { // the server's word, and the library's
			require.True(t, found[c.name], c.name)
		}
	}
}
