package suite_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

// Every refusal says when to try again, by all ways: replicas that have both had the lock say about the same, be it another
// process that is in the way or a goroutine of their own.
func TestRefusalsSayWhenToTryAgain(t *testing.T) {
	t.Parallel()
	bothTopologies(t, func(t *testing.T, servers []*redistest.Server, a *relock.Client) {
		b, fresh := another(t, servers), another(t, servers)
		kinds := []string{"mutex"}
		if len(servers) == 1 {
			kinds = append(kinds, "writer", "reader")
		}
		type kind struct {
			lock, try func(context.Context) (*relock.Lease, error)
		}
		of := func(c *relock.Client, name string) kind {
			rw, brief := c.RWMutex(name), c.RWMutex(name, relock.WithWait(500*time.Millisecond))
			m, briefly := c.Mutex(name), c.Mutex(name, relock.WithWait(500*time.Millisecond))
			switch name {
			case "mutex":
				return kind{m.Lock, func(ctx context.Context) (*relock.Lease, error) { return briefly.Lock(ctx) }}
			case "writer":
				return kind{rw.Lock, brief.RLock}
			default:
				return kind{rw.RLock, brief.Lock}
			}
		}
		tries := func(c *relock.Client, name string) func(context.Context) (*relock.Lease, error) {
			switch name {
			case "mutex":
				return c.Mutex(name).TryLock
			case "writer":
				return c.RWMutex(name).TryRLock
			default:
				return c.RWMutex(name).TryLock
			}
		}
		for _, name := range kinds {
			t.Run(name, func(t *testing.T) {
				var longest time.Duration
				for range 2 {
					for _, c := range []*relock.Client{a, b} {
						began := time.Now() // the client's reckoning begins with the grant, before Lock returns
						l, err := of(c, name).lock(t.Context())
						require.NoError(t, err)
						time.Sleep(60 * time.Millisecond)
						require.NoError(t, l.Unlock(t.Context()))
						longest = max(longest, time.Since(began))
					}
				}
				began := time.Now()
				l, err := of(a, name).lock(t.Context())
				require.NoError(t, err)
				onAll(t, servers, name)
				for who, call := range map[string]func(context.Context) (*relock.Lease, error){
					"the holder's own TryLock": tries(a, name), "its Lock": of(a, name).try,
					"another's TryLock": tries(b, name), "its Lock, too": of(b, name).try,
				} {
					_, err := call(t.Context())
					var held *relock.HeldError
					require.ErrorAs(t, err, &held, who)
					require.GreaterOrEqual(t, held.RetryAfter, 60*time.Millisecond, who)
					require.LessOrEqual(t, held.RetryAfter, max(longest, time.Since(began)), who)
				}
				_, err = tries(fresh, name)(t.Context())
				var held *relock.HeldError
				require.ErrorAs(t, err, &held)
				require.Equal(t, time.Second, held.RetryAfter, "it has seen nothing")
				require.NoError(t, l.Unlock(t.Context()))
			})
		}
	})
}

