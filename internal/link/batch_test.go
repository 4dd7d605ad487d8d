package link

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/relock-go/relock/internal/driver"
	"github.com/relock-go/relock/internal/faults"
	"github.com/stretchr/testify/require"
)

var pair = &Script{One: driver.NewScript("return ARGV[1]"), Many: driver.NewScript("return ARGV"), Spare: []string{""}, Most: together}

const together = 32

// sent is one command that reached a held Redis.
type sent struct {
	many bool
	keys []string
	args []string
	end  chan error // what it comes to; nil for what it asks for
}

// held is a Redis that answers when the test says so: to each caller its own first argument, as
// does pair, and an error to the caller that asks for "bad".
type held struct {
	faults.Stub
	came chan *sent
}

func newHeld() *held {
	h := &held{came: make(chan *sent, 4096)}
	h.OnRun = func(_ context.Context, s *driver.Script, keys, args []string) (driver.Value, error) {
		c := &sent{many: s == pair.Many, keys: keys, args: args, end: make(chan error, 1)}
		h.came <- c
		if err := <-c.end; err != nil {
			return driver.Value{}, err
		}
		if !c.many {
			return driver.String(args[0]), nil
		}
		var answers []driver.Value
		for _, asked := range args[1:] {
			if asked == "bad" {
				answers = append(answers, driver.Error(&driver.ReplyError{Text: "WRONGTYPE"}))
			} else {
				answers = append(answers, driver.String(asked))
			}
		}
		return driver.List(answers...), nil
	}
	return h
}

// full has so many commands out that further calls queue.
func full(t *testing.T, h *held, l *Link, wg *sync.WaitGroup) []*sent {
	t.Helper()
	for i := range BatchFrom {
		wg.Go(func() {
			if v, err := share(t.Context(), l, "lone"+strconv.Itoa(i), nil); err != nil || v != "lone"+strconv.Itoa(i) {
				t.Errorf("%q, %v", v, err)
			}
		})
	}
	var out []*sent
	for range BatchFrom {
		out = append(out, within(t, h.came))
		require.False(t, out[len(out)-1].many)
	}
	return out
}

func share(ctx context.Context, l *Link, what string, late Latecomer) (string, error) {
	v, err := l.Share(ctx, time.Minute, pair, []string{"{k}" + what}, []string{what}, late)
	if err != nil {
		return "", err
	}
	return v.Text()
}

// waiters is how many calls are queued.
func waiters(l *Link) (n int) {
	l.batcher.mu.Lock()
	defer l.batcher.mu.Unlock()
	for _, p := range l.batcher.queue {
		n += len(p.calls)
	}
	return n
}

// await blocks until so many wait.
func await(t *testing.T, l *Link, n int) {
	t.Helper()
	require.Eventually(t, func() bool { return waiters(l) == n }, patience, time.Millisecond)
}

// calm ends all that is out, and what goes then.
func calm(h *held, wg *sync.WaitGroup, out []*sent) {
	for _, c := range out {
		c.end <- nil
	}
	done := make(chan struct{})
	go func() { wg.Wait(); close(done) }()
	for {
		select {
		case c := <-h.came:
			c.end <- nil
		case <-done:
			return
		}
	}
}

// What comes while much is out goes together, as many as one command takes, and each caller has its own answer.
func TestManyGoTogether(t *testing.T) {
	h := newHeld()
	l := New(h, time.Minute, nil)
	var wg sync.WaitGroup
	out := full(t, h, l, &wg)
	for i := range together + 3 {
		wg.Go(func() {
			want := strconv.Itoa(i)
			if got, err := share(t.Context(), l, want, nil); err != nil || got != want {
				t.Errorf("%q, %v", got, err)
			}
		})
	}
	c := within(t, h.came)
	require.True(t, c.many)
	require.Len(t, c.keys, together)
	require.Equal(t, strconv.Itoa(together), c.args[0])
	require.Len(t, c.args, 1+together, "what says nothing is left out")
	for i, key := range c.keys {
		require.Equal(t, "{k}"+c.args[1+i], key)
	}
	await(t, l, 3)
	closed := make(chan struct{})
	go func() { l.Close(); close(closed) }() // what is queued is sent still
	calm(h, &wg, append(out, c))
	within(t, closed)
	require.Zero(t, l.batcher.out)
	require.Zero(t, l.batcher.inFlight)
	require.Empty(t, l.batcher.queue)
}

// A call whose caller leaves the queue was never sent. A call whose caller leaves later tells its
// latecomer what became of it.
func TestLeavingABatch(t *testing.T) {
	h := newHeld()
	l := New(h, time.Minute, nil)
	var wg sync.WaitGroup
	out := full(t, h, l, &wg)
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("enough")
	left := make(chan error, together)
	for range 3 {
		wg.Go(func() { _, err := share(ctx, l, "early", nil); left <- err })
	}
	await(t, l, 3)
	cancel(why)
	for range 3 {
		err := within(t, left)
		require.ErrorIs(t, err, driver.ErrUnsent)
		require.ErrorIs(t, err, why)
		require.False(t, MayHaveRun(err))
	}
	require.Zero(t, waiters(l))

	ctx, cancel = context.WithCancelCause(t.Context())
	late := make(lateAnswers, together)
	for range together {
		wg.Go(func() { _, err := share(ctx, l, "late", late); left <- err })
	}
	c := within(t, h.came)
	require.NotContains(t, c.args, "early")
	cancel(why)
	for range together {
		err := within(t, left)
		require.NotErrorIs(t, err, driver.ErrUnsent)
		require.ErrorIs(t, err, why)
		require.True(t, MayHaveRun(err))
	}
	c.end <- nil
	for range together {
		require.NoError(t, within(t, late))
	}
	calm(h, &wg, out)
	l.Close()
}

