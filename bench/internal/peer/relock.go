package peer

import (
	"context"
	"time"

	"github.com/redis/rueidis"

	"github.com/relock-go/relock"
)

func relockSpec() Spec {
	return Spec{
		Name: "relock", Module: "github.com/relock-go/relock",
		Setup:     "relock.New over rueidis with default options; local hand-off at its default of 256 passes and 10 ms",
		Open:      func(e Env) (Peer, error) { return openRelock(e) },
		Reentrant: true, Keeps: true, RenewEvery: third, Lease: 30 * time.Second,
	}
}

func relockRemoteSpec() Spec {
	s := relockSpec()
	s.Name = "relock-remote"
	s.Setup = "relock with WithLocalHandoff(1, 0): every hand-over goes through Redis"
	s.Open = func(e Env) (Peer, error) { return openRelock(e, relock.WithLocalHandoff(1, 0)) }
	return s
}

type relockPeer struct {
	rdb   rueidis.Client
	locks *relock.Client
}

func openRelock(e Env, opts ...relock.Option) (Peer, error) {
	rdb, err := e.rueidisClient()
	if err != nil {
		return nil, err
	}
	if e.Lease > 0 {
		opts = append(opts, relock.WithLease(e.Lease))
	}
	locks, err := relock.New(rdb, opts...)
	if err != nil {
		rdb.Close()
		return nil, err
	}
	return &relockPeer{rdb: rdb, locks: locks}, nil
}

func (p *relockPeer) Lock(ctx context.Context, key string) (Held, error) {
	l, err := p.locks.Mutex(key).Lock(ctx)
	if err != nil {
		return nil, err
	}
	return l, nil
}

func (p *relockPeer) Close() {
	p.locks.Close()
	p.rdb.Close()
}
