package suite_test

import (
	"bytes"
	"context"
	"encoding/gob"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/faults"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

// says returns a function of a Flight that counts its runs and gives that text.
func says(text string, runs *atomic.Int32) func(context.Context) (string, error) {
	return func(context.Context) (string, error) {
		runs.Add(1)
		return text, nil
	}
}

// flightOf returns the Flight k of a client, whose results are texts.
func flightOf(c *relock.Client, opts ...relock.Option) *relock.Flight[string] {
	return relock.FlightOf[string](c, "k", time.Minute, opts...)
}

// The first caller runs its function, the others get what it returned, in this process or another, until the ttl is over.
func TestFlight(t *testing.T) {
	s := redistest.Start(t)
	a, b := newClient(t, s.Client()), newClient(t, s.Client())
	var runs atomic.Int32
	value, ran, err := flightOf(a).Do(t.Context(), says("one", &runs))
	require.NoError(t, err)
	require.True(t, ran)
	require.Equal(t, "one", value)
	for _, c := range []*relock.Client{a, b} {
		value, ran, err = flightOf(c).Do(t.Context(), says("two", &runs))
		require.NoError(t, err)
		require.False(t, ran)
		require.Equal(t, "one", value)
	}
	require.EqualValues(t, 1, runs.Load())
	require.Equal(t, "k", flightOf(a).Name())
	require.Equal(t, "0", s.Do("EXISTS", "k"), "the lock is given back")
	require.Regexp(t, `^`+a.ID()+`:\d+:"one"$`, s.Do("GET", "relock_once:{k}"))

	require.Equal(t, "1", s.Do("PEXPIRE", "relock_once:{k}", "1"))
	require.Eventually(t, func() bool { return s.Do("EXISTS", "relock_once:{k}") == "0" }, patience, time.Millisecond)
	value, ran, err = flightOf(b).Do(t.Context(), says("two", &runs))
	require.NoError(t, err)
	require.True(t, ran)
	require.Equal(t, "two", value)
}

// A run takes five commands, and a result that stands one.
func TestFlightCommands(t *testing.T) {
	c := newClient(t, ownRedis(t))
	var runs atomic.Int32
	sent := func() (all string) {
		for _, s := range c.Stats().Commands {
			if s.Answered > 0 && s.Command != "subscribe" {
				all += fmt.Sprint(s.Command, " ", s.Answered, " ")
			}
		}
		return all
	}
	_, _, err := flightOf(c).Do(t.Context(), says("one", &runs))
	require.NoError(t, err)
	require.Equal(t, "acquire 1 release 1 flight 3 ", sent())
	_, _, err = flightOf(c).Do(t.Context(), says("one", &runs))
	require.NoError(t, err)
	require.Equal(t, "acquire 1 release 1 flight 4 ", sent())
}

// Get reads the result that stands, in one command, and runs nothing, whatever is under way.
func TestFlightGet(t *testing.T) {
	s := redistest.Start(t)
	c := newClient(t, s.Client())
	flight := flightOf(c)
	gets := func(ctx context.Context, want string) {
		for _, asks := range []*relock.Client{c, newClient(t, s.Client())} {
			before := sentBy(asks.Stats())
			value, found, err := flightOf(asks).Get(ctx)
			require.NoError(t, err)
			require.Equal(t, want != "", found)
			require.Equal(t, want, value)
			require.Equal(t, before+1, sentBy(asks.Stats()))
		}
	}
	gets(t.Context(), "")
	for _, text := range []string{"one", "two"} {
		_, _, err := flight.Do(t.Context(), func(ctx context.Context) (string, error) {
			gets(ctx, "")
			gets(t.Context(), "")
			return text, nil
		})
		require.NoError(t, err)
		gets(t.Context(), text)
		gets(relock.WithOwner(t.Context(), "job"), text)
		require.NoError(t, flight.Forget(t.Context()))
		gets(t.Context(), "")
	}
	_, _, err := flight.Do(t.Context(), func(context.Context) (string, error) { return "forgotten", flight.Forget(t.Context()) })
	require.NoError(t, err)
	gets(t.Context(), "")

	_, _, err = flight.Do(t.Context(), says("three", new(atomic.Int32)))
	require.NoError(t, err)
	held := taken(t, c.Mutex("k").Lock)
	gets(t.Context(), "three")
	gets(held.Context(), "three")
	unlocked(t, held)
	require.Equal(t, "1", s.Do("PEXPIRE", "relock_once:{k}", "1"))
	require.Eventually(t, func() bool { return s.Do("EXISTS", "relock_once:{k}") == "0" }, patience, time.Millisecond)
	gets(t.Context(), "")
}

// A Get of a Redis that hangs ends with its context, or after a command timeout. WithWait is no bound of it.
func TestFlightGetFails(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c, err := relock.New(s.Client(), relock.WithCommandTimeout(time.Second))
	require.NoError(t, err)
	defer c.Close()
	s.Pause()
	defer s.Resume()
	for bound, want := range map[time.Duration]error{300 * time.Millisecond: context.DeadlineExceeded, time.Hour: relock.ErrUnavailable} {
		ctx, cancel := context.WithTimeout(t.Context(), bound)
		began := time.Now()
		_, found, err := flightOf(c).Get(ctx)
		cancel()
		requireClass(t, relock.ErrUnavailable, err)
		require.ErrorIs(t, err, want)
		require.NotErrorIs(t, err, relock.ErrNotAsked)
		require.ErrorContains(t, err, `flight "k"`)
		require.False(t, found)
		require.Less(t, time.Since(began), min(bound, time.Second)+leisure)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	_, _, err = flightOf(c).Get(ended)
	requireClass(t, relock.ErrUnavailable, err)
	require.ErrorIs(t, err, relock.ErrNotAsked)
	require.ErrorIs(t, err, context.Canceled)
	s.Resume()
	c.Close()
	_, _, err = flightOf(c).Get(t.Context())
	requireClass(t, relock.ErrClosed, err)
}

// Callers of all processes wait for the run under way, and those of one process send nothing meanwhile. Each gets bytes of its
// own.
func TestFlightIsWaitedFor(t *testing.T) {
	s := redistest.Start(t)
	runner := newClient(t, s.Client())
	clients := []*relock.Client{runner, newClient(t, s.Client()), newClient(t, s.Client())}
	running, goOn := make(chan struct{}), make(chan struct{})
	var runs atomic.Int32
	var wg sync.WaitGroup
	call := func(c *relock.Client) {
		wg.Go(func() {
			value, ran, err := c.Flight("k", time.Minute).Do(t.Context(), func(ctx context.Context) ([]byte, error) {
				runs.Add(1)
				close(running)
				_, err := c.Mutex("k").Held(ctx)
				<-goOn
				return []byte("bytes\x00\xff:1"), err
			})
			if err != nil || string(value) != "bytes\x00\xff:1" || ran && c != runner {
				t.Errorf("%q %v %v", value, ran, err)
				return
			}
			clear(value)
		})
	}
	call(runner)
	within(t, running)
	before := runner.Stats()
	for range 50 {
		for _, c := range clients {
			call(c)
		}
	}
	queued(t, s, "k", 2)
	for _, c := range clients {
		require.Eventually(t, func() bool { return callsOf(c).UnderWay() == 50 }, patience, time.Millisecond)
	}
	// One goroutine of each process leads. A call that began, but does not wait yet, might ask anew after the run.
	require.Eventually(t, func() bool { return inFlight() == 50+49+49 }, patience, time.Millisecond)
	close(goOn)
	wg.Wait()
	require.EqualValues(t, 1, runs.Load())
	require.Equal(t, sentBy(before)+2, sentBy(runner.Stats()), "what keeps the result and gives back the lock")
	for _, c := range clients[1:] {
		require.LessOrEqual(t, sentBy(c.Stats()), uint64(8), "50 callers")
	}
}

// Those that wait for a run have its result before its lock is given back.
func TestFlightDoesNotWaitForTheUnlock(t *testing.T) {
	s := redistest.Start(t)
	w := faulty(s)
	c := newClient(t, w)
	w.Filter(faults.Next(faults.Script("release"), faults.Hold))
	goOn, has := make(chan struct{}), make(chan bool, 2)
	call := func() {
		value, ran, err := flightOf(c).Do(t.Context(), func(context.Context) (string, error) {
			<-goOn
			return "one", nil
		})
		if err != nil || value != "one" {
			t.Errorf("%q %v", value, err)
		}
		has <- ran
	}
	go call()
	go call()
	require.Eventually(t, func() bool { return inFlight() == 1 }, patience, time.Millisecond)
	close(goOn)
	within(t, w.Told())
	require.False(t, within(t, has), "the other one")
	w.Release()
	require.True(t, within(t, has))
}

// inFlight is how many goroutines wait in memory for what another one of their process asks for.
func inFlight() (n int) {
	buf := make([]byte, 4<<20)
	for stack := range strings.SplitSeq(string(buf[:runtime.Stack(buf, true)]), "\n\n") {
		if state, rest, _ := strings.Cut(stack, "\n"); strings.Contains(state, "[select") && strings.Contains(rest, "lookup.(*Lookups).Join(") {
			n++
		}
	}
	return n
}

// sentBy is how many commands about locks a client has sent.
func sentBy(s relock.Stats) (n uint64) {
	for _, c := range s.Commands {
		if c.Command != "subscribe" && c.Command != "renew" && c.Command != "sweep" {
			n += c.Answered + c.Refused + c.Unanswered
		}
	}
	return n
}

// The error of a function goes to its caller alone: each of the others runs its own. A panic is as an error.
func TestFlightKeepsNoError(t *testing.T) {
	s := redistest.Start(t)
	a, b := newClient(t, s.Client()), newClient(t, s.Client())
	fails, goOn := errors.New("fails"), make(chan struct{})
	var runs atomic.Int32
	var wg sync.WaitGroup
	failed := make(chan struct{}, 4)
	for _, c := range []*relock.Client{a, a, b, b} {
		wg.Go(func() {
			value, ran, err := flightOf(c).Do(t.Context(), func(context.Context) (string, error) {
				runs.Add(1)
				<-goOn
				return "lost", fails
			})
			if err != fails || !ran || value != "" {
				t.Errorf("%q %v %v", value, ran, err)
			}
			failed <- struct{}{}
		})
	}
	require.Eventually(t, func() bool { return runs.Load() == 1 }, patience, time.Millisecond)
	close(goOn)
	for range 4 {
		within(t, failed)
	}
	wg.Wait()
	require.EqualValues(t, 4, runs.Load())
	require.PanicsWithValue(t, "out", func() {
		_, _, _ = flightOf(a).Do(t.Context(), func(context.Context) (string, error) { panic("out") })
	})
	value, ran, err := flightOf(a).Do(t.Context(), says("three", &runs))
	require.NoError(t, err)
	require.True(t, ran)
	require.Equal(t, "three", value)
}

// A caller that waits gives up with its own context, or when its WithWait is over, while the run goes on.
func TestFlightWaitersGiveUp(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	a, b := newClient(t, s.Client()), newClient(t, s.Client())
	running, goOn, done := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	go func() {
		_, _, err := flightOf(a).Do(t.Context(), func(context.Context) (string, error) {
			close(running)
			<-goOn
			return "one", nil
		})
		done <- err
	}()
	within(t, running)
	gaveUp := errors.New("gave up")
	for name, c := range map[string]*relock.Client{"in this process": a, "in another": b} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancelCause(t.Context())
			waits := func() bool { return callsOf(c).UnderWay() == 1 }
			if c == b {
				waits = func() bool { return s.Do("ZCARD", "relock_queue:{k}") == "1" }
			}
			failed := make(chan error)
			go func() {
				_, _, err := flightOf(c).Do(ctx, says("two", new(atomic.Int32)))
				failed <- err
			}()
			require.Eventually(t, waits, patience, time.Millisecond)
			time.Sleep(10 * time.Millisecond) // for the answer that put it there
			cancel(gaveUp)
			err := within(t, failed)
			require.ErrorIs(t, err, relock.ErrNotAcquired)
			require.ErrorIs(t, err, gaveUp)
			var held *relock.HeldError
			require.ErrorAs(t, err, &held)
			require.Equal(t, c == a, held.Local)

			_, ran, err := flightOf(c, relock.WithWait(2*time.Second)).Do(t.Context(), says("two", new(atomic.Int32)))
			require.False(t, ran)
			require.ErrorIs(t, err, relock.ErrNotAcquired)
			require.ErrorIs(t, err, context.DeadlineExceeded)

			_, _, err = flightOf(c).Do(ctx, says("two", new(atomic.Int32)))
			require.ErrorIs(t, err, relock.ErrNotAsked)
		})
	}
	close(goOn)
	require.NoError(t, within(t, done))
}

