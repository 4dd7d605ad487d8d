package relock

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/relock-go/relock/internal/claim"
	"github.com/relock-go/relock/internal/clock"
	"github.com/relock-go/relock/internal/driver"
	"github.com/relock-go/relock/internal/flight"
	"github.com/relock-go/relock/internal/wire"
)

// maxResult is the most bytes that the result of a Once has, as it is encoded.
const maxResult = 64 << 10

// A Once runs a function once among all processes that use the same Redis, and gives all callers its
// result. It is the Mutex of the same name with a result beside it: State, ForceUnlock and observers show
// its runs. It holds no state of its own, and its methods may be called from any goroutine.
//
//   - One run is trusted at a time, as one owner is of a Mutex. Over all there may be several: a run whose
//     lease was lost is made again, and one whose lock or result a failover lost. Let it be repeatable.
//   - A result is left only while the run's own lease stands. A process that was stopped for longer than
//     its lease overwrites nothing.
//   - A function that calls Do of its own Once, without the context that it was given, waiting for itself.
//
// Over NewRedlock, under WithRestartGuard and under WithOwner its methods fail with errors.ErrUnsupported.
// A result has up to 64 KiB as it is encoded. A Once refuses WithMinHold, WithLinger, WithLocalHandoff and
// WithStrictOrder; the last three have no effect on it if they are given to New.
type Once[T any] struct {
	runs
	marshal   func(any) ([]byte, error)
	unmarshal func([]byte, any) error
}

// Once returns the Once named name, whose results are bytes, with the client's options changed by opts. A
// result stays in Redis for ttl, 100 ms to 366 days. A name, a ttl or an option that cannot work is
// reported by the first method called on the Once, with ErrInvalidName or ErrInvalidOption.
func (c *Client) Once(name string, ttl time.Duration, opts ...Option) *Once[[]byte] {
	return &Once[[]byte]{c.runs(name, ttl, opts),
		func(value any) ([]byte, error) { return value.([]byte), nil },
		func(result []byte, value any) error { *value.(*[]byte) = result; return nil }}
}

// OnceOf is Client.Once for results of another type, which encoding/json encodes.
func OnceOf[T any](c *Client, name string, ttl time.Duration, opts ...Option) *Once[T] {
	return &Once[T]{c.runs(name, ttl, opts), json.Marshal, json.Unmarshal}
}

// Encoded returns the Once with another encoder. All processes have to use the same for a name.
func (o *Once[T]) Encoded(marshal func(any) ([]byte, error), unmarshal func([]byte, any) error) *Once[T] {
	is := &Once[T]{*o.base(), marshal, unmarshal}
	if marshal == nil || unmarshal == nil {
		is.err = cmp.Or(is.err, errNilFunc)
	}
	return is
}

// Name returns the name of the Once, which is that of its Mutex.
func (o *Once[T]) Name() string { return o.base().name() }

// Do returns the result that stands. If there is none, it runs fn under the lock, with the context of a
// lease, and leaves the value for the others. Meanwhile they wait, until their contexts end or WithWait's
// time is up. Do returns
//
//   - ran false: the result of another run;
//   - ran true: fn's value. It was left for the others, unless Forget came during the run;
//   - ran true and fn's error. Nothing was left, and the next caller runs its fn. If the lock was lost as
//     well, the error is as that of Mutex.Do;
//   - ran true, fn's value and an error: it was not left, and others may get another. The error is ErrLost
//     or ErrClosed if the lease was lost, ErrUnavailable if Redis did not answer while lease and ctx stood
//     (then it may have been left), ErrRefused, or ErrMisuse: it cannot be encoded, or is ErrTooLarge;
//   - ran false and an error: those of Mutex.Lock, and ErrMisuse for a result that cannot be decoded, or
//     under the context of a lease of the same lock.
//
// A panic of fn unlocks and goes on.
func (o *Once[T]) Do(ctx context.Context, fn func(context.Context) (T, error)) (value T, ran bool, err error) {
	if fn == nil {
		return value, false, errNilFunc
	}
	result, ran, err := o.base().do(ctx, func(ctx context.Context) (result []byte, err error) {
		made, err := fn(ctx)
		if err != nil {
			return nil, err
		}
		value = made
		if result, err = o.marshal(made); err != nil {
			return nil, fmt.Errorf("%w: the value of Once %q cannot be encoded: %w", ErrMisuse, o.Name(), err)
		} else if len(result) > maxResult {
			return nil, fmt.Errorf("%w: %d bytes of Once %q; %d are possible", ErrTooLarge, len(result), o.Name(), maxResult)
		}
		return result, nil
	})
	if ran || err != nil {
		return value, ran, err
	}
	var read T // a decoder that fails may have written half of it
	if err = o.unmarshal([]byte(result), &read); err != nil {
		return value, false, fmt.Errorf("%w: the result of Once %q cannot be decoded: %w", ErrMisuse, o.Name(), err)
	}
	return read, false, nil
}

