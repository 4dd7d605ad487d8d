package relock_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/redis/rueidis"
	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/redistest"
)

// The lines that the README opens with.
func Example() {
	rdb, closeRedis := connect()
	defer closeRedis()
	ctx := context.Background()

	locks, err := relock.New(rdb)
	if err != nil {
		log.Fatal(err)
	}
	defer locks.Close()

	err = locks.Mutex("orders:42").Do(ctx, func(ctx context.Context) error {
		return save(ctx, "order 42", relock.Token(ctx)) // ctx ends when the lock is lost
	})
	fmt.Println(err)
	// Output:
	// saved order 42 under a fencing token: true
	// <nil>
}

func save(ctx context.Context, what string, token int64) error {
	fmt.Println("saved", what, "under a fencing token:", token > 0)
	return ctx.Err()
}

// The README's second example is compiled: it takes a database to run it.
var _ = pay

func pay(ctx context.Context, locks *relock.Client, db *sql.DB) error {
	lease, err := locks.Mutex("orders:42").Lock(ctx)
	if err != nil {
		return err
	}
	defer lease.Unlock(ctx)
	var id int64 // sql.ErrNoRows after a later holder's write: no row was updated
	return db.QueryRowContext(lease.Context(),
		"UPDATE orders SET state = 'paid', token = $1 WHERE id = 42 AND token <= $1 RETURNING id", lease.Token()).Scan(&id)
}

func ExampleMutex_Lock() {
	rdb, closeRedis := connect()
	defer closeRedis()
	locks, err := relock.New(rdb)
	if err != nil {
		log.Fatal(err)
	}
	defer locks.Close()

	ctx := context.Background()
	m := locks.Mutex("invoices")
	lease, err := m.Lock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	inner, err := m.Lock(lease.Context())
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("hold count", lease.Count())
	fmt.Println(inner.Unlock(ctx), lease.Unlock(ctx))
	fmt.Println("unlocked:", errors.Is(lease.Unlock(ctx), relock.ErrNotHeld))
	// Output:
	// hold count 2
	// <nil> <nil>
	// unlocked: true
}

func ExampleMutex_TryLock() {
	rdb, closeRedis := connect()
	defer closeRedis()
	locks, err := relock.New(rdb)
	if err != nil {
		log.Fatal(err)
	}
	defer locks.Close()

	ctx := context.Background()
	lease, err := locks.Mutex("report").TryLock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	_, err = locks.Mutex("report").TryLock(ctx)
	var held *relock.HeldError
	if errors.As(err, &held) {
		fmt.Println(held.Name, "is taken, its lease has more than 29 seconds left:", held.TTL > 29*time.Second)
	}
	fmt.Println(lease.Unlock(ctx))
	// Output:
	// report is taken, its lease has more than 29 seconds left: true
	// <nil>
}

func ExampleDetach() {
	rdb, closeRedis := connect()
	defer closeRedis()
	locks, err := relock.New(rdb)
	if err != nil {
		log.Fatal(err)
	}
	defer locks.Close()

	ctx := context.Background()
	m := locks.Mutex("accounts")
	err = m.Do(ctx, func(ctx context.Context) error {
		_, reentered := m.TryLock(ctx)
		_, other := m.TryLock(relock.Detach(ctx))
		fmt.Println(reentered, errors.Is(other, relock.ErrNotAcquired))
		return nil
	})
	fmt.Println(err)
	// Output:
	// <nil> true
	// <nil>
}

// connect stands for the rueidis client that a service has already, here over a Redis of the example's own.
func connect() (rueidis.Client, func()) {
	s := new(redistest.Stage)
	return redistest.Start(s).Client(), s.End
}
