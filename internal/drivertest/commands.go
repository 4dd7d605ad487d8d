package drivertest

import (
	"testing"

	"github.com/relock-go/relock/internal/driver"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

func init() {
	checks = append(checks,
		check{"answers of every kind", answersOfEveryKind},
		check{"types of RESP3", typesOfRESP3},
		check{"several commands", severalCommands},
		check{"refusals", refusals},
		check{"a refused login", refusedLogin},
		check{"a script that the server forgot", forgottenScript},
	)
}

func answersOfEveryKind(t testing.TB, b *bed) {
	d := b.over(t, redistest.Start(t).Target())
	require.False(t, d.Cluster())
	require.NotNil(t, d.Client())
	for text, want := range map[string]driver.Value{
		"7": driver.Int(7), "-1": driver.Int(-1), "'seven'": driver.String("seven"), "'7'": driver.String("7"),
		"'line\\r\\nline'": driver.String("line\r\nline"), "'\\0\\255'": driver.String("\x00\xff"),
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
	require.Equal(t, driver.Int(1), parts[0])
	refused(t, parts[1].Err(), "NOPE why")
}

// A script that answers in types of RESP3 is read the same over either protocol.
func typesOfRESP3(t testing.TB, b *bed) {
	s := redistest.Start(t)
	if major, _, _ := s.Version(); major < 7 {
		t.Skip("its scripts answer otherwise")
	}
	d := b.over(t, s.Target())
	returns := func(expression string) driver.Value {
		got, err := d.Run(t.Context(), driver.NewScript("redis.setresp(3) return "+expression), nil, nil)
		require.NoError(t, err, expression)
		return got
	}
	for text, want := range map[string]driver.Value{
		"true": driver.Int(1), "{double=1.5}": driver.String("1.5"),
		"{big_number='12345678901234567890'}":                  driver.String("12345678901234567890"),
		"{verbatim_string={format='txt',string='plain:text'}}": driver.String("plain:text"),
		"{set={one=true}}":                                     driver.List(driver.String("one")),
		"{map={one=1}}":                                        driver.List(driver.String("one"), driver.Int(1)),
	} {
		require.Equal(t, want, returns(text), text)
	}
	if !b.resp2 { // where a map arrives as a map
		require.Equal(t, driver.List(driver.String("a"), driver.Int(1), driver.String("b"), driver.Int(2),
			driver.String("c"), driver.Int(0)), returns("{map={b=2,a=1,c=false}}"), "sorted by key")
	}
}

func severalCommands(t testing.TB, b *bed) {
	d := b.over(t, redistest.Start(t).Target())
	got, err := d.Do(t.Context(), []string{"TIME"}, []string{"INFO", "server"}, []string{"HSET", "h", "f", "1", "g", "2"},
		[]string{"EXISTS", "h"}, []string{"GET", "h"}, []string{"GET", "nothing"}, []string{"PUBSUB", "NUMSUB", "c"},
		[]string{"HGETALL", "h"}, []string{"DEL", "h"})
	require.NoError(t, err)
	require.Len(t, got, 9)
	now, err := got[0].Ints()
	require.NoError(t, err)
	require.Len(t, now, 2)
	info, err := got[1].Text()
	require.NoError(t, err)
	require.Regexp(t, "^# Server\r\n", info)
	require.Equal(t, []driver.Value{driver.Int(2), driver.Int(1)}, got[2:4])
	refused(t, got[4].Err(), "WRONGTYPE")
	require.Equal(t, []driver.Value{{}, driver.List(driver.String("c"), driver.Int(0))}, got[5:7])
	texts, err := got[7].Texts()
	require.NoError(t, err)
	require.Equal(t, []string{"f", "1", "g", "2"}, texts)
}

// A refusal has the server's text, from which a library may leave out a plain ERR, and the
// library's own error.
func refusals(t testing.TB, b *bed) {
	d := b.over(t, redistest.Start(t).Target())
	for text, want := range map[string]string{
		"redis.error_reply('NOPE why')": "^NOPE why$", "redis.error_reply('ERR why')": "^(ERR )?why$",
		"redis.call('INCR', 'k', 'more')": "(?i)wrong number of arg", "(": "user_script",
	} {
		_, err := returns(t, d, text)
		refused(t, err, "")
		require.Regexp(t, want, err.Error())
		var reply *driver.ReplyError
		require.ErrorAs(t, err, &reply)
		require.Error(t, reply.Err, "the library's error")
	}
	_, err := d.Do(t.Context(), []string{"NONSENSE"})
	require.NoError(t, err, "the refusal of a command is its answer")
}

// A user who may not log in is refused by the server, though no command was sent.
func refusedLogin(t testing.TB, b *bed) {
	s := redistest.Start(t)
	s.AddUser("app", "secret", "~*", "+@all")
	d := b.over(t, s.Target().As("app", "secret"))
	s.Do("ACL", "DELUSER", "app") // ends the connection
	var err error
	eventually(t, func() bool {
		_, err = d.Do(t.Context(), []string{"PING"})
		return isReply(err)
	}, "a refusal")
	refused(t, err, "WRONGPASS")
}

// A script is sent by its hash, and by its text if the server does not know the hash.
func forgottenScript(t testing.TB, b *bed) {
	s := redistest.Start(t)
	d := b.over(t, s.Target())
	script := driver.NewScript("return {KEYS[1],ARGV[1],ARGV[2]}")
	run := func() {
		t.Helper()
		got, err := d.Run(t.Context(), script, []string{"k"}, []string{"a", "b"})
		require.NoError(t, err)
		require.Equal(t, driver.List(driver.String("k"), driver.String("a"), driver.String("b")), got)
	}
	for range 2 {
		run()
		s.ResetCommandCounts()
		run()
		counts := s.CommandCounts()
		require.EqualValues(t, 1, counts["evalsha"])
		require.Zero(t, counts["eval"]+counts["script|load"])
		s.Do("SCRIPT", "FLUSH")
	}
}