// A caller that waited for a run, and whose time is up before it has the answer to a question of its own, has waited for the lock.
func TestFlightHasNoTimeLeftToAsk(t *testing.T) {
	s := redistest.Start(t)
	w := faulty(s)
	c := newClient(t, w)
	goOn, done := make(chan struct{}), make(chan error, 1)
	running := make(chan struct{})
	go func() {
		_, _, err := flightOf(c).Do(t.Context(), func(context.Context) (string, error) {
			close(running)
			<-goOn
			return "", errOwn
		})
		done <- err
	}()
	within(t, running)
	ctx, cancel := context.WithCancelCause(t.Context())
	gaveUp := make(chan error)
	go func() {
		_, _, err := flightOf(c).Do(ctx, says("two", new(atomic.Int32)))
		gaveUp <- err
	}()
	require.Eventually(t, func() bool { return inFlight() == 1 }, patience, time.Millisecond)
	w.Filter(faults.Next(faults.Script("result"), faults.Stall))
	close(goOn)
	within(t, w.Told())
	cancel(errOwnTyped)
	err := within(t, gaveUp)
	requireClass(t, relock.ErrNotAcquired, err)
	require.ErrorIs(t, err, errOwnTyped)
	w.Release()
	require.ErrorIs(t, within(t, done), errOwn)
}

