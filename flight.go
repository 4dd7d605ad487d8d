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
	"github.com/relock-go/relock/internal/lookup"
	"github.com/relock-go/relock/internal/wire"
)

// maxResult is the most bytes that the result of a Flight has, as it is encoded.
const maxResult = 64 << 10

// A Flight runs a function once among all processes that use the same Redis, and gives all callers its
// result: it is golang.org/x/sync/singleflight among processes, with a result that stays for a time. It is the
// Mutex of the same name with that result: State, ForceUnlock and observers show its runs. It holds no state
// of its own, and its methods may be called from any goroutine.
//
//   - One run is trusted at a time, as one owner is of a Mutex. Over all there may be several: a run whose
//     lease was lost is made again, and one whose lock or result a failover lost. Let it be repeatable.
//   - A result is left only while the run's own lease stands. A process that was stopped for longer than
//     its lease overwrites nothing.
//   - A function that calls Do of its own Flight, without the context that it was given, waits for itself.
//
// Over NewRedlock and under WithRestartGuard its methods fail with errors.ErrUnsupported; under WithOwner Do.
// A result has up to 64 KiB as it is encoded. A Flight refuses WithMinHold, WithLinger, WithLocalHandoff and
// WithStrictOrder; the last three have no effect on it if they are given to New.
type Flight[T any] struct {
	runs
	marshal   func(any) ([]byte, error)
	unmarshal func([]byte, any) error
}

// Flight returns the Flight named name, whose results are bytes, with the client's options changed by opts.
// A result stays in Redis for ttl, 100 ms to 366 days. A name, a ttl or an option that cannot work is
// reported by the first method called on the Flight, with ErrInvalidName or ErrInvalidOption.
func (c *Client) Flight(name string, ttl time.Duration, opts ...Option) *Flight[[]byte] {
	return &Flight[[]byte]{c.runs(name, ttl, opts),
		func(value any) ([]byte, error) { return value.([]byte), nil },
		func(result []byte, value any) error { *value.(*[]byte) = result; return nil }}
}

// FlightOf is Client.Flight for results of another type, which encoding/json encodes.
func FlightOf[T any](c *Client, name string, ttl time.Duration, opts ...Option) *Flight[T] {
	return &Flight[T]{c.runs(name, ttl, opts), json.Marshal, json.Unmarshal}
}

// Encoded returns the Flight with another encoder. All processes have to use the same for a name.
func (f *Flight[T]) Encoded(marshal func(any) ([]byte, error), unmarshal func([]byte, any) error) *Flight[T] {
	is := &Flight[T]{*f.base(), marshal, unmarshal}
	if marshal == nil || unmarshal == nil {
		is.err = cmp.Or(is.err, errNilFunc)
	}
	return is
}

// Name returns the name of the Flight, which is that of its Mutex.
func (f *Flight[T]) Name() string { return f.base().name() }

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
func (f *Flight[T]) Do(ctx context.Context, fn func(context.Context) (T, error)) (value T, ran bool, err error) {
	if fn == nil {
		return value, false, errNilFunc
	}
	result, ran, err := f.base().do(ctx, func(ctx context.Context) (result []byte, err error) {
		made, err := fn(ctx)
		if err != nil {
			return nil, err
		}
		value = made
		return f.encoded(made)
	})
	if ran || err != nil {
		return value, ran, err
	}
	value, err = f.decoded(result)
	return value, false, err
}

// Get returns the result that stands, and whether there is one. It runs nothing and waits for no run, and so
// heeds no WithWait: it is one command to Redis. Errors, by class:
//
//   - ErrUnavailable if Redis failed, was silent for a command timeout or until ctx ended, or was not asked.
//   - ErrRefused and ErrClosed, as from Do; errors.ErrUnsupported over a quorum and under WithRestartGuard.
//   - ErrMisuse, also for a result that cannot be decoded.
func (f *Flight[T]) Get(ctx context.Context) (value T, found bool, err error) {
	r := f.base()
	var result string
	err = r.withRetryAfter(r.query(ctx, func(k claim.Keeper) error {
		result, found, err = k.Result(ctx, r.names, false)
		return err
	}))
	if !found || err != nil {
		return value, false, err
	}
	value, err = f.decoded(result)
	return value, err == nil, err
}

