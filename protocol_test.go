package relock

import (
	"context"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

// The tests of this file replay, step by step on a real Redis, the traces by which an exhaustive exploration broke
// earlier drafts of the protocol. docs/design.md tells each flaw and the rule that came of it.

// deaf is a node that receives no messages but those the test hands it.
func deaf(rdb rueidis.Client, id string, lease time.Duration) *node {
	cfg := defaultConfig()
	cfg.lease = lease
	l := newLink(rdb, cfg.commandTimeout())
	n := &node{link: l, scripts: newScripts(l, cfg.retention), timeout: l.timeout}
	n.sweeper = newSweeper(l, n.end, n.group, func() bool { return false })
	n.hub = newHub(rdb, id, cfg.log, n.sweeper.orphan)
	n.mode.Store(modePlain)
	return n
}

// asks sends one acquire of a and notes its answer, as contend does.
func asks(t *testing.T, n *node, a *acquisition) (grant, bool) {
	t.Helper()
	n.enter(a)
	g, held, err := n.poll(context.Background(), a)
	require.NoError(t, err)
	return g, held
}

func acquisitionOf(t *testing.T, name, client string, n uint64, lease time.Duration) *acquisition {
	t.Helper()
	nm, err := namesOf("", name)
	require.NoError(t, err)
	cfg := defaultConfig()
	cfg.lease = lease
	return newAcquisition(nm, client, n, "", &cfg)
}

// inboxOf subscribes a client's inbox in its place and returns what arrives.
func inboxOf(t *testing.T, s *redistest.Server, client string) <-chan string {
	t.Helper()
	got := make(chan string, 16)
	subscribe(t, s, inboxPrefix+client, func(message string) { got <- message })
	return got
}

// A grant that was delayed beyond the end of the ownership it tells of must not be believed, although the waiter's last
// poll was answered after it: the fencing counter in that answer gives it away.
func TestStaleGrantIsNotBelieved(t *testing.T) {
	s := redistest.Start(t)
	rdb := s.Client()
	holder, waiter := deaf(rdb, "h", time.Second), deaf(rdb, "w", time.Second)
	inbox := inboxOf(t, s, "w")
	a, b := acquisitionOf(t, "k", "h", 1, time.Second), acquisitionOf(t, "k", "w", 1, time.Second)
	_, held := asks(t, holder, a)
	require.True(t, held)
	_, held = asks(t, waiter, b)
	require.False(t, held)

	_, _, err := holder.release(context.Background(), a, nil)
	require.NoError(t, err)
	late := within(t, inbox) // the grant, delayed
	s.Do("DEL", "k")         // its lease runs out
	s.Do("HSET", "k", "java:1", "1")
	_, held = asks(t, waiter, b)
	require.False(t, held, "somebody else holds it")

	waiter.hub.receive(inboxPrefix+"w", late)
	_, held = waiter.granted(b)
	require.False(t, held, "the grant is older than the answered poll")
}

// The same grant in time is believed, and dated from the poll before it.
func TestGrantIsDatedFromThePoll(t *testing.T) {
	s := redistest.Start(t)
	rdb := s.Client()
	holder, waiter := deaf(rdb, "h", time.Second), deaf(rdb, "w", time.Second)
	inbox := inboxOf(t, s, "w")
	a, b := acquisitionOf(t, "k", "h", 1, time.Second), acquisitionOf(t, "k", "w", 1, time.Second)
	asks(t, holder, a)
	asks(t, waiter, b)
	polled := b.base
	_, _, err := holder.release(context.Background(), a, nil)
	require.NoError(t, err)
	waiter.hub.receive(inboxPrefix+"w", within(t, inbox))
	g, held := waiter.granted(b)
	require.True(t, held)
	require.Equal(t, polled, g.sent)
	require.Greater(t, g.token, b.counter)
	waiter.hub.receive(inboxPrefix+"w", "1 1 nobody")
	require.EqualValues(t, 1, waiter.hub.skipped.Load(), "what is no grant is counted and skipped")
}

// No command shortens a lease: neither a renewal, nor a late one, nor a re-entry.
func TestNothingShortensALease(t *testing.T) {
	s := redistest.Start(t)
	c := newClient(t, s.Client(), WithLease(time.Second))
	ctx := context.Background()
	l, err := c.Mutex("k").Lock(ctx)
	require.NoError(t, err)
	require.NoError(t, l.Extend(ctx, time.Minute))
	r := renewal{lock: "k", id: l.h.a.id, lease: time.Second}
	_, err = c.arb.(*node).scripts.renew(ctx, []renewal{r})
	require.NoError(t, err)
	inner, err := c.Mutex("k").Lock(l.Context())
	require.NoError(t, err)
	require.NoError(t, inner.Unlock(ctx))
	ttl, err := strconv.Atoi(s.Do("PTTL", "k"))
	require.NoError(t, err)
	require.Greater(t, ttl, 50_000)
	require.Greater(t, time.Until(l.Until()), 50*time.Second)
	require.NoError(t, l.Unlock(ctx))
}

// Who is handed a lock gets its own lease and its own block of tokens, not those of the one who let go.
func TestHandOverGivesTheReceiversLease(t *testing.T) {
	s := redistest.Start(t)
	rdb := s.Client()
	short, long := deaf(rdb, "s", time.Second), deaf(rdb, "l", time.Minute)
	inbox := inboxOf(t, s, "l")
	a, b := acquisitionOf(t, "k", "s", 1, time.Second), acquisitionOf(t, "k", "l", 1, time.Minute)
	a.block = 7
	asks(t, short, a)
	asks(t, long, b)
	_, _, err := short.release(context.Background(), a, nil)
	require.NoError(t, err)
	g, err := parseGrant(within(t, inbox))
	require.NoError(t, err)
	require.EqualValues(t, 60_000, g.lease)
	require.Equal(t, defaultPasses, g.count)
	require.Equal(t, strconv.FormatInt(g.token+defaultPasses-1, 10), s.Do("GET", "redisson_lock_token:{k}"))
	ttl, err := strconv.Atoi(s.Do("PTTL", "k"))
	require.NoError(t, err)
	require.Greater(t, ttl, 50_000)
}

// An acquire that comes after its caller gave up takes the lock for nobody, and no message tells: the sweeper comes back.
func TestLateAcquireIsSwept(t *testing.T) {
	s := redistest.Start(t)
	w := newWire(t, s)
	c := newClient(t, w, WithLease(600*time.Millisecond))
	require.NoError(t, c.Mutex("k").Do(context.Background(), func(context.Context) error { return nil })) // loads the scripts
	var (
		late  lines
		swept bool // the first sweep has run; those behind it get lost until the test has seen what came late
	)
	w.on(func(op string, send func()) verdict {
		switch op {
		case "acquire":
			late.keep(send)
			return loseCall
		case "sweep":
			if swept {
				return loseCall
			}
			swept = true
			return tell
		}
		return pass
	})
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	_, err := c.Mutex("k").Lock(ctx)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	within(t, w.told)
	late.flush()
	require.Equal(t, "1", s.Do("EXISTS", "k"), "the late acquire took it")
	s.Do("PERSIST", "k") // so that only the sweeper can end it
	w.on(nil)
	require.Eventually(t, func() bool { return s.Do("EXISTS", "k") == "0" }, patience, 5*time.Millisecond)
}

// A late copy of an acquire that retakes the lock after a regular unlock is swept too.
func TestLateCopyAfterUnlockIsSwept(t *testing.T) {
	s := redistest.Start(t)
	w := newWire(t, s)
	c := newClient(t, w, WithLease(600*time.Millisecond))
	require.NoError(t, c.Mutex("k").Do(context.Background(), func(context.Context) error { return nil })) // loads the scripts
	var late lines
	w.on(func(op string, send func()) verdict {
		if op == "acquire" && late.len() == 0 {
			late.keep(send)
			return loseCall
		}
		return pass
	})
	ctx := context.Background()
	l, err := c.Mutex("k").Lock(ctx)
	require.NoError(t, err)
	require.NoError(t, l.Unlock(ctx))
	late.flush()
	require.Equal(t, "1", s.Do("EXISTS", "k"), "the copy took it again")
	s.Do("PERSIST", "k")
	require.Eventually(t, func() bool { return s.Do("EXISTS", "k") == "0" }, patience, 5*time.Millisecond)
}

// Giving up is repeated until Redis has answered: one lost command must not keep the lock for a lease.
func TestAbandonIsRepeated(t *testing.T) {
	s := redistest.Start(t)
	w := newWire(t, s)
	c := newClient(t, w)
	other, err := newClient(t, s.Client()).Mutex("k").Lock(context.Background())
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	result := make(chan error)
	go func() {
		_, err := c.Mutex("k").Lock(ctx)
		result <- err
	}()
	queued(t, s, "k", 1)
	lost := 0
	w.on(func(op string, _ func()) verdict {
		if op == "release" && lost < 3 {
			lost++
			return loseCall
		}
		return pass
	})
	cancel()
	require.ErrorIs(t, within(t, result), context.Canceled)
	queued(t, s, "k", 0)
	require.NoError(t, other.Unlock(context.Background()))
}

// queued waits until n waiters stand in the lock's queue.
func queued(t *testing.T, s *redistest.Server, name string, n int) {
	t.Helper()
	require.Eventually(t, func() bool {
		return s.Do("ZCARD", "relock_queue:{"+name+"}") == strconv.Itoa(n)
	}, patience, time.Millisecond)
}

// listening waits until c's inbox is subscribed.
func listening(t *testing.T, s *redistest.Server, c *Client) {
	t.Helper()
	require.Eventually(t, func() bool {
		return strings.HasSuffix(s.Do("PUBSUB", "NUMSUB", inboxPrefix+c.ID()), "1")
	}, patience, time.Millisecond)
}

// A grant that arrives while the abandon of its waiter is still unanswered may have happened after that abandon ran: it
// is not the last word.
func TestGrantDuringAbandonIsSweptAgain(t *testing.T) {
	s := redistest.Start(t)
	w := newWire(t, s)
	n := deaf(w, "w", 30*time.Second)
	a := acquisitionOf(t, "k", "w", 1, 30*time.Second)
	s.Do("HSET", "k", "java:1", "1")
	asks(t, n, a)
	_, err := n.sweeper.try([]*acquisition{acquisitionOf(t, "other", "w", 2, time.Minute)})
	require.NoError(t, err) // nothing was there, but the script is loaded
	first := true
	w.on(func(op string, _ func()) verdict {
		if op == "sweep" && first {
			first = false
			return stall
		}
		return pass
	})
	n.abandon(a)
	within(t, w.told)
	s.Do("DEL", "k")
	s.Do("HSET", "k", a.id, "1") // a late copy of the acquire took it
	n.hub.receive(inboxPrefix+"w", "1 30000 w:1 0 k")
	w.answer <- struct{}{}
	require.Eventually(t, func() bool { return s.Do("EXISTS", "k") == "0" }, patience, time.Millisecond)
	n.stop()
	n.close()
}

// The release that queues the next goroutine's acquisition comes late: the next one, who meanwhile owns the lock, keeps it.
func TestLateReleaseDoesNotFreeTheNext(t *testing.T) {
	s := redistest.Start(t)
	w := newWire(t, s)
	c := newClient(t, w, WithLocalHandoff(1, 0))
	ctx := context.Background()
	m := c.Mutex("k")
	l, err := m.Lock(ctx)
	require.NoError(t, err)
	next := make(chan *Lease)
	go func() {
		l, err := m.Lock(ctx)
		if err != nil {
			t.Error(err)
		}
		next <- l
	}()
	require.Eventually(t, func() bool { return c.gates.Waiting("k") }, patience, time.Millisecond)
	var late lines
	w.on(func(op string, send func()) verdict {
		if op == "release" && late.len() == 0 {
			late.keep(send)
			return loseCall
		}
		return pass
	})
	require.NoError(t, l.Unlock(ctx))
	second := within(t, next)
	late.flush()
	require.Equal(t, "1", s.Do("HGET", "k", second.h.a.id))
	require.NoError(t, second.Context().Err())
	require.Greater(t, second.Token(), l.Token())
	require.NoError(t, second.Unlock(ctx))
}

// A grant for somebody who is gone is given back as it arrives, and never adopted by another waiter.
func TestOrphanGrantIsGivenBack(t *testing.T) {
	s := redistest.Start(t)
	c := newClient(t, s.Client())
	n := c.arb.(*node)
	s.Do("HSET", "k", c.id+":99", "1")
	s.Do("SET", "redisson_lock_token:{k}", "256")
	n.hub.receive(inboxPrefix+c.id, "1 30000 "+c.id+":99 0 k")
	require.Eventually(t, func() bool { return s.Do("EXISTS", "k") == "0" }, patience, time.Millisecond)
}

// Renewals that ran unanswered have lengthened the lease: when trust ends, the lock is given back and not left to lapse.
func TestLostHoldIsGivenBack(t *testing.T) {
	s := redistest.Start(t)
	w := newWire(t, s)
	c := newClient(t, w, WithLease(400*time.Millisecond))
	l, err := c.Mutex("k").Lock(context.Background())
	require.NoError(t, err)
	w.on(func(op string, _ func()) verdict {
		if op == "renew" {
			s.Client().Do(context.Background(), s.Client().B().Pexpire().Key("k").Milliseconds(60_000).Build())
			return loseBack
		}
		return pass
	})
	<-l.Context().Done()
	require.ErrorIs(t, context.Cause(l.Context()), ErrLost)
	require.Eventually(t, func() bool { return s.Do("EXISTS", "k") == "0" }, patience, time.Millisecond)
	require.ErrorIs(t, l.Unlock(context.Background()), ErrLost)
}

// A hold count is written, not incremented: re-entries and inner unlocks whose replies are lost, that run twice or late,
// never free a held lock, and the last unlock frees it whatever the number says.
func TestHoldCountSurvivesLostAndLateCommands(t *testing.T) {
	s := redistest.Start(t)
	w := newWire(t, s)
	c := newClient(t, w)
	ctx := context.Background()
	m := c.Mutex("k")
	l, err := m.Lock(ctx)
	require.NoError(t, err)
	count := func() string { return s.Do("HGET", "k", l.h.a.id) }

	lost := false
	w.on(func(op string, send func()) verdict {
		if op != "recount" || lost {
			return pass
		}
		lost = true
		send()
		return loseBack // ran twice, unanswered, and is sent a third time
	})
	inner, err := m.Lock(l.Context())
	require.NoError(t, err)
	require.Equal(t, "2", count())
	require.Equal(t, 2, l.Count())

	lost = false
	require.NoError(t, inner.Unlock(ctx))
	require.Equal(t, "1", count())

	var late lines
	w.on(func(op string, send func()) verdict {
		if op == "recount" && late.len() == 0 {
			late.keep(send)
			return loseCall
		}
		return pass
	})
	inner, err = m.Lock(l.Context())
	require.NoError(t, err)
	require.NoError(t, inner.Unlock(ctx))
	late.flush()
	require.Equal(t, "2", count(), "the late re-entry left a wrong number")
	w.on(nil)
	require.NoError(t, l.Unlock(ctx))
	require.Equal(t, "0", s.Do("EXISTS", "k"))
}

// A renewal that knows of no wrong number leaves it alone.
func TestRenewalKeepsTheCount(t *testing.T) {
	s := redistest.Start(t)
	w := newWire(t, s)
	c := newClient(t, w, WithLease(2*time.Second))
	ctx := context.Background()
	l, err := c.Mutex("k").Lock(ctx)
	require.NoError(t, err)
	inner, err := c.Mutex("k").Lock(l.Context())
	require.NoError(t, err)
	w.on(func(op string, _ func()) verdict {
		if op == "renew" {
			return tell
		}
		return pass
	})
	within(t, w.told)
	require.Equal(t, "2", s.Do("HGET", "k", l.h.a.id))
	w.on(nil)
	require.NoError(t, inner.Unlock(ctx))
	require.NoError(t, l.Unlock(ctx))
}

// A wrong number is put right by the next renewal.
func TestRenewalRepairsTheCount(t *testing.T) {
	s := redistest.Start(t)
	w := newWire(t, s)
	c := newClient(t, w, WithLease(300*time.Millisecond))
	ctx := context.Background()
	l, err := c.Mutex("k").Lock(ctx)
	require.NoError(t, err)
	inner, err := c.Mutex("k").Lock(l.Context())
	require.NoError(t, err)
	w.on(func(op string, _ func()) verdict {
		if op == "recount" {
			return loseCall
		}
		return pass
	})
	require.NoError(t, inner.Unlock(ctx), "the count kept here decides")
	require.Equal(t, 1, l.Count())
	require.Eventually(t, func() bool { return s.Do("HGET", "k", l.h.a.id) == "1" }, patience, 5*time.Millisecond)
	w.on(nil)
	require.NoError(t, l.Unlock(ctx))
}

// A count that was not answered may overtake a later one that was: renewals go on repairing until it cannot come any more.
func TestRenewalRepairsALateCount(t *testing.T) {
	for name, opt := range map[string]Option{"kept": WithLease(2 * time.Second), "fixed": WithFixedLease(10 * time.Second)} {
		t.Run(name, func(t *testing.T) {
			s := redistest.Start(t)
			w := newWire(t, s)
			m := newClient(t, w).Mutex("k", opt)
			ctx := context.Background()
			l, err := m.Lock(ctx)
			require.NoError(t, err)
			var late lines
			w.on(func(op string, send func()) verdict {
				if op == "recount" && late.len() == 0 {
					late.keep(send)
					return loseCall
				}
				if op == "renew" { // one would repair, or be, a count that is looked at below
					return loseCall
				}
				return pass
			})
			second, err := m.Lock(l.Context())
			require.NoError(t, err)
			third, err := m.Lock(second.Context())
			require.NoError(t, err)
			late.flush()
			count := func() string { return s.Do("HGET", "k", l.h.a.id) }
			require.Equal(t, "2", count())
			w.on(nil)
			require.Eventually(t, func() bool { return count() == "3" }, 5*time.Second, time.Millisecond)
			for _, l := range []*Lease{third, second, l} {
				require.NoError(t, l.Unlock(ctx))
			}
		})
	}
}

// Where grants cannot be sent, a release queues nobody: no hand-over would ever take the entry out again, and the
// successor would sleep beside the free lock.
func TestRaceQueuesNobody(t *testing.T) {
	s := redistest.Start(t)
	n := deaf(s.Client(), "h", 30*time.Second)
	n.mode.Store(modeRaceOnly)
	a, next := acquisitionOf(t, "k", "h", 1, 30*time.Second), acquisitionOf(t, "k", "h", 2, 30*time.Second)
	_, held := asks(t, n, a)
	require.True(t, held)
	_, held, err := n.release(context.Background(), a, next)
	require.NoError(t, err)
	require.False(t, held)
	require.False(t, next.primed, "it has to ask for itself")
	require.Equal(t, "0", s.Do("EXISTS", "k", "relock_queue:{k}"))
	_, held = asks(t, n, next)
	require.True(t, held)
}

// A dead waiter is not handed the lock because somebody watches all channels by pattern.
func TestPatternSubscribersAreNoWaiters(t *testing.T) {
	s := redistest.Start(t)
	rdb := s.Client()
	watcher, release := s.Client().Dedicate()
	defer release()
	watcher.SetPubSubHooks(rueidis.PubSubHooks{})
	require.NoError(t, watcher.Do(context.Background(), watcher.B().Psubscribe().Pattern("relock_*").Build()).Error())
	require.Eventually(t, func() bool { return s.Do("PUBSUB", "NUMPAT") == "1" }, patience, time.Millisecond)

	holder, dead := deaf(rdb, "h", 30*time.Second), deaf(rdb, "dead", 30*time.Second)
	a := acquisitionOf(t, "k", "h", 1, 30*time.Second)
	asks(t, holder, a)
	asks(t, dead, acquisitionOf(t, "k", "dead", 1, 30*time.Second))
	_, _, err := holder.release(context.Background(), a, nil)
	require.NoError(t, err)
	require.Equal(t, "0", s.Do("EXISTS", "k"))
}

// Expiry leaves a free lock with a queue. Whoever notices serves the queue first: a TryLock does not push in, and tells
// who has it now.
func TestWhoeverNoticesServesTheQueue(t *testing.T) {
	s := redistest.Start(t)
	ctx := context.Background()
	waiter, passer := newClient(t, s.Client()), newClient(t, s.Client())
	s.Do("HSET", "k", "java:1", "1")
	granted := make(chan *Lease)
	go func() {
		l, err := waiter.Mutex("k").Lock(ctx)
		if err != nil {
			t.Error(err)
		}
		granted <- l
	}()
	queued(t, s, "k", 1)
	listening(t, s, waiter)
	s.Do("DEL", "k")
	_, err := passer.Mutex("k").TryLock(ctx)
	var held *HeldError
	require.ErrorAs(t, err, &held)
	require.True(t, strings.HasPrefix(held.Holder, waiter.ID()), "held by %s", held.Holder)
	l := within(t, granted)
	require.NoError(t, l.Unlock(ctx))
}

// Redis that is out of memory refuses new locks, but lets go of those it has and hands them over.
func TestOutOfMemoryLetsGo(t *testing.T) {
	s := redistest.Start(t)
	ctx := context.Background()
	c, d := newClient(t, s.Client()), newClient(t, s.Client())
	l, err := c.Mutex("k").Lock(ctx)
	require.NoError(t, err)
	granted := make(chan *Lease)
	go func() {
		l, err := d.Mutex("k").Lock(ctx)
		if err != nil {
			t.Error(err)
		}
		granted <- l
	}()
	queued(t, s, "k", 1)
	listening(t, s, d)
	s.Do("CONFIG", "SET", "maxmemory", "1")
	_, err = d.Mutex("other").Lock(ctx)
	var node *NodeError
	require.ErrorAs(t, err, &node)
	require.ErrorContains(t, err, "OOM")
	require.NoError(t, l.Unlock(ctx))
	l = within(t, granted)
	require.NoError(t, l.Unlock(ctx))
}

// A holder that was deposed while its inbox was not subscribed is told once it is.
func TestDeposedIsToldOnSubscribing(t *testing.T) {
	s := redistest.Start(t)
	c := newClient(t, s.Client())
	l, err := c.Mutex("k").Lock(context.Background())
	require.NoError(t, err)
	listening(t, s, c)
	s.Do("CLIENT", "KILL", "TYPE", "pubsub")
	s.Do("DEL", "k")
	select {
	case <-l.Context().Done():
	case <-time.After(5 * time.Second):
		require.Fail(t, "told on re-subscribing, not by the renewal after 10 s")
	}
	require.ErrorIs(t, context.Cause(l.Context()), ErrLost)
}
