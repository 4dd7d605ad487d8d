package drivertest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/relock-go/relock/internal/driver"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func init() {
	checks = append(checks,
		check{"a lost answer", lostAnswer},
		check{"a connection that is reset", resetConnection},
		check{"a write that fails", failedWrite},
		check{"no server", noServer},
		check{"a hung server", hungServer},
		check{"an ended context", endedContext},
		check{"a closed client", closedClient},
		check{"a closed driver", closedDriver},
	)
	alone = append(alone, check{"nothing is left", nothingLeft})
}

// isReply reports whether the server answered with this error.
func isReply(err error) bool {
	var reply *driver.ReplyError
	return errors.As(err, &reply)
}

// increase counts how often it ran.
var increase = driver.NewScript("return redis.call('INCR', KEYS[1])")

// A command whose answer is lost is not sent a second time, even if it only reads.
func lostAnswer(t testing.TB, b *bed) {
	s := redistest.Start(t)
	l := newLine(t, s)
	d := b.over(t, l.target())
	run := func(key string) error { _, err := d.Run(t.Context(), increase, []string{key}, nil); return err }
	require.NoError(t, run("known"))
	for name, send := range map[string]func(key string) error{
		"script": run,
		"write":  func(key string) error { _, err := d.Do(t.Context(), []string{"INCR", key}); return err },
		"read":   func(key string) error { _, err := d.Do(t.Context(), []string{"EXISTS", key}); return err },
		"several": func(key string) error {
			_, err := d.Do(t.Context(), []string{"GET", key}, []string{"TIME"})
			return err
		},
	} {
		works(t, d)
		sent := l.loseAnswer("lost:" + name)
		unanswered(t, send("lost:"+name))
		works(t, d)
		require.Equal(t, 1, sent(), "how often the %s was sent", name)
	}
	require.Equal(t, "1", s.Do("GET", "lost:script"))
	require.Equal(t, "1", s.Do("GET", "lost:write"))
}

// A command may have run if its connection is reset before the answer. It is not sent again.
func resetConnection(t testing.TB, b *bed) {
	s := redistest.Start(t)
	l := newLine(t, s)
	d := b.over(t, l.target())
	_, err := d.Run(t.Context(), increase, []string{"known"}, nil)
	require.NoError(t, err)
	for name, send := range map[string]func(key string) error{
		"script": func(key string) error { _, err := d.Run(t.Context(), increase, []string{key}, nil); return err },
		"write":  func(key string) error { _, err := d.Do(t.Context(), []string{"INCR", key}); return err },
	} {
		works(t, d)
		sent := l.resetAnswer("reset:" + name)
		unanswered(t, send("reset:"+name))
		works(t, d)
		require.Equal(t, 1, sent(), "how often the %s was sent", name)
		require.Equal(t, "1", s.Do("GET", "reset:"+name))
	}
}

// A command whose write fails counts as sent: all of it may have been written.
func failedWrite(t testing.TB, b *bed) {
	s := redistest.Start(t)
	tearing := new(tear)
	to := s.Target()
	to.Dial = tearing.dial
	d := b.over(t, to)
	_, err := d.Run(t.Context(), increase, []string{"known"}, nil)
	require.NoError(t, err)
	for name, send := range map[string]func(key string) error{
		"script": func(key string) error { _, err := d.Run(t.Context(), increase, []string{key}, nil); return err },
		"write":  func(key string) error { _, err := d.Do(t.Context(), []string{"INCR", key}); return err },
	} {
		for _, part := range []bool{true, false} {
			key := fmt.Sprint(name, ":part:", part)
			works(t, d)
			sent := tearing.at(key, part)
			unanswered(t, send(key))
			works(t, d)
			require.Equal(t, 1, sent(), "how often the %s was sent", name)
			if part {
				require.Empty(t, s.Do("GET", key))
			} else {
				eventually(t, func() bool { return s.Do("GET", key) == "1" }, "what was written whole")
			}
		}
	}
}

// Without a server no command is sent, and the driver comes to say so. Once the server is back, the
// driver works again.
func noServer(t testing.TB, b *bed) {
	s := redistest.Start(t)
	d := b.over(t, s.Target())
	works(t, d)
	s.Kill()
	var err error
	eventually(t, func() bool {
		_, err = returns(t, d, "1")
		require.Error(t, err)
		return errors.Is(err, driver.ErrUnsent)
	}, "ErrUnsent")
	require.NotErrorIs(t, err, driver.ErrClosed)
	require.NotEqual(t, driver.ErrUnsent.Error(), err.Error(), "the library's own words")
	_, err = d.Do(t.Context(), []string{"PING"})
	require.ErrorIs(t, err, driver.ErrUnsent)
	l, err := d.Listen(t.Context(), newEar(t))
	if err == nil {
		require.Error(t, l.Subscribe(t.Context(), "c"))
		l.Close()
	}
	s.Restart()
	works(t, d)
}

