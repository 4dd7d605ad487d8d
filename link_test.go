package relock

import (
	"context"
	"errors"
	"net"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

// blocked is a client whose commands hang whatever their contexts say, as they do where the library's ring is full.
type blocked struct {
	rueidis.Client
	out  atomic.Int64
	free chan struct{}
}

func (b *blocked) Do(context.Context, rueidis.Completed) rueidis.RedisResult {
	b.out.Add(1)
	defer b.out.Add(-1)
	<-b.free
	return rueidis.NewErrorResult(errors.New("given up"))
}

// A client library that holds its callers beyond their contexts does not hold ours, and not more commands are out than
// there are permits.
func TestLinkReturnsWithItsCallersContext(t *testing.T) {
	s := redistest.Start(t)
	b := &blocked{Client: s.Client(), free: make(chan struct{})}
	l := newLink(b, time.Minute)
	lua := rueidis.NewLuaScript("return 1")
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	var unsent atomic.Int64
	const callers = lanePermits + 100
	for range callers {
		wg.Go(func() {
			err := l.do(ctx, time.Minute, lua, []string{"k"}, nil, nil).Error()
			require.ErrorIs(t, err, context.Canceled)
			if errors.Is(err, errUnsent) {
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
	l.close()
}

type lateAnswers chan rueidis.RedisResult

func (l lateAnswers) late(res rueidis.RedisResult) { l <- res }

// A latecomer hears what became of a command after its caller has left, exactly once.
func TestLateAnswer(t *testing.T) {
	s := redistest.Start(t)
	l := newLink(s.Client(), patience)
	lua := rueidis.NewLuaScript("return redis.call('INCR', KEYS[1])")
	require.NoError(t, l.do(context.Background(), patience, lua, []string{"k"}, nil, nil).Error())
	s.Pause()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	got := make(lateAnswers, 2)
	err := l.do(ctx, time.Minute, lua, []string{"k"}, nil, got).Error()
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.True(t, mayHaveRun(err))
	s.Resume()
	res := within(t, (chan rueidis.RedisResult)(got))
	n, err := res.AsInt64()
	require.NoError(t, err)
	require.Equal(t, int64(2), n)
	l.close()
	require.Empty(t, got)
}

// Only what was never sent surely did not run.
func TestMayHaveRun(t *testing.T) {
	refused := &net.OpError{Op: "dial", Err: errors.New("connection refused")}
	for name, tc := range map[string]struct {
		err  error
		want bool
	}{
		"answered":       {nil, false},
		"timed out":      {context.DeadlineExceeded, true},
		"reset":          {&net.OpError{Op: "read", Err: errors.New("connection reset by peer")}, true},
		"dial refused":   {&NodeError{Err: refused}, false},
		"never had turn": {&NodeError{Err: errUnsent}, false},
	} {
		require.Equal(t, tc.want, mayHaveRun(tc.err), name)
	}
	s := redistest.Start(t)
	rdb := s.Client()
	s.Kill()
	l := newLink(rdb, time.Second)
	for i := range 20 { // the library may find out by a broken connection first
		if err := l.do(context.Background(), patience, rueidis.NewLuaScript("return 1"), []string{strconv.Itoa(i)}, nil, nil).Error(); !mayHaveRun(err) {
			return
		}
	}
	t.Fatal("a refused connection is taken for a command that may have run")
}
