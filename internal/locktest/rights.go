package locktest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/relock-go/relock"
	"github.com/stretchr/testify/assert"
)

// Rights says how to try each right of a list away from a user who has the others.
type Rights struct {
	Rights []string // by which all calls work
	Prefix string   // of the locks' names, to which the rights are
	Calls  []Call
	// Open returns a client of a new user with these rights alone. It may fail: some rights are the client
	// library's too.
	Open  func(t *testing.T, user string, rights []string) (*relock.Client, error)
	Other *relock.Client // of a user who may do all
}

// Call is something that callers do with locks.
type Call struct {
	Name string
	Run  func(ctx context.Context, c Caller) error
	Long bool // it takes its time, and runs beside others
}

// Caller makes a call as a client which may lack a right.
type Caller struct {
	*relock.Client
	Other *relock.Client // lacks none
	Key   string         // what the locks' names begin with
}

// kept is the error of a lock that was granted, and that its holder cannot end, use or hand on.
type kept struct{ err error }

func (k kept) Error() string { return "the lock was granted, and then: " + k.err.Error() }

func (k kept) Unwrap() error { return k.err }

// EachMissing takes each right away in turn. Each call then works to its end, unlocks included, or the
// first question for the lock is refused, with an error that names the right, and nothing is held.
func (r Rights) EachMissing(t *testing.T) {
	t.Helper()
	var out sync.WaitGroup
	turns := make(chan struct{}, 16) // most of the time is waits
	refused := make([]int, len(r.Rights)+1)
	for i, missing := range append(slices.Clone(r.Rights), "none") {
		turns <- struct{}{}
		out.Go(func() {
			defer func() { <-turns }()
			refused[i] = r.without(t, i, missing)
		})
	}
	out.Wait()
	assert.Zero(t, refused[len(r.Rights)], "with all rights each call works")
	for i, missing := range r.Rights {
		t.Logf("without %s %d of %d calls are refused", missing, refused[i], len(r.Calls))
	}
}

// without tries all calls without the ith right, and returns how many of them were refused.
func (r Rights) without(t *testing.T, i int, missing string) (refused int) {
	rights := slices.DeleteFunc(slices.Clone(r.Rights), func(right string) bool { return right == missing })
	c, err := r.Open(t, fmt.Sprint("user", i), rights)
	if err != nil {
		t.Logf("without %s there is no client: %v", missing, err)
		return len(r.Calls)
	}
	defer c.Close()
	errs := make([]error, len(r.Calls))
	var long sync.WaitGroup
	for n, call := range r.Calls {
		run := func() {
			ctx, cancel := context.WithTimeout(t.Context(), Patience)
			defer cancel()
			for try := range 5 { // a slow machine may leave a command unanswered, which says nothing of rights
				errs[n] = call.Run(ctx, Caller{c, r.Other, fmt.Sprintf("%s%d-%d-%d", r.Prefix, i, n, try)})
				if !errors.Is(errs[n], relock.ErrUnavailable) {
					break
				}
			}
		}
		if call.Long {
			long.Go(run)
		} else {
			run()
		}
	}
	long.Wait()
	for n, call := range r.Calls {
		says := fmt.Sprintf("without %s: %s: %v", missing, call.Name, errs[n])
		switch {
		case errors.As(errs[n], new(kept)):
			t.Error(says)
		case errs[n] != nil:
			refused++
			assert.ErrorIs(t, errs[n], relock.ErrRefused, says)
			assert.True(t, named(errs[n].Error(), missing), "the right is not named: %s", says)
		}
	}
	return refused
}

// named reports whether the text of a refusal says which right is missing. Redis's own refusals may not: those
// of Redis 7.0 and of newer servers have other words.
func named(text, right string) bool {
	what := strings.Trim(right[1:], "*")
	own := map[byte][]string{
		'~': {what, "one of the keys", "the keys mentioned", "access a key"},
		'&': {what, "one of the channels", "the channel mentioned", "access a channel"},
		'+': {what, "can't run this command"},
	}
	return slices.ContainsFunc(own[right[0]], func(words string) bool { return strings.Contains(text, words) })
}

