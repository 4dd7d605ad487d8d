package relock_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net/http"
	"time"

	"github.com/redis/rueidis"
	"github.com/relock-go/relock"
)

// opened returns a client over a Redis of the example's own.
func opened(opts ...relock.ClientOption) (*relock.Client, func()) {
	rdb, closeRedis := connect()
	locks, err := relock.New(rdb, opts...)
	if err != nil {
		log.Fatal(err)
	}
	return locks, func() {
		locks.Close()
		closeRedis()
	}
}

// taken locks m, which nobody else does in these examples.
func taken(ctx context.Context, m *relock.Mutex) *relock.Lease {
	lease, err := m.Lock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	return lease
}

// A quorum of independent masters is a Client like any other.
func ExampleNewRedlock() {
	var nodes []rueidis.Client
	for range 3 {
		rdb, closeRedis := connect()
		defer closeRedis()
		nodes = append(nodes, rdb)
	}
	locks, err := relock.NewRedlock(nodes, relock.WithLease(time.Minute))
	if err != nil {
		log.Fatal(err)
	}
	defer locks.Close()
	err = locks.Mutex("orders:42").Do(context.Background(), func(context.Context) error {
		fmt.Println("held by a quorum")
		return nil
	})
	fmt.Println(err)
	// Output:
	// held by a quorum
	// <nil>
}

// Deep in a call, Held asserts that the caller has the lock.
func ExampleMutex_Held() {
	locks, done := opened()
	defer done()
	m := locks.Mutex("ledger")
	_, err := m.Held(context.Background())
	fmt.Println(err)
	_ = m.Do(context.Background(), func(ctx context.Context) error {
		lease, err := m.Held(ctx)
		fmt.Println(lease.Count(), err)
		return nil
	})
	// Output:
	// relock: lock not held
	// 1 <nil>
}

// Code that does not know which lock it runs under finds its lease by the context.
func ExampleFromContext() {
	locks, done := opened()
	defer done()
	write := func(ctx context.Context) {
		lease, ok := relock.FromContext(ctx)
		if !ok {
			fmt.Println("not under a lock")
			return
		}
		fmt.Println("under", lease.Name(), relock.Token(ctx) == lease.Token())
	}
	ctx := context.Background()
	write(ctx)
	_ = locks.Mutex("ledger").Do(ctx, func(ctx context.Context) error {
		write(ctx)
		return nil
	})
	// Output:
	// not under a lock
	// under ledger true
}

// State tells what Redis knows of a lock.
func ExampleMutex_State() {
	locks, done := opened()
	defer done()
	m := locks.Mutex("report")
	lease := taken(context.Background(), m)
	st, err := m.State(context.Background())
	fmt.Println(st.Held, st.Count, st.HolderToken == lease.Token(), err)
	// Output: true 1 true <nil>
}

// ForceUnlock frees a lock whoever holds it. The deposed holder is told.
func ExampleMutex_ForceUnlock() {
	locks, done := opened()
	defer done()
	m := locks.Mutex("stuck")
	lease := taken(context.Background(), m)
	freed, err := m.ForceUnlock(context.Background())
	fmt.Println(freed, err)
	<-lease.Context().Done()
	fmt.Println(context.Cause(lease.Context()))
	// Output:
	// true <nil>
	// relock: lock "stuck": lock lost
}

// A SyncLocker serves code that takes a sync.Locker.
func ExampleMutex_SyncLocker() {
	locks, done := opened()
	defer done()
	l := locks.Mutex("cache").SyncLocker(context.Background())
	l.Lock()
	fmt.Println("locked")
	l.Unlock()
	// Output: locked
}

// A store that remembers the greatest token it has seen refuses a holder that acts late.
func ExampleLease_Token() {
	locks, done := opened()
	defer done()
	m := locks.Mutex("account:7")
	var seen int64
	write := func(token int64) error {
		if token < seen {
			return errors.New("refused: a later holder has written")
		}
		seen = token
		return nil
	}
	late := taken(context.Background(), m)
	_ = late.Unlock(context.Background())
	next := taken(context.Background(), m)
	fmt.Println(write(next.Token()))
	fmt.Println(write(late.Token()))
	// Output:
	// <nil>
	// refused: a later holder has written
}

