package sim

import (
	"strconv"
	"testing"
	"time"

	"github.com/relock-go/relock/internal/redistest"
	"github.com/relock-go/relock/lua"
	"github.com/stretchr/testify/require"
)

// permitTexts are the scripts of semaphores as the locks send them, by name.
func permitTexts(tb testing.TB) map[string]string {
	from := lua.Scripts{Kind: "semaphore", Retention: time.Hour}
	all := map[string]string{}
	keep := func(name, text string, err error) {
		require.NoError(tb, err)
		all[name] = text
	}
	for _, name := range []string{"acquire", "release", "force", "recount", "renew", "refill", "resize", "inspect"} {
		text, err := from.Text(name)
		keep(name, text, err)
	}
	text, err := from.Sweep("release")
	keep("sweep", text, err)
	text, err = from.Many("acquire")
	keep("many", text, err)
	return all
}

var amounts = []string{"1", "1", "2", "3", "12"}

// permitKeys are those of a semaphore, as its scripts take them.
func permitKeys(name string) []string {
	return []string{
		name, tagged("relock_permits:", name), tagged("relock_permit_grants:", name), tagged("redisson_sc:", name),
		tagged("relock_sclisten:", name), tagged("", name) + ":timeout",
	}
}

// asking is what acquire is told of one entry.
func (g *players) asking(name string) []string {
	args := []string{pick(g.pair, leases...), pick(g.pair, amounts...), g.id(), "", pick(g.pair, "", "", "-", g.ticket())}
	args = append(args, pick(g.pair, "", strconv.FormatInt(g.clock+10000, 10)), g.inbox(), g.publish)
	return append(args, pick(g.pair, []string{"", "", ""}, []string{g.publish, permitKeys(name)[4], "relock_inbox:c-1"})...)
}

// returning is what release is told of one entry.
func (g *players) returning() []string {
	next := pick(g.pair, []string{"", "", ""}, []string{g.id(), pick(g.pair, leases...), pick(g.pair, amounts...)})
	args := []string{g.id(), pick(g.pair, leases...), pick(g.pair, amounts...), "", pick(g.pair, "0", "")}
	return append(append(args, next...), g.inbox(), g.publish)
}

// actPermits is one move of a client that uses the scripts rightly.
func (g *players) actPermits() {
	name := pick(g.pair, lockNames...)
	keys := permitKeys(name)
	switch g.dice.IntN(14) {
	case 0, 1, 2, 3:
		g.run("acquire", keys, g.asking(name))
	case 4, 5, 6:
		g.run("release", keys, g.returning())
	case 7:
		var all, args []string
		entries := 1 + g.dice.IntN(4)
		for range entries {
			all, args = append(all, keys...), append(args, g.asking(name)...)
		}
		g.run("many", all, append([]string{strconv.Itoa(entries)}, args...))
	case 8:
		g.sweep("sweep", func() ([]string, []string) { return keys, g.returning() })
	case 9:
		var all, args []string
		for range 1 + g.dice.IntN(4) {
			one := permitKeys(pick(g.pair, lockNames...))
			all, args = append(all, one[0], one[5]), append(args, g.id(), pick(g.pair, "0", "1"), pick(g.pair, leases...))
		}
		g.run("renew", all, args)
	case 10:
		g.run("recount", []string{keys[0], keys[5]}, []string{g.id(), "1", pick(g.pair, leases...)})
	case 11:
		g.run("inspect", keys, nil)
	case 12:
		g.run("resize", keys, []string{pick(g.pair, "1", "3", "4", "1000000"), pick(g.pair, "", "1"), g.publish})
	default:
		if g.often(50) {
			g.run("refill", keys, []string{g.id(), "16", g.publish})
		} else {
			g.run("force", keys, []string{pick(g.pair, "", "relock_inbox:"), g.publish})
		}
	}
}

// meddlePermits is what Redisson, strangers and operators leave.
func (g *players) meddlePermits() {
	keys := permitKeys(pick(g.pair, lockNames...))
	anyOf := pick(g.pair, keys...)
	java := "\x00\xff twelve byte" + pick(g.pair, ":1", "ab")
	ends := strconv.FormatInt(g.clock/1000+int64(g.dice.IntN(200_000))-100_000, 10)
	g.do(pick(g.pair,
		[]string{"DEL", anyOf}, []string{"SET", anyOf, "text"}, []string{"HSET", anyOf, "c-1:1", "x"}, []string{"ZADD", anyOf, "1", "x"},
		[]string{"DEL", keys[0]}, []string{"DEL", keys[0]}, []string{"DEL", keys[5]}, []string{"SET", keys[0], "-3"}, []string{"SET", keys[0], "007"},
		[]string{"INCR", keys[0]}, []string{"DECRBY", keys[0], "2"}, []string{"SET", keys[2], "9007199254740991"}, []string{"DEL", keys[2]},
		[]string{"ZADD", keys[5], ends, java}, []string{"ZADD", keys[5], "922337203685477", java}, []string{"ZREM", keys[5], java},
		[]string{"ZADD", keys[5], ends, g.id() + ":1"}, []string{"ZREM", keys[5], g.id() + ":1"}, []string{"ZADD", keys[5], ends, g.id() + ":2"},
		[]string{"ZADD", keys[1], strconv.FormatInt(g.clock, 10), "30000:2:" + g.id() + ":"}, []string{"ZADD", keys[1], "1", "nonsense"},
		[]string{"ZADD", keys[1], "-" + strconv.FormatInt(g.clock+5000, 10), "turn"}, []string{"DEL", keys[1]}, []string{"SCRIPT", "FLUSH"},
	)...)
}

// listenToPermits joins or leaves channels.
func (g *players) listenToPermits() {
	keys := permitKeys(pick(g.pair, lockNames...))
	channels := pick(g.pair, []string{"relock_inbox:" + pick(g.pair, clients...)}, []string{keys[3]}, []string{keys[3], keys[4]}, []string{keys[4]})
	how := pick(g.pair, "SUBSCRIBE", "SUBSCRIBE", "UNSUBSCRIBE")
	if g.publish == "SPUBLISH" {
		how = "S" + how
	}
	g.subscribe(pick(g.pair, g.listeners...), append([]string{how}, channels...)...)
}

// TestSemaphores asks the scripts of semaphores with random arguments, as TestLocks does a mutex's, and lets the servers be full
// for some of the time in half of the sequences.
func TestSemaphores(t *testing.T) {
	against(t, func(t *testing.T, server *redistest.Server) {
		sequences(t, 40, func(seed uint64) {
			g := newPlayers(t, server, seed)
			defer g.close()
			g.texts = map[string]string{}
			for name, text := range permitTexts(t) {
				g.texts[name] = comparable(t, text)
			}
			fills := g.often(50)
			g.pass()
			for range 150 {
				switch n := g.dice.IntN(100); {
				case n < 70:
					g.actPermits()
				case n < 78 && !g.sim.full:
					g.pass()
				case n < 86 && !g.sim.full:
					g.listenToPermits()
				case n < 90 && fills:
					g.fill(!g.sim.full)
				case !g.sim.full:
					g.meddlePermits()
				}
			}
			g.fill(false)
			g.compareMessages(g.listeners...)
			g.compareAll()
		})
	})
}
