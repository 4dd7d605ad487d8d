package sim

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

// ServersEnv lists paths of further servers to compare with, apart by the system's list separator.
const ServersEnv = "RELOCK_SIM_SERVERS"

// against runs a test with redis-server, and with every server of ServersEnv.
func against(t *testing.T, test func(t *testing.T, server *redistest.Server), flags ...string) {
	t.Run("redis-server", func(t *testing.T) { test(t, redistest.Start(t, flags...)) })
	for _, path := range filepath.SplitList(os.Getenv(ServersEnv)) {
		t.Run(filepath.Base(path), func(t *testing.T) {
			t.Setenv(redistest.ServerEnv, path)
			test(t, redistest.Start(t, flags...))
		})
	}
}

// sequences runs f for many seeds. RELOCK_SIM_SEED=<seed> repeats one that failed; RELOCK_LONG=1 runs forty times as
// many.
func sequences(t *testing.T, n int, f func(seed uint64)) {
	if text := os.Getenv("RELOCK_SIM_SEED"); text != "" {
		seed, err := strconv.ParseUint(text, 10, 64)
		require.NoError(t, err)
		f(seed)
		return
	}
	switch {
	case os.Getenv("RELOCK_LONG") == "1":
		n *= 40
	case testing.Short():
		n = max(1, n/4)
	}
	first := rand.Uint64()
	for i := range n {
		f(first + uint64(i))
	}
}

// pair is a real and a simulated server that are told the same.
type pair struct {
	t      *testing.T
	dice   *rand.Rand
	real   *redistest.Server
	sim    *Server
	exact  bool // errors are compared by their text, not by their code alone
	now    time.Time
	worst  time.Duration // the longest that an answer of the real one took
	people []*person
	log    []string
	sent   int
	runID  string
	seed   uint64
}

// person is a connection to both.
type person struct {
	real *client
	sim  *Conn
	told [][2]string
}

var runIDLine = regexp.MustCompile(`run_id:([0-9a-f]+)`)

// newDice is a pair without servers, which draws commands.
func newDice(t *testing.T, seed uint64) *pair {
	return &pair{t: t, seed: seed, dice: rand.New(rand.NewPCG(seed, 0)), now: time.Now()}
}

func newPair(t *testing.T, real *redistest.Server, seed uint64) *pair {
	p := newDice(t, seed)
	p.real = real
	major, minor, valkey := real.Version()
	p.exact = major == 7 && minor == 0 && !valkey
	version := min(major, 8)
	if major == 7 && minor >= 2 {
		version = 8 // whose texts 7.2 has
	}
	p.sim = NewServer(Options{Name: "sim", Version: version, Valkey: valkey, Clock: NewClock(func() time.Time { return p.now })})
	p.meet("", "")
	p.runID = runIDLine.FindStringSubmatch(p.people[0].real.do(t, "INFO", "server").s)[1]
	for _, words := range [][]string{
		{"CONFIG", "SET", "maxmemory", "0"}, {"FLUSHALL"}, {"SCRIPT", "FLUSH"},
	} {
		require.Equal(t, okReply, p.people[0].real.do(t, words...))
	}
	return p
}

// close leaves the server to the next pair.
func (p *pair) close() {
	for _, someone := range p.people {
		someone.real.conn.Close()
	}
}

// meet opens a connection to both.
func (p *pair) meet(user, pass string) *person {
	someone := &person{real: dial(p.t, p.real.Addr())}
	someone.sim = p.sim.Open(user, pass, func(channel, message string) {
		someone.told = append(someone.told, [2]string{channel, message})
	}, nil)
	if user != "" {
		require.Equal(p.t, okReply, someone.real.do(p.t, "AUTH", user, pass))
		require.NotNil(p.t, someone.sim.user)
	}
	p.people = append(p.people, someone)
	return someone
}

func (p *pair) do(args ...string) reply { return p.by(p.people[0], args...) }

// by sends a command to both and compares the answers. It returns the simulated one.
func (p *pair) by(someone *person, args ...string) reply {
	p.now = time.Now()
	began := p.now
	want := someone.real.do(p.t, args...)
	p.worst = max(p.worst, time.Since(began))
	got := p.sim.answer(someone.sim, args)
	p.note(args, want)
	require.True(p.t, p.alike(want, got), "%s\nreal %s\nsim  %s", p.history(), p.show(want), p.show(got))
	return got
}

// subscribe is by for what answers a list of confirmations.
func (p *pair) subscribe(someone *person, args ...string) {
	got := p.sim.answer(someone.sim, args)
	want := someone.real.confirmed(p.t, max(1, len(got.list)), args)
	p.note(args, want)
	if len(args) == 1 {
		// From all channels at once, in an order of its own on each server.
		require.Len(p.t, got.list, len(want.list), p.history())
		return
	}
	require.True(p.t, p.alike(want, got), "%s\nreal %s\nsim  %s", p.history(), p.show(want), p.show(got))
}

