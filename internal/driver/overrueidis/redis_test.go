package overrueidis

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/relock-go/relock/internal/driver"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	// rueidis's Cluster client closes nodes it no longer needs five seconds later, whether it is closed or not.
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("github.com/redis/rueidis.(*clusterClient)._refresh.func2"))
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

// protocols calls test with a client of each version of the protocol.
func protocols(t *testing.T, s *redistest.Server, test func(t *testing.T, d *Redis)) {
	for name, old := range map[string]bool{"resp2": true, "resp3": false} {
		t.Run(name, func(t *testing.T) {
			opt := s.Option()
			opt.AlwaysRESP2 = old
			test(t, over(t, open(t, opt)))
		})
	}
}

// returns runs a script without keys.
func returns(t *testing.T, d *Redis, text string) (driver.Value, error) {
	t.Helper()
	return d.Run(t.Context(), driver.NewScript("return "+text), nil, nil)
}

func TestAnswersOfEveryKind(t *testing.T) {
	s := redistest.Start(t)
	protocols(t, s, func(t *testing.T, d *Redis) {
		for text, want := range map[string]driver.Value{
			"7": driver.Int(7), "'seven'": driver.String("seven"), "'line\\r\\nline'": driver.String("line\r\nline"),
			"''": driver.String(""), "false": {}, "redis.status_reply('OK')": driver.String("OK"),
			"{}":               driver.List([]driver.Value{}...),
			"{1,'2',false}":    driver.List(driver.Int(1), driver.String("2"), driver.Value{}),
			"{{1},{{'deep'}}}": driver.List(driver.List(driver.Int(1)), driver.List(driver.List(driver.String("deep")))),
		} {
			got, err := returns(t, d, text)
			require.NoError(t, err, text)
			require.Equal(t, want, got, text)
		}
		got, err := returns(t, d, "{1,redis.error_reply('NOPE why')}")
		require.NoError(t, err)
		parts, err := got.Values()
		require.NoError(t, err)
		require.Len(t, parts, 2)
		require.NoError(t, parts[0].Err())
		var reply *driver.ReplyError
		require.ErrorAs(t, parts[1].Err(), &reply)
		require.Equal(t, "NOPE why", reply.Text)
	})
}

// A script that answers in types of RESP3 is read the same over either protocol.
func TestTypesOfRESP3(t *testing.T) {
	s := redistest.Start(t)
	if major, _, _ := s.Version(); major < 7 {
		t.Skip("its scripts answer otherwise")
	}
	protocols(t, s, func(t *testing.T, d *Redis) {
		for text, want := range map[string]driver.Value{
			"true": driver.Int(1), "{double=1.5}": driver.String("1.5"),
			"{big_number='12345678901234567890'}":                  driver.String("12345678901234567890"),
			"{verbatim_string={format='txt',string='plain:text'}}": driver.String("plain:text"),
			"{set={one=true}}":                                     driver.List(driver.String("one")),
			"{map={one=1}}":                                        driver.List(driver.String("one"), driver.Int(1)),
		} {
			got, err := d.Run(t.Context(), driver.NewScript("redis.setresp(3) return "+text), nil, nil)
			require.NoError(t, err, text)
			require.Equal(t, want, got, text)
		}
	})
	d := over(t, s.Client())
	got, err := d.Run(t.Context(), driver.NewScript("redis.setresp(3) return {map={b=2,a=1,c=false}}"), nil, nil)
	require.NoError(t, err)
	require.Equal(t, driver.List(driver.String("a"), driver.Int(1), driver.String("b"), driver.Int(2),
		driver.String("c"), driver.Int(0)), got, "sorted by key")
}

func TestCommands(t *testing.T) {
	protocols(t, redistest.Start(t), func(t *testing.T, d *Redis) {
		got, err := d.Do(t.Context(), []string{"TIME"}, []string{"INFO", "server"}, []string{"HSET", "h", "f", "1", "g", "2"},
			[]string{"EXISTS", "h"}, []string{"GET", "h"}, []string{"GET", "nothing"}, []string{"PUBSUB", "NUMSUB", "c"},
			[]string{"HGETALL", "h"}, []string{"DEL", "h"})
		require.NoError(t, err)
		now, err := got[0].Ints()
		require.NoError(t, err)
		require.Len(t, now, 2)
		info, err := got[1].Text()
		require.NoError(t, err)
		require.Regexp(t, "^# Server\r\n", info)
		require.Equal(t, []driver.Value{driver.Int(2), driver.Int(1)}, got[2:4])
		require.ErrorContains(t, got[4].Err(), "WRONGTYPE")
		require.Equal(t, []driver.Value{{}, driver.List(driver.String("c"), driver.Int(0))}, got[5:7])
		texts, err := got[7].Texts()
		require.NoError(t, err)
		require.Equal(t, []string{"f", "1", "g", "2"}, texts)
	})
}

