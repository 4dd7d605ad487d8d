package lua_test

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/relock-go/relock/internal/redistest"
	"github.com/relock-go/relock/lua"
	"github.com/stretchr/testify/require"
)

// TestResultScriptsTwiceLostAndLate runs random histories of a lock's results by their scripts, as
// TestReadWriteScriptsTwiceLostAndLate does. The lock is taken and given back by commands that meet no fault. After each command
// the result is held against what is known: none but the holder's comes, none comes behind a Forget that it began before, and
// what a run was told of its result is true.
func TestResultScriptsTwiceLostAndLate(t *testing.T) {
	wanted := 20
	if os.Getenv("RELOCK_LONG") != "" {
		wanted = 10_000
	}
	s := redistest.Start(t)
	hashes := make(map[string]string)
	for _, script := range []string{"result", "keep", "forget", "acquire", "release"} {
		text, err := lua.Scripts{Kind: "mutex", Retention: 10 * time.Minute}.Text(script)
		require.NoError(t, err)
		hashes[script] = s.Do("SCRIPT", "LOAD", text)
	}
	untilEachMeets(t, []string{"result", "keep", "forget"}, wanted, func(f *fates, n int) {
		h := &results{fates: f, hashes: hashes, name: fmt.Sprint("once", n)}
		h.play(s.Addr())
	})
}

// results is the history of one lock's results.
type results struct {
	*fates
	hashes map[string]string
	name   string
	redis  *conn

	runs   int
	holder int          // the run that holds the lock, 0 for none
	forgot map[int]bool // runs during which a Forget came
	stands int          // the run whose result stands, 0 for none
}

func (h *results) play(addr string) {
	defer h.tell()
	h.forgot = make(map[int]bool)
	h.redis = dial(h.t, addr)
	defer h.redis.Close()
	for range 10 + h.rand.IntN(30) {
		switch n := h.rand.IntN(12); {
		case len(h.late) > 0 && n < 3:
			h.arrive()
		case n < 5 && h.holder == 0:
			h.runs++
			h.holder = h.runs
			h.lock("acquire", forever, "1", h.id(h.holder))
		case n < 6 && h.holder > 0:
			h.lock("release", h.id(h.holder), forever, "1")
			h.holder = 0
		case n < 9 && h.runs > 0: // also by one that has lost the lock
			h.keep(h.runs - h.rand.IntN(min(h.runs, 2)))
		case n < 10:
			h.forget()
		default:
			h.read()
		}
		h.check()
	}
	for len(h.late) > 0 {
		h.arrive()
		h.check()
	}
}

func (h *results) id(run int) string { return fmt.Sprintf("%s:%d", clientOf(0), run) }

func (h *results) keys() []string {
	tag := "{" + h.name + "}"
	return []string{h.name, "relock_queue:" + tag, "redisson_lock_token:" + tag, "redisson_lock__channel:" + tag, "relock_listen:" + tag}
}

func (h *results) lock(script string, args ...string) {
	keys := h.keys()
	answer := h.redis.do(append([]string{"EVALSHA", h.hashes[script], strconv.Itoa(len(keys))}, append(keys, args...)...)...)
	require.Equal(h.t, int64(1), answer.([]any)[0], script)
}

// send runs a script of results, and may have it meet a fault. ran is told of each run.
func (h *results) send(script string, keys, args []string, ran func(answer any), then func(answer any)) {
	run := func() any {
		answer := h.redis.do(append([]string{"EVALSHA", h.hashes[script], strconv.Itoa(len(keys))}, append(keys, args...)...)...)
		h.trace = append(h.trace, fmt.Sprint(script, " ", args, " -> ", answer))
		ran(answer)
		return answer
	}
	h.meets(script, run, func() {}, then)
}

func (h *results) keep(run int) {
	h.send("keep", []string{h.name, "relock_once:{" + h.name + "}"}, []string{h.id(run), "made:by:" + strconv.Itoa(run), forever},
		func(answer any) {
			switch {
			case h.stands == run:
				require.Equal(h.t, int64(1), answer, "it stands")
			case h.holder != run:
				require.Equal(h.t, int64(0), answer, "its hold does not stand")
			case h.forgot[run]:
				require.Equal(h.t, int64(-1), answer, "a Forget came")
			default:
				require.Equal(h.t, int64(1), answer)
				h.stands = run
			}
		}, func(any) {})
}

func (h *results) forget() {
	h.send("forget", []string{h.name, "relock_once:{" + h.name + "}"}, nil, func(answer any) {
		require.Equal(h.t, int64(1), answer)
		h.stands = 0
		if h.holder > 0 {
			h.forgot[h.holder] = true
		}
	}, func(any) {})
}

func (h *results) read() {
	h.send("result", []string{"relock_once:{" + h.name + "}"}, nil, func(answer any) {
		if h.stands == 0 {
			require.Nil(h.t, answer)
			return
		}
		require.Equal(h.t, fmt.Sprintf("%s:made:by:%d", h.id(h.stands), h.stands), answer)
	}, func(any) {})
}

// check holds what stands against what is known.
func (h *results) check() {
	fields := h.redis.do("HGETALL", h.name).([]any)
	if h.holder == 0 {
		require.Empty(h.t, fields, "the mark ends with the hold")
		return
	}
	require.Equal(h.t, h.forgot[h.holder], strings.Contains(fmt.Sprint(fields), "relock:forgotten"))
	require.Equal(h.t, h.holder > 0, h.redis.do("EXISTS", h.name) == int64(1))
}

// A full Redis forgets, and marks the hold.
func TestAFullRedisForgets(t *testing.T) {
	s := redistest.Start(t)
	c := dial(t, s.Addr())
	defer c.Close()
	text, err := lua.Scripts{Kind: "mutex"}.Text("forget")
	require.NoError(t, err)
	c.do("HSET", "k", "c:1", "1", "relock:first", "1:1")
	c.do("SET", "relock_once:{k}", "c:1:old")
	c.do("CONFIG", "SET", "maxmemory", "1")
	require.Equal(t, int64(1), c.do("EVAL", text, "2", "k", "relock_once:{k}"))
	c.do("CONFIG", "SET", "maxmemory", "0")
	require.Equal(t, int64(0), c.do("EXISTS", "relock_once:{k}"))
	require.Equal(t, "1", c.do("HGET", "k", "relock:forgotten"))
}