// lease is what all sorts of leases have.
type lease interface {
	Unlock(ctx context.Context) error
}

// ends unlocks what was granted, err says if it was not.
func ends(ctx context.Context, l lease, err error) error {
	if err != nil {
		return err
	}
	return orKept(l.Unlock(ctx))
}

func orKept(err error) error {
	if err != nil {
		return kept{err}
	}
	return nil
}

// sort is a sort of lock.
type sort struct {
	name  string
	lock  func(c *relock.Client, key string, opts ...relock.Option) relock.Locker
	other func(c *relock.Client, key string, opts ...relock.Option) relock.Locker // what that keeps out
	state func(ctx context.Context, c *relock.Client, key string) (relock.State, error)
}

// calls returns what all sorts of locks can do.
func (s sort) calls() (calls []Call) {
	add := func(name string, run func(ctx context.Context, c Caller) error) {
		calls = append(calls, Call{s.name + ": " + name, func(ctx context.Context, c Caller) error {
			return errors.Join(run(ctx, c), s.free(ctx, c, c.Key))
		}, name == "renewal"})
	}
	add("TryLock", func(ctx context.Context, c Caller) error {
		l, err := s.lock(c.Client, c.Key).TryLock(ctx)
		return ends(ctx, l, err)
	})
	add("Do", func(ctx context.Context, c Caller) error {
		ran := false
		err := s.lock(c.Client, c.Key).Do(ctx, func(context.Context) error { ran = true; return nil })
		if ran {
			return orKept(err)
		}
		return err
	})
	add("Extend", func(ctx context.Context, c Caller) error {
		l, err := s.lock(c.Client, c.Key).Lock(ctx)
		if err != nil {
			return err
		}
		return errors.Join(orKept(l.Extend(ctx, 20*time.Second)), orKept(l.Unlock(ctx)))
	})
	add("renewal", func(ctx context.Context, c Caller) error {
		l, err := s.lock(c.Client, c.Key, relock.WithLease(3*time.Second)).Lock(ctx)
		if err != nil {
			return err
		}
		for first := l.Until(); l.Until().Equal(first) && l.Context().Err() == nil; {
			time.Sleep(time.Millisecond)
		}
		return errors.Join(orKept(context.Cause(l.Context())), orKept(l.Unlock(ctx)))
	})
	add("linger", func(ctx context.Context, c Caller) error {
		l, err := s.lock(c.Client, c.Key, relock.WithLinger(time.Millisecond)).Lock(ctx)
		return ends(ctx, l, err)
	})
	add("wait", func(ctx context.Context, c Caller) error { return s.inTurn(ctx, c, c.Other, c.Client) })
	add("hand on", func(ctx context.Context, c Caller) error { return s.inTurn(ctx, c, c.Client, c.Other) })
	add("pass on", func(ctx context.Context, c Caller) error { return s.inTurn(ctx, c, c.Client, c.Client) })
	add("pass on beside a waiter", func(ctx context.Context, c Caller) error {
		return s.inTurn(ctx, c, c.Client, c.Other, c.Client)
	})
	several := func(c Caller) []relock.Locker {
		return []relock.Locker{s.lock(c.Client, c.Key), s.lock(c.Client, c.Key+"b")}
	}
	add("All", func(ctx context.Context, c Caller) error {
		l, err := relock.All(several(c)...).Lock(ctx)
		return errors.Join(ends(ctx, l, err), s.free(ctx, c, c.Key+"b"))
	})
	add("Any", func(ctx context.Context, c Caller) error {
		l, err := relock.Any(several(c)...).Lock(ctx)
		return errors.Join(ends(ctx, l, err), s.free(ctx, c, c.Key+"b"))
	})
	return calls
}

