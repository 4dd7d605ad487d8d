package sim

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/relock-go/relock/internal/redistest"
	"github.com/relock-go/relock/lua"
	"github.com/stretchr/testify/require"
)

// Each script of the locks is asked with random arguments, in the states that the others and strangers leave.

// stopped is what stands for TIME in the scripts that are compared: both servers read the same instant from a key.
const stopped = "redis.call('HMGET', 'sim:time', 's', 'u')"

// texts are the scripts as the locks send them, by name; those of a quorum's node open with "node ".
func texts(tb testing.TB) map[string]string {
	alone := lua.Scripts{Kind: "mutex", Retention: time.Hour}
	node := lua.Scripts{Kind: "mutex", Quorum: true, Retention: time.Hour, Longest: time.Minute}
	all := map[string]string{}
	keep := func(name, text string, err error) {
		require.NoError(tb, err)
		all[name] = text
	}
	for _, name := range []string{"acquire", "release", "force", "recount", "renew", "refill", "move", "inspect"} {
		text, err := alone.Text(name)
		keep(name, text, err)
	}
	for _, name := range []string{"vote", "unvote", "fence", "force", "recount", "renew"} {
		text, err := node.Text(name)
		keep("node "+name, text, err)
	}
	text, err := alone.Sweep("release")
	keep("sweep", text, err)
	text, err = node.Sweep("unvote")
	keep("node sweep", text, err)
	return all
}

// comparable returns a script whose time stands still. Nothing that it writes ends while a slow machine compares: turns
// last for minutes too.
func comparable(tb testing.TB, text string) string {
	changed := strings.ReplaceAll(text, "redis.call('TIME')", stopped)
	require.NotContains(tb, changed, "'TIME'")
	if strings.Contains(changed, "TURN") {
		require.Contains(tb, changed, "local TURN = 10 ")
		changed = strings.ReplaceAll(changed, "local TURN = 10 ", "local TURN = 200000 ")
	}
	return changed
}

// players are who contends in one sequence.
type players struct {
	*pair
	texts     map[string]string
	clock     int64 // microseconds that sim:time shows
	publish   string
	listeners []*person
	actor     *person
}

var (
	lockNames = []string{"orders", "o{1}x"}
	clients   = []string{"c-1", "c-2", "c-3"}
	leases    = []string{"300000", "100000", "600000"}
	owners    = []string{"", "", "", "own", "own2"}
	blocks    = []string{"1", "32", "64"}
)

func tagged(prefix, name string) string {
	if strings.Contains(name, "{") {
		return prefix + name
	}
	return prefix + "{" + name + "}"
}

func (g *players) names(name string) (lock, queue, counter, unlock, fifth, seed string) {
	return name, tagged("relock_queue:", name), tagged("redisson_lock_token:", name), tagged("redisson_lock__channel:", name),
		tagged("relock_listen:", name), tagged("relock_seed:", name)
}

func (g *players) id() string { return pick(g.pair, clients...) + ":" + pick(g.pair, "1", "2", "3") }

func (g *players) ticket() string {
	return strconv.FormatInt(g.clock-int64(g.dice.IntN(3)), 10)
}

func (g *players) inbox() string {
	return pick(g.pair, "relock_inbox:", "relock_inbox:", "relock_inbox:", "")
}

// pass lets time pass for the scripts.
func (g *players) pass() {
	g.clock += pick(g.pair, int64(1), 1000, 5000, 1e6, 1e6, -500, -2e6, 61e6, 201e6)
	g.do("HSET", "sim:time", "s", strconv.FormatInt(g.clock/1e6, 10), "u", strconv.FormatInt(g.clock%1e6, 10))
}

// run sends a script by EVAL or EVALSHA.
func (g *players) run(name string, keys, args []string) {
	text := g.texts[name]
	how, what := "EVAL", text
	if g.often(50) {
		how, what = "EVALSHA", compile(text).sha
	}
	words := append([]string{how, what, strconv.Itoa(len(keys))}, keys...)
	if strings.HasPrefix(g.by(g.actor, append(words, args...)...).s, "NOSCRIPT ") {
		g.run(name, keys, args)
	}
	g.log[len(g.log)-1] = name + " " + g.log[len(g.log)-1]
}

