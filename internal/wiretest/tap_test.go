package wiretest

import (
	"bufio"
	"fmt"
	"math"
	"net"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

// tap hears by MONITOR what one server executes.
type tap struct {
	s     *redistest.Server
	marks int

	mu    sync.Mutex
	heard []command // in this step
	skips bool      // the last command was noise
	gone  error     // why nothing is heard any more

	labels map[string]string // moments, and what they are called
}

func (tp *tap) follow(r *bufio.Reader) {
	for {
		line, err := r.ReadString('\n')
		if err == nil {
			err = tp.hear(line)
		}
		if err != nil {
			tp.mu.Lock()
			tp.gone = err
			tp.mu.Unlock()
			return
		}
	}
}

// hear takes a line of MONITOR: +<seconds> [<database> <address or lua>] "<argument>" …
func (tp *tap) hear(line string) error {
	found := monitored.FindStringSubmatch(line)
	if found == nil {
		return fmt.Errorf("MONITOR said %q", line)
	}
	c := command{}
	c.at, _ = strconv.ParseFloat(found[1], 64)
	for rest := found[3]; rest != ""; rest = strings.TrimPrefix(rest, " ") {
		quoted, err := strconv.QuotedPrefix(rest)
		if err != nil {
			return fmt.Errorf("MONITOR said %q: %w", line, err)
		}
		arg, err := strconv.Unquote(quoted)
		if err != nil {
			return fmt.Errorf("MONITOR said %q: %w", line, err)
		}
		c.args, rest = append(c.args, arg), rest[len(quoted):]
	}
	c.args[0] = strings.ToUpper(c.args[0])
	tp.mu.Lock()
	defer tp.mu.Unlock()
	if found[2] != "lua" {
		if tp.skips = c.isNoise(); !tp.skips {
			tp.heard = append(tp.heard, c)
		}
	} else if !tp.skips {
		last := &tp.heard[len(tp.heard)-1]
		last.calls = append(last.calls, c.args)
	}
	return nil
}

// count returns how many commands and subscribed channels came in this step. A script that the
// server did not know is sent again, and counts then.
func (tp *tap) count() (commands, channels int) {
	tp.mu.Lock()
	defer tp.mu.Unlock()
	for _, c := range tp.heard {
		switch {
		case c.subscribes():
			channels += len(c.args) - 1
		case !c.runsScript() || len(c.calls) > 0:
			commands++
		}
	}
	return commands, channels
}

// take ends a step: it returns what the server executed in it.
func (tp *tap) take(t *attempt, names map[string]string) (p part) {
	tp.marks++
	mark := []string{"ECHO", "mark " + strconv.Itoa(tp.marks)}
	tp.s.Do(mark...)
	heard, marked := tp.until(mark)
	for deadline := time.Now().Add(longest); !marked; heard, marked = tp.until(mark) {
		if time.Now().After(deadline) {
			t.Fatalf("MONITOR of %s tells of no mark: %v", tp.s.Addr(), tp.gone)
		}
		time.Sleep(100 * time.Microsecond)
	}
	for i, c := range heard {
		switch {
		case c.subscribes():
			for _, channel := range c.args[1:] {
				p.subscribed = append(p.subscribed, tp.text(names, c.at, []string{c.args[0], channel})+"\n")
			}
		case c.runsScript() && len(c.calls) == 0 && slices.ContainsFunc(heard[i+1:], c.again):
		default:
			p.commands = append(p.commands, tp.render(names, c))
		}
	}
	slices.Sort(p.subscribed)
	return p
}

// until takes what was heard before mark, once that was heard too.
func (tp *tap) until(mark []string) (heard []command, marked bool) {
	tp.mu.Lock()
	defer tp.mu.Unlock()
	end := slices.IndexFunc(tp.heard, func(c command) bool { return slices.Equal(c.args, mark) })
	if end < 0 {
		return nil, false
	}
	heard, tp.heard = tp.heard[:end:end], tp.heard[end+1:]
	return heard, true
}

func (tp *tap) render(names map[string]string, c command) string {
	tp.label(c)
	args := c.args
	if c.runsScript() {
		args = append([]string{"SCRIPT"}, args[2:]...)
	}
	var b strings.Builder
	fmt.Fprintln(&b, tp.text(names, c.at, args))
	var before []string
	for _, call := range c.kept() {
		fmt.Fprintln(&b, "  "+tp.text(names, c.at, c.rounded(before, call)))
		before = call
	}
	return b.String()
}

// label names the moments that a grant's tokens begin and end with: the first as it comes, the last
// by the first.
func (tp *tap) label(c command) {
	for _, call := range c.calls {
		at := slices.Index(call, "relock:first")
		if at < 0 || at+1 >= len(call) {
			continue
		}
		if found := granted.FindStringSubmatch(call[at+1]); found != nil {
			first, _ := strconv.ParseInt(found[1], 10, 64)
			count, _ := strconv.ParseInt(found[2], 10, 64)
			if name := tp.named(found[1]); count > 1 {
				tp.labels[strconv.FormatInt(first+count-1, 10)] = fmt.Sprintf("%s+%d", name, count-1)
			}
		}
	}
}

// named returns what a moment is called: T and its number in the order in which they came.
func (tp *tap) named(at string) string {
	if tp.labels[at] == "" {
		n := 1
		for _, name := range tp.labels {
			if !strings.Contains(name, "+") {
				n++
			}
		}
		tp.labels[at] = "T" + strconv.Itoa(n)
	}
	return tp.labels[at]
}

// text is a command without what differs each time.
func (tp *tap) text(names map[string]string, at float64, args []string) string {
	words := make([]string, len(args))
	for i, arg := range args {
		for id, name := range names {
			arg = strings.ReplaceAll(arg, id, name)
		}
		arg = drawn.ReplaceAllString(arg, "$1")
		arg = moment.ReplaceAllStringFunc(arg, tp.named)
		arg = instant.ReplaceAllStringFunc(arg, func(ms string) string {
			n, _ := strconv.ParseFloat(ms, 64)
			return fmt.Sprintf("NOW%+ds", 20*int64(math.Floor((n/1000-at+1)/20))) // counters: up to 17 s later than that
		})
		arg = runID.ReplaceAllString(arg, "RUN")
		if !plain.MatchString(arg) {
			arg = strconv.Quote(arg)
		}
		words[i] = arg
	}
	return strings.Join(words, " ")
}

// awaits returns when channel was subscribed in this step.
func (tp *tap) awaits(t *attempt, channel string) {
	subscribed := func(c command) bool { return c.subscribes() && slices.Contains(c.args, channel) }
	for deadline := time.Now().Add(longest); ; time.Sleep(100 * time.Microsecond) {
		tp.mu.Lock()
		some := slices.ContainsFunc(tp.heard, subscribed)
		tp.mu.Unlock()
		if some {
			return
		}
		require.True(t, time.Now().Before(deadline), "nobody subscribes %s", channel)
	}
}

// command is one command and the calls of its script.
type command struct {
	at    float64 // seconds
	args  []string
	calls [][]string
}

func (c command) isNoise() bool {
	return slices.Contains(noise, c.args[0]) ||
		slices.ContainsFunc(c.args, func(arg string) bool { return strings.Contains(arg, warming) })
}

func (c command) subscribes() bool { return c.args[0] == "SUBSCRIBE" || c.args[0] == "SSUBSCRIBE" }
func (c command) runsScript() bool { return c.args[0] == "EVALSHA" || c.args[0] == "EVAL" }

// again reports whether other is c with the text of the script.
func (c command) again(other command) bool {
	return other.args[0] == "EVAL" && len(other.calls) > 0 && slices.Equal(c.args[2:], other.args[2:])
}

// kept returns the calls without one that depends on a millisecond: where a waiter is in the queue
// already, the queue's time to live is lengthened if it is shorter by one.
func (c command) kept() (calls [][]string) {
	joins := slices.ContainsFunc(c.calls, func(call []string) bool { return call[0] == "ZADD" })
	for i, call := range c.calls {
		switch {
		case joins || len(call) < 2 || !strings.HasPrefix(call[1], "relock_queue:"):
			calls = append(calls, call)
		case call[0] == "PTTL":
			calls = append(calls, []string{"KEEP", call[1]})
		case call[0] == "PEXPIRE" && i > 0 && c.calls[i-1][0] == "PTTL":
		default:
			calls = append(calls, call)
		}
	}
	return calls
}

// rounded is a call with its time to live rounded, where that is what was left of one that had
// begun.
func (c command) rounded(before, call []string) []string {
	if call[0] != "PEXPIRE" || before == nil || before[0] != "PTTL" {
		return call
	}
	ttl, _ := strconv.Atoi(call[2])
	asked := slices.ContainsFunc(c.args[2:], func(arg string) bool {
		n, err := strconv.Atoi(arg)
		return err == nil && (n == ttl || 4*n == ttl)
	})
	if asked || ttl <= 10 {
		return call
	}
	return []string{call[0], call[1], fmt.Sprintf("about-%d", 10000*int64(math.Round(float64(ttl)/10000)))}
}

// noise is what client libraries send for themselves, what comes when a client ends, and what is
// asked beside while channels are subscribed. A script's calls are never noise.
var noise = []string{
	"HELLO", "CLIENT", "PING", "SELECT", "READONLY", "CLUSTER", "COMMAND", "REPLCONF", "QUIT", "RESET", "DISCARD",
	"UNSUBSCRIBE", "SUNSUBSCRIBE", "PUNSUBSCRIBE", "PUBSUB",
}

func listen(t *attempt, s *redistest.Server) *tap {
	tp := &tap{s: s, labels: make(map[string]string)}
	conn, err := net.Dial("tcp", s.Addr())
	require.NoError(t, err)
	done := make(chan struct{})
	t.Cleanup(func() { conn.Close(); <-done })
	_, err = conn.Write([]byte("MONITOR\r\n"))
	require.NoError(t, err)
	r := bufio.NewReader(conn)
	ok, err := r.ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, "+OK\r\n", ok)
	go func() {
		defer close(done)
		tp.follow(r)
	}()
	return tp
}

var monitored = regexp.MustCompile(`^\+(\d+\.\d+) \[\d+ ([^]]+)\] (.*)\r\n$`)

var (
	drawn   = regexp.MustCompile(`\b([A-Z]:\d+)\d{16}\b`) // what of an acquisition id is random
	moment  = regexp.MustCompile(`\b1\d{15}\b`)           // microseconds, until 2033
	instant = regexp.MustCompile(`\b1\d{12}\b`)           // milliseconds
	runID   = regexp.MustCompile(`\b[0-9a-f]{40}\b`)
	plain   = regexp.MustCompile(`^[!#-~]+$`)
	granted = regexp.MustCompile(`^(1\d{15}):(\d+)`)
)