// Behind a goroutine of its own process a caller learns as much as behind another process: which holder is in the way, for
// how long it may be so, and to try later the longer that has lasted. So it does if the lock's holder is elsewhere.
func TestRefusalsTellOfAHolderHere(t *testing.T) {
	t.Parallel()
	type lock func(context.Context) (*relock.Lease, error)
	for name, of := range map[string]func(c *relock.Client) (take, briefly lock){
		"mutex": func(c *relock.Client) (lock, lock) {
			return c.Mutex("k").Lock, c.Mutex("k", relock.WithWait(250*time.Millisecond)).Lock
		},
		"writer": func(c *relock.Client) (lock, lock) {
			return c.RWMutex("k").Lock, c.RWMutex("k", relock.WithWait(250*time.Millisecond)).Lock
		},
		"reader behind a writer": func(c *relock.Client) (lock, lock) {
			return c.RWMutex("k").Lock, c.RWMutex("k", relock.WithWait(250*time.Millisecond)).RLock
		},
		"permits": func(c *relock.Client) (lock, lock) {
			return c.Semaphore("k", 1).Locker(1).Lock, c.Semaphore("k", 1, relock.WithWait(250*time.Millisecond)).Locker(1).Lock
		},
		"result of a Flight": func(c *relock.Client) (lock, lock) {
			o := c.Flight("k", time.Hour, relock.WithWait(250*time.Millisecond))
			return c.Mutex("k").Lock, func(ctx context.Context) (*relock.Lease, error) {
				_, _, err := o.Do(ctx, func(context.Context) ([]byte, error) { return nil, nil })
				return nil, err
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := redistest.Start(t)
			here := newClient(t, s.Client(), relock.WithClientName("here"))
			there := newClient(t, s.Client(), relock.WithClientName("there"))
			longest := time.Duration(0)
			for where, holder := range map[string]*relock.Client{"here": here, "there": there} {
				take, _ := of(holder)
				began := time.Now()
				l, err := take(t.Context())
				require.NoError(t, err)
				_, briefly := of(here)
				refusals := make(chan error, 2)
				for range 3 {
					for range 2 { // the one at the gate, and one behind it
						time.Sleep(100 * time.Millisecond) // so that the second has time to ask when the first gives up
						go func() {
							_, err := briefly(t.Context())
							refusals <- err
						}()
					}
					for range 2 {
						var held *relock.HeldError
						err := <-refusals
						if errors.Is(err, relock.ErrUnavailable) {
							continue // the machine is too slow for so short a wait
						}
						require.ErrorAs(t, err, &held)
						require.Equal(t, where, held.Client.Name, "local: %v, %v", held.Local, held)
						require.Positive(t, held.TTL)
						require.Equal(t, entryOf(l).ID, held.Holder)
					}
				}
				time.Sleep(max(0, 1500*time.Millisecond-time.Since(began)))
				for err = relock.ErrUnavailable; errors.Is(err, relock.ErrUnavailable); {
					_, err = briefly(t.Context())
				}
				var held *relock.HeldError
				require.ErrorAs(t, err, &held)
				require.Greater(t, held.RetryAfter, time.Second, "it has lasted for 1.5 s")
				unlocked(t, l)
				longest = max(longest, time.Since(began))
				require.LessOrEqual(t, held.RetryAfter, longest)
			}
		})
	}
}

// A refusal says what is so: it tells a lock that waits to be taken over from one that is held, and promises that the holder may
// give way only where locks linger.
func TestRefusalsSayWhatIsSo(t *testing.T) {
	s := redistest.Start(t)
	c := newClient(t, s.Client(), relock.WithClientName("api"))
	plain, lingering := newClient(t, s.Client(), relock.WithClientName("plain")), newClient(t, s.Client(), relock.WithLinger(time.Minute))
	l := taken(t, c.Mutex("k").Lock)
	listening(t, s, c)
	for client, hint := range map[*relock.Client]bool{plain: false, lingering: true} {
		_, err := client.Mutex("k").TryLock(t.Context())
		var held *relock.HeldError
		require.ErrorAs(t, err, &held)
		require.True(t, held.Wanted)
		require.Equal(t, hint, strings.Contains(err.Error(), "try again"), err)
	}
	handle, err := l.HandOver(t.Context(), time.Minute)
	require.NoError(t, err)
	_, err = plain.Mutex("k").TryLock(t.Context())
	require.ErrorContains(t, err, "held by a handle of api on ")
	require.ErrorContains(t, err, ", to be taken over within ")
	st, err := plain.Mutex("k").State(t.Context())
	require.NoError(t, err)
	require.Contains(t, st.String(), "held by a handle of api on ")
	_, err = c.Mutex("k").TakeOver(t.Context(), handle)
	require.NoError(t, err)
}