// A command to a server that hangs returns in time. If it fails with ErrUnsent, it never runs. Once
// it has returned, the caller may overwrite its arguments.
func hungServer(t testing.TB, b *bed) {
	s := redistest.Start(t)
	d := b.over(t, s.Target())
	set := driver.NewScript("return redis.call('SET', KEYS[1], ARGV[1])")
	_, err := d.Run(t.Context(), set, []string{"known"}, []string{"known"})
	require.NoError(t, err)
	s.Pause()
	const n = 100
	failed := make([]error, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			ctx, cancel := context.WithTimeout(context.Background(), time.Duration(i)*time.Millisecond)
			defer cancel()
			keys, args := []string{fmt.Sprint("k", i)}, []string{"meant"}
			_, failed[i] = d.Run(ctx, set, keys, args)
			keys[0], args[0] = "overwritten", "overwritten"
		})
	}
	done := make(chan struct{})
	go func() { wg.Wait(); close(done) }()
	within(t, done, "commands to a server that hangs")
	s.Resume()
	works(t, d)
	for range 3 { // what arrived before has run by then
		s.Do("PING")
	}
	for i, err := range failed {
		require.Error(t, err)
		require.False(t, isReply(err), "%v", err)
		if errors.Is(err, driver.ErrUnsent) {
			require.Empty(t, s.Do("GET", fmt.Sprint("k", i)), "it ran, though it is said that it was not sent: %v", err)
		}
	}
	require.Empty(t, s.Do("GET", "overwritten"))
	require.NotContains(t, s.Do("KEYS", "*"), "overwritten")
}

func endedContext(t testing.TB, b *bed) {
	d := b.over(t, redistest.Start(t).Target())
	works(t, d)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := d.Run(ctx, driver.NewScript("return 1"), nil, nil)
	require.ErrorIs(t, err, context.Canceled)
	_, err = d.Do(ctx, []string{"PING"})
	require.ErrorIs(t, err, context.Canceled)
	l, err := d.Listen(ctx, newEar(t))
	if err == nil {
		err = l.Subscribe(ctx, "c")
		l.Close()
	}
	require.ErrorIs(t, err, context.Canceled)
}

func closedClient(t testing.TB, b *bed) {
	d := b.over(t, redistest.Start(t).Target())
	works(t, d)
	d.close()
	_, err := returns(t, d, "1")
	require.ErrorIs(t, err, driver.ErrClosed)
	require.NotEqual(t, driver.ErrClosed.Error(), err.Error(), "the library's own words")
	_, err = d.Do(t.Context(), []string{"PING"})
	require.ErrorIs(t, err, driver.ErrClosed)
	l, err := d.Listen(t.Context(), newEar(t))
	if err == nil {
		err = l.Subscribe(t.Context(), "c")
		l.Close()
	}
	require.ErrorIs(t, err, driver.ErrClosed)
}

// A closed driver starts no goroutine; commands still run, for locks that are being given back.
func closedDriver(t testing.TB, b *bed) {
	d := b.over(t, redistest.Start(t).Target())
	closes(t, d)
	_, err := d.Listen(t.Context(), newEar(t))
	require.ErrorIs(t, err, driver.ErrClosed)
	require.ErrorIs(t, d.Follow(t.Context(), newEar(t), "c"), driver.ErrClosed)
	works(t, d)
	got, err := d.Do(t.Context(), []string{"PING"})
	require.NoError(t, err)
	require.Equal(t, []driver.Value{driver.String("PONG")}, got)
}

// When the driver and the client are closed no goroutine of theirs is left.
func nothingLeft(t testing.TB, b *bed) {
	s := redistest.Start(t)
	before := goleak.IgnoreCurrent()
	d := b.over(t, s.Target())
	works(t, d)
	for range 2 {
		l, e := listen(t, d)
		require.NoError(t, l.Subscribe(t.Context(), "c"))
		e.hears(t, publisher(s), "c", "hello")
		l.Close()
	}
	l, _ := listen(t, d)
	require.NoError(t, l.Subscribe(t.Context(), "c"))
	s.Do("CLIENT", "KILL", "TYPE", "pubsub")
	require.Error(t, within(t, l.Dropped(), "Dropped"))
	l.Close()
	closes(t, d)
	d.close()
	require.NoError(t, goleak.Find(before))
}