// No caller behind a Redis that hangs hears that the lock is busy: not the one that asks, nor those that wait for it, nor the one
// that asks after it.
func TestFlightBehindAHungRedis(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c := newClient(t, s.Client(), relock.WithCommandTimeout(10*time.Second))
	s.Pause()
	errs := make(chan error)
	for i := range 4 {
		go func() {
			time.Sleep(time.Duration(i) * 50 * time.Millisecond)
			ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
			defer cancel()
			_, _, err := flightOf(c).Do(ctx, says("one", new(atomic.Int32)))
			errs <- err
		}()
	}
	for range 4 {
		err := within(t, errs)
		requireClass(t, relock.ErrUnavailable, err)
		require.NotErrorIs(t, err, relock.ErrNotAsked)
		require.ErrorIs(t, err, context.DeadlineExceeded)
	}
	s.Resume()
}

// WithWait bounds the wait in memory and the one in Redis together.
func TestFlightWaitsOnce(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	a, b := newClient(t, s.Client()), newClient(t, s.Client())
	held := taken(t, b.Mutex("k").Lock)
	defer unlocked(t, held)
	first, cancel := context.WithCancel(t.Context())
	led := make(chan struct{})
	go func() {
		defer close(led)
		_, _, err := flightOf(a).Do(first, says("one", new(atomic.Int32)))
		if !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	}()
	queued(t, s, "k", 1)
	began, gaveUp := time.Now(), make(chan error)
	go func() {
		_, _, err := flightOf(a, relock.WithWait(2*time.Second)).Do(t.Context(), says("two", new(atomic.Int32)))
		gaveUp <- err
	}()
	time.AfterFunc(time.Second, cancel) // then the second leads
	err := within(t, gaveUp)
	require.ErrorIs(t, err, relock.ErrNotAcquired)
	require.Less(t, time.Since(began), 2800*time.Millisecond)
	within(t, led)
}

