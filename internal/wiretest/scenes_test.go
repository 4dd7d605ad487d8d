package wiretest

import (
	"strconv"
	"time"

	"github.com/relock-go/relock"
	"github.com/stretchr/testify/require"
)

// oneRedis are the scenes on a single Redis.
var oneRedis = []scene{
	{name: "lock", nodes: 1, acts: func(w *wireStage) {
		m := w.client().Mutex("orders")
		l := w.locks("A locks", m)
		w.unlocks("A unlocks", l)
		w.unlocks("A unlocks again", w.locks("A locks again", m))
	}},
	{name: "lock-counted", nodes: 1, acts: func(w *wireStage) {
		m := w.client().Mutex("orders")
		w.counted()
		w.unlocks("A unlocks", w.locks("A locks", m))
		w.unlocks("A unlocks again", w.locks("A locks again", m))
	}},
	{name: "re-entry", nodes: 1, acts: func(w *wireStage) { reentersOn(w, w.client()) }},
	{name: "re-entry-lost", nodes: 1, acts: func(w *wireStage) {
		m := w.client().Mutex("orders")
		l := w.locks("A locks", m)
		w.sends("DEL", "orders")
		w.step("A re-enters", func() {
			_, err := m.Lock(l.Context())
			require.ErrorIs(w.t, err, relock.ErrLost)
		})
	}},
	{name: "try-lock", nodes: 1, acts: func(w *wireStage) {
		a, b := w.client(), w.client()
		var l *relock.Lease
		w.step("A tries", func() {
			var err error
			l, err = a.Mutex("orders").TryLock(w.t.Context())
			require.NoError(w.t, err)
		})
		w.busy("B tries", b.Mutex("orders"))
		w.busy("B tries again", b.Mutex("orders"))
		w.unlocks("A unlocks", l)
	}},
	{name: "all", nodes: 1, acts: func(w *wireStage) {
		a, b := w.client(), w.client()
		orders, stock := a.Mutex("orders"), a.Mutex("stock")
		w.unlocks("A unlocks", w.locks("A locks", orders)) // Redis counts it now, and not the other
		all := relock.All(stock, orders)
		var l *relock.MultiLease
		w.step("A locks all", func() {
			var err error
			l, err = all.Lock(w.t.Context())
			require.NoError(w.t, err)
		})
		w.step("B tries all", func() {
			_, err := relock.All(b.Mutex("orders"), b.Mutex("stock")).TryLock(w.t.Context())
			require.ErrorIs(w.t, err, relock.ErrNotAcquired)
		})
		w.unlocks("A unlocks one", l.Lease("orders"))
		w.unlocks("A unlocks the other", l.Lease("stock"))
		w.sends("ZADD", "relock_queue:{stock}", "1000", "30000:1:00000000-0000-4000-8000-000000000000:00000000000000001:")
		w.step("A locks all behind a waiter that is gone", func() {
			var err error
			l, err = all.TryLock(w.t.Context())
			require.NoError(w.t, err)
		})
	}},
	{name: "any", nodes: 1, acts: func(w *wireStage) {
		a, b := w.client(), w.client()
		var l *relock.Lease
		w.step("A locks any", func() {
			var err error
			l, err = relock.Any(a.Mutex("orders")).Lock(w.t.Context())
			require.NoError(w.t, err)
		})
		w.step("B tries any", func() {
			_, err := relock.Any(b.Mutex("orders")).TryLock(w.t.Context())
			require.ErrorIs(w.t, err, relock.ErrNotAcquired)
		})
		w.unlocks("A unlocks", l)
	}},
	{name: "hand-over", nodes: 1, acts: func(w *wireStage) { handsOver(w, w.client(), w.client()) }},
	{name: "queue-of-three", nodes: 1, acts: func(w *wireStage) {
		a, b, c := w.client(), w.client(), w.client()
		l := w.locks("A locks", a.Mutex("orders"))
		second := w.waits("B waits", b.Mutex("orders"))
		third := w.waits("C waits", c.Mutex("orders"))
		l = w.passes("A unlocks", l, second)
		l = w.passes("B unlocks", l, third)
		w.unlocks("C unlocks", l)
	}},
	{name: "no-overtaking", nodes: 1, acts: func(w *wireStage) {
		a, b, c := w.client(), w.client(), w.client()
		l := w.locks("A locks", a.Mutex("orders"))
		second := w.waits("B waits", b.Mutex("orders"))
		w.busy("C tries", c.Mutex("orders"))
		w.busy("A tries", a.Mutex("orders"))
		w.unlocks("B unlocks", w.passes("A unlocks", l, second))
	}},
	{name: "queue-member-is-gone", nodes: 1, acts: func(w *wireStage) {
		a, b := w.client(), w.client()
		l := w.locks("A locks", a.Mutex("orders"))
		w.sends("ZADD", "relock_queue:{orders}", "5", "30000:256:11111111-2222-3333-4444-555555555555:1:")
		w.sends("ZADD", "relock_queue:{orders}", "6", "what is this")
		next := w.waits("B waits", b.Mutex("orders"))
		w.unlocks("B unlocks", w.passes("A unlocks", l, next))
	}},
	{name: "older-client-waits", nodes: 1, acts: func(w *wireStage) {
		l := w.locks("A locks", w.client().Mutex("orders"))
		w.hears("relock_inbox:old")
		w.sends("ZADD", "relock_queue:{orders}", "5", "30000:64:old:1")
		w.unlocks("A unlocks", l)
	}},
	{name: "redisson-holds", nodes: 1, acts: func(w *wireStage) {
		m := w.client().Mutex("orders")
		w.sends("HSET", "orders", "11111111-2222-3333-4444-555555555555:1", "1")
		w.sends("PEXPIRE", "orders", "60000")
		w.busy("A tries", m)
		p := w.waits("A waits", m)
		w.sends("DEL", "orders")
		var l *relock.Lease
		w.step("Redisson unlocks", func() {
			w.servers[0].Do("PUBLISH", "redisson_lock__channel:{orders}", "0")
			l = p.gets()
		})
		w.unlocks("A unlocks", l)
	}},
	{name: "extend", nodes: 1, acts: func(w *wireStage) { extendsOn(w, w.client()) }},
	{name: "fixed-lease", nodes: 1, acts: func(w *wireStage) {
		m := w.client().Mutex("orders", relock.WithFixedLease(10*time.Second))
		l := w.locks("A locks", m)
		inner := w.locksUnder(l.Context(), "A re-enters", m)
		w.unlocks("A unlocks the inner one", inner)
		w.unlocks("A unlocks", l)
	}},
	{name: "fixed-lease-long", nodes: 1, acts: func(w *wireStage) {
		m := w.client().Mutex("orders", relock.WithFixedLease(time.Minute))
		l := w.locks("A locks", m)
		inner := w.locksUnder(l.Context(), "A re-enters", m)
		w.unlocks("A unlocks the inner one", inner)
		w.unlocks("A unlocks", l)
	}},
	{name: "max-hold", nodes: 1, acts: func(w *wireStage) {
		a := w.client()
		w.unlocks("A unlocks", w.locks("A locks for a minute", a.Mutex("orders", relock.WithMaxHold(time.Minute))))
		short := a.Mutex("orders", relock.WithMaxHold(10*time.Second))
		w.unlocks("A unlocks again", w.locks("A locks for ten seconds", short))
	}},
	{name: "min-hold", nodes: 1, acts: func(w *wireStage) { keeps(w, w.client(), w.client()) }},
	{name: "owner", nodes: 1, acts: func(w *wireStage) { sharesOwner(w, w.client(), w.client()) }},
	{name: "owner-queues", nodes: 1, acts: func(w *wireStage) {
		a, b := w.client(), w.client()
		l := w.locks("A locks", a.Mutex("orders"))
		var p *pending
		w.step("B waits as the owner job", func() { p = w.begin(relock.WithOwner(w.t.Context(), "job"), b.Mutex("orders")) })
		w.stepUpTo(1, "A unlocks", func() {
			require.NoError(w.t, l.Unlock(w.t.Context()))
			p.gets()
		})
	}},
	{name: "force-unlock", nodes: 1, acts: func(w *wireStage) {
		a, b := w.client(), w.client()
		w.locks("A locks", a.Mutex("orders"))
		w.forces("B forces", b.Mutex("orders"), true)
		w.forces("B forces the free lock", b.Mutex("orders"), false)
	}},
	{name: "force-unlock-waiter", nodes: 1, acts: func(w *wireStage) {
		a, b, c := w.client(), w.client(), w.client()
		w.locks("A locks", a.Mutex("orders"))
		p := w.waits("B waits", b.Mutex("orders"))
		w.forces("C forces", c.Mutex("orders"), true)
		w.unlocks("B unlocks", p.gets())
	}},
	{name: "redisson-waits", nodes: 1, acts: func(w *wireStage) {
		l := w.locks("A locks", w.client().Mutex("orders"))
		w.hears("redisson_lock__channel:{orders}")
		w.unlocks("A unlocks", l)
	}},
	{name: "redisson-waits-before-relock", nodes: 1, acts: func(w *wireStage) {
		a, b := w.client(), w.client()
		l := w.locks("A locks", a.Mutex("orders"))
		w.waits("B waits", b.Mutex("orders"))
		w.hears("redisson_lock__channel:{orders}")
		w.stepUpTo(1, "A unlocks", func() { require.NoError(w.t, l.Unlock(w.t.Context())) })
	}},
	{name: "local-hand-off", nodes: 1, acts: func(w *wireStage) {
		passesOn(w, w.client(relock.WithLocalHandoff(16, time.Hour)))
	}},
	{name: "local-hand-off-never", nodes: 1, acts: func(w *wireStage) {
		passesOn(w, w.client(relock.WithLocalHandoff(1, 0)))
	}},
	{name: "release-queues-next", nodes: 1, acts: func(w *wireStage) {
		a, b := w.client(relock.WithLocalHandoff(1, 0)), w.client()
		l := w.locks("A locks", a.Mutex("orders"))
		behind := w.parks("A waits behind it", a.Mutex("orders"))
		other := w.waits("B waits", b.Mutex("orders"))
		l = w.passes("A unlocks", l, other)
		l = w.passes("B unlocks", l, behind)
		w.unlocks("A unlocks again", l)
	}},
	{name: "close-held", nodes: 1, acts: func(w *wireStage) {
		a, b := w.client(), w.client()
		w.locks("A locks", a.Mutex("orders"))
		w.step("A closes", a.Close)
		w.busy("B tries", b.Mutex("orders"))
	}},
	{name: "prefix", nodes: 1, acts: func(w *wireStage) {
		handsOver(w, w.client(relock.WithNamePrefix("app:")), w.client(relock.WithNamePrefix("app:")))
	}},
	{name: "hash-tag", nodes: 1, acts: func(w *wireStage) {
		w.unlocks("A unlocks", w.locks("A locks", w.client().Mutex("a{7}b")))
	}},
	{name: "unlock-twice", nodes: 1, acts: unlocksTwice},
	{name: "unlock-lost", nodes: 1, acts: func(w *wireStage) {
		l := w.locks("A locks", w.client().Mutex("orders"))
		w.sends("DEL", "orders")
		w.step("A unlocks", func() { require.ErrorIs(w.t, l.Unlock(w.t.Context()), relock.ErrLost) })
	}},
	{name: "gives-up", nodes: 1, acts: func(w *wireStage) { givesUp(w, w.client(), w.client()) }},
	{name: "detach", nodes: 1, acts: func(w *wireStage) {
		m := w.client().Mutex("orders")
		l := w.locks("A locks", m)
		w.step("A tries without its lease", func() {
			_, err := m.TryLock(relock.Detach(l.Context()))
			require.ErrorIs(w.t, err, relock.ErrNotAcquired)
		})
	}},
	{name: "state", nodes: 1, acts: func(w *wireStage) { tellsState(w, w.client(), w.client()) }},
	{name: "renewal", nodes: 1, acts: func(w *wireStage) {
		a := w.client(relock.WithLease(3 * time.Second))
		w.step("A locks three", func() {
			for _, name := range []string{"one", "two", "three"} {
				_, err := a.Mutex(name).TryLock(w.t.Context())
				require.NoError(w.t, err)
			}
		})
		w.renews(1)
	}},
	{name: "retention", nodes: 1, acts: func(w *wireStage) {
		w.unlocks("A unlocks", w.locks("A locks", w.client(relock.WithTokenRetention(0)).Mutex("orders")))
	}},
	{name: "wrong-type", nodes: 1, acts: func(w *wireStage) {
		w.sends("SET", "orders", "text")
		w.step("A tries", func() {
			_, err := w.client().Mutex("orders").TryLock(w.t.Context())
			require.ErrorContains(w.t, err, "WRONGTYPE")
		})
	}},
}