// Extend makes one lease last longer than the watchdog would.
func ExampleLease_Extend() {
	locks, done := opened(relock.WithLease(10 * time.Second))
	defer done()
	lease := taken(context.Background(), locks.Mutex("backup"))
	err := lease.Extend(context.Background(), time.Hour)
	fmt.Println(err, time.Until(lease.Until()) > 50*time.Minute)
	// Output: <nil> true
}

// Two processes that name the same owner share its locks.
func ExampleWithOwner() {
	locks, done := opened()
	defer done()
	m := locks.Mutex("workflow:9")
	ctx := relock.WithOwner(context.Background(), "job-9")
	first := taken(ctx, m)
	second := taken(ctx, m) // anywhere else
	fmt.Println(first.Token() == second.Token())
	// Output: true
}

// A fixed lease ends by itself, whether its holder lives or not.
func ExampleWithFixedLease() {
	locks, done := opened()
	defer done()
	lease := taken(context.Background(), locks.Mutex("cooldown", relock.WithFixedLease(200*time.Millisecond)))
	<-lease.Context().Done()
	fmt.Println(context.Cause(lease.Context()))
	// Output: relock: lock "cooldown": lock lost
}

// A cap on how long a lock is held frees others of a holder that is stuck.
func ExampleWithMaxHold() {
	locks, done := opened()
	defer done()
	lease := taken(context.Background(), locks.Mutex("import", relock.WithMaxHold(200*time.Millisecond)))
	<-lease.Context().Done()
	fmt.Println(errors.Is(context.Cause(lease.Context()), relock.ErrLost)) // ErrMaxHold, unless Redis was silent
	// Output: true
}

// A job runs once, although several processes start it, and their clocks differ by more than it takes.
func ExampleWithMinHold() {
	locks, done := opened()
	defer done()
	for _, process := range []string{"one", "another", "a third"} {
		lease, err := locks.Mutex("job", relock.WithMinHold(time.Minute)).TryLock(context.Background())
		if errors.Is(err, relock.ErrNotAcquired) {
			continue // this tick has its run
		}
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println("runs in", process)
		_ = lease.Unlock(context.Background())
	}
	// Output: runs in one
}

// WithWait bounds the waiting without touching the context that the lease derives from.
func ExampleWithWait() {
	locks, done := opened()
	defer done()
	taken(context.Background(), locks.Mutex("busy"))
	_, err := locks.Mutex("busy", relock.WithWait(50*time.Millisecond)).Lock(context.Background())
	fmt.Println(errors.Is(err, relock.ErrNotAcquired))
	// Output: true
}

// An error has one class, so a service asks for those that it tells apart, in any order.
func Example_errors() {
	locks, done := opened()
	defer done()
	taken(context.Background(), locks.Mutex("report"))
	_, err := locks.Mutex("report").TryLock(context.Background())
	fmt.Println(status(err))
	_, err = locks.Mutex("").TryLock(context.Background())
	fmt.Println(status(err))
	// Output:
	// 409
	// 400
}

func status(err error) int {
	switch {
	case errors.Is(err, relock.ErrNotAcquired):
		return http.StatusConflict
	case errors.Is(err, relock.ErrUnavailable), errors.Is(err, relock.ErrLost), errors.Is(err, relock.ErrClosed):
		return http.StatusServiceUnavailable
	case errors.Is(err, relock.ErrInvalidName): // the name was made of the request
		return http.StatusBadRequest
	}
	return http.StatusInternalServerError
}

// Readers work beside each other; a writer works alone.
func ExampleRWMutex() {
	locks, done := opened()
	defer done()
	ctx := context.Background()

	prices := locks.RWMutex("prices")
	err := prices.RDo(ctx, func(ctx context.Context) error {
		fmt.Println("read beside others")
		return prices.RDo(ctx, func(context.Context) error { return nil }) // re-enters
	})
	if err != nil {
		log.Fatal(err)
	}

	writer, err := prices.Lock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	reader, err := writer.Downgrade(ctx) // no other can write in between
	if err != nil {
		log.Fatal(err)
	}
	_, err = prices.Lock(reader.Context())
	fmt.Println(errors.Is(err, relock.ErrUpgrade))
	if err := reader.Unlock(ctx); err != nil {
		log.Fatal(err)
	}
	// Output:
	// read beside others
	// true
}