func (g *players) acquire() {
	lock, queue, counter, unlock, listen, _ := g.names(pick(g.pair, lockNames...))
	args := []string{
		pick(g.pair, leases...), pick(g.pair, blocks...), g.id(), pick(g.pair, owners...), pick(g.pair, "", "", "-", g.ticket()),
		pick(g.pair, "", strconv.FormatInt(g.clock+10000, 10)), g.inbox(), g.publish,
	}
	args = append(args, pick(g.pair, []string{"", "", ""}, []string{g.publish, listen, "relock_inbox:c-1"})...)
	g.run("acquire", []string{lock, queue, counter, unlock}, args[:g.told(3, len(args), args)])
}

// told is how many of the arguments are sent: those at the end that say nothing may be left out, down to least.
func (g *players) told(least, most int, args []string) int {
	for most > least && g.often(80) && slices.Contains([]string{"", "relock_inbox:", "PUBLISH"}, args[most-1]) {
		most--
	}
	return most
}

func (g *players) releasing() (keys, args []string) {
	lock, queue, counter, unlock, listen, _ := g.names(pick(g.pair, lockNames...))
	next := pick(g.pair, []string{"", "", ""}, []string{g.id(), pick(g.pair, leases...), pick(g.pair, blocks...)})
	args = []string{
		g.id(), pick(g.pair, leases...), pick(g.pair, blocks...), pick(g.pair, owners...), pick(g.pair, "0", ""),
	}
	return []string{lock, queue, counter, unlock, listen}, append(append(args, next...), g.inbox(), g.publish)
}

func (g *players) nodeKeys() []string {
	lock, queue, counter, unlock, _, seed := g.names(pick(g.pair, lockNames...))
	return []string{lock, queue, counter, unlock, seed}
}

func (g *players) vote() {
	keys := g.nodeKeys()
	yield := ""
	if e := g.sim.keys[keys[0]]; e != nil && e.kind == hashKind && g.often(30) {
		granted, _ := e.hash.get("relock:vote")
		yield, _, _ = strings.Cut(granted, ":")
	}
	args := []string{
		pick(g.pair, leases...), pick(g.pair, blocks...), g.id(), g.ticket(), pick(g.pair, "wait", "try", "nudge"),
		pick(g.pair, owners...), yield, g.proposal(),
	}
	args = append(args, pick(g.pair, []string{"", "", ""}, []string{"PUBLISH", "relock_listen:x", "relock_inbox:c-1"})...)
	g.run("node vote", keys, args[:g.told(5, len(args), args)])
}

func (g *players) unvoting() (keys, args []string) {
	next := pick(g.pair, []string{"", "", "", ""}, []string{g.id(), pick(g.pair, leases...), pick(g.pair, blocks...), g.ticket()})
	args = []string{
		pick(g.pair, leases...), pick(g.pair, blocks...), g.id(), pick(g.pair, "0", strconv.FormatInt(g.clock, 10)),
		g.proposal(), pick(g.pair, owners...),
	}
	return g.nodeKeys(), append(args, next...)
}

// proposal is where a voter would have tokens begin: nowhere, near the clock, or further ahead than is taken up.
func (g *players) proposal() string {
	ahead := pick(g.pair, -1, 0, 1000, 500_000, 500_001, 10_000_000)
	if ahead < 0 {
		return ""
	}
	return strconv.FormatInt(g.clock+int64(ahead), 10)
}

// sweep sends one call of a sweep.
func (g *players) sweep(name string, one func() (keys, args []string)) {
	var keys, args []string
	for range 1 + g.dice.IntN(5) {
		k, a := one()
		if args == nil {
			args = []string{strconv.Itoa(len(a))}
		}
		keys, args = append(keys, k...), append(args, a...)
	}
	g.run(name, keys, args)
}