// A call whose time is over in the queue was never sent. A call whose time is over later tells its
// latecomer what became of it.
func TestTimeIsOverInABatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHeld()
		l := New(h, time.Minute, nil)
		var wg sync.WaitGroup
		out := full(t, h, l, &wg)
		shortly := func(ctx context.Context, late Latecomer) error {
			_, err := l.Share(ctx, time.Second, pair, []string{"k"}, []string{"short"}, late)
			return err
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		for _, ctx := range []context.Context{ctx, context.Background()} {
			err := shortly(ctx, nil)
			require.ErrorIs(t, err, driver.ErrUnsent)
			require.ErrorIs(t, err, context.DeadlineExceeded)
			require.Zero(t, waiters(l))
		}
		late := make(lateAnswers, together)
		left := make(chan error, together)
		for i := range together {
			of := ctx
			if i%2 == 0 {
				of = context.Background()
			}
			wg.Go(func() { left <- shortly(of, late) })
		}
		c := <-h.came
		for range together {
			err := <-left
			require.NotErrorIs(t, err, driver.ErrUnsent)
			require.ErrorIs(t, err, context.DeadlineExceeded)
			require.True(t, MayHaveRun(err))
		}
		c.end <- nil
		for range together {
			require.NoError(t, <-late)
		}
		calm(h, &wg, out)
		l.Close()
	})
}

// A caller may write its arguments again as soon as it has left, while its command is still to run, be that one of the
// first or one that waited for others.
func TestArgumentsAreTheCommandsOwn(t *testing.T) {
	h := newHeld()
	lone, l := New(h, time.Minute, nil), New(h, time.Minute, nil)
	var wg sync.WaitGroup
	leave := func(l *Link, args []string, came func() *sent) *sent {
		ctx, cancel := context.WithCancel(t.Context())
		left := make(chan error, 1)
		wg.Go(func() {
			_, err := l.Share(ctx, time.Minute, pair, []string{"k"}, args, nil)
			left <- err
		})
		c := came()
		cancel()
		require.ErrorIs(t, within(t, left), context.Canceled)
		args[0] = "another's"
		return c
	}
	first := leave(lone, []string{"first"}, func() *sent { return within(t, h.came) })
	out := full(t, h, l, &wg)
	later := leave(l, []string{"later"}, func() *sent {
		await(t, l, 1)
		time.Sleep(2 * maxWait) // for so long it waits for others
		out[0].end <- nil
		return within(t, h.came)
	})
	require.Equal(t, []string{"first"}, first.args)
	require.Equal(t, []string{"later"}, later.args)
	calm(h, &wg, append(out[1:], first, later))
}

// One caller's error is its own; an answer that is lost is lost for all; a refusal is asked again in halves.
func TestFailuresOfABatch(t *testing.T) {
	refused := &driver.ReplyError{Text: "NOPERM no permissions to access one of the keys"}
	for name, tc := range map[string]struct {
		end  func(c *sent) error
		want func(what string, err error) bool
	}{
		"its own": {func(*sent) error { return nil }, func(what string, err error) bool {
			return (what == "bad") == (Reply(err) == "WRONGTYPE") && (what == "bad") == (err != nil)
		}},
		"lost": {func(*sent) error { return errors.New("broken") }, func(_ string, err error) bool { return MayHaveRun(err) }},
		"refused": {func(c *sent) error {
			if slices.Contains(c.keys, "{k}bad") {
				return refused
			}
			return nil
		}, func(what string, err error) bool { return (what == "bad") == (err != nil) && !MayHaveRun(err) }},
		"all": {func(*sent) error { return &driver.ReplyError{Text: "LOADING"} }, func(_ string, err error) bool { return Reply(err) == "LOADING" }},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHeld()
			l := New(h, time.Minute, nil)
			l.Apart = func(err error) bool { return err == refused }
			var lone, wg sync.WaitGroup
			out := full(t, h, l, &lone)
			var met atomic.Int64
			for i := range together {
				what := strconv.Itoa(i)
				if i == 7 {
					what = "bad"
				}
				wg.Go(func() {
					got, err := share(t.Context(), l, what, nil)
					if !tc.want(what, err) || err == nil && got != what {
						t.Errorf("%q for %q: %v", got, what, err)
					}
					met.Add(1)
				})
			}
			for met.Load() < together {
				select {
				case c := <-h.came:
					c.end <- tc.end(c)
				case <-time.After(time.Millisecond):
				}
			}
			wg.Wait()
			calm(h, &lone, out)
			l.Close()
		})
	}
}

// On a Cluster only those of one slot wait for one another.
func TestSlotsAreApart(t *testing.T) {
	h := newHeld()
	h.Slots = true
	l := New(h, time.Minute, nil)
	var wg sync.WaitGroup
	out := full(t, h, l, &wg)
	wg.Go(func() {
		v, err := l.Share(t.Context(), time.Minute, pair, []string{"{l}"}, []string{"another slot's"}, nil)
		if got, _ := v.Text(); err != nil || got != "another slot's" {
			t.Errorf("%q, %v", got, err)
		}
	})
	c := within(t, h.came)
	require.False(t, c.many)
	require.Equal(t, []string{"{l}"}, c.keys)
	calm(h, &wg, append(out, c))
	l.Close()
}
