package sim

import (
	"testing"
	"time"

	"github.com/relock-go/relock/internal/driver"
	"github.com/stretchr/testify/require"
)

// world is a time that stands until it is told to go on.
type world struct{ now time.Time }

func newWorld() *world                { return &world{now: time.UnixMilli(1_700_000_000_000)} }
func (w *world) source() time.Time    { return w.now }
func (w *world) pass(d time.Duration) { w.now = w.now.Add(d) }
func (w *world) server(name string) *Server {
	return NewServer(Options{Name: name, Clock: NewClock(w.source)})
}

func text(t *testing.T, v driver.Value) string {
	t.Helper()
	require.NoError(t, v.Err())
	if v.IsNil() {
		return "(nil)"
	}
	s, err := v.Text()
	require.NoError(t, err)
	return s
}

// ask runs a command over a connection of its own.
func ask(t *testing.T, s *Server, args ...string) string {
	t.Helper()
	c := s.Open("", "", nil, nil)
	defer c.Close()
	return text(t, s.Exec(c, args))
}

func TestClock(t *testing.T) {
	w := newWorld()
	c := NewClock(w.source)
	require.Equal(t, w.now.UnixMicro(), c.Micro())
	c.Step(time.Second)
	c.Drift(2)
	w.pass(time.Minute)
	require.Equal(t, 2*time.Minute+time.Second, c.Now().Sub(time.UnixMilli(1_700_000_000_000)))
	c.Drift(0)
	w.pass(time.Minute)
	c.Step(-time.Second)
	require.Equal(t, 2*time.Minute, c.Now().Sub(time.UnixMilli(1_700_000_000_000)))
}

func TestKeysEndByTheServersClock(t *testing.T) {
	w := newWorld()
	s := w.server("a")
	ask(t, s, "SET", "k", "v", "PX", "1000")
	w.pass(time.Second)
	require.Equal(t, "v", ask(t, s, "GET", "k"), "the last millisecond is still the key's")
	s.Clock().Step(-time.Hour)
	require.Equal(t, "3600000", ask(t, s, "PTTL", "k"))
	s.Clock().Step(time.Hour + time.Millisecond)
	require.Equal(t, "(nil)", ask(t, s, "GET", "k"))
}

func TestRestart(t *testing.T) {
	w := newWorld()
	s := w.server("a")
	var why error
	c := s.Open("", "", nil, func(err error) { why = err })
	run := s.RunID()
	ask(t, s, "SET", "old", "1")
	sha := ask(t, s, "SCRIPT", "LOAD", "return 1")
	s.Snapshot()
	ask(t, s, "SET", "new", "1")

	s.Restart(All)
	require.ErrorIs(t, why, ErrStopped)
	require.True(t, c.Closed())
	require.Error(t, s.Exec(c, []string{"PING"}).Err())
	require.NotEqual(t, run, s.RunID())
	require.Contains(t, ask(t, s, "INFO", "server"), "run_id:"+s.RunID())
	require.Equal(t, "2", ask(t, s, "EXISTS", "old", "new"))
	fresh := s.Open("", "", nil, nil)
	require.ErrorContains(t, s.Exec(fresh, []string{"EVALSHA", sha, "0"}).Err(), "NOSCRIPT")

	s.Restart(Snapshot)
	require.Equal(t, "1", ask(t, s, "EXISTS", "old", "new"))
	s.Restart(Nothing)
	require.Equal(t, "0", ask(t, s, "EXISTS", "old", "new"))

	s.Stop()
	require.Nil(t, s.Open("", "", nil, nil))
	require.False(t, s.Running())
}

func TestReplicas(t *testing.T) {
	w := newWorld()
	master, replica := w.server("m"), w.server("r")
	ask(t, master, "SET", "before", "1")
	replica.ReplicaOf(master)
	require.Equal(t, "1", ask(t, replica, "GET", "before"))

	ask(t, master, "EVAL", "redis.call('HSET', 'h', 'f', 1) redis.call('PEXPIRE', 'h', 1000) redis.call('ZADD', 'z', 1, 'a') return 1", "0")
	ask(t, master, "INCR", "n")
	require.Equal(t, 2, replica.Lag(), "what a script writes is one unit")
	require.Equal(t, "0", ask(t, replica, "EXISTS", "h", "z", "n"))
	replica.CatchUp(1)
	require.Equal(t, "2", ask(t, replica, "EXISTS", "h", "z", "n"))
	require.Equal(t, "1000", ask(t, replica, "PTTL", "h"))
	c := replica.Open("", "", nil, nil)
	require.ErrorContains(t, replica.Exec(c, []string{"SET", "a", "b"}).Err(), "READONLY")

	replica.Promote()
	require.Equal(t, "0", ask(t, replica, "EXISTS", "n"), "what had not come is lost")
	ask(t, replica, "SET", "a", "b")
	require.Nil(t, replica.Master())
}

