package peer

import (
	"context"
	"time"

	"github.com/go-redsync/redsync/v4"
	redsyncredis "github.com/go-redsync/redsync/v4/redis/goredis/v9"
	goredis "github.com/redis/go-redis/v9"
)

func redsyncSpec() Spec {
	return Spec{
		Name: "redsync", Module: "github.com/go-redsync/redsync/v4",
		Setup: "as its README: go-redis pool, NewMutex with defaults (8 s expiry, 32 tries 50 to 250 ms apart)",
		Open:  openRedsync, Lease: 8 * time.Second,
	}
}

type redsyncPeer struct {
	rdb  *goredis.Client
	rs   *redsync.Redsync
	opts []redsync.Option
}

func openRedsync(e Env) (Peer, error) {
	rdb, err := e.goRedisClient()
	if err != nil {
		return nil, err
	}
	p := &redsyncPeer{rdb: rdb, rs: redsync.New(redsyncredis.NewPool(rdb))}
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

func (p *redsyncPeer) Close() { _ = p.rdb.Close() }
