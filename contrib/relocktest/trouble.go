package relocktest

import (
	"context"
	"testing"
	"time"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/opening"
)

// patience is how long this package waits for what must happen.
const patience = 10 * time.Second

// pause is between two tries of what a busy machine let fail.
const pause = 10 * time.Millisecond

// Hold has another process take the lock named name, and returns its lease. The lock is held until
// that lease is unlocked, or the test ends. Locks that linger at client (relock.WithLinger) are given
// up for it. The test fails if the lock cannot be had within ten seconds, as when client's own code
// holds it.
//
// The lock is a Mutex. Of an RWMutex let another process take the side that the test needs:
// Beside(t, client).RWMutex(name).Lock.
func Hold(t testing.TB, client *relock.Client, name string) *relock.Lease {
	t.Helper()
	other := processOf(t, "Hold", client).beside(t)
	lease, err := other.client.Mutex(name, relock.WithWait(patience)).Lock(context.Background())
	if err != nil {
		t.Fatalf("relocktest: Hold: %v", err)
	}
	t.Cleanup(func() { other.unlock(lease) })
	return lease
}

// exclusive is what Mutex and RWMutex have in common: RWMutex.Lock is the writer's.
type exclusive interface {
	Lock(context.Context) (*relock.Lease, error)
	ForceUnlock(context.Context) (bool, error)
}

// lock is the lock of that kind and name as the process has it.
func (p *process) lock(kind, name string) exclusive {
	if kind == "mutex" {
		return p.client.Mutex(name)
	}
	return p.client.RWMutex(name)
}

// holderOf is the process that has a lease, and the kind of its lock.
func holderOf(t testing.TB, call string, lease *relock.Lease) (p *process, kind string) {
	t.Helper()
	client, kind := opening.HolderOf(lease)
	return processBy(t, call, client), kind
}

// unlock gives a lock back, where that can be done at once.
func (p *process) unlock(l *relock.Lease) {
	if _, err := p.wire.passes(); err == nil {
		_ = l.Unlock(context.Background()) // the test may have unlocked or lost it
	}
}

// Lose takes the lock of lease away from its holder, and returns once lease's context has ended, with
// cause relock.ErrLost. The lock goes to the next waiter, or is free. Code under Do gets at its lease
// by relock.FromContext.
//
// It is done as relock.Mutex.ForceUnlock does it, so the holder is told at once. While RedisDown
// lasts the holder finds out when its lease ends. The test fails if the lease is over already.
func Lose(t testing.TB, lease *relock.Lease) {
	t.Helper()
	p, kind := holderOf(t, "Lose", lease)
	if lease.Context().Err() != nil {
		t.Fatalf("relocktest: Lose: the lease of %q is over: %v", lease.Name(), context.Cause(lease.Context()))
	}
	other := p.beside(t)
	other.wire.mend() // while Redis is down for all others
	for began := time.Now(); lease.Context().Err() == nil; {
		// Where it frees nothing, an answer was lost before, or the lease has just run out.
		_, err := other.lock(kind, lease.Name()).ForceUnlock(context.Background())
		if err == nil {
			break
		}
		if time.Since(began) > patience {
			t.Fatalf("relocktest: Lose: the lock %q was not taken away: %v", lease.Name(), err)
		}
		time.Sleep(pause)
	}
	<-lease.Context().Done() // when its lease ends at the latest
}

// Want has another process wait for the lock of lease, of an RWMutex for writing, and returns once the holder is told of that:
// relock.Lease.Wanted is closed. The other's lease comes over the channel once the lock was granted to
// it; it is unlocked when the test ends. The test fails if the holder is not told within ten seconds,
// as under relock.WithOwner, or if the lease is over.
//
// To have another process want a lock that lingers without a lease (relock.WithLinger), call Hold.
func Want(t testing.TB, lease *relock.Lease) <-chan *relock.Lease {
	t.Helper()
	p, kind := holderOf(t, "Want", lease)
	other := p.beside(t)
	ctx, cancel := context.WithCancel(context.Background())
	granted, ended := make(chan *relock.Lease, 1), make(chan struct{})
	var got *relock.Lease // once ended is closed
	go func() {
		defer close(ended)
		if l, err := other.lock(kind, lease.Name()).Lock(ctx); err == nil {
			got = l
			granted <- l
		}
	}()
	t.Cleanup(func() {
		cancel()
		<-ended
		if got != nil {
			other.unlock(got)
		}
	})
	select {
	case <-lease.Wanted():
	case <-lease.Context().Done():
		t.Fatalf("relocktest: Want: the lease of %q is over: %v", lease.Name(), context.Cause(lease.Context()))
	case <-time.After(patience):
		t.Fatalf("relocktest: Want: the holder of %q was not told within %v", lease.Name(), patience)
	}
	return granted
}

// RedisDown takes the Redis of client down, for all clients that this package made on it: connections
// break, and new ones are refused. It comes back, with all it had, by RedisUp or when the test ends.
// A server of Redis goes on for those who reach it by its address.
func RedisDown(t testing.TB, client *relock.Client) {
	t.Helper()
	s := processOf(t, "RedisDown", client).s
	s.set(true)
	t.Cleanup(func() { s.set(false) })
}

// RedisUp brings back what RedisDown took down. Clients find that out by themselves, within a second.
func RedisUp(t testing.TB, client *relock.Client) {
	t.Helper()
	processOf(t, "RedisUp", client).s.set(false)
}

// Crash ends the process of client as kill -9 would, as far as Redis sees it: its connections break
// and nothing is released. What it holds, Redis keeps until the lease ends; then others get it.
//
// No test can kill the code that runs in the crashed process. That code finds client closed: contexts
// of leases end with cause relock.ErrClosed, and calls fail with it. Code under the lock that calls
// Crash can end itself by runtime.Goexit, if it runs in a goroutine of its own.
func Crash(t testing.TB, client *relock.Client) {
	t.Helper()
	processOf(t, "Crash", client).crash()
	client.Close()
}