// Forget takes the result away: the next Do runs its function. A run under way when Forget comes leaves
// nothing, as it may have begun with older data. A Do or Get that begins after Forget never returns an older
// result. Forget fails as Mutex.State does; after ErrUnavailable the result may still be removed, later.
func (f *Flight[T]) Forget(ctx context.Context) error {
	r := f.base()
	return r.withRetryAfter(r.query(ctx, func(k claim.Keeper) error { return k.Forget(ctx, r.names) }))
}

func (f *Flight[T]) encoded(value T) ([]byte, error) {
	result, err := f.marshal(value)
	if err != nil {
		return nil, fmt.Errorf("%w: the value of Flight %q cannot be encoded: %w", ErrMisuse, f.Name(), err)
	} else if len(result) > maxResult {
		return nil, fmt.Errorf("%w: %d bytes of Flight %q; %d are possible", ErrTooLarge, len(result), f.Name(), maxResult)
	}
	return result, nil
}

func (f *Flight[T]) decoded(result string) (value T, err error) {
	var read T // a decoder that fails may have written half of it
	if err = f.unmarshal([]byte(result), &read); err != nil {
		return value, fmt.Errorf("%w: the result of Flight %q cannot be decoded: %w", ErrMisuse, f.Name(), err)
	}
	return read, nil
}

// base returns what a Flight of every type embeds.
func (f *Flight[T]) base() *runs {
	if f == nil || f.zero() {
		return &runs{lock: *unmade("Flight")}
	}
	return &f.runs
}

// runs are the runs of a Flight, whatever the type of its results.
type runs struct {
	lock
	ttl time.Duration
}

// singly is the manner of a hold that one run has. It is never passed on in memory and does not linger, so
// that each run has an entry of its own: by it Redis tells a run's late result from that of the next.
type singly struct{ exclusively }

func (singly) usesGate(*config) bool { return false }

func (c *Client) runs(name string, ttl time.Duration, opts []Option) runs {
	r := runs{c.mutex("a Flight", name, opts), ttl}
	if r.err != nil {
		return r
	}
	cfg := *r.cfg
	cfg.passes, cfg.linger = 1, 0
	r.known, r.cfg = &known{k: r.k, names: r.names, manner: singly{}, tally: r.tally, lasts: r.lasts}, &cfg
	if r.k.cfg.nodes > 0 {
		r.err = fmt.Errorf("%w: a Flight over a quorum of nodes or under WithRestartGuard", wire.Unsupported)
	} else if err := leaseInRange(ttl); err != nil {
		r.err = fmt.Errorf("%w: the time that a result stays: %w", ErrInvalidOption, err)
	}
	return r
}

// query asks the one Redis that decides.
func (r *runs) query(ctx context.Context, question func(claim.Keeper) error) error {
	if err := r.begin(ctx, driver.Flight); err != nil {
		return err
	}
	defer r.tally.End()
	return question(r.k.arbiter.(claim.Keeper))
}

// do is Flight.Do with the result as Redis has it. Of this process one call leads, and the others wait for
// what it brings.
func (r *runs) do(ctx context.Context, fn func(context.Context) ([]byte, error)) (result string, ran bool, err error) {
	if err = r.valid(ctx); err != nil {
		return "", false, err
	}
	l := leader{runs: r, fn: fn, began: time.Now()}
	var cancel context.CancelFunc
	l.soon, cancel = l.bounded(ctx)
	defer cancel()
	if l.Lookup, err = r.join(ctx, l.soon); err != nil {
		return "", false, r.withRetryAfter(err)
	}
	if !l.Found {
		defer l.End()
		err = l.lead(ctx)
	}
	if l.Found {
		return l.Result, l.ran, nil // what became of the lease since does not matter
	}
	return "", l.ran, err
}