// Forget takes the result away: the next Do runs its function. A run under way when Forget comes leaves
// nothing, as it may have begun with older data, and a Do that begins after Forget never returns an older
// result. Forget fails as Mutex.State does; after ErrUnavailable the result may still be
// removed, later.
func (o *Once[T]) Forget(ctx context.Context) error {
	r := o.base()
	if err := r.begin(ctx, driver.Once); err != nil {
		return r.withRetryAfter(err)
	}
	defer r.tally.End()
	return r.withRetryAfter(r.keeper().Forget(ctx, r.names))
}

// base returns what a Once of every type embeds.
func (o *Once[T]) base() *runs {
	if o == nil || o.zero() {
		return &runs{lock: *unmade("Once")}
	}
	return &o.runs
}

// runs are the runs of a Once, whatever the type of its results.
type runs struct {
	lock
	ttl time.Duration
}

// singly is the manner of a hold that one run has. It is never passed on in memory and does not linger, so
// that each run has an entry of its own: by it Redis tells a run's late result from that of the next.
type singly struct{ exclusively }

func (singly) usesGate(*config) bool { return false }

func (c *Client) runs(name string, ttl time.Duration, opts []Option) runs {
	r := runs{c.mutex("a Once", name, opts), ttl}
	if r.err != nil {
		return r
	}
	cfg := *r.cfg
	cfg.passes, cfg.linger = 1, 0
	r.known, r.cfg = &known{k: r.k, names: r.names, manner: singly{}, tally: r.tally, lasts: r.lasts}, &cfg
	if r.k.cfg.nodes > 0 {
		r.err = fmt.Errorf("%w: a Once over a quorum of nodes or under WithRestartGuard", wire.Unsupported)
	} else if err := leaseInRange(ttl); err != nil {
		r.err = fmt.Errorf("%w: the time that a result stays: %w", ErrInvalidOption, err)
	}
	return r
}

func (r *runs) keeper() claim.Keeper { return r.k.arbiter.(claim.Keeper) } // a quorum has no Onces

// do is Once.Do with the result as Redis has it. Of this process one goroutine leads, and the others wait
// for what it brings.
func (r *runs) do(ctx context.Context, run func(context.Context) ([]byte, error)) (result string, ran bool, err error) {
	if err := r.valid(ctx); err != nil {
		return "", false, err
	}
	began := time.Now()
	soon, cancel := r.bounded(ctx, began)
	defer cancel()
	f, err := r.board(ctx, soon)
	if err != nil {
		return "", false, r.withRetryAfter(err)
	} else if f.Found {
		return f.Result, false, nil
	}
	defer f.Land()
	failed := r.read(soon, f, false)
	if f.Found || failed != nil && !wire.Transient(failed) { // while Redis is silent, Lock waits
		return f.Result, false, r.withRetryAfter(failed)
	}
	ran, err = r.lead(ctx, f, began, failed, run)
	if f.Found {
		return f.Result, ran, nil // what became of the lease since does not matter
	}
	return "", ran, err
}