// At most four workers at once, over all processes.
func ExampleSemaphore() {
	locks, done := opened()
	defer done()
	ctx := context.Background()

	workers := locks.Semaphore("workers", 4)
	err := workers.Do(ctx, func(ctx context.Context) error { // ctx ends when the permit is lost
		fmt.Println("one of four")
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}

	permit, err := workers.Acquire(ctx, 3) // waits for all three, in order of arrival
	if err != nil {
		log.Fatal(err)
	}
	_, err = workers.TryAcquire(permit.Context(), 2)
	fmt.Println(errors.Is(err, relock.ErrNotAcquired))
	if err := permit.Unlock(ctx); err != nil {
		log.Fatal(err)
	}
	_, err = workers.Acquire(ctx, 5)
	fmt.Println(errors.Is(err, relock.ErrTooMany))
	// Output:
	// one of four
	// true
	// true
}

// A transfer holds both accounts and one of four connections to the bank. Two transfers between the same
// accounts never wait for one another, whichever way the money goes.
func ExampleAll() {
	locks, closeLocks := opened()
	defer closeLocks()
	ctx := context.Background()
	both := relock.All(locks.Mutex("account:7"), locks.Mutex("account:3"), locks.Semaphore("bank", 4).Locker(1))

	lease, err := both.Lock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(lease.Token("account:3") > 0, lease.Lease("account:7").Name(), lease.Context().Err())
	var lost *relock.LostError
	if errors.As(context.Cause(lease.Context()), &lost) {
		fmt.Println(lost.Name, "was lost")
	}
	fmt.Println(lease.Unlock(ctx))
	fmt.Println(both.Do(ctx, func(context.Context) error { return nil }))
	if _, err := both.TryLock(ctx); err != nil {
		log.Fatal(err)
	}
	// Output:
	// true account:7 <nil>
	// <nil>
	// <nil>
}

// Each worker of a fleet has a number of its own, from 0 to 7.
func ExampleAny() {
	locks, closeLocks := opened()
	defer closeLocks()
	ctx := context.Background()
	var numbers []relock.Locker
	for i := range 8 {
		numbers = append(numbers, locks.Mutex(fmt.Sprint("worker:", i)))
	}
	own, err := relock.Any(numbers...).Lock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	defer own.Unlock(ctx)
	other, err := relock.Any(numbers...).TryLock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	defer other.Unlock(ctx)
	fmt.Println(own.Name() != other.Name())
	// Output: true
}

// A report that is made once over all processes, however many ask for it.
func ExampleClient_Flight() {
	locks, done := opened()
	defer done()
	ctx := context.Background()

	report := locks.Flight("report:2026-11", time.Hour) // relock.FlightOf has results of other types
	for range 2 {
		text, ran, err := report.Do(ctx, func(ctx context.Context) ([]byte, error) { // ctx ends when the lock is lost
			return []byte("made of all orders"), nil
		})
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("%s, here: %v\n", text, ran)
	}
	if err := report.Forget(ctx); err != nil { // an order has changed: the next caller makes it again
		log.Fatal(err)
	}
	// Output:
	// made of all orders, here: true
	// made of all orders, here: false
}

// An API takes the lock, and a worker elsewhere goes on under it: the lock is never free in between.
func ExampleLease_HandOver() {
	ctx := context.Background()
	locks, done := opened()
	defer done()

	report := locks.Mutex("report")
	api := taken(ctx, report)
	handle, err := api.HandOver(ctx, 5*time.Minute) // the worker has to come within that
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(context.Cause(api.Context()))

	// The handle travels to the worker's process, say in a message of a queue.
	worker, err := report.TakeOver(ctx, handle)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(worker.Token() > api.Token())
	if err := worker.Unlock(ctx); err != nil {
		log.Fatal(err)
	}
	// Output:
	// relock: lock handed over
	// true
}

// A lock that lingers costs no command while this process alone wants it. Others get it as soon as
// they ask, unless somebody works under it, who can hear that it is wanted.
func ExampleWithLinger() {
	ctx := context.Background()
	locks, done := opened(relock.WithLinger(time.Minute))
	defer done()

	orders := locks.Mutex("orders")
	for range 1000 {
		lease := taken(ctx, orders) // from the second or third on without a command
		lease.Unlock(ctx)
	}

	lease := taken(ctx, orders)
	defer lease.Unlock(ctx)
	select {
	case <-lease.Wanted():
		fmt.Println("somebody waits: give way")
	default:
		fmt.Println("nobody else wants it")
	}
	// Output: nobody else wants it
}

// Code that only locks takes a Locker: a Mutex, or either side of an RWMutex.
func ExampleLocker() {
	locks, done := opened()
	defer done()
	under := func(l relock.Locker) {
		err := l.Do(context.Background(), func(context.Context) error {
			fmt.Println("under", l.Name())
			return nil
		})
		if err != nil {
			log.Fatal(err)
		}
	}
	under(locks.Mutex("ledger"))
	under(locks.RWMutex("prices"))
	under(locks.RWMutex("prices").Reader())
	// Output:
	// under ledger
	// under prices
	// under prices
}

// What a caller can do about an error, the most special first. docs/errors.md in the repository has all rows.
func ExampleNodeError() {
	answer := func(err error) string {
		var node *relock.NodeError
		var quorum *relock.QuorumError
		switch {
		case errors.Is(err, relock.ErrNotAcquired):
			return "busy: try later"
		case errors.Is(err, relock.ErrNotAsked):
			return "too late: Redis was not asked"
		case errors.Is(err, relock.ErrRefused):
			return "tell an operator"
		case errors.As(err, &node), errors.As(err, &quorum):
			return "Redis failed: try later"
		case errors.Is(err, relock.ErrClosed):
			return "this process shuts down"
		}
		return "a mistake in the program"
	}
	locks, done := opened()
	late, cancel := context.WithCancel(context.Background())
	cancel()
	_, err := locks.Mutex("orders").Lock(late)
	fmt.Println(answer(err))
	_, err = locks.Mutex("").Lock(context.Background())
	fmt.Println(answer(err), errors.Is(err, relock.ErrInvalidName))
	done()
	_, err = locks.Mutex("orders").Lock(context.Background())
	fmt.Println(answer(err))
	// Output:
	// too late: Redis was not asked
	// a mistake in the program true
	// this process shuts down
}

// notes prints how leases were got, and how they ended.
type notes struct{}

func (notes) Observe(e relock.Event) {
	switch e.Kind {
	case relock.EventAcquired:
		fmt.Println("acquired", e.Lock, e.How == relock.HowReentered)
	case relock.EventReleased:
		fmt.Println("released", e.Lock)
	case relock.EventLost:
		fmt.Println("lost", e.Lock, e.Cause)
	}
}

// An Observer is told what happens to locks, and Stats count commands.
func ExampleWithObserver() {
	locks, done := opened(relock.WithObserver(notes{}))
	defer done()
	ctx := context.Background()
	outer := taken(ctx, locks.Mutex("orders"))
	inner := taken(outer.Context(), locks.Mutex("orders"))
	fmt.Println(inner.Unlock(ctx), outer.Unlock(ctx))
	for _, c := range locks.Stats().Commands {
		if c.Command == "acquire" {
			fmt.Println("Redis was asked for the lock:", c.Answered > 0)
		}
	}
	// Output:
	// acquired orders false
	// acquired orders true
	// released orders
	// released orders
	// <nil> <nil>
	// Redis was asked for the lock: true
}

// A client with a name is known to those that wait for it.
func ExampleWithClientName() {
	locks, done := opened(relock.WithClientName("billing"))
	defer done()
	report := locks.Mutex("report")
	taken(context.Background(), report)
	_, err := report.TryLock(context.Background())
	var held *relock.HeldError
	if errors.As(err, &held) {
		fmt.Println("held by", held.Client.Name)
	}
	// Output: held by billing
}

// A reader that would have to wait can go elsewhere.
func ExampleRWMutex_TryRLock() {
	locks, done := opened()
	defer done()
	ctx := context.Background()
	prices := locks.RWMutex("prices")
	reader, err := prices.RLock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	_, err = prices.TryLock(ctx)
	fmt.Println("writer beside a reader:", errors.Is(err, relock.ErrNotAcquired))
	_, err = prices.TryRLock(ctx)
	fmt.Println("reader beside a reader:", err)
	fmt.Println(reader.Unlock(ctx))
	// Output:
	// writer beside a reader: true
	// reader beside a reader: <nil>
	// <nil>
}