// After Forget a caller runs its function, and what a run that began before has computed is kept from all but its caller.
func TestFlightForget(t *testing.T) {
	s := redistest.Start(t)
	a, b := newClient(t, s.Client()), newClient(t, s.Client())
	var runs atomic.Int32
	for _, forgets := range []*relock.Client{a, b} {
		_, _, err := flightOf(a).Do(t.Context(), says("old", &runs))
		require.NoError(t, err)
		require.NoError(t, flightOf(forgets).Forget(t.Context()))
		require.Equal(t, "0", s.Do("EXISTS", "k", "relock_once:{k}"))

		running, goOn, done := make(chan struct{}), make(chan struct{}), make(chan string, 3)
		do := func(c *relock.Client, fn func(context.Context) (string, error)) {
			value, _, err := flightOf(c).Do(t.Context(), fn)
			if err != nil {
				t.Error(err)
			}
			done <- value
		}
		go do(a, func(context.Context) (string, error) {
			close(running)
			<-goOn
			return "older", nil
		})
		within(t, running)
		underWay := func(n int64) func() bool { return func() bool { return callsOf(a).UnderWay() == n } }
		go do(a, says("new", &runs)) // waits for the run
		require.Eventually(t, underWay(1), patience, time.Millisecond)
		require.NoError(t, flightOf(forgets).Forget(t.Context()))
		go do(a, says("new", &runs)) // begins after Forget
		require.Eventually(t, underWay(2), patience, time.Millisecond)
		close(goOn)
		require.ElementsMatch(t, []string{"older", "new", "new"}, []string{within(t, done), within(t, done), within(t, done)})
		value, ran, err := flightOf(b).Do(t.Context(), says("none", &runs))
		require.NoError(t, err)
		require.False(t, ran)
		require.Equal(t, "new", value)
		require.NoError(t, flightOf(b).Forget(t.Context()))
	}
}

// A caller that comes after Forget does not take what another caller of its process asked for before, and is about to hear.
func TestFlightForgetBehindAnAnswer(t *testing.T) {
	s := redistest.Start(t)
	w := faulty(s)
	a, b := newClient(t, w), newClient(t, s.Client())
	_, _, err := flightOf(b).Do(t.Context(), says("old", new(atomic.Int32)))
	require.NoError(t, err)
	values := make(chan string, 2)
	do := func() {
		value, _, err := flightOf(a).Do(t.Context(), says("new", new(atomic.Int32)))
		if err != nil {
			t.Error(err)
		}
		values <- value
	}
	w.Filter(faults.Next(faults.Script("result"), faults.Stall))
	go do()
	within(t, w.Told())
	require.NoError(t, flightOf(b).Forget(t.Context()))
	go do()
	require.Eventually(t, func() bool { return callsOf(a).UnderWay() == 2 }, patience, time.Millisecond)
	w.Release()
	require.ElementsMatch(t, []string{"old", "new"}, []string{within(t, values), within(t, values)})
}

// A hold of Redisson's is left as it is by Forget.
func TestFlightForgetLeavesRedissonsHold(t *testing.T) {
	s := redistest.Start(t)
	c := newClient(t, s.Client())
	s.Do("HSET", "k", "6f1c3e3e-0000-4000-8000-000000000000:1", "1")
	require.NoError(t, flightOf(c).Forget(t.Context()))
	require.Equal(t, "1", s.Do("HLEN", "k"))
}

// A run whose lock is lost leaves nothing. Its caller has its own value, and hears of it.
func TestFlightLosesItsLock(t *testing.T) {
	s := redistest.Start(t)
	a, b := newClient(t, s.Client()), newClient(t, s.Client())
	fails := errors.New("fails")
	for _, failure := range []error{nil, fails} {
		require.NoError(t, flightOf(a).Forget(t.Context()))
		value, ran, err := flightOf(a).Do(t.Context(), func(ctx context.Context) (string, error) {
			forced, err := b.Mutex("k").ForceUnlock(t.Context())
			require.NoError(t, err)
			require.True(t, forced)
			<-ctx.Done()
			require.ErrorIs(t, context.Cause(ctx), relock.ErrLost)
			other, ran, err := flightOf(b).Do(t.Context(), says("next", new(atomic.Int32)))
			require.NoError(t, err)
			require.True(t, ran)
			require.Equal(t, "next", other)
			return "mine", failure
		})
		require.True(t, ran)
		require.ErrorIs(t, err, relock.ErrLost)
		if failure == nil {
			require.Equal(t, "mine", value)
		} else {
			require.ErrorIs(t, err, fails)
			require.Empty(t, value)
		}
		value, ran, err = flightOf(a).Do(t.Context(), says("none", new(atomic.Int32)))
		require.NoError(t, err)
		require.False(t, ran)
		require.Equal(t, "next", value)
	}
}