func (g *players) renew(name string) {
	var keys, args []string
	for range 1 + g.dice.IntN(4) {
		keys = append(keys, pick(g.pair, lockNames...))
		args = append(args, g.id(), pick(g.pair, "0", "1", "2", "7"), pick(g.pair, leases...))
	}
	g.run(name, keys, args)
}

// act is one move of somebody who uses the scripts rightly.
func (g *players) act() {
	keys := g.nodeKeys()
	prefix := pick(g.pair, "", "node ")
	switch g.dice.IntN(14) {
	case 0, 1, 2:
		g.acquire()
	case 3, 4:
		k, a := g.releasing()
		g.run("release", k, a[:g.told(3, len(a), a)])
	case 5, 6, 7:
		g.vote()
	case 8, 9:
		k, a := g.unvoting()
		g.run("node unvote", k, a[:g.told(4, len(a), a)])
	case 10:
		if g.often(50) {
			g.sweep("sweep", g.releasing)
		} else {
			g.sweep("node sweep", g.unvoting)
		}
	case 11:
		g.renew(prefix + "renew")
	case 12:
		g.run(prefix+"recount", keys[:1], []string{g.id(), pick(g.pair, "1", "2", "3"), pick(g.pair, leases...)})
	default:
		g.seldom(prefix, keys)
	}
}

func (g *players) seldom(prefix string, keys []string) {
	born, _ := "0", 0
	if e := g.sim.keys["relock_incarnation"]; e != nil && e.kind == hashKind {
		born, _ = e.hash.get("born")
	}
	switch g.dice.IntN(6) {
	case 5:
		g.run("move", keys[:4], []string{g.id(), g.id(), pick(g.pair, leases...), pick(g.pair, "0", "1", "64"), g.publish, pick(g.pair, "", "", strconv.FormatInt(g.clock, 10))})
	case 4:
		k, _ := g.releasing()
		g.run("refill", k, []string{g.id(), pick(g.pair, "1", "16", "256"), g.publish})
	case 0:
		g.run(prefix+"force", keys[:4], []string{pick(g.pair, "", "relock_inbox:"), g.publish})
	case 1:
		g.run("inspect", keys[:3], nil)
	case 2:
		g.run("node fence", keys, []string{"hold", g.id(), strconv.FormatInt(g.clock+5, 10)})
	default:
		g.run("node fence", keys, []string{"seed", born, strconv.FormatInt(g.clock+5, 10)})
	}
}

// meddle is what strangers, operators and older clients leave.
func (g *players) meddle() {
	keys := g.nodeKeys()
	any5 := pick(g.pair, keys...)
	parts := pick(g.pair,
		[]string{"DEL", any5}, []string{"SET", any5, "text"}, []string{"HSET", any5, "c-1:1", "x"}, []string{"ZADD", any5, "1", "x"},
		[]string{"DEL", keys[0]}, []string{"DEL", keys[0]}, []string{"DEL", keys[2]},
		[]string{"SET", keys[2], "9007199254740991"}, []string{"SET", keys[2], "1.5"}, []string{"INCR", keys[2]},
		[]string{"SET", keys[2], strconv.FormatInt(g.clock+int64(g.dice.IntN(1e6)), 10)},
		[]string{"ZADD", keys[1], strconv.FormatInt(g.clock, 10), "30000:64:" + g.id()},
		[]string{"ZADD", keys[1], "1", "nonsense"}, []string{"ZADD", keys[1], "-" + strconv.FormatInt(g.clock+5000, 10), "turn"},
		[]string{"HSET", keys[0], "jvm:1", "1"}, []string{"HINCRBY", keys[0], g.id(), "1"}, []string{"HSET", keys[0], "relock:first", "5:3:own"},
		[]string{"HDEL", keys[0], "relock:first"}, []string{"PEXPIRE", keys[0], "200000"}, []string{"PEXPIRE", keys[0], "0"},
		[]string{"DEL", "relock_incarnation"}, []string{"HSET", "relock_incarnation", "run", "other"},
		[]string{"HSET", "relock_incarnation", "born", strconv.FormatInt(g.clock/1000-100000, 10)},
		[]string{"DEL", "relock_incarnation"}, []string{"SET", "relock_incarnation", "x"},
		[]string{"SCRIPT", "FLUSH"}, []string{"PUBLISH", keys[3], "0"},
	)
	g.do(parts...)
}

