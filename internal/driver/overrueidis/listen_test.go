package overrueidis

import (
	"context"
	"sync"
	"testing"

	"github.com/redis/rueidis"
	"github.com/relock-go/relock/internal/driver"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

// ear is a Handler that passes on all it is told.
type ear struct {
	subscribed chan string
	messages   chan [2]string
	impaired   chan error
}

func newEar() *ear {
	return &ear{make(chan string, 100), make(chan [2]string, 100), make(chan error, 100)}
}

func (e *ear) Subscribed(channel string)       { e.subscribed <- channel }
func (e *ear) Message(channel, message string) { e.messages <- [2]string{channel, message} }
func (e *ear) Impaired(cause error)            { e.impaired <- cause }

// hears requires that what is published on a channel is heard, and nothing before it.
func (e *ear) hears(t *testing.T, publish func(channel, message string), channel string) {
	t.Helper()
	publish(channel, "hello")
	require.Equal(t, [2]string{channel, "hello"}, within(t, e.messages))
}

func publisher(s *redistest.Server) func(channel, message string) {
	return func(channel, message string) { s.Do("PUBLISH", channel, message) }
}

func listen(t *testing.T, d *Redis) (driver.Listener, *ear) {
	t.Helper()
	e := newEar()
	l, err := d.Listen(t.Context(), e)
	require.NoError(t, err)
	return l, e
}

func TestListen(t *testing.T) {
	s := redistest.Start(t)
	protocols(t, s, func(t *testing.T, d *Redis) {
		ctx := t.Context()
		l, e := listen(t, d)
		require.NoError(t, l.Subscribe(ctx, "a", "b"))
		require.Equal(t, []string{"a", "b"}, []string{within(t, e.subscribed), within(t, e.subscribed)})
		require.Equal(t, []error{nil, nil}, l.SubscribeApart(ctx, "c", "d"))
		require.Equal(t, []string{"c", "d"}, []string{within(t, e.subscribed), within(t, e.subscribed)})
		e.hears(t, publisher(s), "b")
		e.hears(t, publisher(s), "c")
		require.NoError(t, l.Unsubscribe(ctx, "b", "c"))
		require.Eventually(t, func() bool { return s.Do("PUBSUB", "NUMSUB", "b", "c") == "b\n0\nc\n0" }, patience, tick)
		publisher(s)("b", "unheard")
		e.hears(t, publisher(s), "d")
		require.Empty(t, e.subscribed)
		l.Close()
		require.Eventually(t, func() bool { return s.Do("PUBSUB", "CHANNELS") == "" }, patience, tick)
	})
}

// One command is refused as a whole, commands apart are not.
func TestForbiddenChannel(t *testing.T) {
	s := redistest.Start(t)
	d := over(t, open(t, s.AddUser("app", "secret", "~*", "+@all", "&good*")))
	ctx := t.Context()
	l, e := listen(t, d)
	defer l.Close()
	refused := func(err error) {
		t.Helper()
		var reply *driver.ReplyError
		require.ErrorAs(t, err, &reply)
		require.Contains(t, reply.Text, "NOPERM")
	}
	refused(l.Subscribe(ctx, "good1", "bad"))
	require.Empty(t, s.Do("PUBSUB", "CHANNELS"))
	errs := l.SubscribeApart(ctx, "good1", "bad", "good2")
	require.Len(t, errs, 3)
	require.NoError(t, errs[0])
	refused(errs[1])
	require.NoError(t, errs[2])
	require.Equal(t, []string{"good1", "good2"}, []string{within(t, e.subscribed), within(t, e.subscribed)})
	e.hears(t, publisher(s), "good1")
	e.hears(t, publisher(s), "good2")
}

// A connection that is lost says so, and another one works.
func TestDropped(t *testing.T) {
	s := redistest.Start(t)
	opt := s.Option()
	opt.BlockingPoolSize = 1
	d := over(t, open(t, opt))
	for range 2 {
		l, e := listen(t, d)
		require.NoError(t, l.Subscribe(t.Context(), "c"))
		e.hears(t, publisher(s), "c")
		require.Empty(t, l.Dropped())
		s.Do("CLIENT", "KILL", "TYPE", "pubsub")
		require.Error(t, within(t, l.Dropped()))
		require.Error(t, l.Subscribe(t.Context(), "d"))
		l.Close()
	}
	l, e := listen(t, d)
	require.NoError(t, l.Subscribe(t.Context(), "c"))
	e.hears(t, publisher(s), "c")
	l.Close()
}

// Where there is no server the listener is dropped at once.
func TestListenWithoutAServer(t *testing.T) {
	s := redistest.Start(t)
	d := over(t, s.Client())
	s.Kill()
	l, _ := listen(t, d)
	require.ErrorIs(t, l.Subscribe(t.Context(), "c"), driver.ErrUnsent)
	require.Error(t, within(t, l.Dropped()))
	l.Close()
}

// Where the user's pool hands no connection out Listen waits as long as its context lives, and Close likewise. The
// connection that comes later is given back unused.
func TestListenWithoutAConnection(t *testing.T) {
	s := redistest.Start(t)
	opt := s.Option()
	opt.BlockingPoolSize = 1
	rdb := open(t, opt)
	d := over(t, rdb)
	_, release := rdb.Dedicate()
	give := sync.OnceFunc(release)
	t.Cleanup(give)
	ctx, cancel := context.WithCancel(t.Context())
	failed := make(chan error, 1)
	go func() {
		_, err := d.Listen(ctx, newEar())
		failed <- err
	}()
	require.Eventually(t, func() bool { return running(d) == 1 }, patience, tick)
	cancel()
	require.ErrorIs(t, within(t, failed), context.Canceled)
	d.Close(ctx)
	require.Equal(t, 1, running(d))
	give()
	d.Close(t.Context())
	require.Zero(t, running(d))

	conn, release := rdb.Dedicate()
	defer release()
	require.NoError(t, conn.Do(t.Context(), conn.B().Ping().Build()).Error())
}

// ended is a client that tells how its dedicated connections were ended.
type ended struct {
	rueidis.Client
	how chan string
}

func (c ended) Dedicate() (rueidis.DedicatedClient, func()) {
	conn, release := c.Client.Dedicate()
	return endedConn{conn, c.how}, func() { c.how <- "released"; release() }
}

type endedConn struct {
	rueidis.DedicatedClient
	how chan string
}

func (c endedConn) Close() {
	c.how <- "closed"
	c.DedicatedClient.Close()
}

// A connection that works is closed, since nothing may stay subscribed on one that goes back; a lost one is released.
func TestListenersEnd(t *testing.T) {
	s := redistest.Start(t)
	rdb := ended{s.Client(), make(chan string, 10)}
	d := over(t, rdb)
	l, _ := listen(t, d)
	require.NoError(t, l.Subscribe(t.Context(), "c"))
	l.Close()
	require.Equal(t, "closed", within(t, rdb.how))
	l, _ = listen(t, d)
	require.NoError(t, l.Subscribe(t.Context(), "c"))
	s.Do("CLIENT", "KILL", "TYPE", "pubsub")
	require.Error(t, within(t, l.Dropped()))
	within(t, l.Dropped()) // closed: the connection's end is told
	l.Close()
	require.Equal(t, "released", within(t, rdb.how))
}
