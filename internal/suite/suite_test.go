package suite_test

import (
	"testing"

	"github.com/redis/rueidis"
	"github.com/relock-go/relock/internal/driver"
	"github.com/relock-go/relock/internal/driver/overrueidis"
	suite "github.com/relock-go/relock/internal/drivertest/locks"
	"github.com/relock-go/relock/internal/faults"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

// overRueidis is a source of drivers over one client of rueidis.
func overRueidis(t testing.TB, opt rueidis.ClientOption) suite.Source {
	t.Helper()
	rdb, err := rueidis.NewClient(opt)
	require.NoError(t, err)
	t.Cleanup(rdb.Close)
	return func() driver.Redis { return overrueidis.New(rdb) }
}

// TestEveryRedis runs the suite on every kind of Redis.
func TestEveryRedis(t *testing.T) {
	t.Parallel()
	suite.Run(t, func(t testing.TB, to redistest.Target) suite.Source { return overRueidis(t, to.Rueidis()) })
}

// TestEveryClient runs the suite through clients that are set as only rueidis's can be.
func TestEveryClient(t *testing.T) {
	s := redistest.Start(t)
	for name, change := range map[string]func(*rueidis.ClientOption){
		"cache":            func(o *rueidis.ClientOption) { o.DisableCache = false },
		"one connection":   func(o *rueidis.ClientOption) { o.PipelineMultiplex = -1 },
		"always pipelined": func(o *rueidis.ClientOption) { o.AlwaysPipelining = true },
		"never pipelined":  func(o *rueidis.ClientOption) { o.DisableAutoPipelining = true },
		"not forced":       func(o *rueidis.ClientOption) { o.ForceSingleClient = false },
	} {
		t.Run(name, func(t *testing.T) {
			opt := s.Option()
			change(&opt)
			suite.Suite(t, overRueidis(t, opt), suite.Plain)
		})
	}
	t.Run("wrapped", func(t *testing.T) {
		w := faults.NewClient(s.Client())
		w.Filter(faults.All(faults.AnyScript, faults.Pass))
		suite.Suite(t, func() driver.Redis { return overrueidis.New(w) }, suite.Plain)
	})
}
