package peer

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/bsm/redislock"
	goredis "github.com/redis/go-redis/v9"
)

func redislockSpec() Spec {
	return Spec{
		Name: "redislock", Module: "github.com/bsm/redislock",
		Setup: "as its README and examples: go-redis, TTL 30 s, a try every 100 ms (LinearBackoff) until ctx ends; " +
			"leases held for long refreshed every TTL/3 by a goroutine each, as under External watchdog; " +
			"several locks by ObtainMulti, any of several by a try of each in random order",
		Open: openRedislock, Keeps: true, Cluster: true, Several: true, AnyOf: true, RenewEvery: third, Lease: 30 * time.Second,
	}
}

type redislockPeer struct {
	rdb    goredis.UniversalClient
	locker *redislock.Client
	ttl    time.Duration
	keep   bool
}

func openRedislock(e Env) (Peer, error) {
	rdb, err := e.goRedisClient()
	if err != nil {
		return nil, err
	}
	return &redislockPeer{rdb: rdb, locker: redislock.New(rdb), ttl: e.leaseOr(30 * time.Second), keep: e.Keep}, nil
}

// redislockPause is that of the back-off.
const redislockPause = 100 * time.Millisecond

func (p *redislockPeer) LockAll(ctx context.Context, keys []string) (Held, error) {
	l, err := p.locker.ObtainMulti(ctx, keys, p.ttl, &redislock.Options{RetryStrategy: redislock.LinearBackoff(redislockPause)})
	if err != nil {
		return nil, err
	}
	return heldFunc{ctx, l.Release}, nil
}

// LockAny tries one lock after the other. keys are in random order.
func (p *redislockPeer) LockAny(ctx context.Context, keys []string) (Held, int, error) {
	for {
		for i, key := range keys {
			l, err := p.locker.Obtain(ctx, key, p.ttl, nil)
			if err == nil {
				return heldFunc{ctx, l.Release}, i, nil
			}
			if !errors.Is(err, redislock.ErrNotObtained) {
				return nil, -1, err
			}
		}
		if err := sleep(ctx, redislockPause); err != nil {
			return nil, -1, err
		}
	}
}

func (p *redislockPeer) Lock(ctx context.Context, key string) (Held, error) {
	l, err := p.locker.Obtain(ctx, key, p.ttl, &redislock.Options{RetryStrategy: redislock.LinearBackoff(redislockPause)})
	if err != nil {
		return nil, err
	}
	if !p.keep {
		return heldFunc{ctx, l.Release}, nil
	}
	return p.watch(ctx, l), nil
}

// watch is the watchdog of the README.
func (p *redislockPeer) watch(ctx context.Context, l *redislock.Lock) Held {
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	wg.Go(func() {
		t := time.NewTicker(p.ttl / 3)
		defer t.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-t.C:
				if err := l.Refresh(ctx, p.ttl, nil); err != nil {
					cancel()
					return
				}
			}
		}
	})
	return heldFunc{ctx, func(ctx context.Context) error {
		cancel()
		wg.Wait()
		return l.Release(ctx)
	}}
}

func (p *redislockPeer) Close() { _ = p.rdb.Close() }
