package peer

import (
	"context"
	"time"

	"github.com/go-redsync/redsync/v4"
	redsyncpool "github.com/go-redsync/redsync/v4/redis"
	redsyncredis "github.com/go-redsync/redsync/v4/redis/goredis/v9"
	goredis "github.com/redis/go-redis/v9"
)

func redsyncSpec() Spec {
	return Spec{
		Name: "redsync", Module: "github.com/go-redsync/redsync/v4",
		Setup: "as its README: go-redis pool, NewMutex with defaults (8 s expiry, 32 tries 50 to 250 ms apart); " +
			"a pool of each node where there are nodes",
		Open: openRedsync, Quorum: true, Cluster: true, Lease: 8 * time.Second,
	}
}

type redsyncPeer struct {
	nodes []goredis.UniversalClient
	rs    *redsync.Redsync
	opts  []redsync.Option
}

func openRedsync(e Env) (Peer, error) {
	nodes, err := connectAll(e, Env.goRedisClient, func(rdb goredis.UniversalClient) { _ = rdb.Close() })
	if err != nil {
		return nil, err
	}
	var pools []redsyncpool.Pool
	for _, rdb := range nodes {
		pools = append(pools, redsyncredis.NewPool(rdb))
	}
	p := &redsyncPeer{nodes: nodes, rs: redsync.New(pools...)}
	if e.Lease > 0 {
		p.opts = append(p.opts, redsync.WithExpiry(e.Lease))
	}
	return p, nil
}

func (p *redsyncPeer) Lock(ctx context.Context, key string) (Held, error) {
	m := p.rs.NewMutex(key, p.opts...)
	if err := m.LockContext(ctx); err != nil {
		return nil, err
	}
	return heldFunc{ctx, func(ctx context.Context) error {
		_, err := m.UnlockContext(ctx)
		return err
	}}, nil
}

func (p *redsyncPeer) Close() {
	for _, rdb := range p.nodes {
		_ = rdb.Close()
	}
}
