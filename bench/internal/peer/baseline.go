package peer

import (
	"context"
	"time"

	"github.com/redis/rueidis"
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

// noneSpec is no lock at all: with one goroutine it measures what the bench itself costs, with more it must be caught.
func noneSpec() Spec {
	return Spec{
		Name: "none", Baseline: true, Setup: "no lock: everybody is let in at once",
		Open: func(Env) (Peer, error) { return nonePeer{}, nil }, Reentrant: true, Keeps: true,
		RenewEvery: third, Lease: 30 * time.Second,
	}
}

type nonePeer struct{}

func (nonePeer) Lock(ctx context.Context, _ string) (Held, error) {
	return heldFunc{ctx, func(context.Context) error { return nil }}, nil
}

func (nonePeer) Close() {}
