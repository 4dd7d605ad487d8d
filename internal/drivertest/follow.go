package drivertest

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/relock-go/relock/internal/driver"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

func init() {
	ofSlots = append(ofSlots,
		check{"a Cluster's commands", clusterCommands},
		check{"listen in a Cluster", listensInCluster},
		check{"follow", follows},
		check{"followers that share a channel", followsBeside},
		check{"a follower who may not", followsForbidden},
		check{"a follower whose client reads from replicas", followsAtMasters},
		check{"a slot that moves", followsMove},
		check{"a master that is silent", followsSilence},
	)
}

// following is a call of Follow in the background.
type following struct {
	*ear
	end   context.CancelFunc
	ended chan error
}

// follow calls Follow in the background, until the test ends at most.
func follow(t testing.TB, rdb driver.Redis, channels ...string) *following {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	f := &following{newEar(t), cancel, make(chan error, 1)}
	go func() { f.ended <- rdb.Follow(ctx, f.ear, channels...) }()
	t.Cleanup(cancel)
	return f
}

// stop ends the subscription, and requires that it had not ended before.
func (f *following) stop(t testing.TB) {
	t.Helper()
	f.end()
	require.ErrorIs(t, within(t, f.ended, "the end of Follow"), context.Canceled)
}

// sharded skips a check if the server has no sharded channels.
func sharded(t testing.TB, cl *redistest.Cluster) {
	if major, _, _ := cl.Nodes()[0].Version(); major < 7 {
		t.Skip("no sharded channels")
	}
}

// counted waits until the master of a channel counts that many subscribers of it.
func counted(t testing.TB, cl *redistest.Cluster, channel, subscribers string) {
	t.Helper()
	master := cl.MasterFor(channel)
	eventually(t, func() bool {
		return master.Do("PUBSUB", "SHARDNUMSUB", channel) == channel+"\n"+subscribers
	}, "subscribers of "+channel+": "+subscribers)
}

// spublisher publishes at the channel's master.
func spublisher(cl *redistest.Cluster) func(channel, message string) {
	return func(channel, message string) { cl.MasterFor(channel).Do("SPUBLISH", channel, message) }
}

// tags are hash tags with slots at different masters.
var tags = []string{"{a}", "{b}", "{c}"}

// Scripts run on the master of their slot, also when the client reads from replicas.
func clusterCommands(t testing.TB, b *bed) {
	to := b.cluster.Target()
	for _, to.Replicas = range []bool{false, true} {
		d := b.over(t, to)
		require.True(t, d.Cluster())
		for _, tag := range tags {
			got, err := d.Run(t.Context(), driver.NewScript("return redis.call('INFO','replication')"), []string{tag + "k"}, nil)
			require.NoError(t, err)
			info, err := got.Text()
			require.NoError(t, err)
			require.Contains(t, info, "role:master")
			_, err = d.Run(t.Context(), increase, []string{tag + "k"}, nil)
			require.NoError(t, err)
		}
		for range 10 {
			got, err := d.Do(t.Context(), []string{"CLUSTER", "MYID"}, []string{"NONSENSE"}, []string{"CLUSTER", "MYID"})
			require.NoError(t, err)
			require.Len(t, got, 3)
			require.Equal(t, got[0], got[2], "one node answers all")
			refused(t, got[1].Err(), "unknown command")
		}
	}
}

// A plain channel is heard wherever in a Cluster a message is published. After the death of the
// node where it was subscribed, Listen finds another node, though no failed command makes the
// library look for nodes.
func listensInCluster(t testing.TB, b *bed) {
	const channel = "{a}plain"
	d := b.over(t, b.cluster.Target())
	l, e := listen(t, d)
	require.NoError(t, l.Subscribe(t.Context(), channel))
	for _, tag := range tags {
		e.hears(t, publisher(b.cluster.MasterFor(tag)), channel, tag)
	}
	gone := subscribedAt(t, b.cluster, channel)
	gone.Kill()
	defer b.cluster.Return(gone)
	require.Error(t, within(t, l.Dropped(), "Dropped"))
	l.Close()
	eventually(t, func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second) // as in the hub
		defer cancel()
		again, err := d.Listen(ctx, e)
		if err == nil {
			if err = again.Subscribe(ctx, channel); err != nil {
				again.Close()
			}
			l = again
		}
		return err == nil
	}, "another node")
	defer l.Close()
	e.hears(t, publisher(subscribedAt(t, b.cluster, channel)), channel, "hello")
}

// subscribedAt returns the node of a Cluster at which a plain channel is subscribed.
func subscribedAt(t testing.TB, cl *redistest.Cluster, channel string) *redistest.Server {
	t.Helper()
	for _, s := range cl.Nodes() {
		if count, err := s.Try("PUBSUB", "NUMSUB", channel); err == nil && fmt.Sprint(count) == fmt.Sprint([]any{channel, int64(1)}) {
			return s
		}
	}
	require.FailNow(t, "the channel is subscribed nowhere")
	return nil
}

