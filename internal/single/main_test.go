package single

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/relock-go/relock/internal/driver"
	"github.com/relock-go/relock/internal/driver/overrueidis"
	"github.com/relock-go/relock/internal/node"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/relock-go/relock/internal/wire"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience is how long tests wait for what must happen. It is no promise of the library.
const patience = 15 * time.Second

// block is how many tokens entries ask for.
const block = 256

// within takes what comes from ch, which must come.
func within[T any](t *testing.T, ch <-chan T) T {
	t.Helper()
	select {
	case v := <-ch:
		return v
	case <-time.After(patience):
		require.FailNow(t, "nothing came in time")
		panic("unreachable")
	}
}

// over returns the arbiter of a client over rdb, with what a client says of its Redis by default.
func over(t *testing.T, rdb driver.Redis, id string, changes ...func(*node.Config)) *Single {
	t.Helper()
	cfg := node.Config{
		Options: wire.Options{Retention: 10 * time.Minute}, Client: id, Timeout: 2 * time.Second,
		Impaired: func(error) {}, Mended: func(error) {},
	}
	for _, change := range changes {
		change(&cfg)
	}
	s := New(node.New(rdb, cfg))
	t.Cleanup(func() { s.Stop(); s.Close() })
	return s
}

// deafRedis is a Redis whose messages nobody receives.
type deafRedis struct {
	driver.Redis
	cluster bool // it says so
}

func (r deafRedis) Cluster() bool { return r.cluster }

func (deafRedis) Listen(ctx context.Context, _ driver.Handler) (driver.Listener, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

// deaf is an arbiter that receives no messages but those the test hands it.
func deaf(t *testing.T, rdb rueidis.Client, id string) *Single {
	t.Helper()
	return over(t, deafRedis{Redis: overrueidis.New(rdb)}, id)
}

// asks sends one acquire and notes its answer, as Wait does.
func asks(t *testing.T, c *contender) (node.Grant, bool) {
	t.Helper()
	c.Enter()
	g, err := c.poll(context.Background())
	require.NoError(t, err)
	return g, g.Token > 0
}

// contenderOf makes a client's nth claim, to the lock k.
func contenderOf(t *testing.T, s *Single, client string, n uint64, lease time.Duration) *contender {
	t.Helper()
	names, err := wire.Mutex.Names("", "k")
	require.NoError(t, err)
	return s.Claim(wire.Entry{
		Names: names, ID: fmt.Sprintf("%s:%d", client, n), Lease: lease, Block: block, Timeout: min(lease/6, 2*time.Second),
	}).(*contender)
}

// inboxOf subscribes a client's inbox in its place and returns what arrives.
func inboxOf(t *testing.T, s *redistest.Server, client string) <-chan string {
	t.Helper()
	got := make(chan string, 16)
	subscribe(t, s, wire.InboxPrefix+client, func(message string) {
		if !strings.HasPrefix(message, "0 2 ") { // that the lock is wanted is known
			got <- message
		}
	})
	return got
}

// subscribe listens on a channel as neither relock's nor Redisson's clients do, until the test ends.
func subscribe(t *testing.T, s *redistest.Server, channel string, hear func(message string)) {
	t.Helper()
	conn, release := s.Client().Dedicate()
	t.Cleanup(release)
	before := s.Do("PUBSUB", "NUMSUB", channel)
	conn.SetPubSubHooks(rueidis.PubSubHooks{OnMessage: func(m rueidis.PubSubMessage) { hear(m.Message) }})
	require.NoError(t, conn.Do(context.Background(), conn.B().Subscribe().Channel(channel).Build()).Error())
	require.Eventually(t, func() bool { return s.Do("PUBSUB", "NUMSUB", channel) != before }, patience, time.Millisecond)
}
