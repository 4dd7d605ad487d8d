package drivertest

import (
	"context"
	"testing"
	"time"

	"github.com/relock-go/relock/internal/driver"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/relock-go/relock/internal/wire"
	"github.com/stretchr/testify/require"
)

func init() {
	checks = append(checks, check{"codes of refusals", codesOfRefusals})
	ofSlots = append(ofSlots, check{"codes of a Cluster's refusals", codesOfSlots})
}

// coded requires that err is a refusal of what, from which the locks read the code want.
func coded(t testing.TB, want, what string, err error) {
	t.Helper()
	refused(t, err, "")
	require.Equal(t, want, wire.ReplyCode(err.Error()), "%s: %v", what, err)
}

// inScripts requires that a command which a script calls is refused with a code, however the script
// passes the error on: raised, returned, raised again, or made anew from its text.
func inScripts(t testing.TB, d driver.Redis, want, command string, keys ...string) {
	t.Helper()
	for _, script := range []string{
		"return redis.call(" + command + ")",
		"return redis.pcall(" + command + ")",
		"local got = redis.pcall(" + command + ") error(got.err, 0)",
		"local ok, why = pcall(redis.call, " + command + ") return redis.error_reply(why)",
	} {
		_, err := d.Run(t.Context(), driver.NewScript(script), keys, nil)
		coded(t, want, script, err)
	}
}

// The locks read the code of every refusal, whatever the server's version makes of the text and the
// library leaves out.
func codesOfRefusals(t testing.TB, b *bed) {
	s := redistest.Start(t)
	s.AddUser("app", "secret", "~k*", "resetchannels", "&c*", "+@all", "-del", "-info")
	d, app := b.over(t, s.Target()), b.over(t, s.Target().As("app", "secret"))
	direct := func(d driver.Redis, want string, command ...string) {
		t.Helper()
		got, err := d.Do(t.Context(), command)
		require.NoError(t, err)
		coded(t, want, command[0], got[0].Err())
	}
	set := func(option, value string) { t.Helper(); s.Do("CONFIG", "SET", option, value) }

	s.Do("SET", "kind", "string")
	direct(d, "WRONGTYPE", "HGET", "kind", "f")
	inScripts(t, d, "WRONGTYPE", "'HGET', KEYS[1], 'f'", "kind")
	direct(d, "NOCOMMAND", "NONSENSE")
	inScripts(t, d, "NOCOMMAND", "'NONSENSE'")

	direct(app, "NOPERM", "DEL", "k")
	direct(app, "NOPERM", "GET", "other")
	direct(app, "NOPERM", "INFO", "server")
	inScripts(t, app, "NOPERM", "'DEL', KEYS[1]", "k")
	inScripts(t, app, "NOPERM", "'GET', 'other'")
	inScripts(t, app, "NOPERM", "'PUBLISH', 'other', ''")
	_, err := app.Run(t.Context(), increase, []string{"other"}, nil)
	coded(t, "NOPERM", "a key", err)

	set("maxmemory", "1")
	direct(d, "OOM", "SET", "k", "v")
	inScripts(t, d, "OOM", "'SET', KEYS[1], 'v'", "k")
	set("maxmemory", "0")
	set("min-replicas-to-write", "1")
	direct(d, "NOREPLICAS", "SET", "k", "v")
	inScripts(t, d, "NOREPLICAS", "'SET', KEYS[1], 'v'", "k")
	set("min-replicas-to-write", "0")
	busy(t, s, d)
	works(t, d)

	s.Do("REPLICAOF", "127.0.0.1", "1")
	direct(d, "READONLY", "SET", "k", "v")
	inScripts(t, d, "READONLY", "'SET', KEYS[1], 'v'", "k")
	set("replica-serve-stale-data", "no")
	direct(d, "MASTERDOWN", "GET", "k")
	_, err = d.Run(t.Context(), increase, []string{"k"}, nil)
	coded(t, "MASTERDOWN", "a script", err)
}

// busy has the server run a script that does not end, until SCRIPT KILL ends it. Meanwhile commands
// are refused with BUSY.
func busy(t testing.TB, s *redistest.Server, d driver.Redis) {
	t.Helper()
	s.Do("CONFIG", "SET", "lua-time-limit", "10")
	ctx, cancel := context.WithTimeout(context.Background(), patience(t))
	defer cancel()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, _ = s.Try("EVAL", "while true do end", "0")
	}()
	eventually(t, func() bool {
		_, err := d.Run(ctx, driver.NewScript("return 1"), nil, nil)
		return isReply(err) && wire.ReplyCode(err.Error()) == "BUSY"
	}, "BUSY")
	_, err := d.Do(ctx, []string{"SCRIPT", "KILL"})
	require.NoError(t, err)
	select {
	case <-ended:
	case <-time.After(patience(t)):
		require.Fail(t, "the script does not end")
	}
}

// The locks read the code of what a server of a Cluster refuses, too.
func codesOfSlots(t testing.TB, b *bed) {
	d := b.over(t, b.cluster.MasterFor(tags[0]).Target())
	run := func(script string, keys ...string) error {
		_, err := d.Run(t.Context(), driver.NewScript(script), keys, nil)
		return err
	}
	coded(t, "MOVED", "a key elsewhere", run("return 1", tags[1]))
	coded(t, "CROSSSLOT", "keys apart", run("return 1", tags[0], tags[1]))
	coded(t, "TRYAGAIN", "a key of the script's own", run("return redis.call('GET', '"+tags[1]+"')", tags[0]))
}
