package faults_test

import (
	"context"
	"strconv"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/relock-go/relock/internal/faults"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience is how long tests wait for what must happen.
const patience = 15 * time.Second

const (
	counts = "-- counts: adds one.\n--\n-- needs: other\nreturn redis.call('INCR', KEYS[1])"
	put    = "-- other: a part put before.\n--\nlocal x\n-- about: what was left out.\n"
)

var counting = rueidis.NewLuaScript(counts)

// wrapped returns a client with faults, and a function that runs the script on key k.
func wrapped(t *testing.T) (s *redistest.Server, c *faults.Client, run func(context.Context) (int64, error)) {
	s = redistest.Start(t)
	c = faults.NewClient(s.Client())
	return s, c, func(ctx context.Context) (int64, error) { return counting.Exec(ctx, c, []string{"k"}, nil).AsInt64() }
}

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

func TestScriptsAreKnownByTheirHeaders(t *testing.T) {
	for text, want := range map[string]string{
		counts: "counts", put + counts: "counts", counts + "\n-- sweep: all.\n--\n-- needs: nothing.\n": "sweep", "return 1": "",
	} {
		require.Equal(t, want, (&faults.Call{Script: text}).ScriptName(), text)
	}
}

// Each fate, by how often the server ran the script and what the caller heard. The server knows the script already, and
// the wrapper has not seen its text.
func TestFatesOfACommand(t *testing.T) {
	for name, tc := range map[string]struct {
		fate     faults.Fate
		ran      string
		answer   int64
		err      string
		late     string // what the server ran after Flush
		expected int    // calls told
	}{
		"pass":       {faults.Pass, "2", 2, "", "2", 0},
		"tell":       {faults.Tell, "2", 2, "", "2", 1},
		"lose call":  {faults.LoseCall, "1", 0, "answer is lost", "1", 0},
		"lose reply": {faults.LoseReply.Telling(), "2", 0, "answer is lost", "2", 1},
		"twice":      {faults.Twice, "3", 3, "", "3", 0},
		"late":       {faults.Late, "1", 0, "answer is lost", "2", 0},
		"refuse":     {faults.Refuse("OOM no room"), "1", 0, "OOM no room", "1", 0},
	} {
		t.Run(name, func(t *testing.T) {
			s, c, run := wrapped(t)
			_, err := counting.Exec(t.Context(), s.Client(), []string{"k"}, nil).AsInt64()
			require.NoError(t, err)
			c.Filter(faults.Next(faults.Script("counts").And(faults.Carrying("k")), tc.fate))
			n, err := run(t.Context())
			if tc.err != "" {
				require.ErrorContains(t, err, tc.err)
			} else {
				require.NoError(t, err)
			}
			require.Equal(t, tc.answer, n)
			require.Equal(t, tc.ran, s.Do("GET", "k"))
			c.Flush()
			require.Equal(t, tc.late, s.Do("GET", "k"))
			require.Len(t, c.Told(), tc.expected)
			was, err := strconv.ParseInt(tc.late, 10, 64)
			require.NoError(t, err)
			n, err = run(t.Context())
			require.NoError(t, err)
			require.Equal(t, was+1, n, "the next one passes")
		})
	}
}

// A held command is sent once it is released, a stalled one answered then.
func TestHeldAndStalledCommands(t *testing.T) {
	for name, tc := range map[string]struct {
		fate   faults.Fate
		before string
	}{"held": {faults.Hold, "0"}, "stalled": {faults.Stall, "1"}} {
		t.Run(name, func(t *testing.T) {
			s, c, run := wrapped(t)
			c.Filter(faults.All(faults.Text("INCR"), tc.fate))
			answer := make(chan int64, 1)
			go func() {
				n, err := run(context.Background())
				if err != nil {
					t.Error(err)
				}
				answer <- n
			}()
			require.Equal(t, "counts", within(t, c.Told()).ScriptName())
			require.Equal(t, tc.before, s.Do("EXISTS", "k"))
			require.Empty(t, answer)
			c.Release()
			require.EqualValues(t, 1, within(t, answer))
		})
	}
}

// A caller whose context ends is not held any longer, nor hangs.
func TestContextsAreHeard(t *testing.T) {
	s, c, run := wrapped(t)
	for fate, ran := range map[faults.Fate]string{
		faults.Hold: "0", faults.LoseCall.Hanging(): "0", faults.LoseReply.Hanging(): "1",
	} {
		s.Do("DEL", "k")
		came := make(chan struct{})
		c.Filter(func(*faults.Call) faults.Fate { close(came); return fate })
		ctx, cancel := context.WithCancel(t.Context())
		failed := make(chan error, 1)
		go func() {
			_, err := run(ctx)
			failed <- err
		}()
		within(t, came)
		require.Eventually(t, func() bool { return s.Do("EXISTS", "k") == ran }, patience, time.Millisecond)
		require.Empty(t, failed)
		cancel()
		require.ErrorIs(t, within(t, failed), context.Canceled)
		c.Filter(nil)
	}
}

// A late command runs although the server has forgotten its script.
func TestLateCommandOfAForgottenScript(t *testing.T) {
	s, c, run := wrapped(t)
	_, err := run(t.Context())
	require.NoError(t, err)
	s.Do("SCRIPT", "FLUSH")
	c.Filter(faults.All(faults.AnyScript, faults.Late))
	_, err = run(t.Context())
	require.ErrorIs(t, err, faults.ErrNoAnswer)
	require.Equal(t, 1, c.Kept())
	c.Flush()
	require.Equal(t, "2", s.Do("GET", "k"))
}

// Several commands at once have a fate each, and Send runs one more often.
func TestFatesAreEachCommandsOwn(t *testing.T) {
	s, c, _ := wrapped(t)
	c.Filter(faults.Each(faults.All(faults.Command("set", "b"), faults.LoseCall), func(call *faults.Call) faults.Fate {
		if call.Has("INCR") {
			call.Send()
		}
		return faults.Pass
	}))
	b := c.B()
	got := c.DoMulti(t.Context(), b.Set().Key("a").Value("1").Build(), b.Set().Key("b").Value("1").Build(), b.Incr().Key("n").Build())
	require.NoError(t, got[0].Error())
	require.ErrorIs(t, got[1].Error(), faults.ErrNoAnswer)
	n, err := got[2].AsInt64()
	require.NoError(t, err)
	require.EqualValues(t, 2, n)
	require.Equal(t, "1", s.Do("EXISTS", "a", "b"))
}

// Messages get lost, late and doubled, whatever way they are heard, and the close of a connection waits.
func TestFatesOfMessages(t *testing.T) {
	for name, hear := range map[string]func(t *testing.T, c *faults.Client, got func(rueidis.PubSubMessage)) (end func()){
		"hooks": func(t *testing.T, c *faults.Client, got func(rueidis.PubSubMessage)) func() {
			conn, release := c.Dedicate()
			conn.SetPubSubHooks(rueidis.PubSubHooks{OnMessage: got})
			require.NoError(t, conn.Do(t.Context(), conn.B().Subscribe().Channel("ch").Build()).Error())
			return func() { conn.Close(); release() }
		},
		"receive": func(_ *testing.T, c *faults.Client, got func(rueidis.PubSubMessage)) func() {
			ctx, cancel := context.WithCancel(context.Background())
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				_ = c.Receive(ctx, c.B().Subscribe().Channel("ch").Build(), got)
			}()
			return func() { cancel(); <-ended }
		},
	} {
		t.Run(name, func(t *testing.T) {
			s, c, _ := wrapped(t)
			got := make(chan string, 16)
			end := hear(t, c, func(m rueidis.PubSubMessage) { got <- m.Message })
			require.Eventually(t, func() bool { return s.Do("PUBSUB", "NUMSUB", "ch") == "ch\n1" }, patience, time.Millisecond)
			c.Filter(faults.Next(faults.Command("MESSAGE", "ch"), faults.LoseCall, faults.Late, faults.Twice))
			for i := range 4 {
				s.Do("PUBLISH", "ch", strconv.Itoa(i))
			}
			for _, want := range []string{"2", "2", "3"} {
				require.Equal(t, want, within(t, got))
			}
			c.Flush()
			require.Equal(t, "1", within(t, got))
			end()
			require.Empty(t, got)
		})
	}
}

func TestCloseOfAConnectionIsHeld(t *testing.T) {
	_, c, _ := wrapped(t)
	conn, release := c.Dedicate()
	defer release()
	c.Filter(faults.All(faults.Command("CLOSE"), faults.Hold))
	closed := make(chan struct{})
	go func() { conn.Close(); close(closed) }()
	within(t, c.Told())
	select {
	case <-closed:
		t.Error("it was not held")
	default:
	}
	c.Release()
	within(t, closed)
}
