package hub

import (
	"context"
	"strconv"
	"testing"
	"time"

	"github.com/relock-go/relock/internal/clock"
	"github.com/relock-go/relock/internal/wire"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience is how long tests wait for what must happen. It is no promise of the library.
const patience = 15 * time.Second

// quiet is an owner that takes what a user would be told, and answers.
type quiet struct{ impaired, mended func(cause error) }

func (q quiet) Impaired(cause error) {
	if q.impaired != nil {
		q.impaired(cause)
	}
}

func (q quiet) Mended(cause error) {
	if q.mended != nil {
		q.mended(cause)
	}
}

func (quiet) Fails(error) {}

func (quiet) Answers(context.Context) error { return nil }

// noOrphan is for a hub to which no grant comes for an entry that is over.
func noOrphan(t testing.TB) func(wire.Grant) {
	return func(g wire.Grant) { t.Errorf("no orphan here: %+v", g) }
}

// earOf is the ear of a new entry, known to the hub.
func earOf(t testing.TB, h *Hub, name string, n int) *Ear {
	t.Helper()
	names, err := wire.Mutex.Names("", name)
	require.NoError(t, err)
	e := new(Ear)
	e.Register(h, &wire.Entry{
		Names: names, ID: h.client + ":" + strconv.Itoa(n), Lease: time.Minute, Block: 256,
		Timeout: time.Second,
	}, clock.NewSignal(), false)
	return e
}

// listens is such an ear that hears the lock's channels.
func listens(t testing.TB, h *Hub, name string, n int) *Ear {
	t.Helper()
	e := earOf(t, h, name, n)
	e.Listen()
	return e
}