// quorums are the scenes on the nodes of a quorum. Which two of three nodes answer first is chance:
// so all count alike from the start, or all must answer.
var quorums = []scene{
	{name: "quorum-fresh", nodes: 3, acts: func(w *wireStage) {
		w.counted()
		m := w.client().Mutex("orders")
		l := w.locks("A locks", m)
		w.unlocks("A unlocks", l)
		w.unlocks("A unlocks again", w.locks("A locks again", m))
	}},
	{name: "quorum-unguarded", nodes: 3, acts: func(w *wireStage) {
		m := w.counting().Mutex("orders")
		w.unlocks("A unlocks", w.locks("A locks", m))
		w.unlocks("A unlocks again", w.locks("A locks again", m))
	}},
	{name: "quorum-initialize", nodes: 3, acts: func(w *wireStage) {
		w.counted()
		a, heard := w.cold(relock.WithStrictRestartGuard(time.Minute))
		w.step("A initializes", func() { require.NoError(w.t, a.TrustNodes(w.t.Context())) })
		w.begins(a, heard)
		w.unlocks("A unlocks", w.locks("A locks", a.Mutex("orders")))
	}},
	{name: "quorum-re-entry", nodes: 3, acts: func(w *wireStage) { reentersOn(w, w.counting()) }},
	{name: "quorum-extend", nodes: 3, acts: func(w *wireStage) { extendsOn(w, w.counting()) }},
	{name: "quorum-fixed-lease", nodes: 3, acts: func(w *wireStage) {
		w.unlocks("A unlocks", w.locks("A locks", w.counting().Mutex("orders", relock.WithFixedLease(time.Minute))))
	}},
	{name: "quorum-min-hold", nodes: 3, acts: func(w *wireStage) { keeps(w, w.counting(), w.counting()) }},
	{name: "quorum-state", nodes: 3, acts: func(w *wireStage) {
		m := w.counting().Mutex("orders")
		w.states("A asks for the free lock", m, false)
		w.locks("A locks", m)
		w.states("A asks", m, true)
	}},
	{name: "quorum-force-unlock", nodes: 3, acts: func(w *wireStage) {
		m := w.counting().Mutex("orders")
		w.forces("A forces the free lock", m, false)
		w.sends("HSET", "orders", "11111111-2222-3333-4444-555555555555:1", "1")
		w.forces("A forces", m, true)
	}},
	{name: "quorum-write-back", nodes: 3, acts: func(w *wireStage) {
		w.step("nodes count apart", func() {
			for i, s := range w.servers {
				s.Do("SET", "redisson_lock_token:{orders}", "80000000000000"+strconv.Itoa(i)+"0")
			}
		})
		m := w.client(unguarded, relock.WithQuorum(3), relock.WithLocalHandoff(4, 0)).Mutex("orders")
		w.unlocks("A unlocks", w.locks("A locks", m))
	}},
	{name: "quorum-prefix", nodes: 3, acts: func(w *wireStage) {
		w.sends("SET", "redisson_lock_token:{app:orders}", far)
		m := w.client(unguarded, relock.WithNamePrefix("app:")).Mutex("orders")
		w.unlocks("A unlocks", w.locks("A locks", m))
	}},
	{name: "quorum-local-hand-off", nodes: 3, acts: func(w *wireStage) {
		w.counted()
		passesOn(w, w.client(unguarded, relock.WithLocalHandoff(16, time.Hour)))
	}},
	{name: "quorum-local-hand-off-never", nodes: 3, acts: func(w *wireStage) {
		w.counted()
		passesOn(w, w.client(unguarded, relock.WithLocalHandoff(1, 0)))
	}},
	{name: "quorum-unlock-twice", nodes: 3, acts: func(w *wireStage) {
		l := w.locks("A locks", w.counting().Mutex("orders"))
		w.unlocks("A unlocks", l)
		w.step("A unlocks again", func() { require.ErrorIs(w.t, l.Unlock(w.t.Context()), relock.ErrNotHeld) })
	}},
	{name: "quorum-close-held", nodes: 3, acts: func(w *wireStage) {
		a := w.counting()
		w.locks("A locks", a.Mutex("orders"))
		w.step("A closes", a.Close)
	}},
	{name: "quorum-one-forgot", nodes: 3, acts: func(w *wireStage) {
		l := w.locks("A locks", w.counting().Mutex("orders"))
		w.step("node 2 forgets", func() { w.servers[1].Do("DEL", "orders") })
		w.unlocks("A unlocks", l)
	}},
	{name: "quorum-renewal", nodes: 3, acts: func(w *wireStage) {
		a := w.counting(relock.WithLease(3*time.Second), relock.WithCommandTimeout(time.Second))
		w.locks("A locks", a.Mutex("orders"))
		w.renews(1)
	}},
	{name: "guarded", nodes: 1, acts: func(w *wireStage) {
		handsOver(w, w.client(relock.WithRestartGuard(time.Minute)),
			w.client(relock.WithRestartGuard(time.Minute)))
	}},
	{name: "guarded-gives-up", nodes: 1, acts: func(w *wireStage) {
		givesUp(w, w.client(relock.WithRestartGuard(time.Minute)),
			w.client(relock.WithRestartGuard(time.Minute)))
	}},
	{name: "guarded-force-unlock", nodes: 1, acts: func(w *wireStage) {
		a := w.client(relock.WithRestartGuard(time.Minute))
		w.locks("A locks", a.Mutex("orders"))
		b := w.client(relock.WithRestartGuard(time.Minute))
		w.forces("B forces", b.Mutex("orders"), true)
	}},
	{name: "guarded-quarantine", nodes: 1, acts: func(w *wireStage) {
		a, _ := w.cold(relock.WithStrictRestartGuard(time.Minute))
		w.step("A tries", func() {
			_, err := a.Mutex("orders").TryLock(w.t.Context())
			require.ErrorContains(w.t, err, "QUARANTINED")
		})
	}},
}