// free says whether the lock of that name is held or waited for, once what runs in the background has ended.
func (s sort) free(ctx context.Context, c Caller, key string) error {
	for began := time.Now(); ; time.Sleep(time.Millisecond) {
		is, err := s.state(ctx, c.Other, key)
		if err == nil && !is.Held && is.Waiters == 0 {
			return nil
		}
		if time.Since(began) > 2*time.Second {
			return kept{fmt.Errorf("%s is not free: %v, %w", key, is, err)}
		}
	}
}

// inTurn has one client hold the lock, and others wait for it.
func (s sort) inTurn(ctx context.Context, c Caller, first *relock.Client, others ...*relock.Client) error {
	l, err := s.other(first, c.Key).Lock(ctx)
	if err != nil {
		return err
	}
	var ended sync.WaitGroup
	errs, unlocked := make([]error, len(others)), atomic.Bool{}
	for i, other := range others {
		var returned atomic.Bool
		ended.Go(func() {
			defer returned.Store(true)
			l, err := s.lock(other, c.Key).Lock(ctx)
			if err == nil && !unlocked.Load() {
				err = kept{errors.New("two hold the lock")}
			}
			if errs[i] = ends(ctx, l, err); err != nil && other == c.Other {
				errs[i] = kept{err}
			}
		})
		for began := time.Now(); time.Since(began) < 30*time.Millisecond && !returned.Load(); time.Sleep(time.Millisecond) {
			if is, err := s.state(ctx, c.Other, c.Key); err == nil && is.Waiters > i {
				break // where waiters race, or are of one process, none stands in line
			}
		}
	}
	unlocked.Store(true)
	err = orKept(l.Unlock(ctx))
	ended.Wait()
	return errors.Join(append(errs, err)...)
}

// MutexCalls are the calls of mutexes; of a quorum those that it has.
func MutexCalls(quorum bool) []Call {
	mutex := func(c *relock.Client, key string, opts ...relock.Option) relock.Locker { return c.Mutex(key, opts...) }
	s := sort{"mutex", mutex, mutex, func(ctx context.Context, c *relock.Client, key string) (relock.State, error) {
		return c.Mutex(key).State(ctx)
	}}
	calls := s.calls()
	add := func(name string, run func(ctx context.Context, c Caller) error) {
		calls = append(calls, Call{Name: "mutex: " + name, Run: func(ctx context.Context, c Caller) error {
			return errors.Join(run(ctx, c), s.free(ctx, c, c.Key))
		}})
	}
	add("re-entry", func(ctx context.Context, c Caller) error {
		l, err := c.Mutex(c.Key).Lock(ctx)
		if err != nil {
			return err
		}
		in, err := c.Mutex(c.Key).Lock(l.Context())
		return errors.Join(orKept(err), ends(ctx, in, err), orKept(l.Unlock(ctx)))
	})
	add("WithOwner", func(ctx context.Context, c Caller) error {
		owned := relock.WithOwner(ctx, "workflow")
		l, err := c.Mutex(c.Key).Lock(owned)
		if err != nil {
			return err
		}
		beside, err := c.Other.Mutex(c.Key).Lock(owned)
		third, failed := c.Mutex(c.Key).Lock(owned)
		return errors.Join(ends(ctx, beside, err), orKept(l.Unlock(ctx)), ends(ctx, third, failed))
	})
	add("WithMinHold", func(ctx context.Context, c Caller) error {
		l, err := c.Mutex(c.Key, relock.WithMinHold(20*time.Millisecond)).Lock(ctx)
		return ends(ctx, l, err)
	})
	add("State", func(ctx context.Context, c Caller) error {
		_, err := c.Mutex(c.Key).State(ctx)
		return err
	})
	add("ForceUnlock", func(ctx context.Context, c Caller) error {
		l, err := c.Other.Mutex(c.Key).Lock(ctx)
		if err != nil {
			return err
		}
		freed, err := c.Mutex(c.Key).ForceUnlock(ctx)
		if freed {
			return err
		}
		return errors.Join(err, l.Unlock(ctx))
	})
	if quorum {
		return calls
	}
	add("HandOver", func(ctx context.Context, c Caller) error { return handOver(ctx, c, c.Client, c.Other) })
	add("TakeOver", func(ctx context.Context, c Caller) error { return handOver(ctx, c, c.Other, c.Client) })
	add("Flight", func(ctx context.Context, c Caller) error {
		_, ran, err := c.Flight(c.Key, time.Minute).Do(ctx, func(context.Context) ([]byte, error) { return nil, nil })
		if ran {
			err = orKept(err)
		}
		return err
	})
	add("Get", func(ctx context.Context, c Caller) error {
		_, _, err := c.Flight(c.Key, time.Minute).Get(ctx)
		return err
	})
	add("Forget", func(ctx context.Context, c Caller) error { return c.Flight(c.Key, time.Minute).Forget(ctx) })
	return calls
}

