package overrueidis

import (
	"context"
	"testing"

	"github.com/redis/rueidis"
	"github.com/relock-go/relock/internal/driver"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

// following is a call of Follow in the background.
type following struct {
	*ear
	end   context.CancelFunc
	ended chan error
}

func follow(t *testing.T, d *Redis, channels ...string) *following {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	f := &following{newEar(), cancel, make(chan error, 1)}
	go func() { f.ended <- d.Follow(ctx, f.ear, channels...) }()
	return f
}

// stop ends the subscription, which must be up.
func (f *following) stop(t *testing.T) {
	t.Helper()
	f.end()
	require.ErrorIs(t, within(t, f.ended), context.Canceled)
}

// counted requires that the master of a channel comes to count so many subscribers of it.
func counted(t *testing.T, cl *redistest.Cluster, channel, subscribers string) {
	t.Helper()
	master := cl.MasterFor(channel)
	require.Eventually(t, func() bool {
		return master.Do("PUBSUB", "SHARDNUMSUB", channel) == channel+"\n"+subscribers
	}, patience, tick, channel)
}

// spublisher publishes at the channel's master.
func spublisher(cl *redistest.Cluster) func(channel, message string) {
	return func(channel, message string) { cl.MasterFor(channel).Do("SPUBLISH", channel, message) }
}

func TestFollow(t *testing.T) {
	cl := redistest.StartCluster(t)
	if major, _, _ := cl.Nodes()[0].Version(); major < 7 {
		t.Skip("no sharded channels")
	}
	t.Run("a client of masters", func(t *testing.T) { followsMasters(t, cl) })
	t.Run("a user who may not", func(t *testing.T) { followsNot(t, cl) })
	t.Run("a client of replicas", func(t *testing.T) { followsReplicas(t, cl) })
	t.Run("masters nobody tells", func(t *testing.T) { followsBlindly(t, cl) })
	t.Run("a slot that moves", func(t *testing.T) { followsMove(t, cl) })
}

func followsMasters(t *testing.T, cl *redistest.Cluster) {
	d := over(t, cl.Client())
	require.True(t, d.Cluster())
	got, err := d.Do(t.Context(), []string{"PUBSUB", "SHARDNUMSUB"})
	require.NoError(t, err)
	require.Len(t, got, 1)
	require.NoError(t, got[0].Err())
	for _, tag := range []string{"{a}", "{b}", "{c}"} {
		f := follow(t, d, tag+"1", tag+"2")
		require.Equal(t, []string{tag + "1", tag + "2"}, []string{within(t, f.subscribed), within(t, f.subscribed)})
		f.hears(t, spublisher(cl), tag+"1")
		f.hears(t, spublisher(cl), tag+"2")
		counted(t, cl, tag+"1", "1")
		f.stop(t)
		counted(t, cl, tag+"1", "0")
		counted(t, cl, tag+"2", "0")
	}
	require.False(t, d.atReplicas.Load())
}

func followsNot(t *testing.T, cl *redistest.Cluster) {
	for _, s := range cl.Nodes() {
		s.AddUser("app", "secret", "~*", "+@all", "&*{good}*")
	}
	opt := cl.Option()
	opt.Username, opt.Password = "app", "secret"
	d := over(t, open(t, opt))
	f := follow(t, d, "{bad}1", "{bad}2")
	defer f.end()
	var reply *driver.ReplyError
	require.ErrorAs(t, within(t, f.ended), &reply)
	require.Contains(t, reply.Text, "NOPERM")
	good := follow(t, d, "{good}1")
	require.Equal(t, "{good}1", within(t, good.subscribed))
	good.stop(t)
}

// onReplicas are the options of a client that reads, and so would subscribe, at replicas.
func onReplicas(cl *redistest.Cluster) rueidis.ClientOption {
	opt := cl.Option()
	opt.SendToReplicas = func(cmd rueidis.Completed) bool { return cmd.IsReadOnly() }
	return opt
}

// A client of replicas comes to subscribe at the masters, within one call, and from then on at once.
func followsReplicas(t *testing.T, cl *redistest.Cluster) {
	d := over(t, open(t, onReplicas(cl)))
	for _, tag := range []string{"{a}", "{b}", "{c}"} {
		f := follow(t, d, tag+"1", tag+"2")
		counted(t, cl, tag+"1", "1")
		counted(t, cl, tag+"2", "1")
		spublisher(cl)(tag+"2", "hello")
		require.Equal(t, [2]string{tag + "2", "hello"}, within(t, f.messages))
		require.Empty(t, f.ended)
		require.True(t, d.atReplicas.Load())
		f.stop(t)
		counted(t, cl, tag+"1", "0")
	}
}

// nameless is a client that does not tell its nodes.
type nameless struct{ rueidis.Client }

func (nameless) Nodes() map[string]rueidis.Client { return nil }

// Where the masters cannot be told messages come from where the client subscribes, and the user is told once.
func followsBlindly(t *testing.T, cl *redistest.Cluster) {
	told := 0
	d := over(t, nameless{open(t, onReplicas(cl))})
	d.atReplicas.Store(true)
	for _, tag := range []string{"{a}", "{b}"} {
		f := follow(t, d, tag+"1")
		within(t, f.subscribed)
		require.Eventually(t, func() bool { // the master passes messages on where its replica is linked
			spublisher(cl)(tag+"1", "hello")
			return len(f.messages) > 0
		}, patience, tick)
		f.stop(t)
		told += len(f.impaired)
	}
	require.Equal(t, 1, told)
}

// A subscription whose slot moves ends without an error, and the next one is at the new master.
func followsMove(t *testing.T, cl *redistest.Cluster) {
	d := over(t, cl.Client())
	f := follow(t, d, "{moving}1")
	require.Equal(t, "{moving}1", within(t, f.subscribed))
	require.Eventually(t, func() bool { return running(d) == 0 }, patience, tick, "the master was asked")
	cl.MoveSlot("{moving}1")
	require.NoError(t, within(t, f.ended))
	f = follow(t, d, "{moving}1")
	counted(t, cl, "{moving}1", "1")
	f.stop(t)
}