// A lease that was lost before the function ran, while Redis did not answer, is none: the caller goes on waiting.
func TestFlightLosesItsLockBeforeItRuns(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	w := faulty(s)
	a, b := newClient(t, w, relock.WithCommandTimeout(100*time.Millisecond)), newClient(t, s.Client())
	reads := 0
	w.Filter(func(c *faults.Call) faults.Fate {
		if faults.Script("result")(c) {
			reads++
			if reads > 1 {
				return faults.LoseCall
			}
		}
		return faults.Pass
	})
	done := make(chan error)
	go func() {
		_, ran, err := flightOf(a).Do(t.Context(), says("one", new(atomic.Int32)))
		if err == nil && !ran {
			err = errors.New("it did not run")
		}
		done <- err
	}()
	for range 2 {
		require.Eventually(t, func() bool {
			forced, err := b.Mutex("k").ForceUnlock(t.Context())
			return err == nil && forced
		}, patience, time.Millisecond)
	}
	require.Eventually(t, func() bool { return s.Do("EXISTS", "k") == "1" }, patience, time.Millisecond, "it has noticed the loss")
	w.Filter(nil)
	require.NoError(t, within(t, done))
}

// Unlocked by the function itself, the lock guards the result no more.
func TestFlightUnlockedInside(t *testing.T) {
	c := newClient(t, ownRedis(t))
	value, ran, err := flightOf(c).Do(t.Context(), func(ctx context.Context) (string, error) {
		l, ok := relock.FromContext(ctx)
		require.True(t, ok)
		return "mine", l.Unlock(ctx)
	})
	require.ErrorIs(t, err, relock.ErrNotHeld)
	require.True(t, ran)
	require.Equal(t, "mine", value)
}

// What leaves a result is sent again while Redis does not answer; a copy that did run is found.
func TestFlightKeepsAgain(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	w := faulty(s)
	c, patient := newClient(t, w, relock.WithLease(6*time.Second), relock.WithCommandTimeout(100*time.Millisecond)), newClient(t, s.Client())
	for name, fault := range map[string]faults.Fate{"lost": faults.LoseCall, "answer lost": faults.LoseReply, "twice": faults.Twice} {
		t.Run(name, func(t *testing.T) {
			require.NoError(t, flightOf(patient).Forget(t.Context()))
			w.Filter(faults.Next(faults.Script("keep"), fault))
			value, ran, err := flightOf(c).Do(t.Context(), says("one", new(atomic.Int32)))
			require.NoError(t, err)
			require.True(t, ran)
			require.Equal(t, "one", value)
			require.Equal(t, "1", s.Do("EXISTS", "relock_once:{k}"))
		})
	}
	t.Run("silent until the caller leaves", func(t *testing.T) {
		require.NoError(t, flightOf(patient).Forget(t.Context()))
		ctx, cancel := context.WithCancel(t.Context())
		w.Filter(faults.All(faults.Script("keep"), faults.LoseCall))
		value, ran, err := flightOf(c).Do(ctx, func(context.Context) (string, error) {
			time.AfterFunc(300*time.Millisecond, cancel)
			return "one", nil
		})
		w.Filter(nil)
		require.True(t, ran)
		require.Equal(t, "one", value)
		require.ErrorIs(t, err, relock.ErrUnavailable)
		require.ErrorIs(t, err, context.Canceled)
		require.ErrorContains(t, err, `flight "k"`)
	})
	t.Run("the caller has left already", func(t *testing.T) {
		require.NoError(t, flightOf(patient).Forget(t.Context()))
		ctx, cancel := context.WithCancel(t.Context())
		_, ran, err := flightOf(c).Do(ctx, func(context.Context) (string, error) {
			cancel()
			return "one", nil
		})
		require.NoError(t, err)
		require.True(t, ran)
		require.Equal(t, "1", s.Do("EXISTS", "relock_once:{k}"))
	})
}

// A Redis that answers nothing for a moment is waited out, as by Lock.
func TestFlightWaitsForRedis(t *testing.T) {
	s := redistest.Start(t)
	w := faulty(s)
	c := newClient(t, w, relock.WithLease(6*time.Second), relock.WithCommandTimeout(100*time.Millisecond))
	for range 2 {
		w.Filter(faults.Next(faults.Script("result"), faults.LoseCall))
		value, _, err := flightOf(c).Do(t.Context(), says("one", new(atomic.Int32)))
		require.NoError(t, err)
		require.Equal(t, "one", value)
	}
}