// handOver has one client take over the lock that another handed over.
func handOver(ctx context.Context, c Caller, from, to *relock.Client) error {
	l, err := from.Mutex(c.Key).Lock(ctx)
	if err != nil {
		return err
	}
	handle, err := l.HandOver(ctx, time.Minute)
	if err != nil {
		return kept{err}
	}
	taken, err := to.Mutex(c.Key).TakeOver(ctx, handle)
	if err == nil {
		return orKept(taken.Unlock(ctx))
	}
	if from == c.Client {
		return kept{err}
	}
	taken, failed := from.Mutex(c.Key).TakeOver(ctx, handle) // the refusal left it as it was
	return errors.Join(err, ends(ctx, taken, failed))
}

// ReadWriteCalls are the calls of read-write locks.
func ReadWriteCalls() (calls []Call) {
	state := func(ctx context.Context, c *relock.Client, key string) (relock.State, error) {
		return c.RWMutex(key).State(ctx)
	}
	write := func(c *relock.Client, key string, opts ...relock.Option) relock.Locker {
		return c.RWMutex(key, opts...)
	}
	read := func(c *relock.Client, key string, opts ...relock.Option) relock.Locker {
		return c.RWMutex(key, opts...).Reader()
	}
	calls = slices.Concat(sort{"reader", read, write, state}.calls(), sort{"writer", write, read, state}.calls(),
		sort{"writers", write, write, state}.calls())
	return append(calls, Call{Name: "writer: Downgrade", Run: func(ctx context.Context, c Caller) error {
		l, err := c.RWMutex(c.Key).Lock(ctx)
		if err != nil {
			return err
		}
		l, err = l.Downgrade(ctx)
		return errors.Join(orKept(err), ends(ctx, l, err))
	}})
}

// PermitCalls are the calls of semaphores.
func PermitCalls() []Call {
	const all = 3
	some := func(k int) func(c *relock.Client, key string, opts ...relock.Option) relock.Locker {
		return func(c *relock.Client, key string, opts ...relock.Option) relock.Locker {
			return c.Semaphore(key, all, opts...).Locker(k)
		}
	}
	s := sort{"permits", some(2), some(2), func(ctx context.Context, c *relock.Client, key string) (relock.State, error) {
		return c.Semaphore(key, all).State(ctx)
	}}
	calls := slices.Concat(s.calls(), sort{"permit", some(1), some(all), s.state}.calls())
	return append(calls, Call{Name: "permits: SetPermits", Run: func(ctx context.Context, c Caller) error {
		return c.Semaphore(c.Key, all).SetPermits(ctx, all)
	}}, Call{Name: "permits: ForceUnlock", Run: func(ctx context.Context, c Caller) error {
		l, err := c.Other.Semaphore(c.Key, all).Acquire(ctx, 1)
		if err != nil {
			return err
		}
		freed, err := c.Semaphore(c.Key, all).ForceUnlock(ctx)
		if freed {
			return err
		}
		return errors.Join(err, l.Unlock(ctx))
	}})
}