func TestReplicaFollowsARestartedMaster(t *testing.T) {
	w := newWorld()
	master, replica := w.server("m"), w.server("r")
	replica.ReplicaOf(master)
	ask(t, master, "SET", "a", "1")
	master.Stop()
	require.Equal(t, -1, replica.Lag())
	replica.CatchUp(-1)
	require.Equal(t, "0", ask(t, replica, "EXISTS", "a"), "the master is down")
	master.Start(All)
	replica.CatchUp(-1)
	require.Equal(t, "1", ask(t, replica, "EXISTS", "a"))
	require.Zero(t, replica.Lag())
}

// TestReplicaEqualsItsMaster lets random commands reach a replica in pieces.
func TestReplicaEqualsItsMaster(t *testing.T) {
	sequences(t, 60, func(seed uint64) {
		w := newWorld()
		master, replica := w.server("m"), w.server("r")
		replica.ReplicaOf(master)
		p := newDice(t, seed)
		p.sim = master
		c := master.Open("", "", nil, nil)
		for range 200 {
			master.Exec(c, p.randomCommand())
			w.pass(time.Duration(p.dice.IntN(100)) * time.Second)
			if p.often(20) {
				replica.CatchUp(p.dice.IntN(5))
			}
		}
		master.living() // ends what has expired
		master.commit()
		replica.CatchUp(-1)
		require.Equal(t, master.keys, replica.keys, "RELOCK_SIM_SEED=%d", seed)
	})
}

func TestMessagesReachReplicas(t *testing.T) {
	w := newWorld()
	master, replica := w.server("m"), w.server("r")
	replica.ReplicaOf(master)
	var heard []string
	c := replica.Open("", "", func(channel, message string) { heard = append(heard, channel+" "+message) }, nil)
	replica.Exec(c, []string{"SUBSCRIBE", "news"})
	require.Equal(t, "0", ask(t, master, "PUBLISH", "news", "x"))
	require.Empty(t, heard)
	replica.CatchUp(-1)
	require.Equal(t, []string{"news x"}, heard)
}

func TestLoading(t *testing.T) {
	s := newWorld().server("a")
	c := s.Open("", "", nil, nil)
	s.SetLoading(true)
	for _, args := range [][]string{{"PING"}, {"GET", "a"}, {"EVAL", "return 1", "0"}} {
		require.ErrorContains(t, s.Exec(c, args).Err(), "LOADING")
	}
	require.Contains(t, text(t, s.Exec(c, []string{"INFO", "server"})), "run_id:")
	s.SetLoading(false)
	require.Equal(t, "PONG", text(t, s.Exec(c, []string{"PING"})))
}

func TestKilledConnection(t *testing.T) {
	s := newWorld().server("a")
	var why error
	c := s.Open("", "", nil, func(err error) { why = err })
	s.Exec(c, []string{"SUBSCRIBE", "x"})
	require.Equal(t, "1", ask(t, s, "CLIENT", "KILL", "TYPE", "pubsub"))
	require.ErrorIs(t, why, ErrKilled)
	require.Equal(t, "0", ask(t, s, "PUBLISH", "x", "y"))
}

func TestRedis6(t *testing.T) {
	s := NewServer(Options{Name: "six", Version: 6})
	c := s.Open("", "", nil, nil)
	require.ErrorContains(t, s.Exec(c, []string{"SPUBLISH", "a", "b"}).Err(), "unknown command")
	require.Equal(t, "nil", ask(t, s, "EVAL", "return type(redis.acl_check_cmd)", "0"))
	require.Equal(t, "string", ask(t, s, "EVAL", "local ok, e = pcall(redis.call, 'nosuch') return type(e)", "0"))
}
