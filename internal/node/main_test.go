package node

import (
	"fmt"
	"testing"
	"time"

	"github.com/relock-go/relock/internal/clock"
	"github.com/relock-go/relock/internal/driver"
	"github.com/relock-go/relock/internal/wire"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// nodeOf is a node over rdb, of the client "c", and what closes it.
func nodeOf(rdb driver.Redis, change ...func(*Config)) (n *Node, closes func()) {
	cfg := Config{Client: "c", Timeout: time.Second, Impaired: func(error) {}, Mended: func(error) {}}
	for _, c := range change {
		c(&cfg)
	}
	n = New(rdb, cfg)
	return n, func() {
		n.Stop()
		n.LastSweep()
		n.Close()
	}
}

// entryOf is a try of the client "c" for a mutex.
func entryOf(t *testing.T, name string, number int, lease time.Duration) *wire.Entry {
	t.Helper()
	names, err := wire.Mutex.Names("", name)
	require.NoError(t, err)
	return &wire.Entry{
		Names: names, ID: fmt.Sprint("c:", number), Lease: lease, Block: 256, Timeout: lease / 6,
	}
}

// claimOf is a claim of such an entry, known to the hub.
func claimOf(t *testing.T, n *Node, name string, number int, lease time.Duration) *Claim {
	t.Helper()
	c := new(Claim)
	c.Start(n, entryOf(t, name, number, lease), clock.NewSignal())
	c.Enter()
	return c
}