// lead calls run under the lock, unless it finds a result there. Redis has failed before as failed says.
func (r *runs) lead(
	ctx context.Context, f *flight.Flight, began time.Time, failed error, run func(context.Context) ([]byte, error),
) (ran bool, err error) {
	var lease *Lease
	locked := func(ctx context.Context) (l *Lease, err error) {
		lk := r.lock
		if r.cfg.wait > 0 {
			cfg := *r.cfg
			cfg.wait, lk.cfg = max(1, r.cfg.wait-time.Since(began)), &cfg
		}
		if lease, err = lk.acquire(owing{ctx}, waiting); err != nil {
			return nil, r.unheard(ctx, err, failed)
		}
		return lease, nil
	}
	inside := func(ctx context.Context) error {
		soon, cancel := r.bounded(ctx, began)
		defer cancel()
		err := r.read(soon, f, true)
		if err == nil && !f.Found {
			err = lease.keptFor(true)
		}
		if err != nil {
			return r.unheard(soon, r.withRetryAfter(err), nil)
		}
		if ran = !f.Found; ran {
			var made []byte
			if made, err = run(ctx); err == nil {
				err = r.withRetryAfter(r.keep(ctx, f, string(made)))
			}
		}
		f.Land() // before the lock is given back
		return err
	}
	pause := clock.Backoff{Least: time.Millisecond, Most: 250 * time.Millisecond}
	for ended := false; ; ended = !clock.Sleep(ctx, pause.Next()) { // at the end, its wait ends as Lock's
		err = do(ctx, locked, inside)
		if ran || f.Found || ended || !errors.Is(err, ErrLost) { // else it was lost before it was used
			return ran, err
		}
	}
}

// bounded returns ctx with the end of WithWait's time.
func (r *runs) bounded(ctx context.Context, began time.Time) (context.Context, context.CancelFunc) {
	if r.cfg.wait == 0 {
		return ctx, func() {}
	}
	return context.WithDeadlineCause(ctx, began.Add(r.cfg.wait), wire.ErrWaited)
}

// board waits for the flight under way in this process, or begins one.
func (r *runs) board(ctx, soon context.Context) (*flight.Flight, error) {
	if err := r.begin(ctx, driver.Acquire); err != nil {
		return nil, err
	}
	defer r.tally.End()
	owner, err := ownerOf(ctx)
	if owner != "" || err != nil {
		return nil, cmp.Or(err, errOwnedRun)
	} else if r.enclosing(ctx) != nil {
		return nil, errRunsInside
	}
	node := r.k.arbiter.Nodes()[0]
	f, err := r.k.flights.Enter(soon, r.names.Lock, node.Done())
	switch {
	case err == flight.ErrOver:
		err = ErrClosed
	case err != nil && node.Down():
		err = r.k.arbiter.Silence(driver.Acquire, r.names.Name, wire.ErrNoAnswer, err)
	case err != nil:
		err = &wire.HeldError{Name: r.names.Name, Local: true, Cause: err}
	}
	return f, err
}

// read reads the result for a flight.
func (r *runs) read(ctx context.Context, f *flight.Flight, again bool) (err error) {
	if err = r.begin(ctx, driver.Once); err == nil {
		defer r.tally.End()
		f.Asks()
		f.Result, f.Found, err = r.keeper().Result(ctx, r.names, again)
	}
	return err
}

// keep leaves the result of a run under the lease of ctx.
func (r *runs) keep(ctx context.Context, f *flight.Flight, result string) error {
	lease, err := r.held(ctx)
	if err == nil {
		err = r.begin(context.WithoutCancel(ctx), driver.Once)
	}
	if err != nil {
		return err
	}
	defer r.tally.End()
	f.Asks()
	kept, err := r.keeper().Keep(ctx, lease.h.entry, lease.Token(), result, r.ttl)
	if err == nil && kept == wire.NotHeld {
		return lease.h.gone()
	}
	f.Result, f.Found = result, err == nil && kept == wire.IsKept
	return err
}

var (
	errOwnedRun   = fmt.Errorf("%w: a Once under WithOwner", wire.Unsupported)
	errRunsInside = fmt.Errorf("%w: Do of a Once under its own lock: it would wait for itself", ErrMisuse)
)
