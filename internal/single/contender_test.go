package single

import (
	"context"
	"testing"
	"time"

	"github.com/relock-go/relock/internal/clock"
	"github.com/relock-go/relock/internal/driver/overrueidis"
	"github.com/relock-go/relock/internal/node"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/relock-go/relock/internal/wire"
	"github.com/stretchr/testify/require"
)

// A grant that a message tells of in time is believed, and dated from the poll before it.
func TestGrantIsDatedFromThePoll(t *testing.T) {
	s := redistest.Start(t)
	rdb := s.Client()
	holder, waiter := deaf(t, rdb, "h"), deaf(t, rdb, "w")
	inbox := inboxOf(t, s, "w")
	a, b := contenderOf(t, holder, "h", 1, 30*time.Second), contenderOf(t, waiter, "w", 1, 30*time.Second)
	asks(t, a)
	asks(t, b)
	polled, counter := b.Belief.Base, b.Belief.Counter
	_, _, err := a.Release(context.Background(), nil)
	require.NoError(t, err)
	messages := waiter.node.Debug().Hub
	messages.Message(wire.InboxPrefix+"w", within(t, inbox))
	require.True(t, b.Told(clock.Now()))
	g := b.granted()
	require.Equal(t, polled, g.Sent)
	require.Greater(t, g.Token, counter)
	messages.Message(wire.InboxPrefix+"w", "1 1 nobody")
	require.EqualValues(t, 1, messages.Skipped(), "what is no grant is counted and skipped")
}

// Where grants cannot be sent, a release queues nobody: no hand-over would ever take the entry out again, and the
// successor would sleep beside the free lock.
func TestRaceQueuesNobody(t *testing.T) {
	s := redistest.Start(t)
	raced := deafRedis{Redis: overrueidis.New(s.Client()), cluster: true}
	n := over(t, raced, "h", func(c *node.Config) { c.Plain = true })
	a, next := contenderOf(t, n, "h", 1, 30*time.Second), contenderOf(t, n, "h", 2, 30*time.Second)
	_, held := asks(t, a)
	require.True(t, held)
	require.Equal(t, "raced", n.node.Debug().Channels)
	_, held, err := a.Release(context.Background(), next)
	require.NoError(t, err)
	require.False(t, held)
	require.False(t, next.queued, "it has to ask for itself")
	require.Equal(t, "0", s.Do("EXISTS", "k", "relock_queue:{k}"))
	_, held = asks(t, next)
	require.True(t, held)
}
