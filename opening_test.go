package relock

import (
	"testing"
	"time"

	"github.com/relock-go/relock/internal/driver"
	"github.com/relock-go/relock/internal/driver/overrueidis"
	"github.com/relock-go/relock/internal/faults"
	"github.com/relock-go/relock/internal/opening"
	"github.com/stretchr/testify/require"
)

// A driver of another module is checked as a client at the front door is, and its client as well.
func TestOpeningChecksDrivers(t *testing.T) {
	a, b := new(faults.Stub), new(faults.Stub)
	for why, nodes := range map[string][]driver.Redis{
		"no nodes":                  {},
		"node 1 is nil":             {overrueidis.New(nil), b},
		"node 2 is nil":             {a, nil},
		"node 3 is node 1 again":    {a, b, faults.NewRedis(a)},
		"node 2 is a Cluster; a qu": {a, &faults.Stub{Slots: true}},
	} {
		c, err := opening.NewRedlock(nodes, []Option{})
		require.ErrorIs(t, err, ErrInvalidOption, why)
		require.ErrorContains(t, err, why)
		require.Nil(t, c.(*Client))
	}
	for _, rdb := range []driver.Redis{nil, overrueidis.New(nil), &faults.Stub{Slots: true}} {
		c, err := opening.New(rdb, []Option{WithRestartGuard(GuardAuto, time.Minute)})
		require.ErrorIs(t, err, ErrInvalidOption)
		require.Nil(t, c.(*Client))
	}
	c, err := opening.NewRedlock([]driver.Redis{a, b, new(faults.Stub)}, []Option{WithQuorum(2)})
	require.NoError(t, err)
	c.(*Client).Close()
	_, err = opening.New(a, []Option{WithLease(-1)})
	require.ErrorIs(t, err, ErrInvalidOption)
}
