package election

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/locktest"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

var errWork = errors.New("the work failed")

// onBoth runs a test over one Redis and over a quorum of three, with a source of processes.
func onBoth(t *testing.T, test func(t *testing.T, process func(...relock.ClientOption) *relock.Client)) {
	for topology, n := range map[string]int{"one": 1, "quorum": 3} {
		t.Run(topology, func(t *testing.T) {
			t.Parallel()
			servers := locktest.Masters(t, n)
			test(t, func(opts ...relock.ClientOption) *relock.Client {
				if n == 1 {
					return process(t, servers[0], opts...)
				}
				return locktest.Redlock(t, servers, opts...)
			})
		})
	}
}

// Processes lead one after the other, again and again, each under a token above those before. The one that resigned stands
// behind the others.
func TestResignHandsOn(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, process func(...relock.ClientOption) *relock.Client) {
		p, q := process(), process()
		a := stand(t, p, !deaf)
		last := a.leads()
		b := stand(t, q, !deaf)
		for range 3 {
			for _, pair := range [][2]*candidate{{a, b}, {b, a}} {
				waiting(t, p, 1)
				pair[0].Resign()
				require.Equal(t, ErrResigned, last.over(t))
				is := passed(t, pair[0], pair[1], true)
				require.Greater(t, is.token, last.token)
				require.NoError(t, is.ctx.Err())
				last = is
			}
		}
	})
}

// With no other process there, the one that resigned leads again, after others had their chance.
func TestResignAlone(t *testing.T) {
	t.Parallel()
	a := stand(t, process(t, redistest.Start(t)), !deaf)
	first := a.leads()
	began := time.Now()
	a.Resign()
	require.Equal(t, ErrResigned, first.over(t))
	require.Greater(t, a.leads().token, first.token)
	require.GreaterOrEqual(t, time.Since(began), standBack)
	a.Resign()
	a.stop(nil) // it does not stand back for long
	require.NoError(t, a.returned())
}

// Another process leads only once the function has returned, however long that takes.
func TestTheNextWaitsForTheFunction(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	p := process(t, s, relock.WithLease(3*time.Second))
	a := stand(t, p, deaf)
	first := a.leads()
	b := stand(t, process(t, s), !deaf)
	waiting(t, p, 1)
	a.Resign()
	require.Equal(t, ErrResigned, first.over(t))
	renewed(t, p)
	b.doesNotLead()
	first.fails(errWork) // that no longer matters
	passed(t, a, b, true)
	require.Empty(t, a.ended)
}

// Resign may be called by the function, twice, by a process that does not lead, and before and after Run.
func TestResignAnywhere(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	p := process(t, s)
	e := New(p.Mutex(name))
	e.Resign()
	a := standFor(t, e, deaf)
	first := a.leads()
	b := stand(t, process(t, s), !deaf)
	waiting(t, p, 1)
	b.Resign()
	first.returns <- func() error {
		e.Resign()
		e.Resign()
		return first.ctx.Err()
	}
	require.Equal(t, ErrResigned, first.over(t))
	second := passed(t, a, b, true)
	require.NoError(t, second.ctx.Err())
	a.stop(nil)
	require.NoError(t, a.returned())
	e.Resign()
	require.NoError(t, second.ctx.Err())
}

// A function that returns nil goes on leading, and what it has started runs under its context.
func TestNilGoesOnLeading(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	p := process(t, s, relock.WithLease(3*time.Second))
	a := stand(t, p, deaf)
	first := a.leads()
	b := stand(t, process(t, s), !deaf)
	waiting(t, p, 1)
	first.fails(nil)
	renewed(t, p)
	require.NoError(t, first.ctx.Err())
	b.doesNotLead()
	a.Resign()
	require.Equal(t, ErrResigned, first.over(t))
	passed(t, a, b, true)
	require.Empty(t, a.ended)
}

// A function that fails ends Run, its context and its lead.
func TestAnErrorEndsRun(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	p := process(t, s)
	a := stand(t, p, !deaf)
	first := a.leads()
	b := stand(t, process(t, s), !deaf)
	waiting(t, p, 1)
	first.fails(errWork)
	require.Equal(t, errWork, a.returned())
	require.Equal(t, errWork, first.over(t))
	b.leads()
}