func follows(t testing.TB, b *bed) {
	sharded(t, b.cluster)
	d := b.over(t, b.cluster.Target())
	for _, tag := range tags {
		f := follow(t, d, tag+"1", tag+"2")
		f.confirms(t, tag+"1", tag+"2")
		counted(t, b.cluster, tag+"1", "1")
		f.hears(t, spublisher(b.cluster), tag+"1", "hello")
		f.hears(t, spublisher(b.cluster), tag+"2", "hello")
		require.Empty(t, f.ended)
		f.stop(t)
		counted(t, b.cluster, tag+"1", "0")
		counted(t, b.cluster, tag+"2", "0")
	}
}

// Where one of two followers of a channel leaves, the other is not left deaf: it goes on hearing the channel, or its call
// of Follow ends without an error, and the next one hears.
func followsBeside(t testing.TB, b *bed) {
	sharded(t, b.cluster)
	d, publish := b.over(t, b.cluster.Target()), spublisher(b.cluster)
	for i, tag := range tags {
		shared, own := tag+"shared", []string{tag + "1", tag + "2"}
		var both []*following
		for _, channel := range own {
			f := follow(t, d, channel, shared)
			f.confirms(t, channel, shared)
			both = append(both, f)
		}
		leaves := i % 2 // the first, or the last
		both[leaves].stop(t)
		counted(t, b.cluster, own[leaves], "0")
		stays, channel, heard := both[1-leaves], own[1-leaves], false
		for deadline := time.Now().Add(patience(t)); !heard; {
			require.True(t, time.Now().Before(deadline), "the follower that stays hears no message")
			publish(shared, "hello")
			select {
			case <-stays.messages:
				heard = true
			case err := <-stays.ended:
				require.NoError(t, err)
				stays = follow(t, d, channel, shared)
			case <-time.After(tick):
			}
		}
		stays.stop(t)
		counted(t, b.cluster, channel, "0")
		counted(t, b.cluster, shared, "0")
	}
}

func followsForbidden(t testing.TB, b *bed) {
	sharded(t, b.cluster)
	for _, s := range b.cluster.Nodes() {
		s.AddUser("app", "secret", "~*", "+@all", "&*{good}*")
	}
	d := b.over(t, b.cluster.Target().As("app", "secret"))
	f := follow(t, d, "{bad}1", "{bad}2")
	refused(t, within(t, f.ended, "the end of Follow"), "NOPERM")
	good := follow(t, d, "{good}1")
	good.confirms(t, "{good}1")
	good.stop(t)
}

// A client that reads from replicas comes to subscribe at the masters, within one call of Follow.
func followsAtMasters(t testing.TB, b *bed) {
	sharded(t, b.cluster)
	to := b.cluster.Target()
	to.Replicas = true
	d := b.over(t, to)
	for _, tag := range tags {
		f := follow(t, d, tag+"1", tag+"2")
		counted(t, b.cluster, tag+"1", "1")
		counted(t, b.cluster, tag+"2", "1")
		f.hears(t, spublisher(b.cluster), tag+"2", "hello")
		require.Empty(t, f.ended)
		f.stop(t)
		counted(t, b.cluster, tag+"1", "0")
	}
}

// A subscription whose slot moves ends without an error, and the next one comes to be at the new
// master. Scripts go there, too.
func followsMove(t testing.TB, b *bed) {
	sharded(t, b.cluster)
	d := b.over(t, b.cluster.Target())
	f := follow(t, d, "{moving}1")
	f.confirms(t, "{moving}1")
	counted(t, b.cluster, "{moving}1", "1")
	b.cluster.MoveSlot("{moving}1")
	require.NoError(t, within(t, f.ended, "the end of Follow"))
	_, err := d.Run(t.Context(), increase, []string{"{moving}k"}, nil)
	require.NoError(t, err)
	f = follow(t, d, "{moving}1")
	counted(t, b.cluster, "{moving}1", "1")
	f.stop(t)
}

// A subscription whose master falls silent ends in time, or is confirmed anew by another master.
func followsSilence(t testing.TB, b *bed) {
	sharded(t, b.cluster)
	d := b.over(t, b.cluster.Target())
	f := follow(t, d, "{silent}1")
	f.confirms(t, "{silent}1")
	counted(t, b.cluster, "{silent}1", "1")
	master := b.cluster.MasterFor("{silent}1")
	master.Pause()
	defer b.cluster.Return(master)
	select {
	case err := <-f.ended:
		require.Error(t, err)
	case channel := <-f.subscribed:
		require.Equal(t, "{silent}1", channel)
		f.stop(t)
	case <-time.After(patience(t)):
		require.Fail(t, "the subscription neither ends nor is confirmed anew")
	}
}
