package overgoredis

import (
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/relock-go/relock/internal/driver"
	"github.com/relock-go/relock/internal/drivertest"
	"github.com/relock-go/relock/internal/redistest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// clientOf opens a client of the library, as a test wants it.
func clientOf(to redistest.Target) redis.UniversalClient {
	o := &redis.UniversalOptions{
		Addrs: to.Addrs, MasterName: to.MasterSet, IsClusterMode: to.Cluster, ReadOnly: to.Replicas,
		Username: to.User, Password: to.Password, DB: to.DB, TLSConfig: to.TLS, ReadTimeout: time.Second,
	}
	if to.RESP2 {
		o.Protocol = 2
	}
	if to.Cluster {
		return redis.NewClusterClient(o.Cluster())
	}
	return redis.NewUniversalClient(o)
}

// Over this library the seam is what package driver says.
func TestDriver(t *testing.T) {
	drivertest.Run(t, func(t testing.TB, to redistest.Target) (driver.Redis, func()) {
		rdb := clientOf(to)
		d, err := New(rdb)
		require.NoError(t, err)
		return d, func() { _ = rdb.Close() }
	})
}
