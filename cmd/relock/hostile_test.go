package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/gdamore/tcell/v2"
	"github.com/relock-go/relock/internal/operator"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

// hostile are texts that a terminal would obey, or show otherwise than they are: a title, a line of its own, an escape
// sequence in one character, a change of direction, what takes no room, no UTF-8, blanks that end a column, what a shell
// would run, and one that is very long.
var hostile = []string{
	"\x1b]0;owned\x07", "\x1b[2J\x1b[H", "a\nb  relock  nobody", "a\r\x7fb", "\u009b2Jc", "\u202egnp.exe", "\u2066\u200b\ufeff",
	"\xff\xfe\x80", "a\tb\vc", "\U000e0041tag", "$(touch x)`y`", "\u0600\u061c", strings.Repeat("long", 250),
}

// plantHostile makes locks of each kind whose names, holders, waiters and clients' cards are hostile.
func plantHostile(t *testing.T, srv *redistest.Server) {
	t.Helper()
	for i, text := range hostile {
		client := fmt.Sprintf("%08x-0000-4000-8000-000000000000", i)
		owner := client + ":1"
		srv.Do("HSET", "relock_client:"+client, "name", text, "host", text, "pid", "7", "started", text, "version", text)
		srv.Do("HSET", "card:"+text, owner, "1", "relock:first", "1800000000000000:1")
		srv.Do("HSET", "own:"+text, text, "1", "relock:first", "1800000000000000:1")
		srv.Do("HSET", "hand:"+text, client+":handle:"+strings.Repeat("x", 20), "1", "relock:first", "1800000000000000:1")
		srv.Do("HSET", "read:"+text, "mode", "read", text, "1", owner, "1")
		srv.Do("ZADD", "relock_queue:{own:"+text+"}", "1", "30000:1:"+client+":1:"+text)
		srv.Do("ZADD", "relock_queue:{card:"+text+"}", "1", "30000:1:"+text+":1:")
		srv.Do("SET", "pool:"+text, "1")
		srv.Do("ZADD", "{pool:"+text+"}:timeout", "922337203685477", text)
		srv.Do("ZADD", "relock_permits:{pool:"+text+"}", "1", "30000:2:"+client+":"+text)
	}
}

// requireHarmless checks that a text has nothing that a terminal obeys, but for the ends of its lines.
func requireHarmless(t *testing.T, text, what string) {
	t.Helper()
	require.True(t, utf8.ValidString(text), "%s: %q", what, text)
	for line := range strings.SplitSeq(text, "\n") {
		require.Equal(t, -1, strings.IndexFunc(line, func(r rune) bool { return !unicode.IsPrint(r) }), "%s: %q", what, line)
	}
}

// Whoever chooses the names of locks and holders cannot have the terminal do what they want.
func TestHostileNamesArePrinted(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	plantHostile(t, srv)
	show := func(args ...string) result {
		got := relockRun(append(args, "-redis", srv.Addr())...)
		requireHarmless(t, got.out, fmt.Sprintf("%q", args))
		requireHarmless(t, got.err, fmt.Sprintf("%q", args))
		return got
	}
	lines := len(strings.Split(show("ls").out, "\n"))
	require.Greater(t, lines, 4*len(hostile))
	for line := range strings.Lines(show("ls").out) {
		require.Less(t, len(line), 2*widest+200, "a long name widens all lines")
	}
	for line := range strings.Lines(show("top", "-once", "-rows", "0").out) {
		require.Less(t, len(line), 2*widest+200)
	}
	var names []string
	for line := range strings.Lines(show("ls", "-json").out) {
		var l seenLock
		require.NoError(t, json.Unmarshal([]byte(line), &l))
		names = append(names, l.Name)
	}
	require.Len(t, names, lines-2, "a lock each line, and the head of the table")
	for _, text := range hostile {
		want := strings.ToValidUTF8("own:"+text, "\ufffd")
		if utf8.ValidString(text) {
			require.Contains(t, names, want)
		}
	}
	for line := range strings.Lines(relockRun("__complete", "inspect", "-redis", srv.Addr(), "").out) {
		requireHarmless(t, line, "completion")
		require.NotContains(t, line, "nobody", "it has a line end before")
	}
	for _, sort := range []string{"card:", "own:", "hand:", "read:", "pool:"} {
		for _, text := range hostile {
			name := sort + text
			show("inspect", name)
			show("inspect", "-json", name)
			show("unlock", "-force", name)
			for _, kind := range [][]string{nil, {"-shared"}, {"-n", "2"}, {"-q"}} {
				got := show(append(append([]string{"run"}, kind...), "-wait", "0", name, "--", "true")...)
				require.NotEqual(t, statusOK, got.status, "%q %v", name, kind)
			}
		}
	}
}

// What relock run says while it waits is harmless too.
func TestHostileHolderIsWaitedFor(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	plantHostile(t, srv)
	for _, text := range hostile[:6] {
		for _, sort := range []string{"card:", "own:"} {
			t.Run("", func(t *testing.T) {
				t.Parallel()
				requireHarmless(t, waitsFor(t, srv, sort+text), sort+text)
			})
		}
	}
}

// The live board sends the terminal what can be printed, whatever the names, the holders and the errors of Redis.
func TestHostileNamesOnTheBoard(t *testing.T) {
	requireNoLeaks(t)
	srv := redistest.Start(t)
	plantHostile(t, srv)
	var conn connection
	conn.redis = []string{srv.Addr()}
	redis, err := conn.open((&app{}).topCommand().Flags())
	require.NoError(t, err)
	defer redis.close()
	for _, size := range [][2]int{{80, 100}, {250, 100}, {20, 6}} {
		screen := tcell.NewSimulationScreen("UTF-8")
		require.NoError(t, screen.Init())
		screen.SetSize(size[0], size[1])
		l := live{redis: redis, reader: redis.reader(), match: "*", screen: screen,
			board: board{where: redis.where, order: operator.ByName, rates: make(map[string]float64)}}
		looks := func(when string) {
			t.Helper()
			l.draw()
			cells, _, _ := screen.GetContents()
			for _, c := range cells {
				for _, r := range c.Runes {
					require.True(t, unicode.IsPrint(r), "%s: %q", when, r)
				}
				require.NotContains(t, string(c.Bytes), "\x1b", when)
			}
		}
		seen, err := l.reader.All(t.Context(), "*")
		require.NoError(t, err)
		l.take(look{seen: seen, all: true, began: time.Now()})
		looks("locks")
		for range seen {
			press(t, &l.board, "f")
			looks("question")
			press(t, &l.board, "n")
			looks("left as it is")
			press(t, &l.board, keyDown)
		}
		for _, text := range hostile {
			press(t, &l.board, "/")
			for _, r := range text[:min(len(text), 20)] {
				press(t, &l.board, string(r))
			}
			looks("typing a filter")
			press(t, &l.board, keyEnter)
			looks("filter")
			press(t, &l.board, keyEscape)
			l.take(look{err: errors.New(text)})
			looks("error")
			l.board.note = text
			l.board.broken = ""
			looks("note")
		}
		screen.Fini()
	}
}

// What Redis answers with an error is no way to the terminal either.
func TestHostileErrorsArePrinted(t *testing.T) {
	for _, text := range hostile {
		var said safeBuffer
		std := stdio{in: strings.NewReader(""), out: io.Discard, err: &said}
		failed(std, statusBroken, "relock ls", errors.New(text))
		misused(std, "relock ls", fmt.Errorf("bad: %w", errors.Join(errors.New(text), context.Canceled)))
		requireHarmless(t, said.String(), text)
	}
}