// clusters is the scene on a Cluster, of one node that serves all slots. It takes seconds until a
// Cluster serves them.
var clusters = []scene{{name: "cluster", nodes: 1, args: clustered, acts: func(w *wireStage) {
	reentersOn(w, w.sharder())
	handsOver(w, w.sharder(), w.sharder())
	givesUp(w, w.sharder(), w.sharder())
	sharesOwner(w, w.sharder(), w.sharder())
	w.sends("HSET", "orders", "11111111-2222-3333-4444-555555555555:1", "1")
	w.forces("the lock is forced open", w.sharder().Mutex("orders"), true)
	plain := w.sharder(relock.WithPlainChannels()).Mutex("orders")
	w.unlocks("it is unlocked", w.locks("it is locked with plain channels", plain))
}}}

var clustered = []string{"--cluster-enabled", "yes", "--cluster-announce-ip", "127.0.0.1"}

var unguarded = relock.WithoutRestartGuard()

// counting returns an unguarded client of nodes that count alike.
func (w *wireStage) counting(opts ...relock.ClientOption) *relock.Client {
	w.counted()
	return w.client(append(opts, unguarded)...)
}

func reentersOn(w *wireStage, a *relock.Client) {
	m := a.Mutex("orders")
	outer := w.locks("A locks", m)
	inner := w.locksUnder(outer.Context(), "A re-enters", m)
	third := w.locksUnder(inner.Context(), "A re-enters again", m)
	w.unlocks("A unlocks the third", third)
	w.unlocks("A unlocks the second", inner)
	w.unlocks("A unlocks", outer)
}

