package peer

import (
	"context"
	"time"

	"github.com/redis/rueidis/rueidislock"
)

func rueidislockSpec() Spec {
	return Spec{
		Name: "rueidislock", Module: "github.com/redis/rueidis",
		Setup: "as its README for one Redis from 7.0.5: KeyMajority 1, NoLoopTracking, else defaults " +
			"(5 s validity, extended every 2.5 s)",
		Open: openRueidislock, Keeps: true, Cluster: true, Lease: 5 * time.Second,
		RenewEvery: func(lease time.Duration) time.Duration { return lease / 2 },
	}
}

type rueidislockPeer struct {
	locker rueidislock.Locker
}

func openRueidislock(e Env) (Peer, error) {
	o, err := e.rueidisOption()
	if err != nil {
		return nil, err
	}
	locker, err := rueidislock.NewLocker(rueidislock.LockerOption{
		ClientOption: o, KeyMajority: 1, NoLoopTracking: !e.Embedded, KeyValidity: e.Lease,
	})
	if err != nil {
		return nil, err
	}
	return &rueidislockPeer{locker: locker}, nil
}

func (p *rueidislockPeer) Lock(ctx context.Context, key string) (Held, error) {
	held, release, err := p.locker.WithContext(ctx, key)
	if err != nil {
		return nil, err
	}
	return heldFunc{held, func(context.Context) error {
		lost := held.Err()
		release()
		return lost
	}}, nil
}

func (p *rueidislockPeer) Close() { p.locker.Close() }