// Close ends the waits, and the run's lease.
func TestFlightOnAClosedClient(t *testing.T) {
	s := redistest.Start(t)
	c, err := relock.New(s.Client())
	require.NoError(t, err)
	running, errs := make(chan struct{}), make(chan error, 2)
	go func() {
		_, _, err := flightOf(c).Do(t.Context(), func(ctx context.Context) (string, error) {
			close(running)
			<-ctx.Done()
			return "one", nil
		})
		errs <- err
	}()
	within(t, running)
	go func() {
		_, _, err := flightOf(c).Do(t.Context(), says("two", new(atomic.Int32)))
		errs <- err
	}()
	require.Eventually(t, func() bool { return callsOf(c).UnderWay() == 1 }, patience, time.Millisecond)
	c.Close()
	require.ErrorIs(t, within(t, errs), relock.ErrClosed)
	require.ErrorIs(t, within(t, errs), relock.ErrClosed)
	require.ErrorIs(t, flightOf(c).Forget(t.Context()), relock.ErrClosed)
}

// A lock of the same name as another's tag has a result of its own, and so has one behind a prefix.
func TestFlightsOfLikeNames(t *testing.T) {
	s := redistest.Start(t)
	c, prefixed := newClient(t, s.Client()), newClient(t, s.Client(), relock.WithNamePrefix("{k}"))
	for i, o := range []*relock.Flight[string]{flightOf(c), relock.FlightOf[string](c, "{k}", time.Minute), relock.FlightOf[string](c, "{k}a", time.Minute), flightOf(prefixed)} {
		value, ran, err := o.Do(t.Context(), says(fmt.Sprint(i), new(atomic.Int32)))
		require.NoError(t, err)
		require.True(t, ran)
		require.Equal(t, fmt.Sprint(i), value)
	}
	_, err := c.Mutex("relock_once:{a}").Lock(t.Context())
	require.ErrorIs(t, err, relock.ErrInvalidName)
}

// A result is of any type that the encoder takes, and of 64<<10 bytes at most.
func TestFlightEncodes(t *testing.T) {
	s := redistest.Start(t)
	c := newClient(t, s.Client())
	type page struct{ Title string }
	gobs := relock.FlightOf[page](c, "gob", time.Minute).Encoded(
		func(v any) ([]byte, error) {
			var to bytes.Buffer
			err := gob.NewEncoder(&to).Encode(v)
			return to.Bytes(), err
		},
		func(b []byte, v any) error { return gob.NewDecoder(bytes.NewReader(b)).Decode(v) })
	for _, ran := range []bool{true, false} {
		value, did, err := gobs.Do(t.Context(), func(context.Context) (page, error) { return page{"one"}, nil })
		require.NoError(t, err)
		require.Equal(t, ran, did)
		require.Equal(t, page{"one"}, value)
	}
	_, ran, err := relock.FlightOf[page](c, "gob", time.Minute).Do(t.Context(), func(context.Context) (page, error) { panic("runs") })
	require.ErrorIs(t, err, relock.ErrMisuse)
	require.ErrorContains(t, err, "cannot be decoded")
	require.False(t, ran)

	raw := c.Flight("raw", time.Minute)
	for size, refusal := range map[int]error{64<<10 + 1: relock.ErrTooLarge, 64 << 10: nil} {
		value, ran, err := raw.Do(t.Context(), func(context.Context) ([]byte, error) { return make([]byte, size), nil })
		require.ErrorIs(t, err, refusal)
		require.True(t, ran)
		require.Len(t, value, size)
		require.NoError(t, raw.Forget(t.Context()))
	}
	channel, ran, err := relock.FlightOf[chan int](c, "raw", time.Minute).Do(t.Context(), func(context.Context) (chan int, error) { return make(chan int), nil })
	require.ErrorIs(t, err, relock.ErrMisuse)
	require.ErrorContains(t, err, "cannot be encoded")
	require.True(t, ran)
	require.NotNil(t, channel)
	require.Equal(t, "0", s.Do("EXISTS", "raw", "relock_once:{raw}"))

	s.Do("SET", "relock_once:{raw}", "of somebody else")
	_, ran, err = raw.Do(t.Context(), func(context.Context) ([]byte, error) { return nil, nil })
	require.NoError(t, err)
	require.True(t, ran)
}

// A nil Flight is refused as a nil Mutex is.
func TestFlightThatIsNil(t *testing.T) {
	var none *relock.Flight[string]
	const want = "relock: misuse: Flight made without a Client; use Client.Flight"
	for _, flight := range []*relock.Flight[string]{none, none.Encoded(json.Marshal, json.Unmarshal)} {
		require.Empty(t, flight.Name())
		_, ran, err := flight.Do(t.Context(), says("one", new(atomic.Int32)))
		require.False(t, ran)
		require.EqualError(t, err, want)
		require.EqualError(t, flight.Forget(t.Context()), want)
		_, _, err = flight.Get(t.Context())
		require.EqualError(t, err, want)
	}
	_, _, err := none.Encoded(nil, nil).Do(t.Context(), says("one", new(atomic.Int32)))
	require.ErrorIs(t, err, relock.ErrMisuse)
}