func handsOver(w *wireStage, a, b *relock.Client) {
	l := w.locks("A locks", a.Mutex("orders"))
	p := w.waits("B waits", b.Mutex("orders"))
	l = w.passes("A unlocks", l, p)
	w.unlocks("B unlocks", l)
}

func extendsOn(w *wireStage, a *relock.Client) {
	m := a.Mutex("orders")
	l := w.locks("A locks", m)
	for _, d := range []time.Duration{time.Minute, 10 * time.Second} {
		w.step("A extends to "+d.String(), func() { require.NoError(w.t, l.Extend(w.t.Context(), d)) })
	}
	inner := w.locksUnder(l.Context(), "A re-enters", m)
	w.unlocks("A unlocks the inner one", inner)
	w.unlocks("A unlocks", l)
}

// keeps leaves a lock to WithMinHold for so long that the lease is as long as any may be, whatever is left.
func keeps(w *wireStage, a, b *relock.Client) {
	m := a.Mutex("orders", relock.WithMinHold(366*24*time.Hour))
	w.unlocks("A unlocks", w.locks("A locks", m))
	w.busy("B tries", b.Mutex("orders"))
}

func sharesOwner(w *wireStage, a, b *relock.Client) {
	job := relock.WithOwner(w.t.Context(), "job")
	first := w.locksUnder(job, "A locks as the owner job", a.Mutex("orders"))
	second := w.locksUnder(job, "B locks as the owner job", b.Mutex("orders"))
	w.unlocks("A unlocks", first)
	w.unlocks("B unlocks", second)
}