// What the server refuses is told in the text that the library has: without a plain ERR.
func TestRefusals(t *testing.T) {
	protocols(t, redistest.Start(t), func(t *testing.T, d *Redis) {
		for text, want := range map[string]string{
			"redis.error_reply('NOPE why')": "NOPE why", "redis.error_reply('ERR why')": "why",
		} {
			_, err := returns(t, d, text)
			var reply *driver.ReplyError
			require.ErrorAs(t, err, &reply)
			require.Equal(t, want, reply.Text)
			var theirs *rueidis.RedisError
			require.ErrorAs(t, err, &theirs, "the library's error is kept")
			require.Equal(t, want, theirs.Error())
		}
		_, err := returns(t, d, "redis.call('INCR', 'k', 'more')")
		require.ErrorAs(t, err, new(*driver.ReplyError))
	})
}

// A user who may not log in is refused by the server, though no command was sent.
func TestRefusedLogin(t *testing.T) {
	s := redistest.Start(t)
	d := over(t, open(t, s.AddUser("app", "secret", "~*", "+@all")))
	s.Do("ACL", "DELUSER", "app") // ends the connection
	require.Eventually(t, func() bool {
		_, err := d.Do(t.Context(), []string{"PING"})
		var reply *driver.ReplyError
		return errors.As(err, &reply) && strings.HasPrefix(reply.Text, "WRONGPASS")
	}, patience, tick)
}

// A script is sent by its hash, and by its text where the server does not know it.
func TestScriptTheServerForgot(t *testing.T) {
	s := redistest.Start(t)
	d := over(t, s.Client())
	script := driver.NewScript("return {KEYS[1],ARGV[1],ARGV[2]}")
	s.ResetCommandCounts()
	for range 2 {
		for range 2 {
			got, err := d.Run(t.Context(), script, []string{"k"}, []string{"a", "b"})
			require.NoError(t, err)
			require.Equal(t, driver.List(driver.String("k"), driver.String("a"), driver.String("b")), got)
		}
		s.Do("SCRIPT", "FLUSH")
	}
	counts := s.CommandCounts()
	require.EqualValues(t, 2, counts["eval"])
	require.EqualValues(t, 4, counts["evalsha"])
}

func TestRefusedConnection(t *testing.T) {
	s := redistest.Start(t)
	d := over(t, s.Client())
	s.Kill()
	var err error
	require.Eventually(t, func() bool {
		_, err = returns(t, d, "1")
		return errors.Is(err, driver.ErrUnsent)
	}, patience, tick)
	require.NotErrorIs(t, err, driver.ErrClosed)
	_, err = d.Do(t.Context(), []string{"PING"})
	require.ErrorIs(t, err, driver.ErrUnsent)
	require.ErrorAs(t, err, new(*net.OpError), "the library's error is kept")
	require.NotErrorIs(t, err, driver.ErrClosed)
}

func TestClosedClient(t *testing.T) {
	rdb := redistest.Start(t).Client()
	d := over(t, rdb)
	_, err := returns(t, d, "1")
	require.NoError(t, err)
	rdb.Close()
	_, err = returns(t, d, "1")
	require.ErrorIs(t, err, driver.ErrClosed)
	require.ErrorIs(t, err, rueidis.ErrClosing)
	require.EqualError(t, err, rueidis.ErrClosing.Error())
	_, err = d.Do(t.Context(), []string{"PING"})
	require.ErrorIs(t, err, driver.ErrClosed)
}

func TestEndedContext(t *testing.T) {
	d := over(t, redistest.Start(t).Client())
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := d.Run(ctx, driver.NewScript("return 1"), nil, nil)
	require.ErrorIs(t, err, context.Canceled)
}

// deaf is a connection that breaks with the first answer while told to.
type deaf struct {
	net.Conn
	lose *atomic.Bool
}

func (c deaf) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if err == nil && c.lose.CompareAndSwap(true, false) {
		return 0, io.EOF
	}
	return n, err
}

// Nothing is sent a second time when its answer is lost, reads no more than writes.
func TestLostAnswer(t *testing.T) {
	s := redistest.Start(t)
	var lose atomic.Bool
	opt := s.Option()
	opt.DialCtxFn = func(ctx context.Context, addr string, dialer *net.Dialer, _ *tls.Config) (net.Conn, error) {
		conn, err := dialer.DialContext(ctx, "tcp", addr)
		return deaf{conn, &lose}, err
	}
	d := over(t, open(t, opt))
	for name, send := range map[string]func() error{
		"exists":  func() error { _, err := d.Do(t.Context(), []string{"EXISTS", "k"}); return err },
		"get":     func() error { _, err := d.Do(t.Context(), []string{"GET", "k"}, []string{"TIME"}); return err },
		"evalsha": func() error { _, err := returns(t, d, "1"); return err },
	} {
		require.Eventually(t, func() bool { _, err := returns(t, d, "1"); return err == nil }, patience, tick)
		s.ResetCommandCounts()
		lose.Store(true)
		require.Error(t, send(), name)
		require.False(t, lose.Load(), name)
		require.EqualValues(t, 1, s.CommandCounts()[name], name)
	}
}

// Once the driver was closed no goroutine starts; commands still run, for locks that are on their way back.
func TestClosedDriver(t *testing.T) {
	d := over(t, redistest.Start(t).Client())
	d.Close(t.Context())
	_, err := d.Listen(t.Context(), newEar())
	require.ErrorIs(t, err, driver.ErrClosed)
	require.ErrorIs(t, d.Follow(t.Context(), newEar(), "c"), driver.ErrClosed)
	_, err = returns(t, d, "1")
	require.NoError(t, err)
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