// What cannot work is refused, with its reason.
func TestFlightRefusals(t *testing.T) {
	s := redistest.Start(t)
	c := newClient(t, s.Client())
	var none *relock.Client
	for reason, of := range map[string]struct {
		flight *relock.Flight[string]
		ctx    context.Context
		err    error
	}{
		"the name is empty":             {flight: relock.FlightOf[string](c, "", time.Minute), err: relock.ErrInvalidName},
		"99ms is out of range":          {flight: relock.FlightOf[string](c, "k", 99*time.Millisecond), err: relock.ErrInvalidOption},
		"WithMinHold: not for a Flight": {flight: flightOf(c, relock.WithMinHold(time.Second)), err: relock.ErrInvalidOption},
		"the function is nil":           {flight: flightOf(c).Encoded(nil, nil), err: relock.ErrMisuse},
		"use Client.Flight":             {flight: new(relock.Flight[string]), err: relock.ErrMisuse},
		"made without New":              {flight: relock.FlightOf[string](none, "k", time.Minute), err: relock.ErrMisuse},
		"a Flight over a quorum":        {flight: flightOf(newRedlock(t, masters(t, 1))), err: errors.ErrUnsupported},
		"or under WithRestartGuard":     {flight: flightOf(newClient(t, s.Client(), relock.WithRestartGuard(time.Minute))), err: errors.ErrUnsupported},
		"a Flight under WithOwner":      {flight: flightOf(c), ctx: relock.WithOwner(t.Context(), "job"), err: errors.ErrUnsupported},
		"the id is empty":               {flight: flightOf(c), ctx: relock.WithOwner(t.Context(), ""), err: relock.ErrInvalidOwner},
	} {
		if of.ctx == nil {
			of.ctx = t.Context()
		}
		_, ran, err := of.flight.Do(of.ctx, says("one", new(atomic.Int32)))
		require.ErrorIs(t, err, of.err, reason)
		require.ErrorContains(t, err, reason)
		require.False(t, ran)
		if of.ctx == t.Context() {
			require.ErrorIs(t, of.flight.Forget(of.ctx), of.err, reason)
			_, found, err := of.flight.Get(of.ctx)
			require.ErrorIs(t, err, of.err, reason)
			require.ErrorContains(t, err, reason)
			require.False(t, found)
		}
	}
	_, _, err := flightOf(c).Do(t.Context(), nil)
	require.ErrorIs(t, err, relock.ErrMisuse)
	var nobody context.Context
	_, _, err = flightOf(c).Do(nobody, says("one", new(atomic.Int32)))
	require.ErrorIs(t, err, relock.ErrMisuse)
	_, _, err = flightOf(c).Get(nobody)
	require.ErrorIs(t, err, relock.ErrMisuse)
	_, ran, err := flightOf(c).Do(t.Context(), func(ctx context.Context) (string, error) {
		_, _, err := flightOf(c).Do(ctx, says("two", new(atomic.Int32)))
		return "", err
	})
	require.True(t, ran)
	require.ErrorContains(t, err, "Do of a Flight under its own lock")
	require.ErrorContains(t, c.Mutex("k").Do(t.Context(), func(ctx context.Context) error {
		_, _, err := flightOf(c).Do(ctx, says("two", new(atomic.Int32)))
		return err
	}), "Do of a Flight under its own lock")
}

// A user that may not leave a result is told before it runs anything.
func TestFlightWithoutTheRight(t *testing.T) {
	s := redistest.Start(t)
	rdb, err := rueidis.NewClient(s.AddUser("app", "secret", "~*", "&*", "+@all"))
	require.NoError(t, err)
	t.Cleanup(rdb.Close)
	c := newClient(t, rdb)
	s.Do("ACL", "SETUSER", "app", "resetkeys", "~k", "~relock_queue:*", "~relock_listen:*", "~redisson_*")
	unlocked(t, taken(t, c.Mutex("k").Lock))
	for _, rule := range []string{"&*", "%R~relock_once:*"} {
		if major, _, valkey := s.Version(); rule == "&*" || major >= 7 || valkey {
			s.Do("ACL", "SETUSER", "app", rule)
			_, ran, err := flightOf(c).Do(t.Context(), says("one", new(atomic.Int32)))
			require.ErrorIs(t, err, relock.ErrRefused)
			require.ErrorContains(t, err, "NOPERM")
			require.False(t, ran)
			require.Equal(t, "0", s.Do("EXISTS", "k"))
		}
	}
}

// Each run has an entry of its own, though goroutines of one process run one after the other, and a Mutex of that name lingers.
func TestFlightHasAnEntryARun(t *testing.T) {
	s := redistest.Start(t)
	c := newClient(t, s.Client(), relock.WithLinger(time.Minute))
	entries := make(map[string]bool)
	for range 5 {
		lockAndUnlock(t, c.Mutex("k"))
		_, _, err := flightOf(c).Do(t.Context(), func(ctx context.Context) (string, error) {
			l, err := c.Mutex("k").Held(ctx)
			require.NoError(t, err)
			entries[entryOf(l).ID] = true
			return "", errors.New("again")
		})
		require.ErrorContains(t, err, "again")
	}
	require.Len(t, entries, 5)

	held, done := taken(t, c.Mutex("k").Lock), make(chan error)
	go func() {
		_, _, err := flightOf(c).Do(t.Context(), says("one", new(atomic.Int32)))
		done <- err
	}()
	within(t, held.Wanted())
	unlocked(t, held) // and is not kept
	require.NoError(t, within(t, done))
	require.Equal(t, "0", s.Do("EXISTS", "k"))
}