// listen joins or leaves channels.
func (g *players) listen() {
	someone := pick(g.pair, g.listeners...)
	_, _, _, unlock, listen, _ := g.names(pick(g.pair, lockNames...))
	channels := pick(g.pair, []string{"relock_inbox:" + pick(g.pair, clients...)}, []string{unlock}, []string{unlock, listen}, []string{listen})
	how := pick(g.pair, "SUBSCRIBE", "SUBSCRIBE", "UNSUBSCRIBE")
	if g.publish == "SPUBLISH" {
		how = "S" + how
	}
	g.subscribe(someone, append([]string{how}, channels...)...)
}

func newPlayers(t *testing.T, server *redistest.Server, seed uint64) *players {
	g := &players{pair: newPair(t, server, seed), texts: map[string]string{}, clock: time.Now().UnixMicro(), publish: "PUBLISH"}
	for name, text := range texts(t) {
		g.texts[name] = comparable(t, text)
	}
	if g.sim.version >= 7 && g.often(30) {
		g.publish = "SPUBLISH"
	}
	for range 3 {
		g.listeners = append(g.listeners, g.meet("", ""))
	}
	g.actor = g.people[0]
	return g
}

func TestLocks(t *testing.T) {
	against(t, func(t *testing.T, server *redistest.Server) {
		sequences(t, 25, func(seed uint64) {
			g := newPlayers(t, server, seed)
			defer g.close()
			g.pass()
			for range 150 {
				switch n := g.dice.IntN(100); {
				case n < 70:
					g.act()
				case n < 80:
					g.pass()
				case n < 90:
					g.listen()
				default:
					g.meddle()
				}
			}
			g.compareMessages(g.listeners...)
			g.compareAll()
		})
	})
}

// TestLocksWithoutMemory lets the servers be full for some of the time.
func TestLocksWithoutMemory(t *testing.T) {
	against(t, func(t *testing.T, server *redistest.Server) {
		sequences(t, 20, func(seed uint64) {
			g := newPlayers(t, server, seed)
			defer g.close()
			g.pass()
			for range 120 {
				switch n := g.dice.IntN(100); {
				case n < 75:
					g.act()
				case n < 85:
					g.fill(g.often(50))
				case g.sim.full:
					g.do(g.ordered()...)
				case n < 92:
					g.meddle()
				default:
					g.pass()
				}
			}
			g.fill(false)
			g.compareMessages(g.listeners...)
			g.compareAll()
		})
	})
}

// fill lets both servers have reached their memory limit, or not.
func (p *pair) fill(full bool) {
	limit := map[bool]string{true: "1", false: "0"}[full]
	require.Equal(p.t, okReply, p.people[0].real.do(p.t, "CONFIG", "SET", "maxmemory", limit))
	p.sim.SetFull(full)
	p.log = append(p.log, fmt.Sprintf("full: %t", full))
}

func BenchmarkAcquireRelease(b *testing.B) {
	all := texts(b)
	s := NewServer(Options{Name: "bench"})
	c := s.Open("", "", nil, nil)
	for _, text := range all {
		require.NoError(b, s.Exec(c, []string{"SCRIPT", "LOAD", text}).Err())
	}
	g := &players{}
	lock, queue, counter, unlock, listen, _ := g.names("orders")
	id := "0b9b2dc8-3f36-4d2c-8b1b-6b1a6c8a5b1e:1"
	acquire := []string{
		"EVALSHA", compile(all["acquire"]).sha, "4", lock, queue, counter, unlock,
		"30000", "64", id,
	}
	release := []string{
		"EVALSHA", compile(all["release"]).sha, "5", lock, queue, counter, unlock, listen,
		id, "30000", "64",
	}
	b.ReportAllocs()
	for b.Loop() {
		for _, args := range [][]string{acquire, release} {
			if answer := s.Exec(c, args); answer.Err() != nil {
				b.Fatal(answer.Err())
			}
		}
	}
}
