package suite_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/drivertest"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/relock-go/relock/internal/wire"
	"github.com/stretchr/testify/require"
)

// hostsRefuse are commands that hosts take away, and that clients of locks could be thought to need.
var hostsRefuse = []string{
	"acl", "cluster", "command", "config", "debug", "fcall", "function", "keys", "info", "mget", "monitor", "scan", "script", "client", "wait",
	"flushall", "hello", "client|tracking", "select",
}

// onThePage are what the tables of docs/managed-redis.md say: what is refused without a command, by the heading above the table.
func onThePage(t *testing.T, heading string) map[string]string {
	t.Helper()
	page, err := os.ReadFile("../../docs/managed-redis.md")
	require.NoError(t, err)
	_, table, found := strings.Cut(string(page), "\n"+heading+"\n")
	require.True(t, found, heading)
	_, table, found = strings.Cut(table, "\n| without | refused |")
	require.True(t, found, heading)
	table, _, _ = strings.Cut(table, "\n\n")
	says := make(map[string]string)
	for _, row := range strings.Split(table, "\n")[2:] {
		cells := strings.Split(row, " | ")
		require.GreaterOrEqual(t, len(cells), 2, row)
		for _, command := range regexp.MustCompile("`([A-Z ]+)`").FindAllStringSubmatch(cells[0], -1) {
			require.NotContains(t, says, command[1])
			says[command[1]] = strings.TrimSuffix(cells[1], " |")
		}
	}
	return says
}

// inTable is a command as the page names it: PUBSUB NUMSUB for pubsub|numsub.
func inTable(command string) string { return strings.ToUpper(strings.ReplaceAll(command, "|", " ")) }

// commandsOf are those that the rules of an ACL allow.
func commandsOf(rules []string) (commands []string) {
	for _, rule := range rules {
		if command, allows := strings.CutPrefix(rule, "+"); allows {
			commands = append(commands, command)
		}
	}
	return commands
}

// missedBy says what is refused of all that two clients do with locks of a name, in the words of the page. What goes wrong in
// another way stands in it too.
func missedBy(ctx context.Context, c, d *relock.Client, name string) string {
	var what []string
	try := func(task string, err error) bool {
		switch {
		case err == nil:
			return true
		case !errors.Is(err, relock.ErrRefused):
			what = append(what, fmt.Sprintf("%s: %T %v", task, err, err))
		case !strings.Contains(err.Error(), "docs/"):
			what = append(what, fmt.Sprintf("%s, without what to do: %v", task, err))
		case !slices.Contains(what, task):
			what = append(what, task)
		}
		return false
	}
	m := c.Mutex(name)
	l, err := m.TryLock(ctx)
	if !try("every lock", err) {
		return strings.Join(what, ", ")
	}
	in, err := m.TryLock(l.Context())
	if try("re-entry", err) {
		try("re-entry", in.Unlock(ctx))
	}
	try("`Extend`", l.Extend(ctx, far+time.Minute))
	_, err = d.Mutex(name).State(ctx)
	try("`State`", err)
	next := waits(ctx, d, namesOf(wire.Mutex, m.Name()).Unlock, d.Mutex(name).Lock)
	try("`Unlock`", l.Unlock(ctx))
	if got := <-next; try("waiting", got.err) {
		try("`Unlock`", got.lease.Unlock(ctx))
	}

	kept, err := renewed(ctx, c, name+":kept")
	if try("renewals", err) {
		_, err = d.Mutex(kept.Name()).ForceUnlock(ctx)
		if try("`ForceUnlock`", err) {
			<-kept.Context().Done() // it hears of it, or renews in vain
		} else {
			try("`Unlock`", kept.Unlock(ctx))
		}
	}

	rw := c.RWMutex(name + ":rw")
	reads, err := rw.TryRLock(ctx)
	if errors.Is(err, errors.ErrUnsupported) || !try("read-write locks", err) {
		return strings.Join(what, ", ")
	}
	next = waits(ctx, d, namesOf(wire.Write, rw.Name()).Unlock, d.RWMutex(name+":rw").Lock)
	try("`Unlock` of a reader", reads.Unlock(ctx))
	if got := <-next; try("waiting", got.err) {
		reads, err = got.lease.Downgrade(ctx)
		if try("`Downgrade`", err) {
			try("`Unlock` after `Downgrade`", reads.Unlock(ctx))
		}
	}
	return strings.Join(what, ", ")
}

// renewed returns a lease that was renewed. A busy machine may be too late to renew one, which Redis may then keep for a while.
// It is taken by TryLock: the first Lock of a client that cannot hear fails, if that is known by then.
func renewed(ctx context.Context, c *relock.Client, name string) (l *relock.Lease, err error) {
	for i := range 3 {
		if l, err = c.Mutex(fmt.Sprint(name, i), relock.WithLease(3*time.Second)).TryLock(ctx); err != nil {
			return nil, err
		}
		began := l.Until()
		for l.Until().Equal(began) && l.Context().Err() == nil {
			time.Sleep(time.Millisecond)
		}
		if err = context.Cause(l.Context()); err == nil {
			break
		}
	}
	return l, err
}

