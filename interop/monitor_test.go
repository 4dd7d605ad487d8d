package interop

import (
	"bufio"
	"fmt"
	"net"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

// monitor records what a server executes.
type monitor struct {
	t      testing.TB
	server *redistest.Server
	lines  *bufio.Scanner
	marks  int
	names  *strings.Replacer // what differs from run to run, by what stands for it
	ids    map[string]string // the same for ids of permits, which are bytes by chance
}

// startMonitor begins to record. names are old and new texts in turn, as for strings.NewReplacer.
func startMonitor(t testing.TB, server *redistest.Server, names ...string) *monitor {
	t.Helper()
	conn, err := net.DialTimeout("tcp", server.Addr(), 5*time.Second)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	_, err = fmt.Fprint(conn, "MONITOR\r\n")
	require.NoError(t, err)
	m := &monitor{t: t, server: server, lines: bufio.NewScanner(conn), names: strings.NewReplacer(names...), ids: map[string]string{}}
	m.lines.Buffer(nil, 1<<20)
	require.True(t, m.lines.Scan())
	require.Equal(t, "+OK", m.lines.Text())
	return m
}

var (
	monitorLine = regexp.MustCompile(`^\+[0-9.]+ \[0 ([^\]]+)\] (.*)$`)
	requestID   = regexp.MustCompile(`\b[0-9a-f]{32}\b`)
	latchTTL    = regexp.MustCompile(`"(1[0-9]|2[0-9])[0-9]{3}"`)
	quoted      = regexp.MustCompile(`"(?:[^"\\]|\\.)*"`)
	recorded    = regexp.MustCompile(`^"(EVAL|EVALSHA|SCRIPT|DEL|SUBSCRIBE|UNSUBSCRIBE|WAIT|EXISTS|HGET|PTTL|GET)" `)
)

// drain returns what was executed since the last call, without what varies and without what is no part of a lock.
// Commands inside a script are indented.
func (m *monitor) drain() (lines []string) {
	m.t.Helper()
	m.marks++
	mark := fmt.Sprintf("mark %d", m.marks)
	m.server.Do("ECHO", mark)
	for m.lines.Scan() {
		if strings.Contains(m.lines.Text(), mark) {
			return lines
		}
		parts := monitorLine.FindStringSubmatch(m.lines.Text())
		require.NotNil(m.t, parts, "%q", m.lines.Text())
		if !recorded.MatchString(parts[2]) && parts[1] != "lua" {
			continue
		}
		line := quoted.ReplaceAllStringFunc(parts[2], m.permit)
		line = m.names.Replace(line)
		line = requestID.ReplaceAllString(line, "<request>")
		line = latchTTL.ReplaceAllString(line, `"<latch>"`)
		if parts[1] == "lua" {
			line = "  " + line
		}
		lines = slices.Insert(lines, m.place(lines, line), line)
	}
	m.t.Fatalf("the monitor ended: %v", m.lines.Err())
	return nil
}

// permit replaces an argument, as MONITOR quotes it, that differs from run to run in what is sent for a permit: its id of 16
// bytes, the time, and the end of a lease.
func (m *monitor) permit(arg string) string {
	text, err := strconv.Unquote(arg)
	require.NoError(m.t, err, arg)
	if n, err := strconv.ParseInt(text, 10, 64); err == nil && len(text) == 13 {
		if time.Until(time.UnixMilli(n)) > 20*time.Second {
			return `"<expiry>"`
		}
		return `"<now>"`
	}
	if len(text) != 16 || strings.IndexFunc(text, func(r rune) bool { return r < ' ' || r > '~' }) < 0 {
		return arg
	}
	if m.ids[text] == "" {
		m.ids[text] = fmt.Sprintf(`"<id%d>"`, len(m.ids)+1)
	}
	return m.ids[text]
}

// place is where a line belongs among those before it. Redisson deletes the latch of an unlock without waiting for it,
// so others may come first; it is put with its unlock.
func (m *monitor) place(lines []string, line string) int {
	if strings.HasPrefix(line, `"DEL" "redisson_unlock_latch`) {
		for i := len(lines) - 1; i >= 0; i-- {
			if strings.HasPrefix(lines[i], `  "set" "redisson_unlock_latch`) {
				return i + 1
			}
		}
	}
	return len(lines)
}
