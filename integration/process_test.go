//go:build unix

package integration

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/relock-go/relock"
	"github.com/relock-go/relock/election"
	"go.uber.org/goleak"
)

// workerEnv holds the job of a process that is a worker, and is unset in the tests' own.
const workerEnv = "RELOCK_INTEGRATION_WORKER"

// job is what a worker needs to begin.
type job struct {
	ID     int
	Addrs  []string
	Single bool
	Master string // set of a Sentinel group
	Lease  time.Duration
	Linger time.Duration // how long an unlocked lock may be kept
	Name   string        // of the client, "" for none
	Quorum *quorumJob    // the addresses are independent masters; nil for one Redis
	// The next two are of one Redis alone.
	Timeout time.Duration // of a command; 0 for the library's own
	Doubles bool          // one in eight scripts runs twice
}

func TestMain(m *testing.M) {
	if spec := os.Getenv(workerEnv); spec != "" {
		if err := work(spec); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// options are those of every client of these tests, in workers and beside them.
func (j job) options() rueidis.ClientOption {
	dialer := net.Dialer{Timeout: 2 * time.Second}
	return rueidis.ClientOption{
		InitAddress: j.Addrs, ForceSingleClient: j.Single, DisableCache: true,
		Dialer: dialer, ConnWriteTimeout: 3 * time.Second,
		ReadBufferEachConn: 64 << 10, WriteBufferEachConn: 64 << 10,
		Sentinel: rueidis.SentinelOption{MasterSet: j.Master, Dialer: dialer, TopologyRefreshInterval: time.Second},
	}
}

// performer is the worker's side of a worker process.
type performer struct {
	id    int
	locks *relock.Client
	ctx   context.Context // ends when the worker is told to stop
	wg    sync.WaitGroup
	who   int // of goroutines; touched by the reader of orders alone

	mu    sync.Mutex // guards what follows
	out   io.Writer
	held  map[string]*relock.Lease
	parts map[string]*election.Election
}

// work is a worker's main: it obeys until it is told to stop, or until the test's process is gone.
func work(spec string) error {
	var j job
	if err := json.Unmarshal([]byte(spec), &j); err != nil {
		return err
	}
	locks, closeAll, err := j.open()
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	p := &performer{id: j.ID, locks: locks, ctx: ctx, out: os.Stdout, held: make(map[string]*relock.Lease), parts: make(map[string]*election.Election)}
	p.write(now(), ready, "-", 0, 0, locks.ID())
	orders := bufio.NewScanner(os.Stdin)
	for orders.Scan() {
		if orders.Text() == "stop" {
			stop()
			p.wg.Wait()
			closeAll()
			return goleak.Find()
		}
		if err := p.obey(strings.Fields(orders.Text())); err != nil {
			return err
		}
	}
	os.Exit(3) // nobody is left to tell
	return nil
}

// open makes the worker's client, and returns what closes it.
func (j job) open() (*relock.Client, func(), error) {
	if j.Quorum != nil {
		return j.openQuorum()
	}
	rdb, err := rueidis.NewClient(j.options())
	if err != nil {
		return nil, nil, err
	}
	opts := []relock.ClientOption{relock.WithLease(j.Lease), relock.WithLinger(j.Linger), relock.WithClientName(j.Name)}
	if j.Timeout > 0 {
		opts = append(opts, relock.WithCommandTimeout(j.Timeout))
	}
	locks, err := relock.New(j.doubling(rdb), opts...)
	return locks, func() { locks.Close(); rdb.Close() }, err
}

// obey carries out one order: lock <name>, unlock <name>, look <name>, contend <name> <goroutines> <hold> <pause>, share with
// the same, idle <name> <locks>, lead <name>, resign <name>, permits <name> <size>, once <name> <goroutines> <hold> <ttl>, onces
// <name> <names> <hold> <ttl>, carry <name>, hand <name> <time>, take <name> <patience> <handle>, all <name> <how many> <hold> <pause>
// <lock>..., any <name> <goroutines> <hold> <pause> <lock>....
func (p *performer) obey(order []string) error {
	p.who++
	who, m := p.who, p.locks.Mutex(order[1])
	switch order[0] {
	case "lock":
		p.wg.Go(func() { p.lockAndKeep(m, who) })
	case "unlock":
		p.unlockKept(m, who)
	case "look":
		p.look(m, p.kept(m.Name()), who)
	case "contend", "share", "all", "any":
		n, err1 := strconv.Atoi(order[2])
		hold, err2 := time.ParseDuration(order[3])
		pause, err3 := time.ParseDuration(order[4])
		next := p.sides(m, order[0] == "share")
		switch order[0] {
		case "all":
			p.wg.Go(func() { p.several(m.Name(), order[5:], n, who, hold, pause) })
			return errors.Join(err1, err2, err3)
		case "any":
			next = func() locker { return relock.Any(p.mutexes(order[5:])...) }
		}
		for i := range n {
			p.wg.Go(func() { p.contend(next, 1000*who+i, hold, pause) })
		}
		return errors.Join(err1, err2, err3)
	case "idle":
		n, err := strconv.Atoi(order[2])
		p.wg.Go(func() { p.idle(m.Name(), who, n) })
		return err
	case "lead":
		p.wg.Go(func() { p.lead(m, who) })
	case "resign":
		p.resign(m.Name(), who)
	case "permits":
		size, err := strconv.Atoi(order[2])
		p.wg.Go(func() { p.permits(m.Name(), size, who) })
		return err
	case "flight", "flights":
		n, err1 := strconv.Atoi(order[2])
		hold, err2 := time.ParseDuration(order[3])
		ttl, err3 := time.ParseDuration(order[4])
		if order[0] == "flights" {
			p.flights(m.Name(), n, hold, ttl, who)
			n = 0
		}
		for i := range n {
			p.wg.Go(func() { p.flight(m.Name(), hold, ttl, 1000*who+i) })
		}
		return errors.Join(err1, err2, err3)
	case "carry":
		p.wg.Go(func() { p.carry(p.ctx, m, m, "", who) })
	case "hand":
		stays, err := time.ParseDuration(order[2])
		p.wg.Go(func() { p.hand(m, stays, who) })
		return err
	case "take":
		patience, err := time.ParseDuration(order[2])
		p.wg.Go(func() {
			ctx, cancel := context.WithTimeout(p.ctx, patience)
			defer cancel()
			p.carry(ctx, m, byHandle{m, order[3]}, order[3], who)
		})
		return err
	default:
		return fmt.Errorf("unknown order %q", order)
	}
	return nil
}

// idle locks and unlocks so many locks, once each.
func (p *performer) idle(name string, who, n int) {
	for i := range n {
		l, err := p.locks.Mutex(numbered(name, i)).Lock(p.ctx)
		if err == nil {
			err = l.Unlock(p.ctx)
		}
		if err != nil {
			p.write(now(), failed, name, who, 0, err.Error())
			return
		}
	}
	p.write(now(), unlocked, name, who, 0, "ok")
}

func numbered(name string, i int) string { return fmt.Sprintf("%s:%d", name, i) }

func (p *performer) write(at time.Duration, kind, lock string, who int, token int64, note string) {
	e := event{at: at, kind: kind, who: fmt.Sprintf("w%d.%d", p.id, who), lock: lock, token: token, note: note}
	line := append([]byte(e.String()), '\n')
	p.mu.Lock()
	defer p.mu.Unlock()
	_, _ = p.out.Write(line)
}

// locker is a Mutex, or a side of a read-write lock.
type locker interface {
	Name() string
	Lock(ctx context.Context) (*relock.Lease, error)
	Held(ctx context.Context) (*relock.Lease, error)
}

// noteOf is what is written beside a lease of m.
func noteOf(m locker) string {
	if _, is := m.(*relock.Reader); is {
		return reads
	}
	return ""
}

// sides returns what to take next: the mutex, or of a read-write lock that has its name mostly the readers' side.
func (p *performer) sides(m *relock.Mutex, shared bool) func() locker {
	rw := p.locks.RWMutex(m.Name())
	return func() locker {
		switch {
		case !shared:
			return m
		case rand.IntN(3) > 0:
			return rw.Reader()
		}
		return rw
	}
}

// lock calls Lock and writes what comes of it; nil when it gave no lease. A lease is kept for later orders before the
// test can read of it.
func (p *performer) lock(m locker, who int, keep bool) *relock.Lease {
	p.write(now(), want, m.Name(), who, 0, "")
	// Only waiting ends with p.ctx: a lease that derived from it would look lost when the worker is told to stop.
	l, err := lockUntil(p.ctx, m)
	at := now()
	if err == nil && keep {
		p.mu.Lock()
		p.held[m.Name()] = l
		p.mu.Unlock()
	}
	switch {
	case err == nil:
		p.write(at, granted, l.Name(), who, l.Token(), noteOf(m))
	case p.ctx.Err() != nil && errors.Is(err, context.Cause(p.ctx)):
		p.write(at, gaveUp, m.Name(), who, 0, "")
	default:
		p.write(at, failed, m.Name(), who, 0, fmt.Sprintf("Lock: %v", err))
	}
	return l
}

// lockUntil waits until ctx ends, and gives a lease whose context does not end with ctx.
func lockUntil(ctx context.Context, m locker) (*relock.Lease, error) { return leaseUntil(ctx, m.Lock) }

// leaseUntil does so with a lease of one lock or of several.
func leaseUntil[L interface{ Unlock(context.Context) error }](ctx context.Context, lock func(context.Context) (L, error)) (l L, err error) {
	waiting, cancel := context.WithCancelCause(context.Background())
	stop := context.AfterFunc(ctx, func() { cancel(context.Cause(ctx)) })
	l, err = lock(waiting)
	if err == nil && !stop() {
		_ = l.Unlock(waiting)
		var none L
		return none, fmt.Errorf("%w: granted while giving up: %w", relock.ErrNotAcquired, context.Cause(ctx))
	}
	return l, err
}

func (p *performer) kept(name string) *relock.Lease {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.held[name]
}

// lockAndKeep takes a lock and keeps it until an unlock order, watching that the loss is told.
func (p *performer) lockAndKeep(m locker, who int) {
	l := p.lock(m, who, true)
	if l == nil {
		return
	}
	select {
	case <-l.Context().Done():
	case <-p.ctx.Done():
		p.release(l, who)
		return
	}
	if cause := context.Cause(l.Context()); errors.Is(cause, relock.ErrLost) {
		p.write(now(), lost, m.Name(), who, l.Token(), "told")
	} else if !errors.Is(cause, relock.ErrNotHeld) {
		p.write(now(), failed, m.Name(), who, l.Token(), fmt.Sprintf("the lease ended with %v", cause))
	}
}

func (p *performer) unlockKept(m locker, who int) {
	l := p.kept(m.Name())
	if l == nil {
		p.write(now(), failed, m.Name(), who, 0, "told to unlock what is not held")
		return
	}
	p.release(l, who)
}

// look writes a point if the lease is trusted, and asks in one of the ways there are.
func (p *performer) look(m locker, l *relock.Lease, who int) bool {
	if l == nil {
		return false
	}
	name, at := l.Name(), now() // before asking: see span
	if way := rand.IntN(4); !valid(m, l, way) {
		if l.Context().Err() == nil {
			p.write(now(), failed, name, who, l.Token(), fmt.Sprintf("lost by way %d of asking, but the context goes on", way))
		}
		p.write(now(), lost, name, who, l.Token(), fmt.Sprint(context.Cause(l.Context())))
		return false
	}
	p.write(at, trusted, name, who, l.Token(), noteOf(m))
	return true
}

// valid asks a lease whether it can be trusted: a process that was stopped past its lease must be told by each way of
// asking, though its timers have not run yet.
func valid(m locker, l *relock.Lease, way int) bool {
	switch way {
	case 0:
		return l.Context().Err() == nil
	case 1:
		select {
		case <-l.Context().Done():
			return false
		default:
			return true
		}
	case 2:
		_, err := m.Held(l.Context())
		return err == nil
	default:
		return l.Count() > 0
	}
}

// contend takes the lock again and again and holds it for up to hold, looking at the lease all the time.
func (p *performer) contend(next func() locker, who int, hold, pause time.Duration) {
	for p.ctx.Err() == nil {
		m := next()
		l := p.lock(m, who, false)
		if l == nil {
			continue
		}
		for end := now() + rand.N(hold); p.look(m, l, who) && now() < end; {
			time.Sleep(min(hold/4, time.Millisecond))
		}
		p.release(l, who)
		time.Sleep(rand.N(pause))
	}
}

// release unlocks and writes what came of it. A lock that was lost, or a Redis that did not answer, may happen.
func (p *performer) release(l *relock.Lease, who int) {
	p.write(now(), unlocking, l.Name(), who, l.Token(), "")
	err := l.Unlock(context.Background())
	note := "ok"
	switch {
	case errors.Is(err, relock.ErrLost):
		note = "lost"
	case errors.Is(err, relock.ErrUnavailable):
		note = "unanswered: " + err.Error()
	case err != nil:
		p.write(now(), failed, l.Name(), who, l.Token(), fmt.Sprintf("Unlock: %v", err))
	}
	p.write(now(), unlocked, l.Name(), who, l.Token(), note)
	if l.Context().Err() == nil {
		p.write(now(), failed, l.Name(), who, l.Token(), "the context outlives Unlock")
	}
}
