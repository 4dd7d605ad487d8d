package world

import (
	"strings"
	"testing"
	"time"

	"github.com/relock-go/relock/internal/driver"
	"github.com/relock-go/relock/lua"
	"github.com/stretchr/testify/require"
)

const (
	client  = "f4e10953-8104-4d25-885b-a816d7a395d0"
	another = "0c55f16e-ab19-44ff-92b0-3df901070c1e"
)

func someReader() *reader {
	return &reader{clients: map[string]string{client: "p1", another: "p2"}, asked: map[string]string{}, counts: map[string]int{}, lock: "orders-0"}
}

// The arguments of every script have the names that its text gives them.
func TestScriptArguments(t *testing.T) {
	alone, nodes := lua.Scripts{Kind: "mutex"}, lua.Scripts{Kind: "mutex", Quorum: true, Longest: 1e9}
	id := client + ":18132640572312085"
	keys := []string{"5", "orders-0", "queue", "token", "channel", "seed"}
	for _, c := range []struct {
		op   string
		text func() (string, error)
		args []string
		want string
	}{
		{
			"vote", func() (string, error) { return nodes.Text("vote") },
			append(keys, "200", "256", id, "946684800003192", "wait", "", "", "946684800004192", "PUBLISH", "relock_listen:{orders-0}"),
			"lease=200 block=256 id=p1.1 ticket=@3.192 wait least=@4.192",
		},
		{
			"unvote", func() (string, error) { return nodes.Text("unvote") },
			append(keys, "200", "3", id, "946684800265119", "946684800522188"),
			"lease=200 block=3 id=p1.1 reached=@265.119 least=@522.188",
		},
		{
			"acquire", func() (string, error) { return alone.Text("acquire") },
			append(keys, "200", "256", id, "owner-1", "-"), "lease=200 block=256 id=p1.1 owner=owner-1 ticket=-",
		},
		{
			"release", func() (string, error) { return alone.Text("release") },
			append(keys, id, "200", "256", "", "", another+":946684712345678901"), "id=p1.1 lease=200 block=256 next_id=p2.1",
		},
		{"recount", func() (string, error) { return alone.Text("recount") }, []string{"1", "orders-0", id, "2", "300"}, "id=p1.1 hold count=2 lease=300"},
		{
			"renew", func() (string, error) { return alone.Text("renew") },
			[]string{"2", "orders-0", "orders-1", id, "0", "200", another + ":18132640572312086", "1", "300"},
			"[orders-0 id=p1.1 hold count=0 lease=200] [orders-1 id=p2.1 hold count=1 lease=300]",
		},
		{
			"sweep", func() (string, error) { return alone.Sweep("release") },
			append(keys, "4", id, "200", "256", "owner-0"), "[orders-0 id=p1.1 lease=200 block=256 owner=owner-0]",
		},
		{
			"fence", func() (string, error) { return nodes.Text("fence") },
			append(keys, "hold", id, "946684800003821"), "hold id=p1.1 counter=@3.821",
		},
	} {
		text, err := c.text()
		require.NoError(t, err)
		require.Equal(t, c.want, strings.ReplaceAll(someReader().arguments(c.op, parse(text), c.args), ", or incarnation", ""), c.op)
	}
}

// A command or a message that nothing happened to is one line; one that met a fault is told step by step. What concerns
// other locks is left out, and what comes after the violation.
func TestTraceLines(t *testing.T) {
	names := parameters{1: "lease", 3: "acquisition id"}
	args := []string{"1", "orders-0", "200", "", client + ":18132640572312085"}
	at := func(at int, e entry) entry {
		e.at = time.Duration(at) * time.Millisecond
		return e
	}
	tr := &trace{lines: []entry{
		at(1, entry{proc: 1, node: 0, what: "sends acquire", lock: "orders-0", trip: 1}),
		at(2, entry{proc: 1, node: 0, what: "runs acquire", lock: "orders-0", trip: 1, args: args, names: names, told: true, value: driver.List(driver.Int(1), driver.Int(epoch+2000), driver.Int(9))}),
		at(2, entry{proc: 2, node: 0, what: "sends acquire", lock: "orders-1", trip: 2}),
		at(3, entry{proc: 1, node: 0, what: "hears acquire", lock: "orders-0", trip: 1}),
		at(3, entry{proc: 1, node: -1, what: "HAS", lock: "orders-0", n: epoch + 2000}),
		at(4, entry{proc: 1, node: 0, what: "sends renew", lock: "orders-0", trip: 3, fate: "p1 n0 renew orders-0 #0 call lost"}),
		at(5, entry{proc: 2, node: 0, what: "is sent", lock: "orders-0", trip: 4, args: []string{"relock_inbox:" + another, "0 2 " + client + ":18132640572312085 0 orders-0"}}),
		at(6, entry{proc: 2, node: 0, what: "hears", lock: "orders-0", trip: 4, args: []string{"relock_inbox:" + another, "0 2 " + client + ":18132640572312085 0 orders-0"}}),
		at(7, entry{proc: 2, node: 1, what: "sends SUBSCRIBE", lock: "relock_inbox:" + another, trip: 5, fate: "p2 n1 (un)subscribe relock_inbox:p2 #0 call lost"}),
		at(8, entry{proc: -1, node: -1, what: "EVENT event 3 step: the clock of n0 is moved by 1s"}),
		at(9, entry{proc: -1, node: -1, what: violated + "two holders", lock: "orders-0"}),
		at(10, entry{proc: 1, node: -1, what: "unlocks", lock: "orders-0"}),
	}}
	require.Equal(t, strings.Trim(`
      2.000  p1 n0 runs acquire lease=200 id=p1.1 -> GRANTED token=@2.000 tokens=9   [sent 1.000, heard 3.000]
      3.000  p1 HAS token=@2.000
      4.000  p1 n0 sends renew   *** p1 n0 renew orders-0 #0 call lost
      6.000  p2 n0 hears that another wants what p1.1 has   [sent 5.000]
      7.000  p2 n1 sends SUBSCRIBE relock_inbox:p2   *** p2 n1 (un)subscribe relock_inbox:p2 #0 call lost
      8.000  EVENT event 3 step: the clock of n0 is moved by 1s
      9.000  VIOLATION two holders
`, "\n")+"\n", tr.text(someReader(), 100))
	require.Equal(t, "      9.000  VIOLATION two holders\n", tr.text(someReader(), 1), "the last lines")
}

// The report of a run that failed ends with who had the lock and what each Redis said, and has no long id in it.
func TestReportsOfAFailure(t *testing.T) {
	res := misledSeed(t)(Options{Lines: 1000})
	require.Contains(t, res.Violation, "made up")
	trace, end, found := strings.Cut(res.Trace, "\n\nleases of "+res.Where+", as callers were told")
	require.True(t, found, res.Trace)
	lines := strings.Split(trace, "\n")
	require.Contains(t, lines[len(lines)-1], "VIOLATION made up")
	require.NotRegexp(t, ids, res.report())
	require.NotRegexp(t, clocks, res.report())
	require.Regexp(t, `\n  p\d  token=@\d+\.\d+  had from \d+\.\d+, (until \d+\.\d+|still had|Unlock called)`, end)
	for _, node := range []string{"n0", "n1", "n2"} {
		require.Regexp(t, `\n  `+node+`: (its clock is off by -?[\d.µms]+; )?(free|held, .*, ends in -?\d+ ms); (nobody waits|in the queue p.*); (no counter|counter @\d)`, end)
	}
}