// A panic of the function gives the lead back, and Run may be called again.
func TestPanicGivesTheLockBack(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	p := process(t, s)
	e := New(p.Mutex(name), WithGiveWay(time.Hour))
	b := stand(t, process(t, s), !deaf)
	b.leads().fails(errWork) // so the server is warm, and its lock free
	require.Equal(t, errWork, b.returned())
	var is context.Context
	require.PanicsWithValue(t, "oh", func() {
		_ = e.Run(t.Context(), func(ctx context.Context) error { is = ctx; panic("oh") })
	})
	require.Error(t, is.Err())
	c := stand(t, process(t, s), !deaf)
	c.leads().fails(nil)
	c.stop(nil)
	require.NoError(t, c.returned())
	standFor(t, e, !deaf).leads()
}

// The end of Run's context ends its wait, or its lead with the same cause. Run returns nil once the lock is given back.
func TestTheCallerStops(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, process func(...relock.ClientOption) *relock.Client) {
		p := process()
		a := stand(t, p, deaf)
		first := a.leads()
		b := stand(t, process(), !deaf)
		c := stand(t, process(), !deaf)
		waiting(t, p, 2)
		b.stop(errWork)
		require.NoError(t, b.returned())
		b.doesNotLead()
		a.stop(errWork)
		require.Equal(t, errWork, first.over(t))
		require.Empty(t, a.ended)
		c.doesNotLead()
		first.fails(context.Canceled)
		require.NoError(t, a.returned())
		c.leads()
	})
}

// A context that has ended calls nothing.
func TestTheCallerHasStopped(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	e := New(process(t, redistest.Start(t)).Mutex(name))
	require.NoError(t, e.Run(ctx, func(context.Context) error { t.Error("called"); return nil }))
}

// A function that ignores the loss of its lead is the only one here: another process leads beside it, under a greater token.
func TestLost(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, process func(...relock.ClientOption) *relock.Client) {
		p := process()
		a := stand(t, p, deaf)
		first := a.leads()
		b := stand(t, process(), !deaf)
		waiting(t, p, 1)
		freed, err := p.Mutex(name).ForceUnlock(t.Context())
		require.NoError(t, err)
		require.True(t, freed)
		require.ErrorIs(t, first.over(t), relock.ErrLost)
		second := b.leads()
		require.Greater(t, second.token, first.token)
		require.Equal(t, first.token, relock.Token(first.ctx)) // for the store to refuse
		b.stop(nil)
		require.NoError(t, b.returned())
		a.doesNotLead()
		first.fails(errWork)
		require.Greater(t, a.leads().token, second.token)
	})
}

// A hold's maximum ends a term, also under a function that ignores it.
func TestMaxHold(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	a := standFor(t, New(process(t, s).Mutex(name, relock.WithMaxHold(100*time.Millisecond))), deaf)
	first := a.leads()
	require.ErrorIs(t, first.over(t), relock.ErrLost) // ErrMaxHold, unless Redis was slow
	stand(t, process(t, s), !deaf).leads()
}

// The close of the client ends Run, whether it waits or leads.
func TestClientClosed(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	p, q := process(t, s), process(t, s)
	a := stand(t, p, !deaf)
	first := a.leads()
	b := stand(t, q, !deaf)
	waiting(t, p, 1)
	q.Close()
	require.ErrorIs(t, b.returned(), relock.ErrClosed)
	b.doesNotLead()
	p.Close()
	require.Equal(t, relock.ErrClosed, first.over(t))
	require.ErrorIs(t, a.returned(), relock.ErrClosed)
}

// So does the close of the client of Redis, though no answer is what mostly heals.
func TestRedisClientClosed(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	rdb, err := rueidis.NewClient(s.Option())
	require.NoError(t, err)
	a := stand(t, locktest.Client(t, rdb), !deaf)
	a.leads()
	rdb.Close()
	a.Resign()
	require.ErrorIs(t, a.returned(), relock.ErrUnavailable)
}

// What Redis refuses ends Run at once.
func TestRefused(t *testing.T) {
	t.Parallel()
	locktest.BothTopologies(t, func(t *testing.T, servers []*redistest.Server, c *relock.Client) {
		a := stand(t, c, !deaf)
		a.leads()
		for _, s := range servers {
			s.Do("ACL", "SETUSER", "app", "resetkeys")
		}
		a.Resign()
		require.ErrorIs(t, a.returned(), relock.ErrRefused)
	})
}

