package overrueidis

import (
	"testing"

	"github.com/redis/rueidis"
	"github.com/relock-go/relock/internal/driver"
	"github.com/relock-go/relock/internal/drivertest"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

func TestSeam(t *testing.T) {
	drivertest.Run(t, func(t testing.TB, to redistest.Target) (driver.Redis, func()) {
		rdb, err := rueidis.NewClient(to.Rueidis())
		require.NoError(t, err)
		return New(rdb), rdb.Close
	})
}