// passesOn passes the lock on within one process.
func passesOn(w *wireStage, a *relock.Client) {
	l := w.locks("A locks", a.Mutex("orders"))
	p := w.parks("A waits behind it", a.Mutex("orders"))
	l = w.passes("A unlocks", l, p)
	w.unlocks("A unlocks again", l)
}

func givesUp(w *wireStage, a, b *relock.Client) {
	l := w.locks("A locks", a.Mutex("orders"))
	p := w.waits("B waits", b.Mutex("orders"))
	w.step("B gives up", func() {
		p.cancel()
		<-p.done
		require.ErrorIs(w.t, p.err, relock.ErrNotAcquired)
	})
	w.unlocks("A unlocks", l)
}

func unlocksTwice(w *wireStage) {
	l := w.locks("A locks", w.client().Mutex("orders"))
	w.unlocks("A unlocks", l)
	w.step("A unlocks again", func() { require.ErrorIs(w.t, l.Unlock(w.t.Context()), relock.ErrNotHeld) })
}

func tellsState(w *wireStage, a, b *relock.Client) {
	m := a.Mutex("orders")
	w.states("A asks for the free lock", m, false)
	w.locks("A locks", m)
	w.waits("B waits", b.Mutex("orders"))
	w.states("A asks", m, true)
}

func (w *wireStage) states(title string, m *relock.Mutex, held bool) {
	w.step(title, func() {
		st, err := m.State(w.t.Context())
		require.NoError(w.t, err)
		require.Equal(w.t, held, st.Held)
	})
}

func (w *wireStage) forces(title string, m *relock.Mutex, want bool) {
	w.step(title, func() {
		freed, err := m.ForceUnlock(w.t.Context())
		require.NoError(w.t, err)
		require.Equal(w.t, want, freed)
	})
}

// renews is a last step that ends with the first n commands that come to every node, which are
// renewals.
func (w *wireStage) renews(n int) {
	w.stepUpTo(n, "the watchdog renews", func() {
		deadline := time.Now().Add(longest)
		for _, tp := range w.taps {
			for commands, _ := tp.count(); commands < n && time.Now().Before(deadline); commands, _ = tp.count() {
				time.Sleep(time.Millisecond)
			}
		}
	})
}

func (w *wireStage) counted() { w.sends("SET", "redisson_lock_token:{orders}", far) }

// far is a fencing counter so far ahead that no clock takes part in what is counted from it.
const far = "8000000000000000"
