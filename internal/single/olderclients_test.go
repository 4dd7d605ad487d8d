package single

import (
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/relock-go/relock/internal/clock"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/relock-go/relock/internal/wire"
	"github.com/stretchr/testify/require"
)

// forerunner is a client of the release before, which counts by INCRBY: its scripts, as they were.
type forerunner struct {
	t   *testing.T
	rdb rueidis.Client
	id  string
}

func (o *forerunner) run(script string, keys int, args ...string) []string {
	o.t.Helper()
	text := "local mark, mute\n"
	for _, file := range []string{"grant", "queue", "turn", script} {
		lua, err := os.ReadFile("testdata/before-tokens/" + file + ".lua")
		require.NoError(o.t, err)
		text += string(lua)
	}
	n, err := wire.Mutex.Names("", "k")
	require.NoError(o.t, err)
	all := []string{n.Lock, n.Queue, n.Counter, n.Unlock, n.Listen}[:keys]
	got, err := o.rdb.Do(o.t.Context(), o.rdb.B().Eval().Script(text).Numkeys(int64(keys)).Key(all...).Arg(args...).Build()).ToArray()
	require.NoError(o.t, err)
	var parts []string
	for _, m := range got {
		part, err := m.ToString()
		if n, nerr := m.AsInt64(); err != nil && nerr == nil {
			part = strconv.FormatInt(n, 10)
		}
		parts = append(parts, part)
	}
	return parts
}

// acquire asks for the lock with a block of 256, and returns the first token when it is held.
func (o *forerunner) acquire() (int64, bool) {
	o.t.Helper()
	got := o.run("acquire", 4, "60000", "256", o.id, "", "", wire.InboxPrefix, "PUBLISH", "")
	token, err := strconv.ParseInt(got[1], 10, 64)
	require.NoError(o.t, err)
	return token, got[0] == "1"
}

func (o *forerunner) release() {
	o.t.Helper()
	require.Equal(o.t, []string{"1"}, o.run("release", 5, o.id, "", "60000", wire.InboxPrefix, "PUBLISH", "256", "0", "", "", ""))
}

// Clients of the release before and of this one hand the lock to each other, and tokens rise: also while the counter is so
// far ahead that a new client's block would be cut, of which an older client knows nothing.
func TestOldAndNewClientsShareTokens(t *testing.T) {
	for name, ahead := range map[string]time.Duration{"in step": -time.Hour, "far ahead": time.Hour} {
		t.Run(name, func(t *testing.T) {
			s := redistest.Start(t)
			s.Do("SET", "redisson_lock_token:{k}", strconv.FormatInt(time.Now().Add(ahead).UnixMicro(), 10))
			rdb := s.Client()
			oldInbox, newInbox := inboxOf(t, s, "old"), inboxOf(t, s, "new")
			fresh := deaf(t, rdb, "new")
			last := int64(0)
			for i := range 20 {
				old := &forerunner{t: t, rdb: rdb, id: "old:" + strconv.Itoa(i)}
				a := contenderOf(t, fresh, "new", uint64(2*i), time.Minute)
				token, held := old.acquire()
				require.True(t, held)
				require.Greater(t, token, last)
				last = token + 255

				_, held = asks(t, a)
				require.False(t, held)
				old.release() // hands over to the new client
				fresh.node.Debug().Hub.Message(wire.InboxPrefix+"new", within(t, newInbox))
				require.True(t, a.Told(clock.Now()))
				g := a.granted()
				require.Greater(t, g.Token, last)
				require.Equal(t, block, g.Passes)
				again, held := asks(t, a)
				require.True(t, held)
				require.Equal(t, g.Token, again.Token, "asked again")
				last = g.Token + int64(g.Passes) - 1

				next := &forerunner{t: t, rdb: rdb, id: "old:next" + strconv.Itoa(i)}
				next.id = "old:" + strconv.Itoa(1000+i)
				_, held = next.acquire()
				require.False(t, held)
				_, _, err := a.Release(t.Context(), nil) // hands over to the old one
				require.NoError(t, err)
				told := within(t, oldInbox)
				token, err = strconv.ParseInt(strings.Fields(told)[0], 10, 64)
				require.NoError(t, err, "an older client reads a number there: %s", told)
				require.Greater(t, token, last)
				again2, held := next.acquire()
				require.True(t, held)
				require.Equal(t, token, again2, "asked again")
				last = token + 255
				next.release()

				b := contenderOf(t, fresh, "new", uint64(2*i+1), time.Minute)
				g, held = asks(t, b)
				require.True(t, held)
				require.Greater(t, g.Token, last)
				last = g.Token + int64(g.Passes) - 1
				_, _, err = b.Release(t.Context(), nil)
				require.NoError(t, err)
			}
		})
	}
}
