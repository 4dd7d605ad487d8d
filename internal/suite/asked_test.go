package suite_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/faults"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

// asking is a call that asks Redis about the lock of a name, or about names that begin with it.
type asking struct {
	what   string
	prep   func(t *testing.T, c *relock.Client, name string) *relock.Lease
	call   func(ctx context.Context, c *relock.Client, name string, l *relock.Lease) error
	quorum bool // a quorum has it too
	heeds  bool // it does not ask under a context that has ended
}

func leased[T any](_ T, err error) error { return err }

// askings are all calls of all kinds.
func askings() (all []asking) {
	call := func(what string, quorum bool, call func(ctx context.Context, c *relock.Client, name string) error) {
		all = append(all, asking{what, nil, func(ctx context.Context, c *relock.Client, name string, _ *relock.Lease) error {
			return call(ctx, c, name)
		}, quorum, true})
	}
	lockers := map[string]func(c *relock.Client, name string) relock.Locker{
		"Mutex": func(c *relock.Client, name string) relock.Locker { return c.Mutex(name) },
		"Mutex, fixed lease": func(c *relock.Client, name string) relock.Locker {
			return c.Mutex(name, relock.WithFixedLease(time.Hour))
		},
		"RWMutex": func(c *relock.Client, name string) relock.Locker { return c.RWMutex(name) },
		"Reader":  func(c *relock.Client, name string) relock.Locker { return c.RWMutex(name).Reader() },
		"Permits": func(c *relock.Client, name string) relock.Locker { return c.Semaphore(name, 3).Locker(2) },
		"Any": func(c *relock.Client, name string) relock.Locker {
			return relock.Any(c.Mutex(name+"1"), c.Mutex(name+"2"))
		},
		"Any of several ways": func(c *relock.Client, name string) relock.Locker {
			return relock.Any(c.Mutex(name+"1"), c.Semaphore(name+"2", 1).Locker(1))
		},
	}
	for what, of := range lockers {
		quorum := what == "Mutex" || what == "Any"
		call(what+".Lock", quorum, func(ctx context.Context, c *relock.Client, name string) error { return leased(of(c, name).Lock(ctx)) })
		call(what+".TryLock", quorum, func(ctx context.Context, c *relock.Client, name string) error {
			return leased(of(c, name).TryLock(ctx))
		})
		call(what+".Do", quorum, func(ctx context.Context, c *relock.Client, name string) error { return of(c, name).Do(ctx, nothing) })
	}
	for what, of := range map[string]func(c *relock.Client, name string) *relock.MultiLock{
		"All": func(c *relock.Client, name string) *relock.MultiLock {
			return relock.All(c.Mutex(name+"1"), c.Mutex(name+"2"))
		},
		"All one by one": func(c *relock.Client, name string) *relock.MultiLock {
			return relock.All(c.Mutex(name+"1"), c.RWMutex(name+"2"), c.Mutex(name+"3"))
		},
	} {
		quorum := what == "All"
		call(what+".Lock", quorum, func(ctx context.Context, c *relock.Client, name string) error { return leased(of(c, name).Lock(ctx)) })
		call(what+".TryLock", quorum, func(ctx context.Context, c *relock.Client, name string) error {
			return leased(of(c, name).TryLock(ctx))
		})
		call(what+".Do", quorum, func(ctx context.Context, c *relock.Client, name string) error { return of(c, name).Do(ctx, nothing) })
	}
	call("Acquire", false, func(ctx context.Context, c *relock.Client, name string) error {
		return leased(c.Semaphore(name, 2).Acquire(ctx, 1))
	})
	call("TryAcquire", false, func(ctx context.Context, c *relock.Client, name string) error {
		return leased(c.Semaphore(name, 2).TryAcquire(ctx, 1))
	})
	call("Semaphore.Do", false, func(ctx context.Context, c *relock.Client, name string) error {
		return c.Semaphore(name, 2).Do(ctx, nothing)
	})
	call("Semaphore.State", false, func(ctx context.Context, c *relock.Client, name string) error {
		return leased(c.Semaphore(name, 2).State(ctx))
	})
	call("SetPermits", false, func(ctx context.Context, c *relock.Client, name string) error {
		return c.Semaphore(name, 2).SetPermits(ctx, 3)
	})
	call("ForceUnlock", false, func(ctx context.Context, c *relock.Client, name string) error {
		return leased(c.Semaphore(name, 2).ForceUnlock(ctx))
	})
	call("State", true, func(ctx context.Context, c *relock.Client, name string) error {
		return leased(c.Mutex(name).State(ctx))
	})
	call("ForceUnlock", true, func(ctx context.Context, c *relock.Client, name string) error {
		return leased(c.Mutex(name).ForceUnlock(ctx))
	})
	call("RWMutex.State", false, func(ctx context.Context, c *relock.Client, name string) error {
		return leased(c.RWMutex(name).State(ctx))
	})
	call("Flight.Do", false, func(ctx context.Context, c *relock.Client, name string) error {
		_, _, err := c.Flight(name, time.Minute).Do(ctx, func(context.Context) ([]byte, error) { return nil, nil })
		return err
	})
	call("Flight.Do, WithWait", false, func(ctx context.Context, c *relock.Client, name string) error {
		_, _, err := c.Flight(name, time.Minute, relock.WithWait(time.Hour)).Do(ctx, func(context.Context) ([]byte, error) { return nil, nil })
		return err
	})
	call("Get", false, func(ctx context.Context, c *relock.Client, name string) error {
		_, _, err := c.Flight(name, time.Minute).Get(ctx)
		return err
	})
	call("Forget", false, func(ctx context.Context, c *relock.Client, name string) error {
		return c.Flight(name, time.Minute).Forget(ctx)
	})

	locked := func(t *testing.T, c *relock.Client, name string) *relock.Lease { return taken(t, c.Mutex(name).Lock) }
	var handles sync.Map // by name
	return append(all, []asking{
		{"Unlock", locked, func(ctx context.Context, _ *relock.Client, _ string, l *relock.Lease) error { return l.Unlock(ctx) }, true, false},
		{"Extend", locked, func(ctx context.Context, _ *relock.Client, _ string, l *relock.Lease) error {
			return l.Extend(ctx, defaultLease)
		}, true, true},
		{"Lock that re-enters", locked, func(ctx context.Context, c *relock.Client, name string, l *relock.Lease) error {
			under, cancel := context.WithCancelCause(l.Context())
			defer cancel(nil)
			stop := context.AfterFunc(ctx, func() { cancel(context.Cause(ctx)) })
			defer stop()
			if ctx.Err() != nil {
				cancel(context.Cause(ctx))
			}
			return leased(c.Mutex(name).Lock(under))
		}, true, true},
		{"HandOver", locked, func(ctx context.Context, _ *relock.Client, _ string, l *relock.Lease) error {
			return leased(l.HandOver(ctx, time.Minute))
		}, false, false},
		{"TakeOver", func(t *testing.T, c *relock.Client, name string) *relock.Lease {
			handle, err := taken(t, c.Mutex(name).Lock).HandOver(t.Context(), time.Minute)
			require.NoError(t, err)
			handles.Store(name, handle)
			return nil
		}, func(ctx context.Context, c *relock.Client, name string, _ *relock.Lease) error {
			handle, _ := handles.Load(name)
			return leased(c.Mutex(name).TakeOver(ctx, handle.(string)))
		}, false, true},
		{"RUnlock", func(t *testing.T, c *relock.Client, name string) *relock.Lease {
			return taken(t, c.RWMutex(name).RLock)
		},
			func(ctx context.Context, _ *relock.Client, _ string, l *relock.Lease) error { return l.Unlock(ctx) }, false, false},
		{"Downgrade", func(t *testing.T, c *relock.Client, name string) *relock.Lease { return taken(t, c.RWMutex(name).Lock) },
			func(ctx context.Context, _ *relock.Client, _ string, l *relock.Lease) error {
				return leased(l.Downgrade(ctx))
			}, false, true},
		{"Release", func(t *testing.T, c *relock.Client, name string) *relock.Lease {
			return taken(t, c.Semaphore(name, 1).Locker(1).Lock)
		},
			func(ctx context.Context, _ *relock.Client, _ string, l *relock.Lease) error { return l.Unlock(ctx) }, false, false},
	}...)
}

