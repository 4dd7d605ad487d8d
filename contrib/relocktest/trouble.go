package relocktest

import (
	"context"
	"testing"
	"time"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/opening"
)

// patience is how long this package waits for an event that must happen.
const patience = 10 * time.Second

// pause is the time between two tries. A try may fail because the machine is busy.
const pause = 10 * time.Millisecond

// Hold has another process take the lock named name, and returns that process's lease. The lock is
// held until the lease is unlocked, or the test ends. If the lock lingers at client
// (relock.WithLinger), client gives it up. The test fails if the process does not get the lock within
// ten seconds, for instance because client holds it.
//
// The lock is a Mutex. For an RWMutex let another process take the side that the test needs:
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

// exclusive is a Mutex, or an RWMutex, whose Lock is the writer's.
type exclusive interface {
	Lock(context.Context) (*relock.Lease, error)
	ForceUnlock(context.Context) (bool, error)
}

// lock returns the process's lock of that kind and name.
func (p *process) lock(kind, name string) exclusive {
	switch kind {
	case "mutex":
		return p.client.Mutex(name)
	case "semaphore":
		return semaphore{p.client.Semaphore(name, 1)} // of any number: Redis keeps it
	}
	return p.client.RWMutex(name)
}

// semaphore is a semaphore of whose permits one is taken, and all are freed.
type semaphore struct{ *relock.Semaphore }

func (s semaphore) Lock(ctx context.Context) (*relock.Lease, error) { return s.Acquire(ctx, 1) }

// holderOf returns the process that has a lease, and the kind of its lock.
func holderOf(t testing.TB, call string, lease *relock.Lease) (p *process, kind string) {
	t.Helper()
	client, kind := opening.HolderOf(lease)
	return processBy(t, call, client), kind
}

// unlock unlocks the lease, unless Redis is down for the process.
func (p *process) unlock(l *relock.Lease) {
	if _, err := p.wire.passes(); err == nil {
		_ = l.Unlock(context.Background()) // the test may have unlocked or lost it
	}
}

// Lose takes the lock of lease away from its holder, and returns once lease's context has ended, with
// cause relock.ErrLost. The lock goes to the next waiter, or is free. Code under Do gets at its lease
// by relock.FromContext. Of several locks, lease is that of one: relock.MultiLease.Lease, or the lock's
// Held. If it is of permits, all permits of the semaphore are taken away.
//
// It works as relock.Mutex.ForceUnlock, so the holder is told at once. During RedisDown the holder
// finds out when its lease ends. The test fails if the lease is over already.
func Lose(t testing.TB, lease *relock.Lease) {
	t.Helper()
	p, kind := holderOf(t, "Lose", lease)
	ctx := lease.Context()
	if ctx.Err() != nil {
		t.Fatalf("relocktest: Lose: the lease of %q is over: %v", lease.Name(), context.Cause(ctx))
	}
	other := p.beside(t)
	other.wire.mend() // this process reaches Redis even during RedisDown
	for began := time.Now(); ctx.Err() == nil; {
		// If it frees nothing, an earlier try did and its answer was lost, or the lease has just run out.
		_, err := other.lock(kind, lease.Name()).ForceUnlock(context.Background())
		if err == nil {
			break
		}
		if time.Since(began) > patience {
			t.Fatalf("relocktest: Lose: the lock %q was not taken away: %v", lease.Name(), err)
		}
		time.Sleep(pause)
	}
	<-ctx.Done() // at the latest when the lease ends
}

// Want has another process wait for the lock of lease, for an RWMutex as a writer, for a Semaphore for
// one permit, of which none may be free. It returns once the holder was told: relock.Lease.Wanted is
// closed. When the other process gets the lock, its lease comes over the channel. That lease is unlocked
// when the test ends. The test fails if the holder is not told within ten seconds, as under
// relock.WithOwner, or if the lease is over.
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
// break, and new ones are refused. RedisUp, or the end of the test, brings it back with all its data.
// A redis-server runs on for clients that connect to its address.
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
// and nothing is released. Redis keeps its locks until their leases end; then others get them.
//
// No test can kill the code that runs in the crashed process. That code finds client closed: contexts
// of leases end with cause relock.ErrClosed, and calls fail with it. Code under the lock that calls
// Crash can end itself by runtime.Goexit, if it runs in a goroutine of its own.
func Crash(t testing.TB, client *relock.Client) {
	t.Helper()
	processOf(t, "Crash", client).crash()
	client.Close()
}
