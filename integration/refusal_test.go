//go:build unix

package integration

import (
	"context"
	"errors"
	"io"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

const (
	atOnce   = time.Second            // for what cannot heal: a third of the time that is granted
	patience = 3 * time.Second        // the time that callers have where nothing heals
	briefly  = 300 * time.Millisecond // and where it would, later
)

// open makes a relock client of its own on what o reaches. Both end with the test.
func open(t *testing.T, o rueidis.ClientOption) *relock.Client {
	t.Helper()
	rdb, err := rueidis.NewClient(o)
	require.NoError(t, err)
	t.Cleanup(rdb.Close)
	locks, err := relock.New(rdb, relock.WithLease(3*time.Second))
	require.NoError(t, err)
	t.Cleanup(locks.Close)
	return locks
}

// inScript is how servers refuse a command of a script for want of permission: Redis up to 7.0, and later ones.
const inScript = "The user executing the script can't|ACL failure in script"

// refusedWith checks that err is a *relock.NodeError about lock that says what the pattern says.
func refusedWith(t *testing.T, err error, lock, says string) {
	t.Helper()
	var node *relock.NodeError
	require.ErrorAs(t, err, &node)
	require.Equal(t, lock, node.Name)
	require.NotEmpty(t, node.Op)
	require.Regexp(t, says, err.Error())
}

// tried is what TryLock says once the client has noticed, on each of its connections, that they are gone.
func tried(t *testing.T, m *relock.Mutex) error {
	t.Helper()
	for range 10 {
		_, err := m.TryLock(t.Context())
		if !errors.Is(err, io.EOF) {
			t.Logf("TryLock: %v", err)
			return err
		}
	}
	t.Fatal("TryLock goes on telling of lost connections")
	return nil
}

// refusedAtOnce checks that Lock and TryLock return what cannot heal long before their time is up.
func refusedAtOnce(t *testing.T, m *relock.Mutex, code string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	begun := now()
	_, err := m.Lock(ctx)
	took := now() - begun
	t.Logf("Lock after %v: %v", took.Round(time.Microsecond), err)
	require.Less(t, took, atOnce)
	for _, err := range []error{err, tried(t, m)} {
		refusedWith(t, err, m.Name(), code)
		require.NotErrorIs(t, err, relock.ErrNotAcquired)
	}
}

// ridesOut checks that TryLock tells of the failure, that Lock waits as long as its ctx allows, and that a Lock which
// is under way when heal is called gets the lock.
func ridesOut(t *testing.T, m *relock.Mutex, code string, heal func()) {
	t.Helper()
	refusedWith(t, tried(t, m), m.Name(), code)
	ctx, cancel := context.WithTimeout(t.Context(), briefly)
	defer cancel()
	_, err := m.Lock(ctx)
	require.Error(t, ctx.Err(), "Lock returned before its time was up: %v", err)
	refusedWith(t, err, m.Name(), code)
	require.NotErrorIs(t, err, relock.ErrNotAcquired)
	require.ErrorIs(t, err, context.DeadlineExceeded)

	got := make(chan error, 1)
	ctx, cancel = context.WithTimeout(t.Context(), soon)
	defer cancel()
	go func() {
		l, err := m.Lock(ctx)
		if err == nil {
			err = l.Unlock(ctx)
		}
		got <- err
	}()
	select {
	case err := <-got:
		t.Fatalf("Lock ended though nothing healed: %v", err)
	case <-time.After(briefly):
	}
	heal()
	healed := now()
	require.NoError(t, <-got)
	t.Logf("locked and unlocked %v after it healed", (now() - healed).Round(time.Millisecond))
}

func TestUnreachable(t *testing.T) {
	for name, c := range map[string]struct {
		begin, heal func(*redistest.Server)
		says        string
	}{
		"down":   {(*redistest.Server).Kill, (*redistest.Server).Restart, "connection refused"},
		"paused": {(*redistest.Server).Pause, (*redistest.Server).Resume, "no answer"},
	} {
		t.Run(name, func(t *testing.T) {
			begin(t)
			s := redistest.Start(t)
			m := open(t, s.Option()).Mutex("orders")
			c.begin(s)
			ridesOut(t, m, c.says, func() { c.heal(s) })
			absent(t, soon, s, "orders")
		})
	}
}

func TestNoAuth(t *testing.T) {
	begin(t)
	s := redistest.Start(t)
	m := open(t, s.Option()).Mutex("orders")
	admin := s.Client() // logged in before there is a password
	s.Do("CONFIG", "SET", "requirepass", "secret")
	require.NoError(t, admin.Do(t.Context(), admin.B().ClientKill().TypeNormal().Build()).Error())
	refusedAtOnce(t, m, "NOAUTH")
}

func TestWrongPassword(t *testing.T) {
	begin(t)
	s := redistest.Start(t)
	m := open(t, s.AddUser("app", "old", "~*", "&*", "+@all")).Mutex("orders")
	s.Do("ACL", "SETUSER", "app", "resetpass", ">new")
	s.Do("CLIENT", "KILL", "USER", "app")
	refusedAtOnce(t, m, "WRONGPASS")
}

func TestNoPermission(t *testing.T) {
	begin(t)
	s := redistest.Start(t)
	for missing, says := range map[string]string{
		"-evalsha": "NOPERM", "resetkeys": "NOPERM", "-hset": "NOPERM|" + inScript, "-set": "NOPERM|" + inScript,
	} {
		t.Run(missing, func(t *testing.T) {
			m := open(t, s.AddUser("app"+missing, "secret", "~*", "&*", "+@all", missing)).Mutex("orders" + missing)
			refusedAtOnce(t, m, says)
			require.Equal(t, "0", s.Do("EXISTS", m.Name(), queueKey(m.Name())))
		})
	}
	// What may not be subscribed is found out beside the grant, which is given back.
	m := open(t, s.AddUser("appresetchannels", "secret", "~*", "&*", "+@all", "resetchannels")).Mutex("ordersresetchannels")
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	begun := now()
	_, err := m.Lock(ctx)
	refusedWith(t, err, m.Name(), "NOPERM")
	require.NotErrorIs(t, err, relock.ErrNotAcquired)
	require.Less(t, now()-begun, atOnce)
	absent(t, atOnce, s, m.Name())
	// Only an unlock publishes. A server that can tell says so before the lock is held, else it is freed before it is refused.
	m = open(t, s.AddUser("app-publish", "secret", "~*", "&*", "+@all", "-publish")).Mutex("orders-publish")
	begun = now()
	l, err := m.Lock(t.Context())
	if err == nil {
		err = l.Unlock(t.Context())
	}
	refusedWith(t, err, m.Name(), "NOPERM|"+inScript)
	require.Less(t, now()-begun, atOnce)
	require.Equal(t, "0", s.Do("EXISTS", m.Name(), queueKey(m.Name())))
}

func TestWrongType(t *testing.T) {
	begin(t)
	s := redistest.Start(t)
	locks := open(t, s.Option())
	s.Do("SET", "orders", "x")
	refusedAtOnce(t, locks.Mutex("orders"), "WRONGTYPE")
	require.Equal(t, "x", s.Do("GET", "orders"))
	s.Do("SET", queueKey("invoices"), "x")
	refusedAtOnce(t, locks.Mutex("invoices"), "WRONGTYPE")
	s.Do("SET", "redisson_lock_token:{bills}", "x")
	refusedAtOnce(t, locks.Mutex("bills"), "not an integer")
	require.Equal(t, "0", s.Do("EXISTS", "invoices", "bills"), "nothing is held after a refusal")
}

func TestReplica(t *testing.T) {
	begin(t)
	s := redistest.Start(t)
	m := open(t, s.Option()).Mutex("orders")
	master := redistest.Start(t)
	s.Do("REPLICAOF", "127.0.0.1", strconv.Itoa(master.Port()))
	ridesOut(t, m, "READONLY", func() { s.Do("REPLICAOF", "NO", "ONE") })
	absent(t, soon, s, "orders")
}

// The server loads its data for seconds: each of its keys takes 5 ms. It answers in between, once in two megabytes, so
// that a caller's time may be over with a poll on its way.
func TestLoading(t *testing.T) {
	begin(t)
	s := redistest.Start(t, "--key-load-delay", "5000", "--rdbcompression", "no")
	m := open(t, s.Option()).Mutex("orders")
	s.Do("EVAL", "for i = 1, 400 do redis.call('SET', 'k' .. i, string.rep('x', 204800)) end", "0")
	loaded := make(chan error, 1)
	go func() {
		_, err := s.Try("DEBUG", "RELOAD")
		loaded <- err
	}()
	require.Eventually(t, func() bool {
		_, err := s.Try("GET", "k1")
		return err != nil && strings.HasPrefix(err.Error(), "LOADING")
	}, soon, 5*time.Millisecond)
	ridesOut(t, m, "LOADING|no answer", func() { require.NoError(t, <-loaded) })
	absent(t, soon, s, "orders")
}

func TestOutOfMemory(t *testing.T) {
	begin(t)
	s := redistest.Start(t)
	locks := open(t, s.Option())
	held, err := locks.Mutex("orders").Lock(t.Context())
	require.NoError(t, err)
	s.Do("CONFIG", "SET", "maxmemory", "1")
	refusedAtOnce(t, locks.Mutex("invoices"), "OOM")
	// Renewals keep what is held.
	select {
	case <-held.Context().Done():
		t.Fatalf("lost: %v", context.Cause(held.Context()))
	case <-time.After(4 * time.Second):
	}
	require.NoError(t, held.Unlock(t.Context()))
	absent(t, soon, s, "orders")
	s.Do("CONFIG", "SET", "maxmemory", "0")
	l, err := locks.Mutex("invoices").Lock(t.Context())
	require.NoError(t, err)
	require.NoError(t, l.Unlock(t.Context()))
}

// While a slot is on the move, a lock of whose keys some have moved answers neither here nor there.
func TestSlotOnTheMove(t *testing.T) {
	begin(t)
	cluster := redistest.StartCluster(t)
	locks := open(t, cluster.Option())
	m := locks.Mutex("{orders}")
	l, err := m.Lock(t.Context()) // the counter stays behind and has to move
	require.NoError(t, err)
	require.NoError(t, l.Unlock(t.Context()))
	move := cluster.BeginMove("{orders}")
	ridesOut(t, m, "TRYAGAIN", move.Finish)
	absent(t, soon, move.To, "{orders}")
}

// The cause of a NodeError can be asked for.
func TestClosedRedisClient(t *testing.T) {
	begin(t)
	s := redistest.Start(t)
	rdb, err := rueidis.NewClient(s.Option())
	require.NoError(t, err)
	locks, err := relock.New(rdb)
	require.NoError(t, err)
	defer locks.Close()
	rdb.Close()
	_, err = locks.Mutex("orders").Lock(t.Context())
	refusedWith(t, err, "orders", rueidis.ErrClosing.Error())
	require.ErrorIs(t, err, rueidis.ErrClosing)
}
