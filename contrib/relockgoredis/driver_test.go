package relockgoredis_test

import (
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/contrib/relockgoredis/overgoredis"
	"github.com/relock-go/relock/internal/driver"
	"github.com/relock-go/relock/internal/drivertest"
	"github.com/relock-go/relock/internal/drivertest/locks"
	"github.com/relock-go/relock/internal/redistest"
)

// clientOf opens a client of the library, as a test wants it.
func clientOf(to redistest.Target) redis.UniversalClient {
	o := &redis.UniversalOptions{
		Addrs: to.Addrs, MasterName: to.MasterSet, IsClusterMode: to.Cluster, ReadOnly: to.Replicas,
		Username: to.User, Password: to.Password, DB: to.DB, TLSConfig: to.TLS, ReadTimeout: time.Second,
		Dialer: to.Dial,
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
		d, err := overgoredis.New(rdb)
		require.NoError(t, err)
		return d, func() { _ = rdb.Close() }
	})
}

// Locks do what they promise on every kind of Redis that the library reaches.
func TestEveryRedis(t *testing.T) {
	locks.Run(t, func(t testing.TB, to redistest.Target) locks.Source {
		rdb := clientOf(to)
		t.Cleanup(func() { _ = rdb.Close() })
		return func() driver.Redis {
			d, err := overgoredis.New(rdb)
			require.NoError(t, err)
			return d
		}
	})
}
