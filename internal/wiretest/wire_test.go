// Package wiretest holds what clients send, and what scripts do, to its recordings in testdata/wire. It is tests alone,
// through the public API.
package wiretest

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"math"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

// TestWireStays plays scenes through the public API and compares every command that reaches each
// Redis, and every call inside a script, with what was recorded in testdata/wire. RELOCK_RECORD=1
// records anew: the change of those files is then the change of the wire, which docs/wire.md and
// the other programs on the same Redis have to know of.
//
// A scene has no two contenders that race, and no more than it says happens in it: leases are long,
// so nothing is renewed or polled meanwhile. A step ends when all has come that was recorded for
// it. A scene that differs is played again, twice at most, on new servers: a machine that stood
// still for seconds does not do so thrice, a changed wire differs each time.
func TestWireStays(t *testing.T) {
	asRecorded(t)
	differing := 0
	for _, sc := range slices.Concat(oneRedis, quorums, clusters) {
		t.Run(sc.name, func(t *testing.T) {
			tries := 3
			if differing >= 3 {
				tries = 1 // the wire has changed, and that need not take long
			}
			if why := sc.play(t, tries); why != "" {
				differing++
				t.Errorf("%s\n\nIf the wire is meant to change, record it anew with RELOCK_RECORD=1.", why)
			}
		})
	}
}

// asRecorded skips the test where the server is not of the kind that the scenes were recorded with:
// scripts ask for what a server has, and servers tell their calls in different ways.
func asRecorded(t *testing.T) {
	t.Helper()
	if major, _, valkey := redistest.Start(t).Version(); major != 7 || valkey {
		t.Skip("the wire was recorded with Redis 7")
	}
}

// recording says that the scenes are to be recorded, not compared.
var recording = os.Getenv("RELOCK_RECORD") != ""

// scene is a play on one or more Redis servers.
type scene struct {
	name  string
	nodes int
	args  []string // of the servers
	acts  func(*wireStage)
}

// play returns how the scene differs from the recorded one, each of so many times; "" when it does
// not.
func (sc scene) play(t *testing.T, tries int) (why string) {
	path := filepath.Join("testdata", "wire", sc.name+".txt")
	for try := range tries {
		at := &attempt{T: t}
		w := &wireStage{t: at, names: make(map[string]string)}
		if !recording {
			w.recorded = readAct(t, path)
		}
		if why = at.run(func() { w.open(sc); sc.acts(w); w.end() }); why == "" {
			if recording {
				require.NoError(t, os.WriteFile(path, []byte(w.played.String()), 0o644))
			}
			return ""
		}
		t.Logf("try %d: %s", try+1, why)
	}
	return why
}

// attempt is a T whose failure does not fail the test yet. Its cleanups are its own.
type attempt struct {
	*testing.T
	mu       sync.Mutex
	failure  string
	cleanups []func()
}

func (a *attempt) run(f func()) string {
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() {
			for _, clean := range slices.Backward(a.cleanups) {
				clean()
			}
		}()
		f()
	}()
	<-done
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.failure
}

func (a *attempt) Cleanup(f func()) { a.cleanups = append(a.cleanups, f) }
func (a *attempt) FailNow()         { runtime.Goexit() }

func (a *attempt) Errorf(format string, args ...any) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.failure == "" {
		a.failure = fmt.Sprintf(format, args...)
	}
}

func (a *attempt) Fatalf(format string, args ...any) {
	a.Errorf(format, args...)
	a.FailNow()
}

// act is what a scene sends, step by step.
type act []step

// step is what was sent in one step of a scene, to each node.
type step struct {
	title string
	nodes []part
}

// part is what came to one node: commands, each with the calls of its script, in their order, and
// beside them the channels that were subscribed, which happens in the background.
type part struct {
	commands   []string
	subscribed []string
}

func (a act) String() string {
	var b strings.Builder
	for _, st := range a {
		fmt.Fprintf(&b, "== %s\n", st.title)
		for i, p := range st.nodes {
			fmt.Fprintf(&b, "-- node %d\n%s", i+1, p)
		}
	}
	return b.String()
}

func (p part) String() string {
	return strings.Join(p.commands, "") + strings.Join(p.subscribed, "")
}

// readAct reads what String has written.
func readAct(t *testing.T, path string) (a act) {
	t.Helper()
	text, err := os.ReadFile(path)
	require.NoError(t, err, "record the scene with RELOCK_RECORD=1")
	for line := range strings.Lines(string(text)) {
		title, isStep := strings.CutPrefix(line, "== ")
		switch {
		case isStep:
			a = append(a, step{title: strings.TrimSpace(title)})
			continue
		case strings.HasPrefix(line, "-- "):
			last := &a[len(a)-1]
			last.nodes = append(last.nodes, part{})
			continue
		}
		nodes := a[len(a)-1].nodes
		p := &nodes[len(nodes)-1]
		switch {
		case isSubscription(line):
			p.subscribed = append(p.subscribed, line)
		case strings.HasPrefix(line, " "):
			p.commands[len(p.commands)-1] += line
		default:
			p.commands = append(p.commands, line)
		}
	}
	return a
}

