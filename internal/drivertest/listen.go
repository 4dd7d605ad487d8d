package drivertest

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/relock-go/relock/internal/driver"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

func init() {
	checks = append(checks,
		check{"listen", listens},
		check{"a confirmation that is late", lateConfirmation},
		check{"a channel that is confirmed late", lateChannel},
		check{"a forbidden channel", forbiddenChannel},
		check{"a connection that is cut", cutConnection},
		check{"a connection that is silent", silentConnection},
	)
}

func publisher(s *redistest.Server) func(channel, message string) {
	return func(channel, message string) { s.Do("PUBLISH", channel, message) }
}

func listens(t testing.TB, b *bed) {
	s := redistest.Start(t)
	d, ctx := b.over(t, s.Target()), t.Context()
	l, e := listen(t, d)
	other, others := listen(t, d)
	defer other.Close()
	require.NoError(t, other.Subscribe(ctx, "b", "z"))
	require.NoError(t, l.Subscribe(ctx, "a", "b"))
	require.Equal(t, "a\n1\nb\n2\nz\n1", s.Do("PUBSUB", "NUMSUB", "a", "b", "z"))
	e.confirms(t, "a", "b")
	require.Equal(t, []error{nil, nil}, l.SubscribeApart(ctx, "c", "d"))
	require.Equal(t, "c\n1\nd\n1", s.Do("PUBSUB", "NUMSUB", "c", "d"))
	e.confirms(t, "c", "d")
	for i := range 100 {
		publisher(s)("d", fmt.Sprint(i))
	}
	for i := range 100 {
		require.Equal(t, [2]string{"d", fmt.Sprint(i)}, within(t, e.messages, "a message"))
	}
	e.hears(t, publisher(s), "b", "line\r\nline\x00\xff")
	e.hears(t, publisher(s), "c", "")
	require.NoError(t, l.Unsubscribe(ctx, "b", "c"))
	eventually(t, func() bool { return s.Do("PUBSUB", "NUMSUB", "b", "c") == "b\n1\nc\n0" }, "the end of subscriptions")
	publisher(s)("b", "unheard")
	e.hears(t, publisher(s), "d", "hello")
	require.Empty(t, l.Dropped())
	l.Close()
	eventually(t, func() bool { return s.Do("PUBSUB", "NUMSUB", "a", "d") == "a\n0\nd\n0" }, "the end of the connection")
	require.Equal(t, "b", within(t, others.messages, "a message")[0])
	require.Equal(t, "unheard", within(t, others.messages, "a message")[1])
	others.hears(t, publisher(s), "z", "hello")
	works(t, d)
}

// No channel is confirmed before the server has confirmed it.
func lateConfirmation(t testing.TB, b *bed) {
	s := redistest.Start(t)
	line := newLine(t, s)
	d := b.over(t, line.target())
	l, e := listen(t, d)
	defer l.Close()
	require.NoError(t, l.Subscribe(t.Context(), "first"))
	e.confirms(t, "first")
	for name, subscribe := range map[string]func(channel string) error{
		"one":   func(channel string) error { return l.Subscribe(t.Context(), channel) },
		"apart": func(channel string) error { return l.SubscribeApart(t.Context(), channel)[0] },
	} {
		came, release := line.holdFrom(name)
		returned := make(chan error, 1)
		go func() { returned <- subscribe(name) }()
		unconfirmed := func() {
			select {
			case err := <-returned:
				require.FailNow(t, "it returned before the server knew", "%v", err)
			case channel := <-e.subscribed:
				require.FailNow(t, "it was confirmed before the server knew", channel)
			default:
			}
		}
		for deadline := time.Now().Add(patience(t)); !came(); time.Sleep(tick) {
			require.True(t, time.Now().Before(deadline), "the command does not come")
			unconfirmed()
		}
		never(unconfirmed)
		release()
		require.NoError(t, within(t, returned, "the return of Subscribe"))
		require.Equal(t, name+"\n1", s.Do("PUBSUB", "NUMSUB", name))
		e.confirms(t, name)
	}
}

