package suite_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/election"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

// The recipes of docs/recipes.md stand here, each with a test of what it promises. Those for robfig/cron stand where that
// module is at hand, and the command's tests run its lines.
func TestRecipesAreTested(t *testing.T) {
	page, err := os.ReadFile("../../docs/recipes.md")
	require.NoError(t, err)
	var tested string
	for _, file := range []string{"recipes_test.go", "../../contrib/relockgocron/robfig_test.go"} {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		tested += string(text)
	}
	shown := strings.Split(string(page), "```go\n")[1:]
	require.Len(t, shown, 18)
	for _, code := range shown {
		code, _, _ := strings.Cut(code, "```")
		require.LessOrEqual(t, strings.Count(code, "\n"), 20)
		require.True(t, strings.Contains(tested, code), "no test has this:\n%s", code)
	}
}

// processes returns clients of a Redis of the test's own, each as another process has it.
func processes(t *testing.T, n int) (locks []*relock.Client) {
	t.Helper()
	srv := redistest.Start(t)
	for range n {
		l, err := relock.New(srv.Client())
		require.NoError(t, err)
		t.Cleanup(l.Close)
		locks = append(locks, l)
	}
	return locks
}

func takePart(ctx context.Context, locks *relock.Client, lead func(context.Context) error) error {
	leader := election.New(locks.Mutex("billing:leader", relock.WithLease(5*time.Second)))
	return leader.Run(ctx, lead) // again and again, while this process leads
}

func TestRecipeOfALeader(t *testing.T) {
	t.Parallel()
	leading := make(chan int)
	stops, ended := make([]context.CancelFunc, 2), make(chan error)
	for i, locks := range processes(t, 2) {
		var ctx context.Context
		ctx, stops[i] = context.WithCancel(t.Context())
		go func() {
			ended <- takePart(ctx, locks, func(ctx context.Context) error {
				leading <- i
				<-ctx.Done()
				return nil
			})
		}()
	}
	first := <-leading
	stops[first]()
	require.NoError(t, <-ended)
	require.Equal(t, 1-first, <-leading, "the other one follows")
	stops[1-first]()
	require.NoError(t, <-ended)
}

// status is as in docs/errors.md.
func status(err error) int {
	switch {
	case errors.Is(err, relock.ErrNotAcquired):
		return http.StatusConflict
	case errors.Is(err, relock.ErrUnavailable), errors.Is(err, relock.ErrLost), errors.Is(err, relock.ErrClosed):
		return http.StatusServiceUnavailable
	}
	return http.StatusInternalServerError
}

func settle(locks *relock.Client, work func(context.Context) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		order := locks.Mutex("order:"+r.PathValue("id"), relock.WithWait(200*time.Millisecond))
		err := order.Do(r.Context(), work)
		if err == nil {
			w.WriteHeader(http.StatusNoContent)
			return
		}
		var held *relock.HeldError
		if errors.As(err, &held) {
			w.Header().Set("Retry-After", strconv.Itoa(int(math.Ceil(held.RetryAfter.Seconds()))))
		}
		http.Error(w, http.StatusText(status(err)), status(err)) // status is in docs/errors.md
	}
}

