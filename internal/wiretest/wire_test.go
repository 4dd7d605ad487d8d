// Package wiretest holds what clients send, and what scripts do, to its recordings in testdata/wire. It is tests alone,
// through the public API.
package wiretest

import (
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

// client returns a client of all the scene's nodes, which hears its inbox. Clients are called A, B
// and so on, as they are made.
func (w *wireStage) client(opts ...relock.ClientOption) *relock.Client {
	c, heard := w.cold(opts...)
	w.begins(c, heard)
	return c
}

// cold returns a client that has sent nothing.
func (w *wireStage) cold(opts ...relock.ClientOption) (c *relock.Client, heard signal) {
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

// sharder returns a client of a Cluster.
func (w *wireStage) sharder(opts ...relock.ClientOption) *relock.Client {
	option := w.servers[0].Option()
	option.ForceSingleClient = false
	rdb, err := rueidis.NewClient(option)
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