// On a Cluster all keys of a Flight are in one slot.
func TestFlightOnACluster(t *testing.T) {
	t.Parallel()
	c := newClient(t, redistest.StartCluster(t).Client())
	for i := range 10 {
		o := relock.FlightOf[int](c, strings.Repeat("k", i+1), time.Minute)
		for _, ran := range []bool{true, false} {
			value, did, err := o.Do(t.Context(), func(context.Context) (int, error) { return i, nil })
			require.NoError(t, err)
			require.Equal(t, ran, did)
			require.Equal(t, i, value)
		}
		require.NoError(t, o.Forget(t.Context()))
	}
}

// A result that cannot be decoded gives nothing of a value, not what the decoder had written by then.
func TestFlightGivesNoHalfOfAValue(t *testing.T) {
	c := newClient(t, ownRedis(t))
	_, _, err := relock.FlightOf[map[string]any](c, "k", time.Minute).Do(t.Context(), func(context.Context) (map[string]any, error) {
		return map[string]any{"A": 5, "B": "text"}, nil
	})
	require.NoError(t, err)
	type numbers struct{ A, B int }
	value, ran, err := relock.FlightOf[numbers](c, "k", time.Minute).Do(t.Context(), func(context.Context) (numbers, error) { panic("runs") })
	require.ErrorIs(t, err, relock.ErrMisuse)
	require.False(t, ran)
	require.Zero(t, value)
	value, found, err := relock.FlightOf[numbers](c, "k", time.Minute).Get(t.Context())
	require.ErrorIs(t, err, relock.ErrMisuse)
	require.ErrorContains(t, err, "cannot be decoded")
	require.False(t, found)
	require.Zero(t, value)
}

// A lock under which no function runs yet has no caller: Close gives it back.
func TestCloseGivesBackALockOfAFlightBeforeItRuns(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	w := faulty(s)
	c := newClient(t, w, relock.WithLease(far))
	reads := 0
	w.Filter(func(call *faults.Call) faults.Fate {
		if faults.Script("result")(call) {
			if reads++; reads == 2 {
				return faults.Hold
			}
		}
		return faults.Pass
	})
	done := make(chan error, 1)
	go func() {
		_, _, err := flightOf(c).Do(context.Background(), says("one", new(atomic.Int32)))
		done <- err
	}()
	within(t, w.Told())
	require.Equal(t, "1", s.Do("EXISTS", "k"))
	c.Close()
	require.ErrorIs(t, within(t, done), relock.ErrClosed)
	require.Equal(t, "0", s.Do("EXISTS", "k"))
}

// A result stays for its ttl, to the millisecond.
func TestFlightStaysForItsTTL(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c := newClient(t, s.Client())
	left := func(key string) time.Duration {
		ms, err := time.ParseDuration(s.Do("PTTL", key) + "ms")
		require.NoError(t, err)
		return ms
	}
	for i, ttl := range []time.Duration{100 * time.Millisecond, 387 * time.Millisecond, time.Second, 1501 * time.Millisecond, 366 * 24 * time.Hour} {
		flight := relock.FlightOf[string](c, fmt.Sprint("k", i), ttl)
		lasts := false
		for began := time.Now(); !lasts && time.Since(began) < patience; { // a busy machine may need as long as a ttl
			before := time.Now()
			_, _, err := flight.Do(t.Context(), says("one", new(atomic.Int32)))
			require.NoError(t, err)
			left := left(fmt.Sprintf("relock_once:{k%d}", i))
			require.LessOrEqual(t, left, ttl)
			require.GreaterOrEqual(t, left, ttl-time.Since(before)-2*time.Millisecond, "of %v", ttl)
			lasts = left > 0
			require.NoError(t, flight.Forget(t.Context()))
		}
		require.True(t, lasts, ttl)
	}

	// While it is there it is every caller's, and then no caller's.
	var runs atomic.Int32
	flight := relock.FlightOf[string](c, "k", 300*time.Millisecond)
	_, ran, err := flight.Do(t.Context(), says("one", &runs))
	require.NoError(t, err)
	require.True(t, ran)
	kept := time.Now()
	for ran = false; !ran && time.Since(kept) < patience; {
		asked := time.Now()
		_, ran, err = flight.Do(t.Context(), says("one", &runs))
		require.NoError(t, err)
		require.True(t, ran || asked.Sub(kept) <= 301*time.Millisecond, "after %v", asked.Sub(kept))
	}
	require.Greater(t, time.Since(kept), 270*time.Millisecond)
	require.EqualValues(t, 2, runs.Load())
}
