package relockvalkey_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/valkey-io/valkey-go"
	"go.uber.org/goleak"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/contrib/relockvalkey"
	"github.com/relock-go/relock/contrib/relockvalkey/overvalkey"
	"github.com/relock-go/relock/internal/driver"
	"github.com/relock-go/relock/internal/drivertest"
	"github.com/relock-go/relock/internal/drivertest/locks"
	"github.com/relock-go/relock/internal/redistest"
)

func TestMain(m *testing.M) {
	// The library's Cluster client closes nodes it no longer needs five seconds later, and looks for masters some time after a node
	// sent it elsewhere, whether it is closed or not.
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("github.com/valkey-io/valkey-go.(*clusterClient)._refresh.func2"),
		goleak.IgnoreAnyFunction("github.com/valkey-io/valkey-go.(*call).DelayDo.func1"))
}

// clientOf opens a client of the library, as a test wants it.
func clientOf(t testing.TB, to redistest.Target) valkey.Client {
	like := to.Rueidis()
	o := valkey.ClientOption{
		InitAddress: like.InitAddress, Username: like.Username, Password: like.Password, SelectDB: like.SelectDB,
		TLSConfig: like.TLSConfig, AlwaysRESP2: like.AlwaysRESP2, ForceSingleClient: like.ForceSingleClient,
		DisableCache: true, Dialer: like.Dialer, ConnWriteTimeout: like.ConnWriteTimeout,
		ReadBufferEachConn: like.ReadBufferEachConn, WriteBufferEachConn: like.WriteBufferEachConn, DialCtxFn: like.DialCtxFn,
	}
	if to.MasterSet != "" {
		o.Sentinel = valkey.SentinelOption{Dialer: like.Dialer, MasterSet: to.MasterSet}
	}
	if to.Replicas {
		o.SendToReplicas = func(cmd valkey.Completed) bool { return cmd.IsReadOnly() }
	}
	rdb, err := valkey.NewClient(o)
	require.NoError(t, err)
	return rdb
}

// Over this library the seam is what package driver says.
func TestDriver(t *testing.T) {
	drivertest.Run(t, func(t testing.TB, to redistest.Target) (driver.Redis, func()) {
		rdb := clientOf(t, to)
		return overvalkey.New(rdb), rdb.Close
	})
}

// Locks do what they promise on every kind of server that the library reaches.
func TestEveryRedis(t *testing.T) {
	locks.Run(t, func(t testing.TB, to redistest.Target) locks.Source {
		rdb := clientOf(t, to)
		t.Cleanup(rdb.Close)
		return func() driver.Redis { return overvalkey.New(rdb) }
	})
}

func TestRefused(t *testing.T) {
	_, err := relockvalkey.New(nil)
	require.ErrorIs(t, err, relock.ErrInvalidOption)
	rdb := clientOf(t, redistest.Start(t).Target())
	t.Cleanup(rdb.Close)
	_, err = relockvalkey.NewRedlock([]valkey.Client{rdb, rdb})
	require.ErrorIs(t, err, relock.ErrInvalidOption)
	locks, err := relockvalkey.New(rdb)
	require.NoError(t, err)
	require.NotNil(t, locks)
	locks.Close()
}

// What Redis answered stands in the errors as the library has it, whose own functions then know it.
func TestErrorsHoldTheClientsOwn(t *testing.T) {
	s := redistest.Start(t)
	s.Do("SET", "string", "x")
	rdb := clientOf(t, s.Target())
	t.Cleanup(rdb.Close)
	locks, err := relockvalkey.New(rdb)
	require.NoError(t, err)
	t.Cleanup(locks.Close)
	_, err = locks.Mutex("string").Lock(t.Context())
	var node *relock.NodeError
	require.ErrorAs(t, err, &node)
	_, known := valkey.IsValkeyErr(node.Err)
	require.True(t, known, "%T", node.Err)
}
