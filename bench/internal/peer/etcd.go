package peer

import (
	"context"
	"fmt"
	"path"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
	"go.uber.org/zap"
	"google.golang.org/grpc"

	"github.com/relock-go/relock/bench/internal/wire"
)

func etcdSpec() Spec {
	return Spec{
		Name: "etcd", Module: "go.etcd.io/etcd/client/v3",
		Setup: "concurrency.Mutex on its own etcd, not on Redis, TTL 60 s by default; a session per waiter of a lock, " +
			"since a session is the owner; keep-alives run on a stream and do not count as commands",
		Open: openEtcd, Keeps: true, NeedsEtcd: true, RenewEvery: third, Lease: 60 * time.Second,
	}
}

type etcdPeer struct {
	client *clientv3.Client
	ttl    int // seconds

	mu       sync.Mutex
	sessions []*etcdSession // guarded by mu
}

// etcdSession is one owner: it must not be used for one key twice at a time.
type etcdSession struct {
	*concurrency.Session
	busy map[string]bool // guarded by the peer's mutex
}

func openEtcd(e Env) (Peer, error) {
	client, err := clientv3.New(clientv3.Config{
		Endpoints:   []string{e.Etcd},
		DialTimeout: 5 * time.Second,
		Logger:      zap.NewNop(), // its warnings would be taken for the worker's last words
		DialOptions: []grpc.DialOption{grpc.WithChainUnaryInterceptor(countCalls(e.Wire))},
	})
	if err != nil {
		return nil, fmt.Errorf("etcd at %s: %w", e.Etcd, err)
	}
	ttl := int(e.leaseOr(60*time.Second) / time.Second)
	p := &etcdPeer{client: client, ttl: max(1, ttl)}
	for range e.Waiters {
		if _, err := p.grow(); err != nil {
			p.Close()
			return nil, fmt.Errorf("etcd at %s: %w", e.Etcd, err)
		}
	}
	return p, nil
}

// countCalls counts requests by method, etcd's counterpart of a command's name.
func countCalls(c *wire.Counter) grpc.UnaryClientInterceptor {
	return func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn,
		invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
		c.Add(path.Base(method))
		return invoke(ctx, method, req, reply, cc, opts...)
	}
}

func (p *etcdPeer) Lock(ctx context.Context, key string) (Held, error) {
	s, err := p.session(key)
	if err != nil {
		return nil, err
	}
	m := concurrency.NewMutex(s.Session, key)
	if err := m.Lock(ctx); err != nil {
		p.free(s, key)
		return nil, err
	}
	return heldFunc{ctx, func(ctx context.Context) error {
		defer p.free(s, key)
		return m.Unlock(ctx)
	}}, nil
}

// session returns one that has nothing to do with key yet.
func (p *etcdPeer) session(key string) (*etcdSession, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := len(p.sessions) - 1; i >= 0; i-- {
		s := p.sessions[i]
		if !s.busy[key] {
			s.busy[key] = true
			return s, nil
		}
	}
	s, err := p.grow()
	if err != nil {
		return nil, err
	}
	s.busy[key] = true
	return s, nil
}

// grow adds a session. The caller holds p.mu, or is alone.
func (p *etcdPeer) grow() (*etcdSession, error) {
	fresh, err := concurrency.NewSession(p.client, concurrency.WithTTL(p.ttl))
	if err != nil {
		return nil, err
	}
	s := &etcdSession{Session: fresh, busy: make(map[string]bool)}
	p.sessions = append(p.sessions, s)
	return s, nil
}

func (p *etcdPeer) free(s *etcdSession, key string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(s.busy, key)
}

func (p *etcdPeer) Close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	var wg sync.WaitGroup
	for _, s := range p.sessions {
		wg.Go(func() { _ = s.Close() })
	}
	wg.Wait()
	_ = p.client.Close()
}