// compareMessages compares what everybody was told.
func (p *pair) compareMessages(listeners ...*person) {
	for i, someone := range listeners {
		want := someone.real.messages(p.t)
		require.Equal(p.t, len(want), len(someone.told), "%s\nlistener %d: %q, not %q", p.history(), i, someone.told, want)
		for j := range want {
			same := p.same(want[j][0], someone.told[j][0]) && p.same(want[j][1], someone.told[j][1])
			require.True(p.t, same, "%s\nlistener %d: %q, not %q", p.history(), i, someone.told[j], want[j])
		}
		someone.told = nil
	}
}

func (p *pair) note(args []string, want reply) {
	p.sent++
	line := strings.Join(args, " ")
	if len(line) > 6000 {
		_, rest, _ := strings.Cut(line[5000:], "\n")
		line = line[:100] + " ... " + rest
	}
	p.log = append(p.log, fmt.Sprintf("%q -> %s", line, p.show(want)))
	if len(p.log) > 12 {
		p.log = p.log[1:]
	}
}

func (p *pair) history() string {
	return fmt.Sprintf("RELOCK_SIM_SEED=%d, command %d, the last of them:\n%s", p.seed, p.sent, strings.Join(p.log, "\n"))
}

func (p *pair) show(r reply) string { return fmt.Sprintf("%+v", r) }

// slack is how far times may be apart, in milliseconds: what either clock may have gone on within a command, twice.
func (p *pair) slack() int64 { return 2*p.worst.Milliseconds() + 3 }

// near reports whether two numbers are one time to live, which a number from 5000 on is taken for, up to that of a key that is to
// stay. Tokens are greater.
func (p *pair) near(want, got int64) bool {
	return want >= 5000 && want < 1e15 && max(want-got, got-want) <= p.slack()
}

// alike compares answers.
func (p *pair) alike(want, got reply) bool {
	switch {
	case want.kind != got.kind || len(want.list) != len(got.list):
		return false
	case want.kind == errorReply:
		return p.alikeErrors(want.s, got.s)
	case want.kind == intReply && p.near(want.n, got.n):
		return true
	case want.n != got.n || !p.same(want.s, got.s):
		return false
	}
	for i := range want.list {
		if !p.alike(want.list[i], got.list[i]) {
			return false
		}
	}
	return true
}

var errorCode = regexp.MustCompile(`^(ERR|NOPERM|OOM|@user_script:) `)

// toldNumber begins a number that a script tells as Lua saw it (inScript).
const toldNumber = "number:"

// same compares texts, which may hold a run id or a number that a script told. Where errors are compared by their
// code, so are texts of errors.
func (p *pair) same(want, got string) bool {
	if code := errorCode.FindString(want); code != "" && !p.exact {
		return strings.HasPrefix(got, code)
	}
	if strings.HasPrefix(want, toldNumber) && strings.HasPrefix(got, toldNumber) {
		a, errA := strconv.ParseInt(want[len(toldNumber):], 10, 64)
		b, errB := strconv.ParseInt(got[len(toldNumber):], 10, 64)
		return want == got || errA == nil && errB == nil && p.near(a, b)
	}
	return strings.ReplaceAll(want, p.runID, p.sim.runID) == got
}

var luaError = regexp.MustCompile(`(user_script:\d+:).*( script: |$)`)

func (p *pair) alikeErrors(want, got string) bool {
	if p.exact && want == got {
		return true
	}
	// Lua's own errors differ in their texts: the place has to be the same.
	a, b := luaError.FindStringSubmatch(want), luaError.FindStringSubmatch(got)
	if a != nil && b != nil && p.exact {
		return a[1] == b[1]
	}
	code, _, _ := strings.Cut(want, " ")
	return !p.exact && strings.HasPrefix(got, code)
}

// compareAll compares all keys.
func (p *pair) compareAll() {
	keys := p.people[0].real.do(p.t, "KEYS", "*")
	names := make([]string, len(keys.list))
	for i, key := range keys.list {
		names[i] = key.s
	}
	slices.Sort(names)
	p.now = time.Now()
	p.sim.at = p.sim.clock.Micro()
	require.Equal(p.t, names, p.sim.living(), p.history())
	for _, key := range names {
		p.do("PTTL", key)
		switch p.do("TYPE", key).s {
		case "string":
			p.do("GET", key)
		case "zset":
			p.do("ZRANGE", key, "0", "-1", "WITHSCORES")
		case "hash":
			p.compareHash(key)
		}
	}
}

// compareHash compares the fields in their order while the hash is compact.
func (p *pair) compareHash(key string) {
	if e := p.sim.keys[key]; !e.hash.large {
		p.do("HGETALL", key)
		return
	}
	got := p.sim.answer(p.people[0].sim, []string{"HGETALL", key})
	require.Equal(p.t, sortedPairs(p.people[0].real.do(p.t, "HGETALL", key)), sortedPairs(got), p.history())
}

func sortedPairs(r reply) []string {
	var list []string
	for i := 0; i+1 < len(r.list); i += 2 {
		list = append(list, r.list[i].s+"="+r.list[i+1].s)
	}
	slices.Sort(list)
	return list
}

// pick draws one of a list.
func pick[T any](p *pair, list ...T) T { return list[p.dice.IntN(len(list))] }

func (p *pair) often(percent int) bool { return p.dice.IntN(100) < percent }