// While Redis refuses a password that it has taken before, as while it is changed, candidates go on standing, and a leader whose
// lease ends meanwhile stands again.
func TestRefusedPassword(t *testing.T) {
	t.Parallel()
	locktest.BothTopologies(t, func(t *testing.T, servers []*redistest.Server, c *relock.Client) {
		password := func(to string) {
			for _, s := range servers {
				s.Do("ACL", "SETUSER", "app", "resetpass", ">"+to)
				s.Do("CLIENT", "KILL", "USER", "app")
			}
		}
		short := func() *Election { return New(c.Mutex(name, relock.WithLease(time.Second))) }
		a := standFor(t, short(), !deaf)
		first := a.leads()
		b := standFor(t, short(), !deaf)
		password("other")
		require.ErrorIs(t, first.over(t), relock.ErrLost)
		time.Sleep(300 * time.Millisecond)
		require.Empty(t, a.ended)
		require.Empty(t, b.ended)
		password("secret")
		select {
		case <-a.terms:
		case <-b.terms:
		case <-time.After(locktest.Patience):
			t.Fatal("nobody leads")
		}
	})
}

// An outage ends the term, and Run waits until Redis answers again.
func TestOutage(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	a := stand(t, process(t, s, relock.WithLease(time.Second)), !deaf)
	first := a.leads()
	s.Kill()
	require.ErrorIs(t, first.over(t), relock.ErrLost)
	require.Empty(t, a.ended)
	s.Restart()
	require.NoError(t, a.leads().ctx.Err())
}

// Under WithWait a process that does not come to lead in time waits anew.
func TestWaitIsOver(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	p := process(t, s)
	a := stand(t, p, !deaf)
	a.leads()
	seen := new(locktest.Seen)
	q := process(t, s, relock.WithWait(time.Millisecond), relock.WithObserver(seen))
	b := stand(t, q, !deaf)
	given := func() int { return len(seen.Of(relock.EventAbandoned)) }
	began := time.Now()
	require.Eventually(t, func() bool { return given() >= 3 }, locktest.Patience, time.Millisecond)
	require.GreaterOrEqual(t, time.Since(began), 2*standBack)
	b.doesNotLead()
	require.Empty(t, b.ended)
	a.stop(nil)
	b.leads()
}

// Two elections of one client take turns as those of two processes do, and a lock that lingers is no obstacle to others.
func TestOneProcessTwice(t *testing.T) {
	t.Parallel()
	for _, linger := range []time.Duration{0, time.Hour} {
		s := redistest.Start(t)
		p := process(t, s, relock.WithLinger(linger))
		a, b := stand(t, p, !deaf), stand(t, p, !deaf)
		one, other := a, b
		var last stint
		select {
		case last = <-a.terms:
		case last = <-b.terms:
			one, other = b, a
		}
		for range 3 {
			one.Resign()
			require.Equal(t, ErrResigned, last.over(t))
			last = passed(t, one, other, true)
			one, other = other, one
		}
		c := stand(t, process(t, s), !deaf)
		waiting(t, p, 1)
		one.stop(nil)
		other.stop(nil)
		require.NoError(t, one.returned())
		require.NoError(t, other.returned())
		require.Greater(t, c.leads().token, last.token)
	}
}

// A leader gives way once it has led for long enough and another process waits, and comes to lead again.
func TestGiveWay(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, process func(...relock.ClientOption) *relock.Client) {
		p := process()
		const after = 50 * time.Millisecond
		began := time.Now()
		a := stand(t, p, !deaf, WithGiveWay(after))
		first := a.leads()
		b := stand(t, process(), !deaf, WithGiveWay(time.Hour))
		require.Equal(t, ErrGaveWay, first.over(t))
		require.GreaterOrEqual(t, time.Since(began), after)
		second := passed(t, a, b, false)
		waiting(t, p, 1)
		require.NoError(t, second.ctx.Err()) // its hour is not over
		b.stop(nil)
		again := a.leads()
		require.NoError(t, b.returned())
		require.NoError(t, again.ctx.Err())
		stand(t, process(), !deaf).leads()
		require.Equal(t, ErrGaveWay, again.over(t))
	})
}

// No way is given to nobody.
func TestNoWayGivenToNobody(t *testing.T) {
	t.Parallel()
	p := process(t, redistest.Start(t), relock.WithLease(3*time.Second))
	a := stand(t, p, !deaf, WithGiveWay(time.Millisecond))
	first := a.leads()
	renewed(t, p)
	require.NoError(t, first.ctx.Err())
}