type granted struct {
	lease *relock.Lease
	err   error
}

// waits has c wait for a lock that is held, and returns when it hears the lock's channel or was refused.
func waits(ctx context.Context, c *relock.Client, channel string, lock func(context.Context) (*relock.Lease, error)) <-chan granted {
	got := make(chan granted, 1)
	go func() {
		l, err := lock(ctx)
		got <- granted{l, err}
	}()
	hub := arbiterOf(c).Nodes()[0].Debug().Hub
	for len(got) == 0 && ctx.Err() == nil {
		if members, confirmed, quiet := hub.Listening(channel); members == 1 && confirmed && quiet {
			break
		}
		time.Sleep(time.Millisecond)
	}
	return got
}

// less is a Redis without a command: how clients reach it, and what they say of it.
type less struct {
	without string
	to      rueidis.ClientOption
	opts    []relock.ClientOption
	refuses string
}

// requireRefusals tries each Redis, all at once, and demands that without a command that is refused which the page says. All
// commands of the page's table are tried, but for those given.
func requireRefusals(t *testing.T, heading string, tries []*less, untried ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var all sync.WaitGroup
	for i, try := range tries {
		var pair []*relock.Client
		for len(pair) < 2 {
			pair = append(pair, newClient(t, shared(t, try.to)(), append(try.opts, relock.WithLease(far))...))
		}
		all.Go(func() { try.refuses = cmp.Or(missedBy(ctx, pair[0], pair[1], fmt.Sprint("k", i)), "nothing") })
	}
	all.Wait()
	says := onThePage(t, heading)
	for _, try := range tries {
		require.Equal(t, says[inTable(try.without)], try.refuses, "without %s", inTable(try.without))
		delete(says, inTable(try.without))
	}
	for _, command := range untried {
		delete(says, inTable(command))
	}
	require.Empty(t, says, "the page has more than is tried")
}

// sinceRights skips a test of a Redis whose scripts cannot ask for rights: there a missing right shows later.
func sinceRights(t *testing.T) {
	t.Helper()
	if major, _, valkey := redistest.Start(t).Version(); major < 7 && !valkey {
		t.Skip("scripts cannot ask for rights before Redis 7")
	}
}

// commandsOn are those that relock takes on one Redis, and those that hosts refuse.
func commandsOn(t *testing.T) []string {
	return slices.Concat(commandsOf(rights(t, "")[0]), commandsOf(drivertest.ReadWriteRights(t, "")), hostsRefuse)
}

// userWithout is a user of the servers that may do everything but one command.
func userWithout(command string, servers ...*redistest.Server) (name, password string) {
	for _, s := range servers {
		s.AddUser("-"+command, "secret", "~*", "&*", "+@all", "-"+command)
	}
	return "-" + command, "secret"
}

// Without a right to one command relock refuses what docs/managed-redis.md says, at once and with what to do, and all else works.
func TestWithoutARight(t *testing.T) {
	t.Parallel()
	sinceRights(t)
	s := redistest.Start(t)
	var alone, guarded []*less
	for _, command := range commandsOn(t) {
		on := s
		if command == "eval" {
			on = redistest.Start(t) // on the other one other users may have brought the scripts
		}
		alone = append(alone, &less{without: command, to: on.Target().As(userWithout(command, on)).Rueidis()})
	}
	for _, command := range commandsOf(rights(t, "")[2]) {
		guarded = append(guarded, &less{without: command, to: s.Target().As(userWithout(command, s)).Rueidis(), opts: []relock.ClientOption{relock.WithRestartGuard(2 * far)}})
	}
	requireRefusals(t, "### On one Redis", alone)
	requireRefusals(t, "### With a restart guard, or on a quorum", guarded)
}

// The same where the configuration of the server takes the command away, as hosts do it.
func TestWithoutACommand(t *testing.T) {
	t.Parallel()
	sinceRights(t)
	var tries []*less
	untried := []string{"ping", "info", "client|tracking"} // without the first two the helpers do not know when the server is up
	for _, command := range commandsOn(t) {
		if !slices.Contains(untried, command) {
			name, _, _ := strings.Cut(command, "|")
			s := redistest.Start(t, "--rename-command", name, "")
			tries = append(tries, &less{without: command, to: s.Option()})
		}
	}
	requireRefusals(t, "### On one Redis", tries, untried...)
}

