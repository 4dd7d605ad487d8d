package overrueidis

import (
	"context"
	"errors"
	"net"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/relock-go/relock/internal/driver"
	"github.com/relock-go/relock/internal/drivertest"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	// rueidis's Cluster client closes nodes it no longer needs five seconds later, and looks for masters some time after a node
	// sent it elsewhere, whether it is closed or not.
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("github.com/redis/rueidis.(*clusterClient)._refresh.func2"),
		goleak.IgnoreAnyFunction("github.com/redis/rueidis.(*call).DelayDo.func1"))
}

// The driver is what the seam promises.
func TestSeam(t *testing.T) {
	drivertest.Run(t, func(t testing.TB, to redistest.Target) (driver.Redis, func()) {
		rdb, err := rueidis.NewClient(to.Rueidis())
		require.NoError(t, err)
		return New(rdb), rdb.Close
	})
}

// patience is how long tests wait for what must happen.
const patience = 15 * time.Second

// tick is the pause between two looks at the server.
const tick = 5 * time.Millisecond

// open returns a client with these options that is closed at the end.
func open(t *testing.T, opt rueidis.ClientOption) rueidis.Client {
	t.Helper()
	rdb, err := rueidis.NewClient(opt)
	require.NoError(t, err)
	t.Cleanup(rdb.Close)
	return rdb
}

// over returns the driver over a client. At the end its goroutines must have ended by themselves.
func over(t *testing.T, rdb rueidis.Client) *Redis {
	t.Helper()
	d := New(rdb)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		d.Close(ctx)
		require.NoError(t, ctx.Err())
	})
	return d
}

// running is how many goroutines of the driver's own there are.
func running(d *Redis) int { return d.crew.Out() }

// within takes what comes from ch, which must come.
func within[T any](t *testing.T, ch <-chan T) T {
	t.Helper()
	select {
	case v := <-ch:
		return v
	case <-time.After(patience):
		require.FailNow(t, "nothing came in time")
		panic("unreachable")
	}
}

// ear is a Handler that passes on what it is told.
type ear struct {
	subscribed, messages chan string
	impaired             chan error
}

func newEar() *ear {
	return &ear{make(chan string, 100), make(chan string, 100), make(chan error, 100)}
}

func (e *ear) Subscribed(channel string) { e.subscribed <- channel }
func (e *ear) Message(_, message string) { e.messages <- message }
func (e *ear) Impaired(cause error)      { e.impaired <- cause }

// runs runs a script.
func runs(t *testing.T, d *Redis, text string) error {
	t.Helper()
	_, err := d.Run(t.Context(), driver.NewScript(text), nil, nil)
	return err
}

// The user finds the library's own errors in the driver's, whose texts are the library's.
func TestErrorsAreTheLibrarysToo(t *testing.T) {
	s := redistest.Start(t)
	closed := open(t, s.Option())
	require.NoError(t, runs(t, over(t, closed), "return 1"))
	closed.Close()
	err := runs(t, over(t, closed), "return 1")
	require.ErrorIs(t, err, rueidis.ErrClosing)
	require.EqualError(t, err, rueidis.ErrClosing.Error())

	d := over(t, s.Client())
	err = runs(t, d, "return redis.error_reply('ERR why')")
	var reply *driver.ReplyError
	require.ErrorAs(t, err, &reply)
	require.Equal(t, "why", reply.Text, "the library leaves a plain ERR out")
	var theirs *rueidis.RedisError
	require.ErrorAs(t, err, &theirs)
	require.Equal(t, "why", theirs.Error())

	s.Kill()
	var dial *net.OpError
	require.Eventually(t, func() bool {
		return errors.As(runs(t, d, "return 1"), &dial) && dial.Op == "dial"
	}, patience, tick)
}

// BenchmarkRun is a script with an answer like an acquisition's, through the library alone and through the driver.
func BenchmarkRun(b *testing.B) {
	rdb := redistest.Start(b).Client()
	d := New(rdb)
	const text = "return {1,2,3,'holder',5}"
	lua, script := rueidis.NewLuaScript(text), driver.NewScript(text)
	ctx := context.Background()
	b.Run("library", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := lua.Exec(ctx, rdb, []string{"k"}, nil).ToArray(); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("driver", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := d.Run(ctx, script, []string{"k"}, nil); err != nil {
				b.Fatal(err)
			}
		}
	})
}
