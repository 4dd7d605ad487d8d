package link

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/relock-go/relock/internal/driver"
	"github.com/relock-go/relock/internal/driver/overrueidis"
	"github.com/relock-go/relock/internal/faults"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

// over is the driver for one server.
func over(s *redistest.Server) driver.Redis {
	return overrueidis.New(s.Client())
}

// blocked is a Redis whose commands hang whatever their contexts say, as they do where the library's ring is full.
type blocked struct {
	faults.Stub
	out  atomic.Int64
	free chan error // what they return; closed when all are to
}

func newBlocked() *blocked {
	b := &blocked{free: make(chan error)}
	b.OnRun = func(context.Context, *driver.Script, []string, []string) (driver.Value, error) {
		b.out.Add(1)
		defer b.out.Add(-1)
		if err := <-b.free; err != nil {
			return driver.Value{}, err
		}
		return driver.Value{}, errors.New("given up")
	}
	return b
}

var one = driver.NewScript("return 1")

// A client library that holds its callers beyond their contexts does not hold ours, and not more commands are out than
// there are permits.
func TestLinkReturnsWithItsCallersContext(t *testing.T) {
	b := newBlocked()
	l := New(b, time.Minute, nil)
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	var unsent atomic.Int64
	const callers = lanePermits + 100
	for range callers {
		wg.Go(func() {
			_, err := l.Do(ctx, time.Minute, one, []string{"k"}, nil, nil)
			if !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
			if errors.Is(err, driver.ErrUnsent) {
				unsent.Add(1)
			}
		})
	}
	require.Eventually(t, func() bool { return b.out.Load() == lanePermits }, patience, time.Millisecond)
	cancel()
	wg.Wait() // though no command has returned
	require.Equal(t, int64(lanePermits), b.out.Load())
	require.Equal(t, int64(callers-lanePermits), unsent.Load())
	close(b.free)
	l.Close()
	require.Zero(t, b.out.Load())
}

// The time that a caller gives is for its permit and its answer together.
func TestPermitAndAnswerTakeOneTimeout(t *testing.T) {
	batched := &Script{One: one, Many: one, Most: 1}
	for name, ask := range map[string]func(l *Link) error{
		"Do": func(l *Link) error {
			_, err := l.Do(context.Background(), time.Minute, one, []string{"k"}, nil, nil)
			return err
		},
		"Share": func(l *Link) error {
			_, err := l.Share(context.Background(), time.Minute, batched, []string{"k"}, nil, nil)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBlocked()
				l := New(b, time.Hour, nil)
				for range lanePermits {
					go func() { _, _ = l.Do(context.Background(), time.Hour, one, []string{"k"}, nil, nil) }()
				}
				synctest.Wait()
				time.AfterFunc(40*time.Second, func() { b.free <- errors.New("one permit is free") })
				began := time.Now()
				require.ErrorIs(t, ask(l), context.DeadlineExceeded)
				require.Equal(t, time.Minute, time.Since(began))
				close(b.free)
				l.Close()
			})
		})
	}
}

// lateAnswers is what latecomers hear.
type lateAnswers chan error

func (l lateAnswers) Late(err error) { l <- err }

// A latecomer hears what became of a command after its caller has left, exactly once.
func TestLateAnswer(t *testing.T) {
	s := redistest.Start(t)
	l := New(over(s), patience, nil)
	increase := driver.NewScript("return redis.call('INCR', KEYS[1])")
	got := make(lateAnswers, 2)
	_, err := l.Do(context.Background(), patience, increase, []string{"k"}, nil, got)
	require.NoError(t, err)
	require.Empty(t, got, "the caller heard it")
	s.Pause()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	_, err = l.Do(ctx, time.Minute, increase, []string{"k"}, nil, got)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.True(t, MayHaveRun(err))
	s.Resume()
	require.NoError(t, within(t, got))
	require.Equal(t, "2", s.Do("GET", "k"))
	l.Close()
	require.Empty(t, got)
}

