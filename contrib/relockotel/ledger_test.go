package relockotel

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
)

var ledgerFor = flag.Duration("ledger", 3*time.Second, "how long TestCountersAreWhatCallersSaw plays")

// ledger is what callers saw.
type ledger struct {
	mu          sync.Mutex
	calls, ends map[string]int // calls by result; leases by how they ended
}

// called notes what a call returned.
func (l *ledger) called(err error) {
	result := "acquired"
	switch {
	case err == nil:
	case errors.Is(err, relock.ErrNotAcquired):
		result = "busy"
	case errors.Is(err, relock.ErrRefused):
		result = "refused"
	case errors.Is(err, relock.ErrLost):
		result = "lost"
	case errors.Is(err, relock.ErrClosed):
		result = "closed"
	default:
		result = "failed"
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.calls[result]++
}

// ended notes how a lease ended: cause is its context's, before the call that ended it, or what that call returned.
func (l *ledger) ended(cause error) {
	how := "released"
	switch {
	case errors.Is(cause, relock.ErrMaxHold):
		how = "max_hold"
	case errors.Is(cause, relock.ErrLost):
		how = "lost"
	case errors.Is(cause, relock.ErrClosed):
		how = "closed"
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ends[how]++
}

// player makes random calls on locks of few names.
type player struct {
	*ledger
	locks *relock.Client
	rand  *rand.Rand
}

type unlocker interface {
	Context() context.Context
	Unlock(context.Context) error
}

type permit struct{ *relock.Permit }

func (p permit) Unlock(ctx context.Context) error { return p.Release(ctx) }

// wait is a context that a call gets: of a moment, or ended.
func (p *player) wait(ctx context.Context) (context.Context, context.CancelFunc) {
	switch p.rand.IntN(10) {
	case 0:
		ctx, end := context.WithCancel(ctx)
		end()
		return ctx, end
	case 1:
		return context.WithTimeout(ctx, time.Duration(p.rand.IntN(3000))*time.Microsecond)
	}
	return context.WithTimeout(ctx, time.Duration(p.rand.IntN(300))*time.Millisecond)
}

// take makes one call, and notes it.
func (p *player) take(around context.Context) unlocker {
	ctx, end := p.wait(around)
	defer end()
	var opts []relock.Option
	if p.rand.IntN(6) == 0 {
		opts = append(opts, relock.WithMaxHold(600*time.Millisecond))
	}
	var lease *relock.Lease
	var err error
	name := fmt.Sprint(p.rand.IntN(2))
	switch p.rand.IntN(9) {
	case 0:
		lease, err = p.locks.Mutex("mutex:"+name, opts...).TryLock(ctx)
	case 1:
		lease, err = p.locks.RWMutex("rw:"+name, opts...).Lock(ctx)
	case 2:
		lease, err = p.locks.RWMutex("rw:"+name, opts...).RLock(ctx)
	case 3:
		lease, err = p.locks.RWMutex("rw:"+name, opts...).TryRLock(ctx)
	case 4:
		lease, err = p.locks.Semaphore("sem:"+name, 2).Permits(1 + p.rand.IntN(2)).Lock(ctx)
	case 5:
		var got *relock.Permit
		got, err = p.locks.Semaphore("sem:"+name, 2).Acquire(ctx, 1+p.rand.IntN(2))
		p.called(err)
		if err != nil {
			return nil
		}
		return permit{got}
	case 6:
		lease, err = p.locks.Mutex("string").TryLock(ctx) // not a lock: refused
	case 7:
		lease, err = p.locks.Mutex("lingers:"+name, append(opts, relock.WithLinger(50*time.Millisecond))...).Lock(ctx)
	default:
		lease, err = p.locks.Mutex("mutex:"+name, opts...).Lock(ctx)
	}
	if p.called(err); err != nil {
		return nil
	}
	return lease
}

// hold keeps what was taken for a moment, and ends it. It may take another lock meanwhile, or the same again.
func (p *player) hold(ctx context.Context, got unlocker, depth int) {
	switch p.rand.IntN(5) {
	case 0:
		select {
		case <-time.After(time.Duration(p.rand.IntN(40)*(1+p.rand.IntN(5))) * time.Millisecond):
		case <-got.Context().Done():
		}
	case 1:
		if depth > 0 {
			p.play(got.Context(), depth-1)
		}
	case 3:
		if p.rand.IntN(10) == 0 {
			select {
			case <-time.After(700 * time.Millisecond): // past WithMaxHold
			case <-got.Context().Done():
			}
		}
	case 2:
		if lease, is := got.(*relock.Lease); is && p.rand.IntN(3) == 0 {
			_, _ = p.locks.Mutex(lease.Name()).ForceUnlock(ctx)
		}
	}
	cause := got.Unlock(ctx)
	if errors.Is(cause, relock.ErrNotHeld) { // it was over before: its context has ended, and says how
		<-got.Context().Done()
		cause = context.Cause(got.Context())
	}
	p.ended(cause)
	if p.rand.IntN(10) == 0 {
		_ = got.Unlock(ctx) // a second one counts nothing
	}
}

// several takes two locks at once, or one of two. What a failed call had meanwhile is not told to its caller.
func (p *player) several(ctx context.Context) {
	ctx, end := p.wait(ctx)
	defer end()
	var locks []relock.Locker
	for i := range 2 {
		locks = append(locks, p.locks.Mutex(fmt.Sprint("several:", i)))
	}
	done := func(ctx context.Context) error {
		time.Sleep(time.Duration(p.rand.IntN(20)) * time.Millisecond)
		return nil
	}
	if p.rand.IntN(2) == 0 {
		_ = relock.All(locks...).Do(ctx, done)
	} else {
		_ = relock.Any(locks...).Do(ctx, done)
	}
}

func (p *player) play(ctx context.Context, depth int) {
	if p.rand.IntN(6) == 0 {
		p.several(ctx)
		return
	}
	if got := p.take(ctx); got != nil {
		p.hold(context.WithoutCancel(ctx), got, depth)
	}
}

// The counters are what callers saw, call by call and lease by lease, under losses, refusals and outages.
func TestCountersAreWhatCallersSaw(t *testing.T) { both(t, countersAreWhatCallersSaw) }

func countersAreWhatCallersSaw(t *testing.T, byProducer bool) {
	lockOpts := []relock.ClientOption{relock.WithLease(time.Second), relock.WithCommandTimeout(200 * time.Millisecond)}
	b := newBedFor(t, byProducer, lockOpts)
	b.srv.Do("SET", "string", "no lock")
	seen := &ledger{calls: map[string]int{}, ends: map[string]int{}}
	clients := []*relock.Client{b.locks, b.client(append(lockOpts, relock.WithObserver(b.observer))...)}
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	until := time.Now().Add(*ledgerFor)
	var players sync.WaitGroup
	for i := range 8 {
		p := &player{ledger: seen, locks: clients[i%2], rand: rand.New(rand.NewPCG(seed, uint64(i)))}
		players.Go(func() {
			for time.Now().Before(until) {
				p.play(context.Background(), 2)
			}
		})
	}
	faults := rand.New(rand.NewPCG(seed, 100))
	for time.Now().Before(until) {
		time.Sleep(time.Duration(faults.IntN(200)) * time.Millisecond)
		switch faults.IntN(4) {
		case 0:
			b.srv.Pause()
			time.Sleep(time.Duration(faults.IntN(1500)) * time.Millisecond)
			b.srv.Resume()
		case 1:
			b.srv.Do("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
		case 2:
			b.srv.Do("DEL", fmt.Sprint("mutex:", faults.IntN(2)), fmt.Sprint("rw:", faults.IntN(2)))
		}
	}
	players.Wait()
	held, err := clients[1].Mutex("held").Lock(t.Context())
	require.NoError(t, err)
	seen.called(nil)
	clients[1].Close()
	<-held.Context().Done()
	seen.ended(context.Cause(held.Context()))
	_, err = clients[1].Mutex("held").Lock(t.Context())
	seen.called(err)

	t.Logf("%v %v", seen.calls, seen.ends)
	counted := map[string]int{}
	for _, result := range []string{"acquired", "busy", "refused", "lost", "closed", "failed"} {
		if n := b.count("relock.wait.duration", "relock.result", result) - b.count("relock.wait.duration",
			"relock.result", result, "relock.lock.name", "several:*"); n > 0 {
			counted[result] = n
		}
	}
	require.Equal(t, seen.calls, counted, "calls by result")
	require.Zero(t, b.sum("relock.waiting"))
	require.Zero(t, b.sum("relock.held"))
	for _, age := range ages(t, b.reader) {
		require.Zero(t, age)
	}
	several := []string{"relock.lock.name", "several:*"}
	ends := map[string]int{}
	of := []string{"relock.result", "released"}
	if n := b.count("relock.hold.duration", of...) - b.count("relock.hold.duration", append(of, several...)...); n > 0 {
		ends["released"] = n
	}
	for _, cause := range causes {
		of := []string{"relock.cause", cause}
		if n := b.sum("relock.lost", of...) - b.sum("relock.lost", append(of, several...)...); n > 0 {
			ends[cause] = int(n)
		}
	}
	require.Equal(t, seen.ends, ends, "ends of leases")
	require.EqualValues(t, b.sum("relock.lost"), b.count("relock.hold.duration", "relock.result", "lost"))
	require.Positive(t, b.count("relock.hold.duration", several...))
	require.Equal(t, b.count("relock.hold.duration", several...),
		b.count("relock.wait.duration", append(several, "relock.result", "acquired")...), "each lease of several locks has ended")
}
