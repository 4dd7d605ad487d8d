// Package overgoredis is the driver over the client library go-redis.
package overgoredis

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/relock-go/relock/internal/crew"
	"github.com/relock-go/relock/internal/driver"
)

// Redis is one Redis behind a client of go-redis.
type Redis struct {
	rdb     redis.UniversalClient
	node    *redis.Client        // nil for a Cluster
	cluster *redis.ClusterClient // nil for a node
	crew    crew.Crew

	mu    sync.Mutex               // guards lines
	lines map[*redis.Client]*shard // the connections for sharded subscriptions, by their masters
}

var _ driver.Reader = (*Redis)(nil)

// New returns the driver over rdb, which stays the caller's. Its errors say what is wrong with rdb.
// A nil rdb makes a driver whose Client is nil.
func New(rdb redis.UniversalClient) (*Redis, error) {
	d := &Redis{rdb: rdb, lines: map[*redis.Client]*shard{}}
	switch rdb := rdb.(type) {
	case nil:
	case *redis.Client:
		d.node = rdb
		if rdb != nil {
			o := options(rdb)
			if o == nil {
				return nil, errors.New("a Client that redis.NewClient or redis.NewFailoverClient did not make")
			}
			return d, unbounded(o.ReadTimeout, o.WriteTimeout, o.ContextTimeoutEnabled)
		}
	case *redis.ClusterClient:
		d.cluster = rdb
		if rdb != nil {
			o := rdb.Options()
			if o == nil {
				return nil, errors.New("a ClusterClient that redis.NewClusterClient did not make")
			}
			if o.ClusterSlots != nil {
				return nil, errors.New("the ClusterClient has ClusterSlots of its own: for Sentinel take NewFailoverClient")
			}
			return d, unbounded(o.ReadTimeout, o.WriteTimeout, o.ContextTimeoutEnabled)
		}
	case *redis.Ring:
		return nil, errors.New("a Ring's shards know nothing of one another: take a Client, a ClusterClient, or NewRedlock over Clients")
	default:
		return nil, fmt.Errorf("a %T is neither a *redis.Client nor a *redis.ClusterClient", rdb)
	}
	return d, nil
}

// options returns the options of a client, nil for a zero Client: there go-redis panics.
func options(rdb *redis.Client) (o *redis.Options) {
	defer func() { _ = recover() }()
	return rdb.Options()
}

// unbounded refuses settings under which a command to a server that hangs would never end. The
// library keeps a time-out of -1 (none) as 0, and of -2 (no deadline at all) as a negative one.
// Without a deadline a context ends no command either.
func unbounded(read, write time.Duration, contexts bool) error {
	name, least := "ReadTimeout", read
	if write < read {
		name, least = "WriteTimeout", write
	}
	switch {
	case least < 0:
		return fmt.Errorf("%s is -2, by which go-redis sets no deadline, and no context ends a command: "+
			"set a time, or -1 with ContextTimeoutEnabled", name)
	case least == 0 && !contexts:
		return fmt.Errorf("%s is off: set it, or ContextTimeoutEnabled", name)
	}
	return nil
}

// Client is the client that New was given.
func (d *Redis) Client() any { return d.rdb }

// Cluster reports whether this is a Redis Cluster.
func (d *Redis) Cluster() bool { return d.cluster != nil }

// Run runs a script on the master of the keys' slot.
func (d *Redis) Run(ctx context.Context, s *driver.Script, keys, args []string) (driver.Value, error) {
	v, err := d.eval(ctx, "evalsha", &s.SHA, keys, args)
	if reply, ok := err.(*driver.ReplyError); ok && redis.HasErrorPrefix(reply.Err, "NOSCRIPT") {
		v, err = d.eval(ctx, "eval", &s.Text, keys, args)
	}
	d.reloadMasters(err)
	return v, err
}

// reloadMasters has the library ask a Cluster for its masters, after a failure that is no answer.
// By itself the library asks when a server sends it elsewhere, and once a minute. But a dead master
// sends it nowhere, and commands that are never repeated would go there for that minute. The
// library asks in the background, five times a second at most.
func (d *Redis) reloadMasters(err error) {
	if _, answered := err.(*driver.ReplyError); err == nil || answered || d.cluster == nil {
		return
	}
	d.cluster.ReloadState(context.Background())
}

// eval sends EVALSHA or EVAL: text is the script's hash or its text.
func (d *Redis) eval(ctx context.Context, name string, text *string, keys, args []string) (driver.Value, error) {
	c := newCommand(3 + len(keys) + len(args))
	c.words = append(c.words, name, text, len(keys))
	c.words = appendWords(c.words, keys)
	c.words = appendWords(c.words, args)
	c.seal(ctx)
	if len(keys) > 0 {
		c.SetFirstKeyPos(3)
	}
	return answer(c, d.rdb.Process(ctx, c))
}

// Do sends commands in one round trip.
func (d *Redis) Do(ctx context.Context, commands ...[]string) ([]driver.Value, error) {
	node := d.node
	if d.cluster != nil {
		master, err := d.cluster.MasterForKey(ctx, "any")
		if err != nil {
			return nil, failure(err)
		}
		node = master
	}
	sent := make([]redis.Cmder, len(commands))
	for i, words := range commands {
		c := newCommand(len(words))
		c.words = appendWords(c.words, words)
		c.seal(ctx)
		sent[i] = c
	}
	return send(ctx, node, sent)
}

// send sends commands, each a *command, in one round trip to each server that has some.
func send(ctx context.Context, rdb redis.Cmdable, sent []redis.Cmder) ([]driver.Value, error) {
	_, whole := rdb.Pipelined(ctx, func(p redis.Pipeliner) error { return p.BatchProcess(ctx, sent...) })
	answers, borne := make([]driver.Value, len(sent)), false
	for i, c := range sent {
		v, err := answer(c.(*command), c.Err())
		var reply *driver.ReplyError
		switch {
		case errors.As(err, &reply):
			v = driver.Error(reply)
		case err != nil:
			return nil, err
		}
		borne = borne || c.Err() != nil
		answers[i] = v
	}
	// An error that no command has is an error of them all: a refused login, say.
	if whole != nil && !borne {
		return nil, failure(whole)
	}
	return answers, nil
}

// Close lets no goroutine of the driver start any more. It returns when none is left, or ctx has
// ended.
func (d *Redis) Close(ctx context.Context) { d.crew.End(ctx) }
