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
		Setup: "relock.New over rueidis with default options; local hand-off at its default of 256 passes and 10 ms; " +
			"relock.NewRedlock with default options where there are nodes",
		Open:      func(e Env) (Peer, error) { return openRelock(e) },
		Reentrant: true, Quorum: true, Cluster: true, Keeps: true, RenewEvery: third, Lease: 30 * time.Second,
	}
}

func relockRemoteSpec() Spec {
	s := relockSpec()
	s.Name = "relock-remote"
	s.Setup = "relock with WithLocalHandoff(1, 0): every hand-over goes through Redis"
	s.Open = func(e Env) (Peer, error) { return openRelock(e, relock.WithLocalHandoff(1, 0)) }
	return s
}

// oneNodeSpec is what a quorum is compared with.
func oneNodeSpec() Spec {
	s := relockSpec()
	s.Name, s.Baseline, s.Quorum, s.Cluster = "one-node", true, false, false
	s.Setup = "relock on a single Redis, where the others use a quorum or a Cluster"
	return s
}

type relockPeer struct {
	nodes []rueidis.Client
	locks *relock.Client
}

func openRelock(e Env, opts ...relock.Option) (Peer, error) {
	nodes, err := connectAll(e, Env.rueidisClient, rueidis.Client.Close)
	if err != nil {
		return nil, err
	}
	if e.Lease > 0 {
		opts = append(opts, relock.WithLease(e.Lease))
	}
	p := &relockPeer{nodes: nodes}
	if len(e.Nodes) > 0 {
		p.locks, err = relock.NewRedlock(nodes, opts...)
	} else {
		p.locks, err = relock.New(nodes[0], opts...)
	}
	if err != nil {
		p.disconnect()
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

func (p *relockPeer) Close() {
	p.locks.Close()
	p.disconnect()
}

func (p *relockPeer) disconnect() {
	for _, rdb := range p.nodes {
		rdb.Close()
	}
}