// What Redis answered with an error was answered, for a latecomer too; what else failed is told as it is.
func TestLatecomerHearsAReplyAsAnAnswer(t *testing.T) {
	reset := &net.OpError{Op: "read", Err: errors.New("connection reset by peer")}
	for name, tc := range map[string]struct{ err, want error }{
		"refused":   {&driver.ReplyError{Text: "WRONGTYPE Operation against a key"}, nil},
		"reset":     {reset, reset},
		"not taken": {fmt.Errorf("no connection: %w", net.ErrClosed), net.ErrClosed},
	} {
		b := newBlocked()
		var told atomic.Pointer[error]
		l := New(b, time.Minute, func(err error) { told.Store(&err) })
		ctx, cancel := context.WithCancel(context.Background())
		got, left := make(lateAnswers, 1), make(chan error)
		go func() {
			_, err := l.Do(ctx, time.Minute, one, []string{"k"}, nil, got)
			left <- err
		}()
		require.Eventually(t, func() bool { return b.out.Load() == 1 }, patience, time.Millisecond)
		cancel()
		require.ErrorIs(t, within(t, left), context.Canceled)
		b.free <- tc.err
		require.ErrorIs(t, within(t, got), tc.want, name)
		require.ErrorIs(t, *told.Load(), tc.want, name)
		l.Close()
	}
}

// Only what was never sent surely did not run.
func TestMayHaveRun(t *testing.T) {
	refused := driver.Unsent(errors.New("connection refused"))
	for name, tc := range map[string]struct {
		err  error
		want bool
	}{
		"answered":       {nil, false},
		"refused":        {fmt.Errorf("acquire: %w", &driver.ReplyError{Text: "NOPERM"}), false},
		"timed out":      {context.DeadlineExceeded, true},
		"reset":          {&net.OpError{Op: "read", Err: errors.New("connection reset by peer")}, true},
		"dial refused":   {fmt.Errorf("acquire: %w", refused), false},
		"never had turn": {fmt.Errorf("acquire: %w", driver.ErrUnsent), false},
		"caller left":    {&Left{Cause: context.Canceled}, true},
	} {
		require.Equal(t, tc.want, MayHaveRun(tc.err), name)
	}
	s := redistest.Start(t)
	rdb := over(s)
	s.Kill()
	l := New(rdb, time.Second, nil)
	defer l.Close()
	for i := range 20 { // the library may find out by a broken connection first
		if _, err := l.Do(context.Background(), patience, one, []string{strconv.Itoa(i)}, nil, nil); !MayHaveRun(err) {
			require.Error(t, err)
			return
		}
	}
	t.Fatal("a refused connection is taken for a command that may have run")
}

// alien are causes that a caller may end its context with, and that would tell something of this Redis if they were its
// own: what some other Redis answered, or failed with.
var alien = map[string]error{
	"a reply": fmt.Errorf("the other lock: %w", &driver.ReplyError{Text: "WRONGTYPE Operation against a key"}),
	"a refused connection": fmt.Errorf("the other lock: %w",
		&net.OpError{Op: "dial", Err: errors.New("connection refused")}),
	"what was not sent":      fmt.Errorf("the other lock: %w", driver.ErrUnsent),
	"another caller's cause": &Left{Cause: fmt.Errorf("%w: %w", driver.ErrUnsent, context.Canceled)},
}

// What a caller left for tells nothing of the command that it left: neither an answer, nor that it never ran.
func TestCallersCauseIsNoAnswer(t *testing.T) {
	for name, cause := range alien {
		t.Run(name, func(t *testing.T) {
			b := newBlocked()
			l := New(b, time.Minute, nil)
			ctx, cancel := context.WithCancelCause(context.Background())
			left := make(chan error)
			go func() {
				_, err := l.Do(ctx, time.Minute, one, []string{"k"}, nil, nil)
				left <- err
			}()
			require.Eventually(t, func() bool { return b.out.Load() == 1 }, patience, time.Millisecond)
			cancel(cause)
			err := within(t, left)
			require.ErrorIs(t, err, cause, "it is told")
			require.ErrorContains(t, err, cause.Error())
			for _, err := range []error{err, fmt.Errorf("acquire: %w", err)} {
				require.Empty(t, Reply(err))
				require.True(t, Unanswered(err))
				require.True(t, MayHaveRun(err), "it is out")
			}
			close(b.free)
			l.Close()
		})
	}
}