// join waits for the call of this process that leads, until soon ends, or begins to lead.
func (r *runs) join(ctx, soon context.Context) (*lookup.Lookup, error) {
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
	return r.k.lookups.Join(soon, r.names, r.k.arbiter.Nodes()[0])
}

// leader is the one call of Do in this process that asks Redis, and runs its function if there is no result.
type leader struct {
	*runs
	*lookup.Lookup
	fn    func(context.Context) ([]byte, error)
	began time.Time
	soon  context.Context // the caller's, with the end of WithWait's time
	lease *Lease          // of the run
	ran   bool
}

// bounded returns ctx with the end of WithWait's time.
func (l *leader) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	if l.cfg.wait == 0 {
		return ctx, func() {}
	}
	return context.WithDeadlineCause(ctx, l.began.Add(l.cfg.wait), wire.ErrWaited)
}

// lead reads the result and, if there is none, brings one under the lock: once more after each lease that was
// lost before the function ran.
func (l *leader) lead(ctx context.Context) error {
	err := l.read(ctx, l.soon, false)
	if l.Found || err != nil && (l.soon.Err() != nil || !wire.Transient(err)) { // while Redis is silent, Lock waits
		return l.withRetryAfter(err)
	}
	pause := clock.Backoff{Least: time.Millisecond, Most: 250 * time.Millisecond}
	for over := false; ; over = !clock.Sleep(l.soon, pause.Next()) { // at the end, its wait ends as Lock's
		err = do(ctx, l.take, l.bring)
		if l.ran || l.Found || over || !errors.Is(err, ErrLost) {
			return err
		}
	}
}

// take takes the lock, for a lease that no caller has yet.
func (l *leader) take(ctx context.Context) (_ *Lease, err error) {
	l.lease, err = l.run(ctx, func(seen *call) (*Lease, error) {
		a := attempt{lock: &l.lock, ctx: owing{ctx}, wctx: l.soon, seen: seen}
		return a.take()
	})
	return l.lease, l.unheard(ctx, err)
}

// bring reads the result under the lock and, if there is still none, runs the function.
func (l *leader) bring(ctx context.Context) error {
	if err := l.readAgain(ctx); err != nil {
		return err
	}
	defer l.End() // before the lock is given back
	if l.Found {
		return nil
	}
	l.ran = true
	made, err := l.fn(ctx)
	if err != nil {
		return err
	}
	return l.withRetryAfter(l.keep(ctx, string(made)))
}

// readAgain reads the result under the lock. If there is none, the lease is the caller's from here on.
func (l *leader) readAgain(ctx context.Context) error {
	soon, cancel := l.bounded(ctx)
	defer cancel()
	err := l.read(ctx, soon, true)
	if err == nil && !l.Found {
		err = l.lease.keptFor(true)
	}
	return l.unheard(soon, l.withRetryAfter(err))
}

// read asks Redis for the result until soon ends.
func (l *leader) read(ctx, soon context.Context, again bool) error {
	return l.query(ctx, func(k claim.Keeper) error {
		return l.Ask(l.soon, func() (string, bool, error) { return k.Result(soon, l.names, again) })
	})
}

// keep leaves the result of a run under its lease.
func (l *leader) keep(ctx context.Context, result string) error {
	if _, err := l.lease.stillHeld(); err != nil {
		return err
	}
	return l.query(context.WithoutCancel(ctx), func(k claim.Keeper) error {
		return l.Ask(l.soon, func() (string, bool, error) {
			kept, err := k.Keep(ctx, l.lease.h.entry, l.lease.Token(), result, l.ttl)
			if err == nil && kept == wire.NotHeld {
				err = l.lease.h.gone()
			}
			return result, kept == wire.IsKept, err
		})
	})
}

var (
	errOwnedRun   = fmt.Errorf("%w: a Flight under WithOwner", wire.Unsupported)
	errRunsInside = fmt.Errorf("%w: Do of a Flight under its own lock: it would wait for itself", ErrMisuse)
)