func TestRecipeOfAService(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	var clients []*relock.Client
	for range 2 {
		locks, err := relock.New(srv.Client())
		require.NoError(t, err)
		t.Cleanup(locks.Close)
		clients = append(clients, locks)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /orders/{id}", settle(clients[0], func(context.Context) error { return nil }))
	post := func() *http.Response {
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/orders/42", nil))
		return w.Result()
	}
	require.Equal(t, http.StatusNoContent, post().StatusCode)
	lease, err := clients[1].Mutex("order:42").Lock(t.Context())
	require.NoError(t, err)
	busy := post()
	require.Equal(t, http.StatusConflict, busy.StatusCode)
	seconds, err := strconv.Atoi(busy.Header.Get("Retry-After"))
	require.NoError(t, err)
	require.Positive(t, seconds)
	require.NoError(t, lease.Unlock(t.Context()))
	srv.Kill()
	require.Equal(t, http.StatusServiceUnavailable, post().StatusCode)
}

func onceATick(ctx context.Context, locks *relock.Client, job func(context.Context) error) error {
	m := locks.Mutex("nightly", relock.WithMinHold(10*time.Minute), relock.WithLease(10*time.Minute))
	lease, err := m.TryLock(ctx)
	if errors.Is(err, relock.ErrNotAcquired) {
		return nil // another process has this tick
	}
	if err != nil {
		return err
	}
	defer lease.Unlock(ctx) // the lock stays taken until 10 minutes after the grant
	return job(lease.Context())
}

// A plain lock beside it shows what goes wrong.
func TestRecipeOfAJob(t *testing.T) {
	t.Parallel()
	var once, plain int
	for _, locks := range processes(t, 3) { // one after the other, as their clocks differ
		require.NoError(t, onceATick(t.Context(), locks, func(context.Context) error { once++; return nil }))
		lease, err := locks.Mutex("plain").TryLock(t.Context())
		require.NoError(t, err)
		plain++
		require.NoError(t, lease.Unlock(t.Context()))
	}
	require.Equal(t, 1, once)
	require.Equal(t, 3, plain)
}

func transfer(ctx context.Context, locks *relock.Client, from, to string,
	move func(ctx context.Context, tokenFrom, tokenTo int64) error,
) error {
	if from == to {
		return errSameAccount // All refuses one name twice, as ErrMisuse
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second) // both waits and the work: WithWait is each lock's own
	defer cancel()
	payer, payee := locks.Mutex("account:"+from), locks.Mutex("account:"+to)
	return relock.All(payer, payee).Do(ctx, func(ctx context.Context) error { // ctx ends when either lock is lost
		one, err := payer.Held(ctx)
		two, lost := payee.Held(ctx)
		if err = errors.Join(err, lost); err != nil {
			return err
		}
		return move(ctx, one.Token(), two.Token()) // the row of each account refuses a lower token
	})
}

var errSameAccount = errors.New("both accounts are one")

func TestRecipeOfTwoLocks(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var inside, moved atomic.Int32
	var working sync.WaitGroup
	greatest := make(map[string]int64) // under the locks
	for i, locks := range processes(t, 2) {
		names := [][]string{{"a", "b"}, {"b", "a"}}[i]
		for range 4 {
			working.Go(func() {
				for range 25 {
					err := transfer(ctx, locks, names[0], names[1], func(ctx context.Context, tokenFrom, tokenTo int64) error {
						if inside.Add(1) != 1 {
							return errors.New("two transfers at once")
						}
						defer inside.Add(-1)
						moved.Add(1)
						if greatest[names[0]] >= tokenFrom || greatest[names[1]] >= tokenTo {
							return errors.New("a token that does not rise")
						}
						greatest[names[0]], greatest[names[1]] = tokenFrom, tokenTo
						return ctx.Err()
					})
					if err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
	}
	working.Wait()
	require.EqualValues(t, 200, moved.Load())
	nothing := func(context.Context, int64, int64) error { return nil }
	require.Equal(t, errSameAccount, transfer(ctx, processes(t, 1)[0], "a", "a", nothing))
	locks := processes(t, 1)[0]
	lease, err := locks.Mutex("account:a").Lock(ctx)
	require.NoError(t, err)
	ctx, cancel = context.WithTimeout(ctx, 50*time.Millisecond)
	defer cancel()
	require.ErrorIs(t, transfer(ctx, locks, "a", "b", nothing), relock.ErrNotAcquired)
	require.NoError(t, lease.Unlock(t.Context()))
}

func numbered(ctx context.Context, locks *relock.Client, n int, work func(ctx context.Context, number int) error) error {
	numbers := make([]relock.Locker, n)
	for i := range numbers {
		numbers[i] = locks.Mutex(fmt.Sprintf("worker:%d", i))
	}
	return relock.Any(numbers...).Do(ctx, func(ctx context.Context) error {
		lease, _ := relock.FromContext(ctx)
		number, err := strconv.Atoi(strings.TrimPrefix(lease.Name(), "worker:"))
		if err != nil {
			return err
		}
		return work(ctx, number)
	})
}

func TestRecipeOfANumber(t *testing.T) {
	t.Parallel()
	const n = 3
	var has [n]atomic.Bool
	var came atomic.Int32
	var working sync.WaitGroup
	all := make(chan struct{})
	for _, locks := range processes(t, 2*n) {
		working.Go(func() {
			err := numbered(t.Context(), locks, n, func(ctx context.Context, number int) error {
				if !has[number].CompareAndSwap(false, true) {
					return errors.New("two workers have one number")
				}
				defer has[number].Store(false)
				if came.Add(1) == n {
					close(all)
				}
				select { // n workers are there at once, or the first would wait in vain
				case <-all:
				case <-ctx.Done():
				}
				return context.Cause(ctx)
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	working.Wait()
}

func callSupplier(ctx context.Context, locks *relock.Client, call func(context.Context) error) error {
	calls := locks.Semaphore("supplier", 10, relock.WithWait(2*time.Second), relock.WithMaxHold(30*time.Second))
	err := calls.Do(ctx, call)
	if errors.Is(err, relock.ErrNotAcquired) {
		return fmt.Errorf("ten calls are under way: %w", err)
	}
	return err
}

func TestRecipeOfAtMostNCalls(t *testing.T) {
	t.Parallel()
	var calling, most atomic.Int32
	var working sync.WaitGroup
	for _, locks := range processes(t, 3) {
		for range 10 {
			working.Go(func() {
				err := callSupplier(t.Context(), locks, func(context.Context) error {
					now := calling.Add(1)
					for was := most.Load(); now > was && !most.CompareAndSwap(was, now); was = most.Load() {
					}
					time.Sleep(5 * time.Millisecond) // a call
					calling.Add(-1)
					return nil
				})
				if err != nil {
					t.Error(err)
				}
			})
		}
	}
	working.Wait()
	require.LessOrEqual(t, most.Load(), int32(10))

	two := processes(t, 2)
	locks := two[0]
	all, err := locks.Semaphore("supplier", 10).Acquire(t.Context(), 10)
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	err = callSupplier(ctx, locks, func(context.Context) error { return errors.New("called") })
	require.ErrorIs(t, err, relock.ErrNotAcquired)
	require.ErrorContains(t, err, "ten calls are under way")
	require.NoError(t, all.Unlock(t.Context()))

	require.NoError(t, limitCalls(t.Context(), locks, 20))
	st, err := two[1].Semaphore("supplier", 10).State(t.Context())
	require.NoError(t, err)
	require.Equal(t, 20, st.Permits)
}

func limitCalls(ctx context.Context, locks *relock.Client, n int) error {
	return locks.Semaphore("supplier", n).SetPermits(ctx, n)
}

func begin(ctx context.Context, locks *relock.Client, send func(ctx context.Context, handle string) error) error {
	report := locks.Mutex("report")
	lease, err := report.TryLock(ctx)
	if err != nil {
		return err
	}
	handle, err := lease.HandOver(ctx, 5*time.Minute) // how long the job may wait in its queue
	if err != nil {
		return err
	}
	if err = send(ctx, handle); err != nil {
		if back, failed := report.TakeOver(ctx, handle); failed == nil {
			_ = back.Unlock(ctx) // the job is void, if it did arrive
		}
	}
	return err
}

func goOn(ctx context.Context, locks *relock.Client, handle string, work func(context.Context) error) error {
	lease, err := locks.Mutex("report").TakeOver(ctx, handle)
	if err != nil {
		return err // ErrLost: another worker has the job or had it, or it comes too late; ErrUnavailable: try again
	}
	defer lease.Unlock(ctx)
	return work(lease.Context())
}

func TestRecipeOfAHandOver(t *testing.T) {
	t.Parallel()
	p := processes(t, 3)
	api, worker, other := p[0], p[1], p[2]
	tokenOf := func() int64 {
		st, err := other.Mutex("report").State(t.Context())
		require.NoError(t, err)
		return st.HolderToken
	}
	var job string
	var before int64
	queue := func(_ context.Context, handle string) error {
		job, before = handle, tokenOf()
		return nil
	}
	require.NoError(t, begin(t.Context(), api, queue))
	require.ErrorIs(t, begin(t.Context(), other, queue), relock.ErrNotAcquired)
	works := func(ctx context.Context) error {
		require.Greater(t, relock.Token(ctx), before)
		require.ErrorIs(t, begin(t.Context(), other, queue), relock.ErrNotAcquired)
		unused := func(context.Context) error { return errors.New("the job is done twice") }
		require.ErrorIs(t, goOn(t.Context(), other, job, unused), relock.ErrLost)
		return nil
	}
	require.NoError(t, goOn(t.Context(), worker, job, works))
	require.ErrorIs(t, goOn(t.Context(), worker, job, works), relock.ErrLost)

	fails := errors.New("no answer")
	require.Equal(t, fails, begin(t.Context(), api, func(_ context.Context, handle string) error {
		job = handle
		return fails
	}))
	require.ErrorIs(t, goOn(t.Context(), worker, job, works), relock.ErrLost)
	require.NoError(t, begin(t.Context(), other, queue), "the lock is free at once")
}

func beginAs(ctx context.Context, locks *relock.Client, id string, send func(id string) (confirmed <-chan struct{})) error {
	lease, err := locks.Mutex("report").Lock(relock.WithOwner(ctx, id))
	if err != nil {
		return err
	}
	defer lease.Unlock(ctx)
	select {
	case <-send(id): // the worker has the lock too
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func goOnAs(ctx context.Context, locks *relock.Client, id string, confirm func(), work func(context.Context) error) error {
	return locks.Mutex("report").Do(relock.WithOwner(ctx, id), func(ctx context.Context) error {
		confirm()
		return work(ctx)
	})
}

func TestRecipeOfAHandOverByOwner(t *testing.T) {
	t.Parallel()
	p := processes(t, 3)
	api, worker, other := p[0], p[1], p[2]
	began, ended := make(chan struct{}), make(chan error, 1)
	var before int64
	err := beginAs(t.Context(), api, "report-7f9c", func(id string) <-chan struct{} {
		confirmed := make(chan struct{})
		st, err := api.Mutex("report").State(t.Context())
		require.NoError(t, err)
		before = st.HolderToken
		go func() {
			select { // a beginAs that does not wait for the confirmation unlocks first
			case <-began:
			case <-time.After(100 * time.Millisecond):
			}
			ended <- goOnAs(t.Context(), worker, id, func() { close(confirmed) }, func(ctx context.Context) error {
				<-began
				_, err := other.Mutex("report").TryLock(t.Context())
				if !errors.Is(err, relock.ErrNotAcquired) || relock.Token(ctx) != before {
					return errors.New("the lock was free in between")
				}
				return nil
			})
		}()
		return confirmed
	})
	require.NoError(t, err)
	close(began)
	require.NoError(t, <-ended)
	lease, err := other.Mutex("report").Lock(t.Context())
	require.NoError(t, err)
	require.Greater(t, lease.Token(), before)
}

func cached(ctx context.Context, locks *relock.Client, key string, c cache,
	load func(context.Context) (string, error),
) (string, error) {
	v, ok := c.get(key)
	if ok {
		return v, nil
	}
	err := locks.Mutex("load:"+key).Do(ctx, func(ctx context.Context) (err error) {
		if v, ok = c.get(key); ok {
			return nil // loaded while this caller waited
		}
		if v, err = load(ctx); err == nil {
			c.put(key, v)
		}
		return err
	})
	return v, err
}

// cache is one that all processes share.
type cache struct{ values *sync.Map }

func (c cache) put(key, v string) { c.values.Store(key, v) }

func (c cache) get(key string) (string, bool) {
	v, ok := c.values.Load(key)
	if !ok {
		return "", false
	}
	return v.(string), true
}

func TestRecipeOfACache(t *testing.T) {
	t.Parallel()
	var loads atomic.Int32
	var asking sync.WaitGroup
	shared := cache{new(sync.Map)}
	for _, locks := range processes(t, 2) {
		for range 20 {
			asking.Go(func() {
				v, err := cached(t.Context(), locks, "prices", shared, func(context.Context) (string, error) {
					loads.Add(1)
					return "loaded", nil
				})
				if err != nil || v != "loaded" {
					t.Error(v, err)
				}
			})
		}
	}
	asking.Wait()
	require.EqualValues(t, 1, loads.Load())
}

type loader func(context.Context) ([]byte, error)

func fresh(ctx context.Context, locks *relock.Client, key string, now time.Time, load loader) ([]byte, error) {
	of := func(at time.Time, opts ...relock.Option) *relock.Flight[[]byte] { // a name for each minute
		return locks.Flight(fmt.Sprint(key, "@", at.Truncate(time.Minute).Unix()), 5*time.Minute, opts...)
	}
	v, ran, err := of(now, relock.WithWait(200*time.Millisecond)).Do(ctx, load)
	switch {
	case err == nil, ran && v != nil: // loaded here, though perhaps not left for others
		return v, nil
	case !ran && errors.Is(err, relock.ErrUnavailable): // Redis is down
		return load(ctx)
	case ran, !errors.Is(err, relock.ErrNotAcquired):
		return nil, err // load's, say
	}
	if v, found, err := of(now.Add(-time.Minute)).Get(ctx); found || err != nil { // the last minute's will do
		return v, err
	}
	v, _, err = of(now).Do(ctx, load) // there is none
	return v, err
}

func TestRecipeOfAFreshCache(t *testing.T) {
	t.Parallel()
	p, minute := processes(t, 2), time.Unix(1_800_000_000, 0)
	get := func(i int, at time.Time, load func(context.Context) ([]byte, error)) string {
		v, err := fresh(t.Context(), p[i], "prices", at, load)
		if err != nil {
			t.Error(err)
		}
		return string(v)
	}
	one := func(context.Context) ([]byte, error) { return []byte("one"), nil }
	require.Equal(t, "one", get(0, minute, one))
	next, loading, goOn, loaded := minute.Add(time.Minute), make(chan struct{}), make(chan struct{}), make(chan string)
	go func() {
		v := "one"
		for v == "one" { // as long as Redis is too slow for it to run
			v = get(0, next, func(context.Context) ([]byte, error) {
				close(loading)
				<-goOn
				return []byte("two"), nil
			})
		}
		loaded <- v
	}()
	<-loading
	none := func(context.Context) ([]byte, error) { return nil, errors.New("nobody else loads") }
	for i := range p {
		require.Equal(t, "one", get(i, next, none), "the last minute's")
	}
	require.Equal(t, "one", get(1, next.Add(time.Hour), one), "there is none of the minute before")
	close(goOn)
	require.Equal(t, "two", <-loaded)
	require.Eventually(t, func() bool { return get(1, next.Add(time.Second), none) == "two" }, time.Minute, time.Millisecond)
}

// The cache answers without Redis, and tells what a load fails with.
func TestRecipeOfAFreshCacheWithoutRedis(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	locks, err := relock.New(srv.Client())
	require.NoError(t, err)
	t.Cleanup(locks.Close)
	failed := errors.New("failed")
	_, err = fresh(t.Context(), locks, "prices", time.Now(), func(context.Context) ([]byte, error) { return nil, failed })
	require.ErrorIs(t, err, failed)
	srv.Kill()
	for range 2 {
		v, err := fresh(t.Context(), locks, "prices", time.Now(), func(context.Context) ([]byte, error) { return []byte("mine"), nil })
		require.NoError(t, err)
		require.Equal(t, "mine", string(v))
	}
	v, err := fresh(t.Context(), locks, "prices", time.Now(), func(context.Context) ([]byte, error) { return nil, failed })
	require.ErrorIs(t, err, failed)
	require.Empty(t, v)
}

func answer(ctx context.Context, locks *relock.Client, key string, s store,
	work func(context.Context) (string, error),
) (a string, err error) {
	m := locks.Mutex("request:"+key, relock.WithWait(5*time.Second))
	err = m.Do(ctx, func(ctx context.Context) error {
		known, made, err := s.find(ctx, key)
		if a = known; made || err != nil {
			return err // a repetition gets the first answer
		}
		if a, err = work(ctx); err != nil {
			return err
		}
		return s.save(ctx, key, a) // in one transaction with the work, and key is unique there
	})
	return a, err
}

// store stands for a table of answers.
type store struct{ answers map[string]string }

func (s store) find(_ context.Context, key string) (a string, made bool, err error) {
	a, made = s.answers[key]
	return a, made, nil
}

func (s store) save(ctx context.Context, key, a string) error {
	if s.answers[key] != "" {
		return errors.New("the key is not unique")
	}
	s.answers[key] = a
	return ctx.Err()
}

func TestRecipeOfARequest(t *testing.T) {
	t.Parallel()
	var works int // under the lock
	var asking sync.WaitGroup
	s := store{make(map[string]string)}
	for _, locks := range processes(t, 2) {
		for range 10 {
			asking.Go(func() {
				a, err := answer(t.Context(), locks, "5f2d", s, func(context.Context) (string, error) {
					works++
					return "paid", nil
				})
				if err != nil || a != "paid" {
					t.Error(a, err)
				}
			})
		}
	}
	asking.Wait()
	require.Equal(t, 1, works)
}

func drain(ctx context.Context, locks *relock.Client, step func(context.Context) (more bool, err error)) error {
	for more := true; more; {
		err := locks.Mutex("import").Do(ctx, func(ctx context.Context) (err error) {
			lease, _ := relock.FromContext(ctx)
			for wanted := false; more && !wanted && err == nil; {
				more, err = step(ctx)
				select {
				case <-lease.Wanted():
					wanted = true // another process waits, and this one queues up behind it
				default:
				}
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func TestRecipeOfARollingDeploy(t *testing.T) {
	t.Parallel()
	p := processes(t, 2)
	var came atomic.Bool
	started, ended := make(chan struct{}), make(chan error, 1)
	first := sync.OnceFunc(func() { close(started) })
	go func() {
		ended <- drain(t.Context(), p[0], func(ctx context.Context) (bool, error) {
			first()
			time.Sleep(time.Millisecond) // a step takes some time
			return !came.Load(), ctx.Err()
		})
	}()
	<-started
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	err := drain(ctx, p[1], func(context.Context) (bool, error) { // comes only if the first gives way
		came.Store(true)
		return false, nil
	})
	require.NoError(t, err)
	require.NoError(t, <-ended)
}

func bounded(ctx context.Context, locks *relock.Client, work func(context.Context) error) string {
	m := locks.Mutex("export", relock.WithWait(2*time.Second), relock.WithMaxHold(time.Minute))
	err := m.Do(ctx, work)
	switch {
	case errors.Is(err, relock.ErrNotAcquired):
		return "busy for two seconds"
	case errors.Is(err, relock.ErrMaxHold):
		return "the work took longer than a minute"
	case err != nil:
		return "failed: " + err.Error()
	}
	return "done"
}

func TestRecipeOfBounds(t *testing.T) {
	t.Parallel()
	p := processes(t, 2)
	require.Equal(t, "done", bounded(t.Context(), p[0], func(ctx context.Context) error {
		require.Equal(t, "busy for two seconds", bounded(t.Context(), p[1], func(context.Context) error { return nil }))
		lease, ok := relock.FromContext(ctx)
		require.True(t, ok)
		require.ErrorIs(t, lease.Extend(ctx, 2*time.Minute), relock.ErrInvalidOption, "the hold is bounded")
		return nil
	}))
	require.Equal(t, "failed: own", bounded(t.Context(), p[0], func(context.Context) error { return errors.New("own") }))
}
