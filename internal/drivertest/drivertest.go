// Package drivertest checks that a driver is what package driver says. Each driver's module calls
// Run from a test.
package drivertest

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/relock-go/relock/internal/driver"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

// A Maker opens a client of a driver's library and the driver over it. Its time-outs for dials and
// answers should be a few seconds, and it should cache nothing on the client's side. The driver is
// closed before closeClient is called.
type Maker func(t testing.TB, to redistest.Target) (rdb driver.Redis, closeClient func())

// patience is how long a check waits for an expected event: what the test's own patience method
// returns, if it has one, else driver.Silence.
func patience(t testing.TB) time.Duration {
	if own, ok := t.(interface{ patience() time.Duration }); ok {
		return own.patience()
	}
	return driver.Silence
}

// tick is the pause between two looks at a server.
const tick = 5 * time.Millisecond

// check is a rule of the seam.
type check struct {
	name string
	run  func(t testing.TB, b *bed)
}

// alone are the checks during which nothing else may run. ofSlots are made one after the other, on
// one Cluster.
var (
	alone   = []check{}
	checks  = []check{}
	ofSlots = []check{}
)

// Run makes all checks, in both versions of the protocol.
func Run(t *testing.T, open Maker) {
	protocols := map[string]bool{"resp2": true, "resp3": false}
	for _, c := range alone {
		for name, old := range protocols {
			t.Run(c.name+"/"+name, func(t *testing.T) { c.run(t, &bed{open: open, resp2: old}) })
		}
	}
	for name, old := range protocols {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, c := range checks {
				t.Run(c.name, func(t *testing.T) {
					t.Parallel()
					c.run(t, &bed{open: open, resp2: old})
				})
			}
			t.Run("slots", func(t *testing.T) {
				t.Parallel()
				cl := redistest.StartCluster(t)
				for _, c := range ofSlots {
					t.Run(c.name, func(t *testing.T) { c.run(t, &bed{open: open, resp2: old, cluster: cl}) })
				}
			})
		})
	}
}

// bed is the setting of a check: how to open a client, and the Cluster.
type bed struct {
	open    Maker
	resp2   bool
	cluster *redistest.Cluster // for the checks of a Cluster
}

// client is an open client and its driver.
type client struct {
	driver.Redis
	close func() // closes the library's client, once
}

// over opens a client. At the test's end it requires that the driver closes in time, and closes the
// client.
func (b *bed) over(t testing.TB, to redistest.Target) *client {
	t.Helper()
	to.RESP2 = b.resp2
	rdb, closeClient := b.open(t, to)
	c := &client{rdb, sync.OnceFunc(closeClient)}
	t.Cleanup(func() {
		defer c.close()
		closes(t, rdb)
	})
	return c
}

// closes requires that a driver closes in time.
func closes(t testing.TB, rdb driver.Redis) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience(t))
	defer cancel()
	rdb.Close(ctx)
	require.NoError(t, ctx.Err(), "the driver's goroutines do not end")
}

// within receives from ch, and fails the test if nothing comes in time.
func within[T any](t testing.TB, ch <-chan T, what string) (v T) {
	t.Helper()
	select {
	case v = <-ch:
	case <-time.After(patience(t)):
		require.FailNow(t, "it did not come in time", what)
	}
	return v
}

// never calls look repeatedly; look fails the test if the unwanted event has happened. The number
// of calls is fixed, not the time: on a busy machine a deadline could pass with hardly a call.
func never(look func()) {
	for range 20 {
		look()
		time.Sleep(2 * tick)
	}
	look()
}

// eventually requires that a condition comes true.
func eventually(t testing.TB, holds func() bool, what string) {
	t.Helper()
	require.Eventually(t, holds, patience(t), tick, what)
}

// returns runs a script without keys that returns an expression.
func returns(t testing.TB, rdb driver.Redis, expression string) (driver.Value, error) {
	t.Helper()
	return rdb.Run(t.Context(), driver.NewScript("return "+expression), nil, nil)
}

// works requires that a script is answered, if need be by a new connection.
func works(t testing.TB, rdb driver.Redis) {
	t.Helper()
	eventually(t, func() bool { _, err := returns(t, rdb, "1"); return err == nil }, "a script's answer")
}

// refused requires that the server answered with an error whose text contains text.
func refused(t testing.TB, err error, text string) {
	t.Helper()
	var reply *driver.ReplyError
	require.ErrorAs(t, err, &reply)
	require.Contains(t, reply.Text, text)
	require.NotErrorIs(t, err, driver.ErrUnsent)
}

// unanswered requires that a command failed without an answer, and may have run.
func unanswered(t testing.TB, err error) {
	t.Helper()
	require.Error(t, err)
	require.False(t, isReply(err), "the server answered nothing: %v", err)
	require.NotErrorIs(t, err, driver.ErrUnsent)
}