// Without that option a leader stays, however long others wait.
func TestNoWayGiven(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	p := process(t, s)
	a := stand(t, p, !deaf)
	first := a.leads()
	lease, _ := relock.FromContext(first.ctx)
	b := stand(t, process(t, s), !deaf)
	locktest.Within(t, lease.Wanted())
	require.NoError(t, first.ctx.Err())
	b.doesNotLead()
}

// The function is given the lease's own context, which looks at the clock whenever it is asked: a process that was stopped
// learns of its loss before its timers have run.
func TestTheContextIsTheLeases(t *testing.T) {
	t.Parallel()
	is := stand(t, process(t, redistest.Start(t)), !deaf, WithGiveWay(time.Hour)).leads()
	lease, ok := relock.FromContext(is.ctx)
	require.True(t, ok)
	require.Equal(t, name, lease.Name())
	require.True(t, is.ctx == lease.Context())
}

// Run under the context of a lease of the same lock is another owner, which waits.
func TestRunUnderTheLock(t *testing.T) {
	t.Parallel()
	c := process(t, redistest.Start(t))
	lease, err := c.Mutex(name).Lock(t.Context())
	require.NoError(t, err)
	led, ended := make(chan int64, 1), make(chan error, 1)
	ctx, cancel := context.WithCancel(context.WithoutCancel(lease.Context()))
	defer cancel()
	go func() {
		ended <- New(c.Mutex(name)).Run(ctx, func(ctx context.Context) error {
			led <- relock.Token(ctx)
			<-ctx.Done()
			return nil
		})
	}()
	select {
	case <-led:
		t.Fatal("it led under the lock of its caller")
	case <-time.After(50 * time.Millisecond):
	}
	require.NoError(t, lease.Unlock(t.Context()))
	require.Greater(t, locktest.Within(t, led), lease.Token())
	cancel()
	require.NoError(t, locktest.Within(t, ended))
}

// What the caller got wrong is ErrMisuse, or what the lock says.
func TestMisuse(t *testing.T) {
	t.Parallel()
	c := process(t, redistest.Start(t))
	e := New(c.Mutex(name))
	nothing := func(context.Context) error { t.Error("called"); return nil }
	var none context.Context
	require.ErrorIs(t, e.Run(none, nothing), relock.ErrMisuse)
	require.ErrorIs(t, e.Run(t.Context(), nil), relock.ErrMisuse)
	require.ErrorIs(t, New(nil).Run(t.Context(), nothing), relock.ErrMisuse)
	require.ErrorIs(t, new(Election).Run(t.Context(), nothing), relock.ErrMisuse)
	require.ErrorIs(t, New(c.Mutex("")).Run(t.Context(), nothing), relock.ErrInvalidName)
	require.ErrorIs(t, New(c.Mutex(name, relock.WithLease(1))).Run(t.Context(), nothing), relock.ErrInvalidOption)
	require.ErrorIs(t, New(c.Mutex(name), WithGiveWay(0), Option{}).Run(t.Context(), nothing), relock.ErrInvalidOption)

	a := standFor(t, e, !deaf)
	first := a.leads()
	require.ErrorIs(t, e.Run(t.Context(), nothing), relock.ErrMisuse)
	require.NoError(t, first.ctx.Err())
	a.stop(nil)
	require.NoError(t, a.returned())
	standFor(t, e, !deaf).leads()
}

// Resign does nothing once the term has ended by a loss, though its function still runs: what ended it is what Run goes by.
func TestResignAfterALoss(t *testing.T) {
	t.Parallel()
	p := process(t, redistest.Start(t))
	a := stand(t, p, deaf)
	first := a.leads()
	freed, err := p.Mutex(name).ForceUnlock(t.Context())
	require.NoError(t, err)
	require.True(t, freed)
	require.ErrorIs(t, first.over(t), relock.ErrLost)
	a.mu.Lock()
	now := a.now
	a.mu.Unlock()
	resigned := false
	a.mu.Lock()
	a.now.end = func(cause error) { resigned = true; now.end(cause) }
	a.mu.Unlock()
	a.Resign()
	require.False(t, resigned)
	first.returns <- func() error { return nil }
	require.Greater(t, a.leads().token, first.token)
}
