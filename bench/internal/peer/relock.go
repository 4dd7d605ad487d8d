package peer

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
	"github.com/valkey-io/valkey-go"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/contrib/relockgoredis"
	"github.com/relock-go/relock/contrib/relockvalkey"
)

func relockSpec() Spec {
	return Spec{
		Name: "relock", Module: "github.com/relock-go/relock",
		Setup: "relock.New over rueidis with default options; local hand-off at its default of 256 passes and 10 ms; " +
			"relock.NewRedlock with default options where there are nodes",
		Open:      func(e Env) (Peer, error) { return opened(openRelock(e)) },
		Reentrant: true, Quorum: true, Cluster: true, Keeps: true, RenewEvery: third, Lease: 30 * time.Second,
		Semaphore: true, Weighted: true, Several: true, AnyOf: true,
	}
}

func relockRemoteSpec() Spec {
	s := relockSpec()
	s.Name = "relock-remote"
	s.Setup = "relock with WithLocalHandoff(1, 0): every hand-over goes through Redis"
	s.Open = func(e Env) (Peer, error) { return opened(openRelock(e, relock.WithLocalHandoff(1, 0))) }
	return s
}

// lingering is how long relock-cached keeps what nobody else wants.
const lingering = time.Second

func relockCachedSpec() Spec {
	s := relockSpec()
	s.Name, s.Cached = "relock-cached", true
	s.Setup = "relock with WithLinger(1s): a lock stays with its process after Unlock until somebody else wants it; " +
		"the Mutex is kept, too, as one does that is locked again and again"
	s.Open = func(e Env) (Peer, error) {
		p, err := openRelock(e, relock.WithLinger(lingering))
		if err != nil {
			return nil, err
		}
		return &cachedPeer{relockPeer: p}, nil
	}
	return s
}

// relockLingerSpec is for names that are locked once: what lingers is never locked again.
func relockLingerSpec() Spec {
	s := relockSpec()
	s.Name, s.Once = "relock-linger", true
	s.Setup = "relock with WithLinger(5ms): a lock stays with its process for 5 ms after Unlock"
	s.Open = func(e Env) (Peer, error) { return opened(openRelock(e, relock.WithLinger(5*time.Millisecond))) }
	return s
}

// cachedPeer keeps the Mutex of each key.
type cachedPeer struct {
	*relockPeer
	mutexes sync.Map // of *relock.Mutex by key
}

func (p *cachedPeer) Lock(ctx context.Context, key string) (Held, error) {
	m, ok := p.mutexes.Load(key)
	if !ok {
		m, _ = p.mutexes.LoadOrStore(key, p.locks.Mutex(key))
	}
	l, err := m.(*relock.Mutex).Lock(ctx)
	if err != nil {
		return nil, err
	}
	return l, nil
}

// oneNodeSpec is what a quorum is compared with.
func oneNodeSpec() Spec {
	s := relockSpec()
	s.Name, s.Baseline, s.Quorum, s.Cluster = "one-node", true, false, false
	s.Setup = "relock on a single Redis, where the others use a quorum or a Cluster"
	return s
}

type relockPeer struct {
	disconnect func()
	locks      *relock.Client
}

func openRelock(e Env, opts ...relock.ClientOption) (*relockPeer, error) {
	nodes, err := connectAll(e, Env.rueidisClient, rueidis.Client.Close)
	if err != nil {
		return nil, err
	}
	return locksOver(e, nodes, relock.New, relock.NewRedlock, rueidis.Client.Close, e.relockOptions(opts...))
}

// relockOptions are opts and the lease that was asked for.
func (e Env) relockOptions(opts ...relock.ClientOption) []relock.ClientOption {
	if e.Lease > 0 {
		opts = append(opts, relock.WithLease(e.Lease))
	}
	return opts
}

// relockGoRedisSpec is relock over the client library that redsync and redislock use.
func relockGoRedisSpec() Spec {
	s := relockSpec()
	s.Name, s.Module = "relock-goredis", "github.com/relock-go/relock/contrib/relockgoredis"
	s.Setup = "relock over go-redis with default options of both, by contrib/relockgoredis"
	s.Open = func(e Env) (Peer, error) {
		nodes, err := connectAll(e, Env.goRedisClient, closeGoRedis)
		if err != nil {
			return nil, err
		}
		return opened(locksOver(e, nodes, relockgoredis.New, relockgoredis.NewRedlock, closeGoRedis, e.relockOptions()))
	}
	return s
}

// relockValkeySpec is relock over Valkey's fork of rueidis.
func relockValkeySpec() Spec {
	s := relockSpec()
	s.Name, s.Module = "relock-valkey", "github.com/relock-go/relock/contrib/relockvalkey"
	s.Setup = "relock over valkey-go with default options of both, by contrib/relockvalkey"
	s.Open = func(e Env) (Peer, error) {
		nodes, err := connectAll(e, Env.valkeyClient, valkey.Client.Close)
		if err != nil {
			return nil, err
		}
		return opened(locksOver(e, nodes, relockvalkey.New, relockvalkey.NewRedlock, valkey.Client.Close, e.relockOptions()))
	}
	return s
}

func closeGoRedis(rdb goredis.UniversalClient) { _ = rdb.Close() }

// relockMutexSpec is what a semaphore of n is compared with: n mutexes could be handed over n times as often.
func relockMutexSpec() Spec {
	s := relockSpec()
	s.Name, s.Baseline, s.Weighted, s.Quorum, s.Cluster, s.Several, s.AnyOf = "mutex", true, false, false, false, false, false
	s.Setup = "relock's Mutex in place of a semaphore, so that one holds where n might"
	s.Open = func(e Env) (Peer, error) {
		p, err := openRelock(e)
		if err != nil {
			return nil, err
		}
		return mutexPeer{p}, nil
	}
	return s
}