// heard notes the names that commands carry.
type heard struct {
	mu   sync.Mutex
	text strings.Builder
}

func (h *heard) filter(call *faults.Call) faults.Fate {
	if faults.AnyScript(call) {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.text.WriteString(strings.Join(call.Words, " "))
	}
	return faults.Pass
}

// forget forgets what was heard, once nothing more is under way of the lock of that name: a quorum's last vote may come late.
func (h *heard) forget(t *testing.T, servers []*redistest.Server, name string) {
	if len(servers) > 1 {
		onAll(t, servers, name)
		for n := -1; h.length() != n; time.Sleep(2 * time.Millisecond) {
			n = h.length()
		}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.text.Reset()
}

func (h *heard) length() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.text.Len()
}

func (h *heard) has(name string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return strings.Contains(h.text.String(), name)
}

// ErrNotAsked says that Redis was not asked, whatever the call and the kind of lock. A Redis that hangs was asked.
func TestWhatIsNotAsked(t *testing.T) {
	t.Parallel()
	for topology, n := range map[string]int{"one": 1, "quorum": 3} {
		t.Run(topology, func(t *testing.T) {
			t.Parallel()
			servers := masters(t, n)
			opts := []relock.ClientOption{relock.WithCommandTimeout(time.Second)}
			c, taps := tapped(t, servers, opts...)
			if n > 1 { // nodes of which a first call's context left some unasked would stay out for a while
				require.NoError(t, c.TrustNodes(t.Context()))
			}
			calls := slices.DeleteFunc(askings(), func(of asking) bool { return n > 1 && !of.quorum })

			// Contexts that end while a call is under way, or before it.
			h := new(heard)
			for _, tap := range taps {
				tap.Filter(h.filter)
			}
			for _, of := range calls {
				for i := range 60 {
					name := fmt.Sprintf("<%s %d>", of.what, i)
					var l *relock.Lease
					if of.prep != nil {
						l = of.prep(t, c, name)
						h.forget(t, servers, name)
					}
					ctx, cancel := context.WithTimeout(t.Context(), time.Duration(rand.N(int64(3*time.Millisecond))))
					if i < 3 {
						cancel()
					}
					err := of.call(ctx, c, name, l)
					cancel()
					if errors.Is(err, relock.ErrNotAsked) {
						require.False(t, h.has(name), "%s: %v", of.what, err)
						require.ErrorIs(t, err, relock.ErrUnavailable)
					}
					require.True(t, i >= 3 || !of.heeds || errors.Is(err, relock.ErrNotAsked), "%s: %v", of.what, err)
				}
			}
			for _, tap := range taps {
				tap.Filter(nil)
			}

			// Redis hangs, under live contexts.
			leases := make([]*relock.Lease, len(calls))
			for i, of := range calls {
				if of.prep != nil {
					leases[i] = of.prep(t, c, "hung "+of.what)
				}
			}
			for _, s := range servers {
				s.Pause()
			}
			var wg sync.WaitGroup
			errs := make([]error, len(calls))
			for i, of := range calls {
				wg.Go(func() {
					ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
					defer cancel()
					errs[i] = of.call(ctx, c, "hung "+of.what, leases[i])
				})
			}
			wg.Wait()
			for _, s := range servers {
				s.Resume()
			}
			for i, of := range calls {
				requireClass(t, relock.ErrUnavailable, errs[i], of.what)
				require.NotErrorIs(t, errs[i], relock.ErrNotAsked, of.what)
			}
		})
	}
}

// What All asked before it lost a lock, or waited for the next one, was asked.
func TestAllWasAsked(t *testing.T) {
	s := redistest.Start(t)
	var cancel context.CancelFunc
	c := newClient(t, s.Client(), relock.WithObserver(observe(func(e relock.Event) {
		if e.Kind == relock.EventAcquired && e.Lock == "a" {
			cancel()
		}
	})))
	for _, call := range []func(*relock.MultiLock, context.Context) (*relock.MultiLease, error){(*relock.MultiLock).Lock, (*relock.MultiLock).TryLock} {
		ctx, end := context.WithCancel(t.Context())
		defer end()
		cancel = end
		_, err := call(relock.All(c.Mutex("a"), c.RWMutex("b")), ctx)
		requireClass(t, relock.ErrUnavailable, err)
		require.NotErrorIs(t, err, relock.ErrNotAsked)
		require.ErrorIs(t, err, context.Canceled)
		require.Eventually(t, func() bool { return s.Do("EXISTS", "a") == "0" }, patience, time.Millisecond)
	}
}

// observe is an observer.
type observe func(relock.Event)

func (o observe) Observe(e relock.Event) { o(e) }