// Nor does it tell anything of a command that waited for its permit: that never ran, and no Redis has answered it.
func TestCallersCauseBeforeItsTurn(t *testing.T) {
	for name, cause := range alien {
		t.Run(name, func(t *testing.T) {
			b := newBlocked()
			l := New(b, time.Minute, nil)
			ctx, cancel := context.WithCancelCause(context.Background())
			var wg sync.WaitGroup
			for range lanePermits {
				wg.Go(func() { _, _ = l.Do(context.Background(), time.Minute, one, []string{"k"}, nil, nil) })
			}
			require.Eventually(t, func() bool { return b.out.Load() == lanePermits }, patience, time.Millisecond)
			asks := func() error {
				_, err := l.Do(ctx, time.Minute, one, []string{"k"}, nil, nil)
				return err
			}
			unsent := func(err error) {
				require.ErrorIs(t, err, cause)
				require.ErrorIs(t, err, driver.ErrUnsent)
				require.True(t, Unanswered(err))
				require.False(t, MayHaveRun(err))
			}
			waits := make(chan error)
			go func() { waits <- asks() }()
			cancel(cause)
			unsent(within(t, waits))
			unsent(asks())
			require.Equal(t, int64(lanePermits), b.out.Load())
			close(b.free)
			wg.Wait()
			l.Close()
		})
	}
}

// A command that gives up earlier than the node's time-out runs on to that, and its latecomer hears of it.
func TestShortTimeoutLeavesTheCommandOut(t *testing.T) {
	b := newBlocked()
	l := New(b, time.Minute, nil)
	got := make(lateAnswers, 1)
	_, err := l.Do(context.Background(), 5*time.Millisecond, one, []string{"k"}, nil, got)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.True(t, MayHaveRun(err))
	require.Eventually(t, func() bool { return b.out.Load() == 1 }, patience, time.Millisecond)
	require.Empty(t, got)
	close(b.free)
	require.ErrorContains(t, within(t, got), "given up")
	l.Close()
}

// What becomes of a command that no lock needs is reported to no one, whether it is answered, refused or lost.
func TestUnheededCommandsSayNothingOfTheRedis(t *testing.T) {
	var fate error
	r := &faults.Stub{OnRun: func(context.Context, *driver.Script, []string, []string) (driver.Value, error) {
		return driver.Value{}, fate
	}}
	var told atomic.Int64
	l := New(r, time.Minute, func(error) { told.Add(1) })
	for _, fate = range []error{nil, &driver.ReplyError{Text: "NOPERM no"}, errors.New("lost")} {
		_, err := l.Do(t.Context(), time.Minute, one, []string{"k"}, nil, Unheeded)
		require.Equal(t, fate, err)
	}
	require.Zero(t, told.Load())
	_, err := l.Do(t.Context(), time.Minute, one, []string{"k"}, nil, nil)
	require.Error(t, err)
	require.EqualValues(t, 1, told.Load())
	l.Close()
}

// A client of one server follows no answer that sends it to another one.
func TestAClientOfOneServerIsAstray(t *testing.T) {
	for text, astray := range map[string]bool{
		"MOVED 866 127.0.0.1:7001": true,
		"ASK 866 127.0.0.1:7001":   true,
		"ERR Script attempted to access a non local key in a cluster node script: 31a1, on @user_script:1.": true,
		"CLUSTERDOWN Hash slot not served":                        false, // it may be up again
		"TRYAGAIN Multiple keys request during rehashing of slot": false, // then it is MOVED
		"ERR unknown command":                                     false,
	} {
		for _, cluster := range []bool{false, true} {
			rdb := &faults.Stub{Slots: cluster}
			rdb.OnRun = func(context.Context, *driver.Script, []string, []string) (driver.Value, error) {
				return driver.Value{}, &driver.ReplyError{Text: text}
			}
			l := New(rdb, patience, nil)
			t.Cleanup(l.Close)
			_, err := l.Do(t.Context(), patience, one, []string{"k"}, nil, nil)
			require.Equal(t, text, Reply(err))
			require.Equal(t, astray && !cluster, Astray(err), text)
			_, err = l.Share(t.Context(), patience, &Script{One: one, Many: one, Most: 2}, []string{"k"}, nil, nil)
			require.Equal(t, astray && !cluster, Astray(err), text)
		}
	}
}