// mutexPeer takes its mutex whatever semaphore is asked for.
type mutexPeer struct{ *relockPeer }

func (p mutexPeer) Acquire(ctx context.Context, key string, _, _ int) (Held, error) {
	return p.Lock(ctx, key)
}

// oneByOneSpec is what All is compared with: as many mutexes, in the order of their names, by a command each.
func oneByOneSpec() Spec {
	s := relockSpec()
	s.Name, s.Baseline, s.Semaphore, s.Weighted, s.Quorum, s.Cluster, s.AnyOf = "one-by-one", true, false, false, false, false, false
	s.Setup = "relock's Mutexes, locked and unlocked one after the other in the order of their names"
	s.Open = func(e Env) (Peer, error) {
		p, err := openRelock(e)
		if err != nil {
			return nil, err
		}
		return oneByOnePeer{p}, nil
	}
	return s
}

type oneByOnePeer struct{ *relockPeer }

func (p oneByOnePeer) LockAll(ctx context.Context, keys []string) (Held, error) {
	var held []Held
	unlock := func(ctx context.Context) (err error) {
		for _, h := range slices.Backward(held) {
			err = errors.Join(err, h.Unlock(ctx))
		}
		return err
	}
	for _, key := range slices.Sorted(slices.Values(keys)) {
		h, err := p.Lock(ctx, key)
		if err != nil {
			return nil, errors.Join(err, unlock(context.WithoutCancel(ctx)))
		}
		held = append(held, h)
	}
	return heldFunc{ctx, unlock}, nil
}

// permitSpec is what Any is compared with: as many may hold a permit of a semaphore, but none knows which of them it is.
func permitSpec() Spec {
	s := relockSpec()
	s.Name, s.Baseline, s.Semaphore, s.Weighted, s.Quorum, s.Cluster, s.Several = "permit", true, false, false, false, false, false
	s.Setup = "a permit of a relock Semaphore of as many permits in place of any lock"
	s.Open = func(e Env) (Peer, error) {
		p, err := openRelock(e)
		if err != nil {
			return nil, err
		}
		return permitPeer{p}, nil
	}
	return s
}

type permitPeer struct{ *relockPeer }

func (p permitPeer) LockAny(ctx context.Context, keys []string) (Held, int, error) {
	first := slices.Min(keys)
	h, err := p.Acquire(ctx, first[:strings.LastIndexByte(first, ':')], len(keys), 1) // a name that all have in common
	return h, -1, err
}

// locksOver makes locks over clients of any library, which are closed with them.
func locksOver[C any](e Env, nodes []C, one func(C, ...relock.ClientOption) (*relock.Client, error),
	many func([]C, ...relock.ClientOption) (*relock.Client, error), disconnect func(C), opts []relock.ClientOption,
) (*relockPeer, error) {
	p := &relockPeer{disconnect: func() {
		for _, rdb := range nodes {
			disconnect(rdb)
		}
	}}
	var err error
	if len(e.Nodes) > 0 {
		p.locks, err = many(nodes, opts...)
	} else {
		p.locks, err = one(nodes[0], opts...)
	}
	if err != nil {
		p.disconnect()
		return nil, err
	}
	return p, nil
}

// opened is a nil Peer where there is an error, not one with a nil pointer in it.
func opened(p *relockPeer, err error) (Peer, error) {
	if err != nil {
		return nil, err
	}
	return p, nil
}

func (p *relockPeer) Lock(ctx context.Context, key string) (Held, error) {
	l, err := p.locks.Mutex(key).Lock(ctx)
	if err != nil {
		return nil, err
	}
	return l, nil
}

func (p *relockPeer) RLock(ctx context.Context, key string) (Held, error) {
	l, err := p.locks.RWMutex(key).RLock(ctx)
	if err != nil {
		return nil, err
	}
	return l, nil
}

func (p *relockPeer) WLock(ctx context.Context, key string) (Held, error) {
	l, err := p.locks.RWMutex(key).Lock(ctx)
	if err != nil {
		return nil, err
	}
	return l, nil
}

// permit is a relock.Permit, which is released.
type permit struct{ *relock.Permit }

func (p permit) Unlock(ctx context.Context) error { return p.Release(ctx) }

func (p *relockPeer) Acquire(ctx context.Context, key string, n, k int) (Held, error) {
	held, err := p.locks.Semaphore(key, n).Acquire(ctx, k)
	if err != nil {
		return nil, err
	}
	return permit{held}, nil
}

func (p *relockPeer) mutexes(keys []string) (locks []relock.Locker) {
	for _, key := range keys {
		locks = append(locks, p.locks.Mutex(key))
	}
	return locks
}

func (p *relockPeer) LockAll(ctx context.Context, keys []string) (Held, error) {
	l, err := relock.All(p.mutexes(keys)...).Lock(ctx)
	if err != nil {
		return nil, err
	}
	return l, nil
}

func (p *relockPeer) LockAny(ctx context.Context, keys []string) (Held, int, error) {
	l, err := relock.Any(p.mutexes(keys)...).Lock(ctx)
	if err != nil {
		return nil, -1, err
	}
	return l, slices.Index(keys, l.Name()), nil
}

func (p *relockPeer) Close() {
	p.locks.Close()
	p.disconnect()
}
