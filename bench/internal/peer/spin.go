package peer

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"
	"github.com/redis/rueidis"
)

const (
	spinLease     = 30 * time.Second
	spinLeast     = time.Millisecond
	spinMost      = 128 * time.Millisecond
	retryTries    = 10
	retryInterval = 100 * time.Millisecond
)

func spinSpec() Spec {
	return Spec{
		Name: "spin", Module: "github.com/redis/rueidis",
		Setup: "the classic reentrant spin lock: a hash script over rueidis, back-off 1 ms doubling to 128 ms with jitter, " +
			"30 s lease",
		Open: openSpin, Reentrant: true, Cluster: true, Lease: spinLease,
	}
}

var spinAcquire = rueidis.NewLuaScript(`
if redis.call('EXISTS', KEYS[1]) == 0 or redis.call('HEXISTS', KEYS[1], ARGV[1]) == 1 then
  redis.call('HINCRBY', KEYS[1], ARGV[1], 1)
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
  return 1
end
return 0`)

var spinRelease = rueidis.NewLuaScript(`
if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 0 then
  return -1
end
local count = redis.call('HINCRBY', KEYS[1], ARGV[1], -1)
if count == 0 then
  redis.call('DEL', KEYS[1])
end
return count`)

var errNotHeld = errors.New("the lock was not held any more")

// scriptLock is a lock of two scripts that a caller spins on.
type scriptLock struct {
	rdb              rueidis.Client
	acquire, release *rueidis.Lua
	lease            time.Duration
	pause            func(try int) (time.Duration, error) // before the next try, or why there is none
}

func openSpin(e Env) (Peer, error) {
	rdb, err := e.rueidisClient()
	if err != nil {
		return nil, err
	}
	pause := func(try int) (time.Duration, error) { return backOff(try, spinMost), nil }
	lock := &scriptLock{rdb: rdb, acquire: spinAcquire, release: spinRelease, lease: e.leaseOr(spinLease), pause: pause}
	return lock, nil
}

type ownerKey struct{}

func (p *scriptLock) Lock(ctx context.Context, key string) (Held, error) {
	owner, _ := ctx.Value(ownerKey{}).(string)
	if owner == "" {
		owner = uuid.NewString()
		ctx = context.WithValue(ctx, ownerKey{}, owner)
	}
	args := []string{owner, millis(p.lease)}
	for try := 0; ; try++ {
		got, err := p.acquire.Exec(ctx, p.rdb, []string{key}, args).AsInt64()
		if err != nil {
			return nil, err
		}
		if got == 1 {
			return heldFunc{ctx, func(ctx context.Context) error { return p.unlock(ctx, key, owner) }}, nil
		}
		d, err := p.pause(try)
		if err != nil {
			return nil, err
		}
		if err := sleep(ctx, d); err != nil {
			return nil, err
		}
	}
}

func (p *scriptLock) unlock(ctx context.Context, key, owner string) error {
	left, err := p.release.Exec(ctx, p.rdb, []string{key}, []string{owner}).AsInt64()
	if err == nil && left < 0 {
		return errNotHeld
	}
	return err
}

func (p *scriptLock) Close() { p.rdb.Close() }

func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