func isSubscription(line string) bool {
	return strings.HasPrefix(line, "SUBSCRIBE ") || strings.HasPrefix(line, "SSUBSCRIBE ")
}

// wireStage is where a scene is played once.
type wireStage struct {
	t        *attempt
	servers  []*redistest.Server
	taps     []*tap
	names    map[string]string // client uuids and what they are called
	recorded act
	played   act
}

func (w *wireStage) open(sc scene) {
	for range sc.nodes {
		w.servers = append(w.servers, redistest.Start(w.t, sc.args...))
	}
	if slices.Contains(sc.args, "--cluster-enabled") {
		w.servers[0].Do("CLUSTER", "ADDSLOTSRANGE", "0", "16383")
		require.Eventually(w.t, func() bool {
			return strings.Contains(w.servers[0].Do("CLUSTER", "INFO"), "cluster_state:ok")
		}, longest, time.Millisecond)
	}
	for _, s := range w.servers {
		w.taps = append(w.taps, listen(w.t, s))
	}
}

// longest is how long is waited for what was recorded and does not come.
const longest = 5 * time.Second

// apart is the pause between two steps. Some calls depend on whether the server's clock has moved
// since the last ones: a time to live is lengthened if it is shorter by a millisecond.
const apart = 3 * time.Millisecond

// step plays one step and compares what it sends with what was recorded.
func (w *wireStage) step(title string, f func()) { w.stepUpTo(math.MaxInt, title, f) }

// stepUpTo is a step of which only the first commands at each node count. It is the last one of its
// scene.
func (w *wireStage) stepUpTo(most int, title string, f func()) {
	f()
	at := len(w.played)
	var want step
	if !recording {
		if at == len(w.recorded) || w.recorded[at].title != title {
			w.t.Fatalf("no step %q was recorded as number %d", title, at+1)
		}
		want = w.recorded[at]
		w.await(want)
	} else {
		w.awaitQuiet()
	}
	got := step{title: title}
	for i, tp := range w.taps {
		p := tp.take(w.t, w.names)
		if most < math.MaxInt {
			if !recording {
				most = len(want.nodes[i].commands)
			}
			p.commands = p.commands[:min(most, len(p.commands))]
		}
		got.nodes = append(got.nodes, p)
	}
	w.played = append(w.played, got)
	if !recording {
		require.Equal(w.t, act{want}.String(), act{got}.String())
	}
	time.Sleep(apart)
}

// end tells that the scene is over: nothing may be left of what was recorded.
func (w *wireStage) end() {
	if !recording {
		require.Len(w.t, w.recorded, len(w.played), "steps")
	}
}

// await returns when as much has come as was recorded, or it does not come.
func (w *wireStage) await(want step) {
	deadline := time.Now().Add(longest)
	for i, tp := range w.taps {
		for came := false; !came && time.Now().Before(deadline); time.Sleep(100 * time.Microsecond) {
			commands, channels := tp.count()
			came = commands >= len(want.nodes[i].commands) && channels >= len(want.nodes[i].subscribed)
		}
	}
}

// awaitQuiet returns when nothing has come for a while. Only who records can know that this is all.
func (w *wireStage) awaitQuiet() {
	for last, since := -1, time.Now(); time.Since(since) < 200*time.Millisecond; time.Sleep(time.Millisecond) {
		n := 0
		for _, tp := range w.taps {
			commands, channels := tp.count()
			n += commands + channels
		}
		if n != last {
			last, since = n, time.Now()
		}
	}
}

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