// The same for what relock takes on a Cluster beyond that.
func TestWithoutARightOnACluster(t *testing.T) {
	t.Parallel()
	sinceRights(t)
	cluster := redistest.StartCluster(t, "--cluster-node-timeout", "8000") // a busy machine fails over else
	var sharded, plain []*less
	_, err := rueidis.NewClient(cluster.Target().As(userWithout("cluster", cluster.Nodes()...)).Rueidis())
	require.ErrorContains(t, err, "NOPERM", "the library asks for one of cluster|slots and cluster|shards")
	for _, command := range commandsOf(rights(t, "")[1]) {
		if strings.HasPrefix(command, "cluster|") {
			continue
		}
		to := cluster.Target().As(userWithout(command, cluster.Nodes()...)).Rueidis()
		sharded = append(sharded, &less{without: command, to: to})
		plain = append(plain, &less{without: command, to: to, opts: []relock.ClientOption{relock.WithPlainChannels()}})
	}
	requireRefusals(t, "### On a Cluster", sharded)
	requireRefusals(t, "### On a Cluster, with `WithPlainChannels`", plain)
}

// A lock that Redis evicts is free: its holder is told by its next renewal, and the next holder's token is higher.
func TestAnEvictedLockIsLost(t *testing.T) {
	t.Parallel()
	for _, policy := range []string{"volatile-lru", "allkeys-random"} {
		t.Run(policy, func(t *testing.T) {
			t.Parallel()
			s := redistest.Start(t, "--maxmemory", "4mb", "--maxmemory-policy", policy)
			c, d := newClient(t, s.Client(), relock.WithLease(3*time.Second)), newClient(t, s.Client())
			l, err := c.Mutex("k").Lock(t.Context())
			require.NoError(t, err)
			text := strings.Repeat("x", 10_000)
			for i := 0; s.Do("EXISTS", "k") == "1"; i++ {
				_, _ = s.Try("SET", fmt.Sprint("cached", i), text) // has no expiry: volatile-lru finds the lock alone, and is full then
			}
			s.Do("CONFIG", "SET", "maxmemory", "0")
			next, err := d.Mutex("k").TryLock(t.Context())
			require.NoError(t, err, "two holders, until the first is told")
			require.Greater(t, next.Token(), l.Token())
			within(t, l.Context().Done())
			require.ErrorIs(t, context.Cause(l.Context()), relock.ErrLost)
			require.ErrorIs(t, l.Unlock(t.Context()), relock.ErrLost)
			require.NoError(t, next.Unlock(t.Context()))
		})
	}
}

// Behind the address of a host an empty Redis may stand in for one that died. The holder is told, and under WithRestartGuard
// no other client is granted the lock for a lease.
func TestAnEmptyRedisTakesOver(t *testing.T) {
	t.Parallel()
	const lease = 2 * time.Second
	for name, guard := range map[string][]relock.ClientOption{"without a guard": nil, "with a guard": {relock.WithRestartGuard(lease)}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := redistest.Start(t)
			opts := append(guard, relock.WithLease(lease), relock.WithCommandTimeout(lease/4))
			c, d := newClient(t, s.Client(), opts...), newClient(t, s.Client(), opts...)
			for _, of := range []*relock.Client{d, c} {
				lockAndUnlock(t, of.Mutex("k"))
			}
			l, err := c.Mutex("k").Lock(t.Context())
			require.NoError(t, err)
			s.RestartEmpty()
			var next *relock.Lease
			require.Eventually(t, func() bool { // until the connection is there again
				next, err = d.Mutex("k").TryLock(t.Context())
				var node *relock.NodeError
				return err == nil || errors.As(err, &node) && node.Quarantine > 0
			}, patience, time.Millisecond)
			require.Equal(t, guard != nil, errors.Is(err, relock.ErrUnavailable), "%v", err)
			within(t, l.Context().Done())
			require.ErrorIs(t, context.Cause(l.Context()), relock.ErrLost)
			if next == nil {
				next = taken(t, d.Mutex("k").Lock)
			}
			require.Greater(t, next.Token(), l.Token())
			_ = next.Unlock(t.Context()) // a busy machine may have lost it as well
		})
	}
}

// A Redis that takes no more connections is waited for. It answers so, but a library may find no more than a closed connection.
func TestNoConnectionLeft(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	admin, c := s.Client(), newClient(t, s.Client())
	do := func(command ...string) {
		require.NoError(t, admin.Do(t.Context(), admin.B().Arbitrary(command...).Build()).Error())
	}
	lockAndUnlock(t, c.Mutex("k"))
	do("CONFIG", "SET", "maxclients", "1")
	do("CLIENT", "KILL", "TYPE", "pubsub")
	do("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
	var err error
	require.Eventually(t, func() bool {
		_, err = c.Mutex("k").TryLock(t.Context())
		got, _ := admin.Do(t.Context(), admin.B().Info().Section("stats").Build()).ToString()
		return err == nil || !strings.Contains(got, "rejected_connections:0\r")
	}, patience, time.Millisecond)
	require.ErrorIs(t, err, relock.ErrUnavailable)
	granted := waitFor(t, c, "k")
	do("CONFIG", "SET", "maxclients", "1000")
	unlocked(t, within(t, granted))
}
