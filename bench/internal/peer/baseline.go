package peer

import (
	"context"
	"sync"
	"time"

	"github.com/redis/rueidis"
	"golang.org/x/sync/semaphore"
)

func rawSpec() Spec {
	return Spec{
		Name: "raw", Module: "github.com/redis/rueidis", Baseline: true,
		Setup: "no waiting, no lease kept: the spin lock's two scripts, sent once each through the same rueidis client",
		Open:  openRaw, Lease: spinLease,
	}
}

func openRaw(e Env) (Peer, error) {
	rdb, err := e.rueidisClient()
	if err != nil {
		return nil, err
	}
	return rawPeer{rdb: rdb}, nil
}

type rawPeer struct {
	rdb rueidis.Client
}

func (p rawPeer) Lock(ctx context.Context, key string) (Held, error) {
	args := []string{"raw", millis(spinLease)}
	if err := spinAcquire.Exec(ctx, p.rdb, []string{key}, args).Error(); err != nil {
		return nil, err
	}
	return heldFunc{ctx, func(ctx context.Context) error {
		return spinRelease.Exec(ctx, p.rdb, []string{key}, args[:1]).Error()
	}}, nil
}

func (p rawPeer) Close() { p.rdb.Close() }

// inProcessSpec is what no lock in Redis can be faster than.
func inProcessSpec() Spec {
	return Spec{
		Name: "sync.RWMutex", Baseline: true, Setup: "a sync.RWMutex of one process, without Redis, leases or contexts",
		Open: func(Env) (Peer, error) { return &inProcess{}, nil }, Keeps: true, RenewEvery: third, Lease: 30 * time.Second,
	}
}

type inProcess struct{ locks sync.Map } // of *sync.RWMutex by key

func (p *inProcess) of(key string) *sync.RWMutex {
	if l, ok := p.locks.Load(key); ok {
		return l.(*sync.RWMutex)
	}
	l, _ := p.locks.LoadOrStore(key, new(sync.RWMutex))
	return l.(*sync.RWMutex)
}

func (p *inProcess) Lock(ctx context.Context, key string) (Held, error) { return p.WLock(ctx, key) }

func (p *inProcess) WLock(ctx context.Context, key string) (Held, error) {
	l := p.of(key)
	l.Lock()
	return heldFunc{ctx, func(context.Context) error { l.Unlock(); return nil }}, nil
}

func (p *inProcess) RLock(ctx context.Context, key string) (Held, error) {
	l := p.of(key)
	l.RLock()
	return heldFunc{ctx, func(context.Context) error { l.RUnlock(); return nil }}, nil
}

func (p *inProcess) Close() {}

// weightedSpec is what no semaphore in Redis can be faster than.
func weightedSpec() Spec {
	return Spec{
		Name: "x/sync", Module: "golang.org/x/sync", Baseline: true, Semaphore: true, Weighted: true, NoMutex: true,
		Setup: "a semaphore.Weighted of one process, without Redis or leases",
		Open:  func(Env) (Peer, error) { return &weighted{}, nil },
	}
}

type weighted struct{ semaphores sync.Map } // of *semaphore.Weighted by key

func (p *weighted) Acquire(ctx context.Context, key string, n, k int) (Held, error) {
	found, ok := p.semaphores.Load(key)
	if !ok {
		found, _ = p.semaphores.LoadOrStore(key, semaphore.NewWeighted(int64(n)))
	}
	s := found.(*semaphore.Weighted)
	if err := s.Acquire(ctx, int64(k)); err != nil {
		return nil, err
	}
	return heldFunc{ctx, func(context.Context) error { s.Release(int64(k)); return nil }}, nil
}

func (p *weighted) Lock(ctx context.Context, key string) (Held, error) {
	return p.Acquire(ctx, key, 1, 1)
}

func (p *weighted) Close() {}

// noneSpec is no lock at all: with one goroutine it measures what the bench itself costs, with more it must be caught.
func noneSpec() Spec {
	return Spec{
		Name: "none", Baseline: true, Setup: "no lock: everybody is let in at once",
		Open: func(Env) (Peer, error) { return nonePeer{}, nil }, Reentrant: true, Keeps: true,
		RenewEvery: third, Lease: 30 * time.Second, Semaphore: true, Weighted: true, Several: true, AnyOf: true,
	}
}

type nonePeer struct{}

func (nonePeer) Lock(ctx context.Context, _ string) (Held, error) {
	return heldFunc{ctx, func(context.Context) error { return nil }}, nil
}

func (p nonePeer) Acquire(ctx context.Context, key string, _, _ int) (Held, error) {
	return p.Lock(ctx, key)
}

func (p nonePeer) LockAll(ctx context.Context, keys []string) (Held, error) {
	return p.Lock(ctx, keys[0])
}

func (p nonePeer) LockAny(ctx context.Context, keys []string) (Held, int, error) {
	h, err := p.Lock(ctx, keys[0])
	return h, 0, err
}

func (nonePeer) Close() {}
