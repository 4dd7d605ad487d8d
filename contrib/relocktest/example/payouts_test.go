package payouts

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/contrib/relocktest"
)

// ledger is a Ledger in memory. While calls while, if set, between the look and the payment.
type ledger struct {
	while func(ctx context.Context, invoice string)

	mu    sync.Mutex // guards what follows
	seen  map[string]int64
	times map[string]int // that an invoice was paid
}

var errStale = errors.New("a later holder has written")

func newLedger() *ledger { return &ledger{seen: map[string]int64{}, times: map[string]int{}} }

func (l *ledger) Paid(ctx context.Context, invoice string) (bool, error) {
	paid := l.paid(invoice) > 0
	if l.while != nil {
		l.while(ctx, invoice)
	}
	return paid, nil
}

func (l *ledger) Pay(_ context.Context, invoice string, token int64) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if token == 0 || token < l.seen[invoice] {
		return errStale
	}
	l.seen[invoice] = token
	l.times[invoice]++
	return nil
}

func (l *ledger) paid(invoice string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.times[invoice]
}

func TestAnotherWorkerHasTheInvoice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locks, ledger := relocktest.New(t), newLedger()
		service := &Service{locks, ledger}

		held := relocktest.Hold(t, locks, "invoice:42")
		if err := service.Pay(t.Context(), "42"); !errors.Is(err, ErrBusy) {
			t.Fatalf("got %v, want ErrBusy", err)
		}
		held.Unlock(t.Context())
		if err := service.Pay(t.Context(), "42"); err != nil {
			t.Fatal(err)
		}
		if n := ledger.paid("42"); n != 1 {
			t.Fatalf("paid %d times", n)
		}
	})
}

func TestTheLockIsLostBeforeThePayment(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locks, ledger := relocktest.New(t), newLedger()
		service := &Service{locks, ledger}
		other := &Service{relocktest.Beside(t, locks), ledger}

		ledger.while = func(ctx context.Context, invoice string) {
			ledger.while = nil
			lease, _ := relock.FromContext(ctx)
			relocktest.Lose(t, lease)
			if err := other.Pay(t.Context(), invoice); err != nil {
				t.Fatal(err)
			}
		}
		err := service.Pay(t.Context(), "42")
		if !errors.Is(err, relock.ErrLost) || !errors.Is(err, errStale) {
			t.Fatalf("got %v, want that the lock was lost and the payment refused", err)
		}
		if n := ledger.paid("42"); n != 1 {
			t.Fatalf("paid %d times", n)
		}
	})
}

func TestRedisIsDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locks, ledger := relocktest.New(t), newLedger()
		service := &Service{locks, ledger}

		relocktest.RedisDown(t, locks)
		if err := service.Pay(t.Context(), "42"); !errors.Is(err, ErrUnavailable) {
			t.Fatalf("got %v, want ErrUnavailable", err)
		}
		relocktest.RedisUp(t, locks)
		if err := service.Pay(t.Context(), "42"); err != nil {
			t.Fatal(err)
		}
	})
}

func TestAWorkerCrashes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locks, ledger := relocktest.New(t), newLedger()
		crashing := &Service{locks, ledger}
		service := &Service{relocktest.Beside(t, locks), ledger}

		ledger.while = func(context.Context, string) {
			ledger.while = nil
			relocktest.Crash(t, locks)
			runtime.Goexit() // the code under the lock ends as well
		}
		go crashing.Pay(t.Context(), "42")
		synctest.Wait()

		if err := service.Pay(t.Context(), "42"); !errors.Is(err, ErrBusy) {
			t.Fatalf("got %v, want ErrBusy: the lease runs on", err)
		}
		time.Sleep(30 * time.Second) // as long as a lease is by default
		if err := service.Pay(t.Context(), "42"); err != nil {
			t.Fatal(err)
		}
	})
}

func TestTheNightGivesWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locks, ledger := relocktest.New(t), newLedger()
		service := &Service{locks, ledger}

		var granted <-chan *relock.Lease
		ledger.while = func(ctx context.Context, invoice string) {
			if invoice == "2" {
				night, _ := locks.Mutex("night").Held(ctx)
				granted = relocktest.Want(t, night)
			}
		}
		left, err := service.Settle(t.Context(), []string{"1", "2", "3", "4"})
		if err != nil || !slices.Equal(left, []string{"3", "4"}) {
			t.Fatalf("left %v, %v; want 3 and 4", left, err)
		}
		<-granted // the other process has the lock
	})
}