// If the server has confirmed one channel of several, the others do not count as subscribed.
func lateChannel(t testing.TB, b *bed) {
	s := redistest.Start(t)
	line := newLine(t, s)
	d := b.over(t, line.target())
	l, e := listen(t, d)
	defer l.Close()
	for name, subscribe := range map[string]func(channels ...string) error{
		"one": func(channels ...string) error { return l.Subscribe(t.Context(), channels...) },
		"apart": func(channels ...string) error {
			errs := l.SubscribeApart(t.Context(), channels...)
			require.Len(t, errs, len(channels))
			return errors.Join(errs...)
		},
	} {
		prompt, late := "prompt:"+name, "late:"+name
		release := line.holdAnswers(late)
		returned := make(chan error, 1)
		go func() { returned <- subscribe(prompt, late) }()
		require.Equal(t, prompt, within(t, e.subscribed, "Subscribed"))
		never(func() {
			select {
			case err := <-returned:
				require.FailNow(t, "it returned before all were confirmed", "%v", err)
			case channel := <-e.subscribed:
				require.FailNow(t, "it was confirmed before the server's word came", channel)
			default:
			}
		})
		release()
		require.NoError(t, within(t, returned, "the return of Subscribe"))
		e.confirms(t, late)
	}
}

// Subscribe is refused as a whole, SubscribeApart channel by channel.
func forbiddenChannel(t testing.TB, b *bed) {
	s := redistest.Start(t)
	s.AddUser("app", "secret", "~*", "+@all", "&good*")
	d, ctx := b.over(t, s.Target().As("app", "secret")), t.Context()
	l, e := listen(t, d)
	defer l.Close()
	refused(t, l.Subscribe(ctx, "good1", "bad"), "NOPERM")
	require.Empty(t, s.Do("PUBSUB", "CHANNELS"))
	errs := l.SubscribeApart(ctx, "good1", "bad", "good2")
	require.Len(t, errs, 3)
	require.NoError(t, errs[0])
	refused(t, errs[1], "NOPERM")
	require.NoError(t, errs[2])
	require.NoError(t, l.Subscribe(ctx, "good3"))
	e.confirms(t, "good1", "good2", "good3")
	for _, channel := range []string{"good1", "good2", "good3"} {
		e.hears(t, publisher(s), channel, "hello")
	}
	require.Empty(t, l.Dropped(), "a refusal costs no connection")
}

// A connection that is lost says so, and another one works.
func cutConnection(t testing.TB, b *bed) {
	s := redistest.Start(t)
	d := b.over(t, s.Target())
	for range 3 {
		l, e := listen(t, d)
		require.NoError(t, l.Subscribe(t.Context(), "c"))
		e.hears(t, publisher(s), "c", "hello")
		require.Empty(t, l.Dropped())
		s.Do("CLIENT", "KILL", "TYPE", "pubsub")
		require.Error(t, within(t, l.Dropped(), "Dropped"))
		require.Error(t, l.Subscribe(t.Context(), "d"))
		l.Close()
	}
	// go-redis subscribes anew before it tells of a lost connection. The new connection is closed,
	// and the server hears of that a little later.
	eventually(t, func() bool { return s.Do("PUBSUB", "CHANNELS") == "" }, "an end of what is subscribed behind the listener's back")
	l, e := listen(t, d)
	require.NoError(t, l.Subscribe(t.Context(), "c"))
	e.hears(t, publisher(s), "c", "hello")
	l.Close()
}

// A connection whose server falls silent is dropped in time, though nothing is sent over it
// meanwhile.
func silentConnection(t testing.TB, b *bed) {
	s := redistest.Start(t)
	d := b.over(t, s.Target())
	l, e := listen(t, d)
	require.NoError(t, l.Subscribe(t.Context(), "c"))
	e.hears(t, publisher(s), "c", "hello")
	s.Pause()
	began := time.Now()
	require.Error(t, within(t, l.Dropped(), "Dropped"))
	require.Less(t, time.Since(began), driver.Silence)
	l.Close()
	s.Resume()
	works(t, d)
	l, e = listen(t, d)
	require.NoError(t, l.Subscribe(t.Context(), "c"))
	e.hears(t, publisher(s), "c", "hello")
	l.Close()
}