// command is one command and the calls of its script.
type command struct {
	at    float64 // seconds
	args  []string
	calls [][]string
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

var monitored = regexp.MustCompile(`^\+(\d+\.\d+) \[\d+ ([^]]+)\] (.*)\r\n$`)

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

func (c command) isNoise() bool {
	return slices.Contains(noise, c.args[0]) ||
		slices.ContainsFunc(c.args, func(arg string) bool { return strings.Contains(arg, warming) })
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

func (c command) subscribes() bool { return c.args[0] == "SUBSCRIBE" || c.args[0] == "SSUBSCRIBE" }
func (c command) runsScript() bool { return c.args[0] == "EVALSHA" || c.args[0] == "EVAL" }

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

// again reports whether other is c with the text of the script.
func (c command) again(other command) bool {
	return other.args[0] == "EVAL" && len(other.calls) > 0 && slices.Equal(c.args[2:], other.args[2:])
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

var (
	drawn   = regexp.MustCompile(`\b([A-Z]:\d+)\d{16}\b`) // what of an acquisition id is random
	moment  = regexp.MustCompile(`\b1\d{15}\b`)           // microseconds, until 2033
	instant = regexp.MustCompile(`\b1\d{12}\b`)           // milliseconds
	runID   = regexp.MustCompile(`\b[0-9a-f]{40}\b`)
	plain   = regexp.MustCompile(`^[!#-~]+$`)
	granted = regexp.MustCompile(`^(1\d{15}):(\d+)`)
)

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

// client returns a client of all the scene's nodes, which hears its inbox. Clients are called A, B
// and so on, as they are made.
func (w *wireStage) client(opts ...relock.Option) *relock.Client {
	c, heard := w.cold(opts...)
	w.begins(c, heard)
	return c
}

// cold returns a client that has sent nothing.
func (w *wireStage) cold(opts ...relock.Option) (c *relock.Client, heard signal) {
	heard = make(signal, 16)
	opts = append(opts, relock.WithLogger(slog.New(slog.NewTextHandler(heard, nil))))
	var err error
	if len(w.servers) == 1 {
		c, err = relock.New(w.servers[0].Client(), opts...)
	} else {
		var nodes []rueidis.Client
		for _, s := range w.servers {
			nodes = append(nodes, s.Client())
		}
		c, err = relock.NewRedlock(nodes, opts...)
	}
	return w.name(c, err), heard
}

// warming is in the names of locks whose commands do not count.
const warming = "warming"

// signal has a line for each that a client logs, up to its size.
type signal chan string

func (s signal) Write(line []byte) (int, error) {
	select {
	case s <- string(line):
	default:
	}
	return len(line), nil
}

// begins is a step after which c's inbox is subscribed at every node, and c knows it. A client asks
// again for what it holds or waits for when the subscription is confirmed, and when that is, is
// chance. A message that nobody can have sent shows that it was: the client logs that it skipped
// it.
func (w *wireStage) begins(c *relock.Client, heard signal) {
	name := w.names[c.ID()]
	w.step(name+" begins", func() {
		l, err := c.Mutex(warming + name).Lock(w.t.Context())
		require.NoError(w.t, err)
		require.NoError(w.t, l.Unlock(w.t.Context()))
		for _, tp := range w.taps {
			tp.awaits(w.t, "relock_inbox:"+c.ID())
			tp.s.Do("PUBLISH", "relock_inbox:"+c.ID(), "nonsense")
			select {
			case line := <-heard:
				require.Contains(w.t, line, "relock_inbox")
			case <-time.After(longest):
				w.t.Fatalf("%s does not hear its inbox", name)
			}
		}
	})
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

// sharder returns a client of a Cluster.
func (w *wireStage) sharder(opts ...relock.Option) *relock.Client {
	option := w.servers[0].Option()
	option.ForceSingleClient = false
	rdb, err := redistest.Open(option)
	require.NoError(w.t, err)
	w.t.Cleanup(rdb.Close)
	require.Equal(w.t, rueidis.ClientModeCluster, rdb.Mode())
	c, err := relock.New(rdb, opts...)
	return w.name(c, err)
}

func (w *wireStage) name(c *relock.Client, err error) *relock.Client {
	require.NoError(w.t, err)
	w.t.Cleanup(c.Close)
	w.names[c.ID()] = string(rune('A' + len(w.names)))
	return c
}

// sends is a step of the scene itself: a command to every node, as another program sends it.
func (w *wireStage) sends(args ...string) {
	w.step("sent: "+strings.Join(args, " "), func() {
		for _, s := range w.servers {
			s.Do(args...)
		}
	})
}

// locks is a step in which m is locked at once.
func (w *wireStage) locks(title string, m *relock.Mutex) (l *relock.Lease) {
	return w.locksUnder(w.t.Context(), title, m)
}

func (w *wireStage) locksUnder(ctx context.Context, title string, m *relock.Mutex) (l *relock.Lease) {
	w.step(title, func() {
		var err error
		l, err = m.Lock(ctx)
		require.NoError(w.t, err)
	})
	return l
}

func (w *wireStage) unlocks(title string, l *relock.Lease) {
	w.step(title, func() { require.NoError(w.t, l.Unlock(w.t.Context())) })
}

func (w *wireStage) busy(title string, m *relock.Mutex) {
	w.step(title, func() {
		_, err := m.TryLock(w.t.Context())
		require.ErrorIs(w.t, err, relock.ErrNotAcquired)
	})
}

// pending is a Lock that waits.
type pending struct {
	w      *wireStage
	cancel context.CancelFunc
	lease  *relock.Lease
	err    error
	done   chan struct{}
}

// waits is a step that begins with a Lock and ends when it has nothing left to send but what the
// lock's end makes it.
func (w *wireStage) waits(title string, m *relock.Mutex) (p *pending) {
	w.step(title, func() { p = w.begin(w.t.Context(), m) })
	return p
}

func (w *wireStage) begin(ctx context.Context, m *relock.Mutex) *pending {
	p := &pending{w: w, done: make(chan struct{})}
	ctx, p.cancel = context.WithCancel(ctx)
	w.t.Cleanup(p.cancel)
	go p.run(ctx, m)
	return p
}

func (p *pending) run(ctx context.Context, m *relock.Mutex) {
	defer close(p.done)
	p.lease, p.err = m.Lock(ctx)
}

// parks waits like waits for a Lock that sends nothing, since another of the same process comes
// first. That it has come so far shows in its goroutine alone.
func (w *wireStage) parks(title string, m *relock.Mutex) (p *pending) {
	w.step(title, func() {
		p = w.begin(w.t.Context(), m)
		deadline := time.Now().Add(longest)
		for !parked() {
			require.True(w.t, time.Now().Before(deadline), "the Lock does not wait")
			time.Sleep(time.Millisecond)
		}
	})
	return p
}

var running = regexp.MustCompile(`(?s)goroutine \d+ [^\n]*\[([^\],]*)[^\n]*:\n.*wiretest\.\(\*pending\)\.run\(`)

// parked reports whether every Lock of a pending waits for a channel.
func parked() bool {
	stacks := make([]byte, 1<<20)
	some := false
	for stack := range bytes.SplitSeq(stacks[:runtime.Stack(stacks, true)], []byte("\n\n")) {
		if found := running.FindSubmatch(stack); found != nil {
			some = true
			if state := string(found[1]); state != "select" && state != "chan receive" {
				return false
			}
		}
	}
	return some
}

// gets returns the lease that the Lock ended with.
func (p *pending) gets() *relock.Lease {
	select {
	case <-p.done:
	case <-time.After(longest):
		p.w.t.Fatalf("the Lock does not end")
	}
	require.NoError(p.w.t, p.err)
	return p.lease
}

// passes is a step in which the lock goes from its holder to who waits.
func (w *wireStage) passes(title string, l *relock.Lease, to *pending) (next *relock.Lease) {
	w.step(title, func() {
		require.NoError(w.t, l.Unlock(w.t.Context()))
		next = to.gets()
	})
	return next
}

// hears is a step in which somebody who is no client subscribes a channel.
func (w *wireStage) hears(channel string) {
	w.step("somebody hears "+channel, func() {
		conn, err := net.Dial("tcp", w.servers[0].Addr())
		require.NoError(w.t, err)
		w.t.Cleanup(func() { conn.Close() })
		_, err = conn.Write([]byte("SUBSCRIBE " + channel + "\r\n"))
		require.NoError(w.t, err)
	})
}

// far is a fencing counter so far ahead that no clock takes part in what is counted from it.
const far = "8000000000000000"

func (w *wireStage) counted() { w.sends("SET", "redisson_lock_token:{orders}", far) }

// oneRedis are the scenes on a single Redis.
var oneRedis = []scene{
	{name: "lock", nodes: 1, acts: func(w *wireStage) {
		m := w.client().Mutex("orders")
		l := w.locks("A locks", m)
		w.unlocks("A unlocks", l)
		w.unlocks("A unlocks again", w.locks("A locks again", m))
	}},
	{name: "lock-counted", nodes: 1, acts: func(w *wireStage) {
		m := w.client().Mutex("orders")
		w.counted()
		w.unlocks("A unlocks", w.locks("A locks", m))
		w.unlocks("A unlocks again", w.locks("A locks again", m))
	}},
	{name: "re-entry", nodes: 1, acts: func(w *wireStage) { reentersOn(w, w.client()) }},
	{name: "re-entry-lost", nodes: 1, acts: func(w *wireStage) {
		m := w.client().Mutex("orders")
		l := w.locks("A locks", m)
		w.sends("DEL", "orders")
		w.step("A re-enters", func() {
			_, err := m.Lock(l.Context())
			require.ErrorIs(w.t, err, relock.ErrLost)
		})
	}},
	{name: "try-lock", nodes: 1, acts: func(w *wireStage) {
		a, b := w.client(), w.client()
		var l *relock.Lease
		w.step("A tries", func() {
			var err error
			l, err = a.Mutex("orders").TryLock(w.t.Context())
			require.NoError(w.t, err)
		})
		w.busy("B tries", b.Mutex("orders"))
		w.busy("B tries again", b.Mutex("orders"))
		w.unlocks("A unlocks", l)
	}},
	{name: "hand-over", nodes: 1, acts: func(w *wireStage) { handsOver(w, w.client(), w.client()) }},
	{name: "queue-of-three", nodes: 1, acts: func(w *wireStage) {
		a, b, c := w.client(), w.client(), w.client()
		l := w.locks("A locks", a.Mutex("orders"))
		second := w.waits("B waits", b.Mutex("orders"))
		third := w.waits("C waits", c.Mutex("orders"))
		l = w.passes("A unlocks", l, second)
		l = w.passes("B unlocks", l, third)
		w.unlocks("C unlocks", l)
	}},
	{name: "no-overtaking", nodes: 1, acts: func(w *wireStage) {
		a, b, c := w.client(), w.client(), w.client()
		l := w.locks("A locks", a.Mutex("orders"))
		second := w.waits("B waits", b.Mutex("orders"))
		w.busy("C tries", c.Mutex("orders"))
		w.busy("A tries", a.Mutex("orders"))
		w.unlocks("B unlocks", w.passes("A unlocks", l, second))
	}},
	{name: "queue-member-is-gone", nodes: 1, acts: func(w *wireStage) {
		a, b := w.client(), w.client()
		l := w.locks("A locks", a.Mutex("orders"))
		w.sends("ZADD", "relock_queue:{orders}", "5", "30000:256:11111111-2222-3333-4444-555555555555:1:")
		w.sends("ZADD", "relock_queue:{orders}", "6", "what is this")
		next := w.waits("B waits", b.Mutex("orders"))
		w.unlocks("B unlocks", w.passes("A unlocks", l, next))
	}},
	{name: "older-client-waits", nodes: 1, acts: func(w *wireStage) {
		l := w.locks("A locks", w.client().Mutex("orders"))
		w.hears("relock_inbox:old")
		w.sends("ZADD", "relock_queue:{orders}", "5", "30000:64:old:1")
		w.unlocks("A unlocks", l)
	}},
	{name: "redisson-holds", nodes: 1, acts: func(w *wireStage) {
		m := w.client().Mutex("orders")
		w.sends("HSET", "orders", "11111111-2222-3333-4444-555555555555:1", "1")
		w.sends("PEXPIRE", "orders", "60000")
		w.busy("A tries", m)
		p := w.waits("A waits", m)
		w.sends("DEL", "orders")
		var l *relock.Lease
		w.step("Redisson unlocks", func() {
			w.servers[0].Do("PUBLISH", "redisson_lock__channel:{orders}", "0")
			l = p.gets()
		})
		w.unlocks("A unlocks", l)
	}},
	{name: "extend", nodes: 1, acts: func(w *wireStage) { extendsOn(w, w.client()) }},
	{name: "fixed-lease", nodes: 1, acts: func(w *wireStage) {
		m := w.client().Mutex("orders", relock.WithFixedLease(10*time.Second))
		l := w.locks("A locks", m)
		inner := w.locksUnder(l.Context(), "A re-enters", m)
		w.unlocks("A unlocks the inner one", inner)
		w.unlocks("A unlocks", l)
	}},
	{name: "fixed-lease-long", nodes: 1, acts: func(w *wireStage) {
		m := w.client().Mutex("orders", relock.WithFixedLease(time.Minute))
		l := w.locks("A locks", m)
		inner := w.locksUnder(l.Context(), "A re-enters", m)
		w.unlocks("A unlocks the inner one", inner)
		w.unlocks("A unlocks", l)
	}},
	{name: "max-hold", nodes: 1, acts: func(w *wireStage) {
		a := w.client()
		w.unlocks("A unlocks", w.locks("A locks for a minute", a.Mutex("orders", relock.WithMaxHold(time.Minute))))
		short := a.Mutex("orders", relock.WithMaxHold(10*time.Second))
		w.unlocks("A unlocks again", w.locks("A locks for ten seconds", short))
	}},
	{name: "owner", nodes: 1, acts: func(w *wireStage) { sharesOwner(w, w.client(), w.client()) }},
	{name: "owner-queues", nodes: 1, acts: func(w *wireStage) {
		a, b := w.client(), w.client()
		l := w.locks("A locks", a.Mutex("orders"))
		var p *pending
		w.step("B waits as the owner job", func() { p = w.begin(relock.WithOwner(w.t.Context(), "job"), b.Mutex("orders")) })
		w.stepUpTo(1, "A unlocks", func() {
			require.NoError(w.t, l.Unlock(w.t.Context()))
			p.gets()
		})
	}},
	{name: "force-unlock", nodes: 1, acts: func(w *wireStage) {
		a, b := w.client(), w.client()
		w.locks("A locks", a.Mutex("orders"))
		w.forces("B forces", b.Mutex("orders"), true)
		w.forces("B forces the free lock", b.Mutex("orders"), false)
	}},
	{name: "force-unlock-waiter", nodes: 1, acts: func(w *wireStage) {
		a, b, c := w.client(), w.client(), w.client()
		w.locks("A locks", a.Mutex("orders"))
		p := w.waits("B waits", b.Mutex("orders"))
		w.forces("C forces", c.Mutex("orders"), true)
		w.unlocks("B unlocks", p.gets())
	}},
	{name: "redisson-waits", nodes: 1, acts: func(w *wireStage) {
		l := w.locks("A locks", w.client().Mutex("orders"))
		w.hears("redisson_lock__channel:{orders}")
		w.unlocks("A unlocks", l)
	}},
	{name: "redisson-waits-before-relock", nodes: 1, acts: func(w *wireStage) {
		a, b := w.client(), w.client()
		l := w.locks("A locks", a.Mutex("orders"))
		w.waits("B waits", b.Mutex("orders"))
		w.hears("redisson_lock__channel:{orders}")
		w.stepUpTo(1, "A unlocks", func() { require.NoError(w.t, l.Unlock(w.t.Context())) })
	}},
	{name: "local-hand-off", nodes: 1, acts: func(w *wireStage) {
		passesOn(w, w.client(relock.WithLocalHandoff(16, time.Hour)))
	}},
	{name: "local-hand-off-never", nodes: 1, acts: func(w *wireStage) {
		passesOn(w, w.client(relock.WithLocalHandoff(1, 0)))
	}},
	{name: "release-queues-next", nodes: 1, acts: func(w *wireStage) {
		a, b := w.client(relock.WithLocalHandoff(1, 0)), w.client()
		l := w.locks("A locks", a.Mutex("orders"))
		behind := w.parks("A waits behind it", a.Mutex("orders"))
		other := w.waits("B waits", b.Mutex("orders"))
		l = w.passes("A unlocks", l, other)
		l = w.passes("B unlocks", l, behind)
		w.unlocks("A unlocks again", l)
	}},
	{name: "close-held", nodes: 1, acts: func(w *wireStage) {
		a, b := w.client(), w.client()
		w.locks("A locks", a.Mutex("orders"))
		w.step("A closes", a.Close)
		w.busy("B tries", b.Mutex("orders"))
	}},
	{name: "prefix", nodes: 1, acts: func(w *wireStage) {
		handsOver(w, w.client(relock.WithNamePrefix("app:")), w.client(relock.WithNamePrefix("app:")))
	}},
	{name: "hash-tag", nodes: 1, acts: func(w *wireStage) {
		w.unlocks("A unlocks", w.locks("A locks", w.client().Mutex("a{7}b")))
	}},
	{name: "unlock-twice", nodes: 1, acts: unlocksTwice},
	{name: "unlock-lost", nodes: 1, acts: func(w *wireStage) {
		l := w.locks("A locks", w.client().Mutex("orders"))
		w.sends("DEL", "orders")
		w.step("A unlocks", func() { require.ErrorIs(w.t, l.Unlock(w.t.Context()), relock.ErrLost) })
	}},
	{name: "gives-up", nodes: 1, acts: func(w *wireStage) { givesUp(w, w.client(), w.client()) }},
	{name: "detach", nodes: 1, acts: func(w *wireStage) {
		m := w.client().Mutex("orders")
		l := w.locks("A locks", m)
		w.step("A tries without its lease", func() {
			_, err := m.TryLock(relock.Detach(l.Context()))
			require.ErrorIs(w.t, err, relock.ErrNotAcquired)
		})
	}},
	{name: "state", nodes: 1, acts: func(w *wireStage) { tellsState(w, w.client(), w.client()) }},
	{name: "renewal", nodes: 1, acts: func(w *wireStage) {
		a := w.client(relock.WithLease(3 * time.Second))
		w.step("A locks three", func() {
			for _, name := range []string{"one", "two", "three"} {
				_, err := a.Mutex(name).TryLock(w.t.Context())
				require.NoError(w.t, err)
			}
		})
		w.renews(1)
	}},
	{name: "retention", nodes: 1, acts: func(w *wireStage) {
		w.unlocks("A unlocks", w.locks("A locks", w.client(relock.WithTokenRetention(0)).Mutex("orders")))
	}},
	{name: "wrong-type", nodes: 1, acts: func(w *wireStage) {
		w.sends("SET", "orders", "text")
		w.step("A tries", func() {
			_, err := w.client().Mutex("orders").TryLock(w.t.Context())
			require.ErrorContains(w.t, err, "WRONGTYPE")
		})
	}},
}

// quorums are the scenes on the nodes of a quorum. Which two of three nodes answer first is chance:
// so all count alike from the start, or all must answer.
var quorums = []scene{
	{name: "quorum-fresh", nodes: 3, acts: func(w *wireStage) {
		w.counted()
		m := w.client().Mutex("orders")
		l := w.locks("A locks", m)
		w.unlocks("A unlocks", l)
		w.unlocks("A unlocks again", w.locks("A locks again", m))
	}},
	{name: "quorum-unguarded", nodes: 3, acts: func(w *wireStage) {
		m := w.counting().Mutex("orders")
		w.unlocks("A unlocks", w.locks("A locks", m))
		w.unlocks("A unlocks again", w.locks("A locks again", m))
	}},
	{name: "quorum-initialize", nodes: 3, acts: func(w *wireStage) {
		w.counted()
		a, heard := w.cold(relock.WithRestartGuard(relock.GuardStrict, time.Minute))
		w.step("A initializes", func() { require.NoError(w.t, a.Initialize(w.t.Context())) })
		w.begins(a, heard)
		w.unlocks("A unlocks", w.locks("A locks", a.Mutex("orders")))
	}},
	{name: "quorum-re-entry", nodes: 3, acts: func(w *wireStage) { reentersOn(w, w.counting()) }},
	{name: "quorum-extend", nodes: 3, acts: func(w *wireStage) { extendsOn(w, w.counting()) }},
	{name: "quorum-fixed-lease", nodes: 3, acts: func(w *wireStage) {
		w.unlocks("A unlocks", w.locks("A locks", w.counting().Mutex("orders", relock.WithFixedLease(time.Minute))))
	}},
	{name: "quorum-state", nodes: 3, acts: func(w *wireStage) {
		m := w.counting().Mutex("orders")
		w.states("A asks for the free lock", m, false)
		w.locks("A locks", m)
		w.states("A asks", m, true)
	}},
	{name: "quorum-force-unlock", nodes: 3, acts: func(w *wireStage) {
		m := w.counting().Mutex("orders")
		w.forces("A forces the free lock", m, false)
		w.sends("HSET", "orders", "11111111-2222-3333-4444-555555555555:1", "1")
		w.forces("A forces", m, true)
	}},
	{name: "quorum-write-back", nodes: 3, acts: func(w *wireStage) {
		w.step("nodes count apart", func() {
			for i, s := range w.servers {
				s.Do("SET", "redisson_lock_token:{orders}", "80000000000000"+strconv.Itoa(i)+"0")
			}
		})
		m := w.client(unguarded, relock.WithQuorum(3), relock.WithLocalHandoff(4, 0)).Mutex("orders")
		w.unlocks("A unlocks", w.locks("A locks", m))
	}},
	{name: "quorum-prefix", nodes: 3, acts: func(w *wireStage) {
		w.sends("SET", "redisson_lock_token:{app:orders}", far)
		m := w.client(unguarded, relock.WithNamePrefix("app:")).Mutex("orders")
		w.unlocks("A unlocks", w.locks("A locks", m))
	}},
	{name: "quorum-local-hand-off", nodes: 3, acts: func(w *wireStage) {
		w.counted()
		passesOn(w, w.client(unguarded, relock.WithLocalHandoff(16, time.Hour)))
	}},
	{name: "quorum-local-hand-off-never", nodes: 3, acts: func(w *wireStage) {
		w.counted()
		passesOn(w, w.client(unguarded, relock.WithLocalHandoff(1, 0)))
	}},
	{name: "quorum-unlock-twice", nodes: 3, acts: func(w *wireStage) {
		l := w.locks("A locks", w.counting().Mutex("orders"))
		w.unlocks("A unlocks", l)
		w.step("A unlocks again", func() { require.ErrorIs(w.t, l.Unlock(w.t.Context()), relock.ErrNotHeld) })
	}},
	{name: "quorum-close-held", nodes: 3, acts: func(w *wireStage) {
		a := w.counting()
		w.locks("A locks", a.Mutex("orders"))
		w.step("A closes", a.Close)
	}},
	{name: "quorum-one-forgot", nodes: 3, acts: func(w *wireStage) {
		l := w.locks("A locks", w.counting().Mutex("orders"))
		w.step("node 2 forgets", func() { w.servers[1].Do("DEL", "orders") })
		w.unlocks("A unlocks", l)
	}},
	{name: "quorum-renewal", nodes: 3, acts: func(w *wireStage) {
		a := w.counting(relock.WithLease(3*time.Second), relock.WithCommandTimeout(time.Second))
		w.locks("A locks", a.Mutex("orders"))
		w.renews(1)
	}},
	{name: "guarded", nodes: 1, acts: func(w *wireStage) {
		handsOver(w, w.client(relock.WithRestartGuard(relock.GuardAuto, time.Minute)),
			w.client(relock.WithRestartGuard(relock.GuardAuto, time.Minute)))
	}},
	{name: "guarded-gives-up", nodes: 1, acts: func(w *wireStage) {
		givesUp(w, w.client(relock.WithRestartGuard(relock.GuardAuto, time.Minute)),
			w.client(relock.WithRestartGuard(relock.GuardAuto, time.Minute)))
	}},
	{name: "guarded-force-unlock", nodes: 1, acts: func(w *wireStage) {
		a := w.client(relock.WithRestartGuard(relock.GuardAuto, time.Minute))
		w.locks("A locks", a.Mutex("orders"))
		b := w.client(relock.WithRestartGuard(relock.GuardAuto, time.Minute))
		w.forces("B forces", b.Mutex("orders"), true)
	}},
	{name: "guarded-quarantine", nodes: 1, acts: func(w *wireStage) {
		a, _ := w.cold(relock.WithRestartGuard(relock.GuardStrict, time.Minute))
		w.step("A tries", func() {
			_, err := a.Mutex("orders").TryLock(w.t.Context())
			require.ErrorContains(w.t, err, "QUARANTINED")
		})
	}},
}

// clusters is the scene on a Cluster, of one node that serves all slots. It takes seconds until a
// Cluster serves them.
var clusters = []scene{{name: "cluster", nodes: 1, args: clustered, acts: func(w *wireStage) {
	reentersOn(w, w.sharder())
	handsOver(w, w.sharder(), w.sharder())
	givesUp(w, w.sharder(), w.sharder())
	sharesOwner(w, w.sharder(), w.sharder())
	w.sends("HSET", "orders", "11111111-2222-3333-4444-555555555555:1", "1")
	w.forces("the lock is forced open", w.sharder().Mutex("orders"), true)
	plain := w.sharder(relock.WithPubSub(relock.PubSubPlain)).Mutex("orders")
	w.unlocks("it is unlocked", w.locks("it is locked with plain channels", plain))
}}}

var clustered = []string{"--cluster-enabled", "yes", "--cluster-announce-ip", "127.0.0.1"}

var unguarded = relock.WithRestartGuard(relock.GuardOff, 0)

// counting returns an unguarded client of nodes that count alike.
func (w *wireStage) counting(opts ...relock.Option) *relock.Client {
	w.counted()
	return w.client(append(opts, unguarded)...)
}

func reentersOn(w *wireStage, a *relock.Client) {
	m := a.Mutex("orders")
	outer := w.locks("A locks", m)
	inner := w.locksUnder(outer.Context(), "A re-enters", m)
	third := w.locksUnder(inner.Context(), "A re-enters again", m)
	w.unlocks("A unlocks the third", third)
	w.unlocks("A unlocks the second", inner)
	w.unlocks("A unlocks", outer)
}

func handsOver(w *wireStage, a, b *relock.Client) {
	l := w.locks("A locks", a.Mutex("orders"))
	p := w.waits("B waits", b.Mutex("orders"))
	l = w.passes("A unlocks", l, p)
	w.unlocks("B unlocks", l)
}

func extendsOn(w *wireStage, a *relock.Client) {
	m := a.Mutex("orders")
	l := w.locks("A locks", m)
	for _, d := range []time.Duration{time.Minute, 10 * time.Second} {
		w.step("A extends to "+d.String(), func() { require.NoError(w.t, l.Extend(w.t.Context(), d)) })
	}
	inner := w.locksUnder(l.Context(), "A re-enters", m)
	w.unlocks("A unlocks the inner one", inner)
	w.unlocks("A unlocks", l)
}

func sharesOwner(w *wireStage, a, b *relock.Client) {
	job := relock.WithOwner(w.t.Context(), "job")
	first := w.locksUnder(job, "A locks as the owner job", a.Mutex("orders"))
	second := w.locksUnder(job, "B locks as the owner job", b.Mutex("orders"))
	w.unlocks("A unlocks", first)
	w.unlocks("B unlocks", second)
}

// passesOn passes the lock on within one process.
func passesOn(w *wireStage, a *relock.Client) {
	l := w.locks("A locks", a.Mutex("orders"))
	p := w.parks("A waits behind it", a.Mutex("orders"))
	l = w.passes("A unlocks", l, p)
	w.unlocks("A unlocks again", l)
}

func givesUp(w *wireStage, a, b *relock.Client) {
	l := w.locks("A locks", a.Mutex("orders"))
	p := w.waits("B waits", b.Mutex("orders"))
	w.step("B gives up", func() {
		p.cancel()
		<-p.done
		require.ErrorIs(w.t, p.err, relock.ErrNotAcquired)
	})
	w.unlocks("A unlocks", l)
}

func unlocksTwice(w *wireStage) {
	l := w.locks("A locks", w.client().Mutex("orders"))
	w.unlocks("A unlocks", l)
	w.step("A unlocks again", func() { require.ErrorIs(w.t, l.Unlock(w.t.Context()), relock.ErrNotHeld) })
}

func tellsState(w *wireStage, a, b *relock.Client) {
	m := a.Mutex("orders")
	w.states("A asks for the free lock", m, false)
	w.locks("A locks", m)
	w.waits("B waits", b.Mutex("orders"))
	w.states("A asks", m, true)
}

func (w *wireStage) states(title string, m *relock.Mutex, held bool) {
	w.step(title, func() {
		st, err := m.State(w.t.Context())
		require.NoError(w.t, err)
		require.Equal(w.t, held, st.Held)
	})
}

func (w *wireStage) forces(title string, m *relock.Mutex, want bool) {
	w.step(title, func() {
		freed, err := m.ForceUnlock(w.t.Context())
		require.NoError(w.t, err)
		require.Equal(w.t, want, freed)
	})
}

// renews is a last step that ends with the first n commands that come to every node, which are
// renewals.
func (w *wireStage) renews(n int) {
	w.stepUpTo(n, "the watchdog renews", func() {
		deadline := time.Now().Add(longest)
		for _, tp := range w.taps {
			for commands, _ := tp.count(); commands < n && time.Now().Before(deadline); commands, _ = tp.count() {
				time.Sleep(time.Millisecond)
			}
		}
	})
}
