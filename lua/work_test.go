package lua_test

import (
	"cmp"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/relock-go/relock/internal/redistest"
	"github.com/relock-go/relock/lua"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// grows is a script whose work grows: with how many entries are asked for together, with how much one takes, or with how many hold or
// wait. most is the largest value that the library sends. Of what gathers in Redis it is a large number. calls bounds how many
// commands the script runs then.
type grows struct {
	script, kind string
	with         string
	most, calls  int
	prepare      func(w *worker, most int) (keys, args []string)
}

const quorum = "quorum" // a mutex's scripts on a node of one

// allThatGrows has the greatest numbers of wire.MaxBatch, wire.MaxWeight, Kind.Acquires and Releases, and of MaxPermits, sweepBatch and
// maxTogether, which are not exported.
var allThatGrows = []grows{
	{"renew", "mutex", "leases", 200, 600, renewal(1)},
	{"renew", "read", "leases", 200, 1000, renewal(1)},
	{"renew", "write", "leases", 200, 600, renewal(1)},
	{"renew", "semaphore", "leases of one permit", 200, 1201, renewal(1)},
	{"renew", "semaphore", "leases of 3 permits", 85, 690, renewal(3)},
	{"renew", "semaphore", "leases of 128 permits", 2, 27, renewal(128)},
	{"renew", quorum, "leases", 200, 600, renewal(1)},
	{"many acquire", "mutex", "entries", 16, 70, asked("")},
	{"many acquire", "read", "entries", 8, 90, asked("")},
	{"many acquire", "write", "entries", 8, 60, asked("")},
	{"many acquire", "semaphore", "entries of 128 permits", 8, 75, asked("")},
	{"many release", "mutex", "entries", 32, 70, finished("")},
	{"many release", "read", "entries", 8, 95, finished("")},
	{"many release", "write", "entries", 8, 90, finished("")},
	{"many release", "semaphore", "entries of 128 permits", 8, 135, finished("")},
	{"sweep", "mutex", "entries", 50, 110, finished("3")},
	{"sweep", "read", "entries", 50, 600, finished("3")},
	{"sweep", "write", "entries", 50, 600, finished("3")},
	{"sweep", "semaphore", "entries of 128 permits", 2, 40, finished("3")},
	{"sweep", quorum, "entries", 50, 270, finished("4")},
	{"gather", "mutex", "locks", 64, 400, asked("all")},
	{"gather", "read", "locks", 64, 900, asked("all")},
	{"gather", "write", "locks", 64, 480, asked("all")},

	{"acquire", "mutex", "waiters", 1000, 30, waited(256, listening)},
	{"acquire", "mutex", "waiters that are dead", 500, 1050, waited(256, dead)},
	{"acquire", "write", "readers", 1000, 160, readBy(true)},
	{"acquire", "write", "readers that are dead", 500, 1100, readBy(false)},
	{"acquire", "semaphore", "permits held, one by each", 20_000, 170, question(1)},
	{"acquire", "semaphore", "permits held, 128 by each", 20_000, 60, question(128)},
	{"acquire", "semaphore", "leases that are over", 500, 430, over(1)},
	{"acquire", "semaphore", "leases that are over, of 128 permits", 500, 240, over(128)},
	{"acquire", "semaphore", "waiters of 3 permits", 1000, 360, waited(3, listening)},
	{"acquire", "semaphore", "waiters of 128 permits", 1000, 70, waited(128, listening)},
	{"release", "semaphore", "waiters of one permit", 1000, 360, left(1, listening)},
	{"release", "semaphore", "waiters that are dead", 150, 650, left(1, dead)},
	{"release", "read", "readers that are dead", 500, 1100, func(w *worker, most int) (keys, args []string) {
		keys, _ = readBy(false)(w, most)
		return keys, []string{id(0), "60000", "1"}
	}},
	{"release", "write", "readers that wait", 1000, 560, left(1, listening)},
	{"release", "write", "readers that wait and are dead", 150, 1100, left(1, dead)},
	{"force", "mutex", "sharers of an owner", 1000, 1050, func(w *worker, most int) (keys, args []string) {
		w.do("EVAL", "for i = 1, ARGV[1] do redis.call('HSET', 'k', ARGV[2] .. i, 1) end return 'OK'", "0", strconv.Itoa(most), id(0))
		return w.keys("k"), forced
	}},
	{"force", "read", "readers", 500, 1100, func(w *worker, most int) (keys, args []string) {
		keys, _ = readBy(true)(w, most)
		return keys, forced
	}},
	{"force", "semaphore", "holders of one permit", 1000, 1050, func(w *worker, most int) (keys, args []string) {
		keys, _ = question(1)(w, most)
		return keys, forced
	}},
	{"force", "semaphore", "waiters of 128 permits", 1000, 120, func(w *worker, most int) (keys, args []string) {
		keys, _ = question(128)(w, 5000)
		w.line(most, 128, listening)
		return keys, forced
	}},
	{"force", quorum, "waiters", 1000, 25, func(w *worker, most int) (keys, args []string) {
		w.acquire("k", 0, 1)
		w.line(most, 1, listening)
		return w.keys("k"), append(forced, id(0))
	}},
	{"vote", quorum, "waiters that are dead", 500, 1100, func(w *worker, most int) (keys, args []string) {
		w.line(most, 1, dead)
		return w.keys("k"), []string{"60000", "1", id(0), "5000000", "wait"}
	}},
	{"unvote", quorum, "waiters that are dead", 500, 1100, func(w *worker, most int) (keys, args []string) {
		w.acquire("k", 0, 1)
		w.line(most, 1, dead)
		return w.keys("k"), []string{"60000", "1", id(0), "0"}
	}},
	{"recount", "semaphore", "permits", 128, 15, func(w *worker, most int) (keys, args []string) {
		w.acquire("k", 0, most)
		return w.keys("k"), []string{id(0), "1", "90000"}
	}},
	{"inspect", "read", "readers", 1000, 1050, func(w *worker, most int) (keys, args []string) {
		keys, _ = readBy(true)(w, most)
		return keys, nil
	}},
	{"inspect", "mutex", "sharers of an owner", 1000, 6, func(w *worker, most int) (keys, args []string) {
		w.do("EVAL", "for i = 1, ARGV[1] do redis.call('HSET', 'k', ARGV[2] .. i, 1) end return 'OK'", "0", strconv.Itoa(most), id(0))
		return w.keys("k"), nil
	}},
}

// The clients whose entries wait: one listens, the other is gone.
const (
	listening = "e3b0c442-98fc-4c14-9afb-f4c8996fb924"
	dead      = "e3b0c442-98fc-4c14-9afb-f4c8996fb925"
)

var forced = []string{"relock_inbox:", "PUBLISH"}

func id(n int) string { return idOf(listening, n) }

func idOf(client string, n int) string { return fmt.Sprintf("%s:1%016d", client, n) }

// worker prepares a Redis for a script.
type worker struct {
	*conn
	kind   string
	hashes map[string]string
}

func (w *worker) keys(name string) []string {
	tag := "{" + name + "}"
	switch w.kind {
	case "semaphore":
		return []string{name, "relock_permits:" + tag, "relock_permit_grants:" + tag, "redisson_sc:" + tag, "relock_sclisten:" + tag, tag + ":timeout"}
	case quorum:
		return []string{name, "relock_queue:" + tag, "redisson_lock_token:" + tag, "redisson_lock__channel:" + tag, "relock_seed:" + tag}
	case "read", "write":
		return []string{
			name, "relock_writers:" + tag, "redisson_lock_token:" + tag, "redisson_rwlock:" + tag, "relock_rwlisten:" + tag,
			"relock_readers:" + tag + ":" + name, "relock_phase:" + tag + ":" + name,
		}
	}
	return []string{name, "relock_queue:" + tag, "redisson_lock_token:" + tag, "redisson_lock__channel:" + tag, "relock_listen:" + tag}
}

// hash loads a script of the worker's kind.
func (w *worker) hash(script string) string {
	known := w.hashes[w.kind+" "+script]
	if known == "" {
		text, err := textOf(script, w.kind)
		require.NoError(w.t, err)
		known = w.do("SCRIPT", "LOAD", text).(string)
		w.hashes[w.kind+" "+script] = known
	}
	return known
}

// textOf is the text of a script, of many for one, of a sweep or of a gathering.
func textOf(script, kind string) (string, error) {
	from, ends := lua.Scripts{Kind: kind, Retention: time.Hour}, "release"
	if kind == quorum {
		from.Kind, from.Quorum, ends = "mutex", true, "unvote"
	}
	if one, is := strings.CutPrefix(script, "many "); is {
		return from.Many(one)
	}
	switch script {
	case "sweep":
		return from.Sweep(ends)
	case "gather":
		return from.Gather("acquire")
	}
	return from.Text(script)
}

// run runs a script of the worker's kind.
func (w *worker) run(script string, keys, args []string) any {
	return w.do(slices.Concat([]string{"EVALSHA", w.hash(script), strconv.Itoa(len(keys))}, keys, args)...)
}

// acquire has the nth entry take the lock, which it makes large enough if that is a semaphore.
func (w *worker) acquire(name string, n, block int) {
	script, args := "acquire", []string{"60000", strconv.Itoa(block), id(n)}
	if w.kind == "semaphore" {
		w.do("SET", name, "1000000")
	} else if w.kind == quorum {
		script, args = "vote", append(args, strconv.Itoa(n+1), "try")
	}
	require.EqualValues(w.t, 1, w.run(script, w.keys(name), args).([]any)[0])
}

// line has so many of a client's entries wait: of a lock that is written, readers.
func (w *worker) line(n, block int, client string) {
	at := 1
	if w.kind == "write" {
		at = 5
	}
	line := w.keys("k")[at]
	placed := []string{"ZADD", line}
	for i := range n {
		placed = append(placed, strconv.Itoa(1000+i), fmt.Sprintf("60000:%d:%s:", block, idOf(client, 100_000+i)))
	}
	w.do(placed...)
	w.do("PEXPIRE", line, "600000")
}

// renewal is that of so many leases.
func renewal(block int) func(*worker, int) (keys, args []string) {
	return func(w *worker, leases int) (keys, args []string) {
		for i := range leases {
			name := fmt.Sprint("k", i)
			switch w.kind {
			case "semaphore":
				name = "k"
				keys = append(keys, name, "{k}:timeout")
			case "read":
				keys = append(keys, name, "{"+name+"}:"+id(i)+":rwlock_timeout:1")
			default:
				keys = append(keys, name)
			}
			w.acquire(name, i, block)
			args = append(args, id(i), "1", "90000")
		}
		return keys, args
	}
}

// asked is so many entries that ask for locks of their own, for how many of them.
func asked(how string) func(*worker, int) (keys, args []string) {
	return func(w *worker, entries int) (keys, args []string) {
		args = []string{strconv.Itoa(entries)}
		if how != "" {
			args = append(args, how)
		}
		for i := range entries {
			name := fmt.Sprint("k", i)
			if w.kind == "semaphore" {
				w.do("SET", name, "1000")
			}
			keys = append(keys, w.keys(name)...)
			args = append(args, "60000", "128", id(i), "", "", "", "relock_inbox:", "PUBLISH", "", "", "")
		}
		return keys, args
	}
}

// finished is so many that hold locks of their own. first is the argument before theirs, "" for their number.
func finished(first string) func(*worker, int) (keys, args []string) {
	return func(w *worker, entries int) (keys, args []string) {
		args = []string{cmp.Or(first, strconv.Itoa(entries))}
		for i := range entries {
			name := fmt.Sprint("k", i)
			w.acquire(name, i, 128)
			keys = append(keys, w.keys(name)...)
			if w.kind == quorum {
				args = append(args, "60000", "128", id(i), "0")
			} else {
				args = append(args, id(i), "60000", "128")
			}
		}
		return keys, args
	}
}

// question is that of the first waiter where so many permits are held, so many by each.
func question(block int) func(*worker, int) (keys, args []string) {
	return func(w *worker, permits int) (keys, args []string) {
		w.do("SET", "k", "0")
		const put = `local now = redis.call('TIME')[1] * 1000
for i = 1, ARGV[1] do
	local members = {}
	for j = 1, ARGV[2] do
		members[2 * j - 1], members[2 * j] = now + 60000 + i, string.format('%s:1%016d:%d', ARGV[3], i, j)
	end
	redis.call('ZADD', KEYS[1], unpack(members))
end
return 'OK'`
		w.do("EVAL", put, "1", "{k}:timeout", strconv.Itoa(permits/block), strconv.Itoa(block), dead)
		return w.keys("k"), []string{"60000", strconv.Itoa(block), id(0)}
	}
}

// over is a question where so many leases are over.
func over(block int) func(*worker, int) (keys, args []string) {
	return func(w *worker, leases int) (keys, args []string) {
		keys, args = question(block)(w, leases*block)
		w.do("EVAL", "for _, member in ipairs(redis.call('ZRANGE', KEYS[1], 0, -1)) do redis.call('ZADD', KEYS[1], 5, member) end return 'OK'",
			"1", "{k}:timeout")
		return keys, args
	}
}

// waited is the question of an entry that finds so many before it at a free lock.
func waited(block int, client string) func(*worker, int) (keys, args []string) {
	return func(w *worker, waiters int) (keys, args []string) {
		w.line(waiters, block, client)
		if w.kind == "semaphore" {
			w.do("SET", "k", "100000")
		}
		return w.keys("k"), []string{"60000", strconv.Itoa(block), id(0)}
	}
}

// left is the release of a lock for which so many wait.
func left(block int, client string) func(*worker, int) (keys, args []string) {
	return func(w *worker, waiters int) (keys, args []string) {
		w.acquire("k", 0, 128)
		if w.kind == "semaphore" {
			w.do("SET", "k", "0")
		}
		w.line(waiters, block, client)
		return w.keys("k"), []string{id(0), "60000", "128"}
	}
}

// readBy is the question of a writer where so many read, or did before they died.
func readBy(alive bool) func(*worker, int) (keys, args []string) {
	return func(w *worker, readers int) (keys, args []string) {
		is := w.kind
		w.kind = "read"
		for i := range readers {
			w.acquire("k", i, 1)
		}
		w.kind = is
		if !alive {
			w.do("EVAL", "for _, key in ipairs(redis.call('KEYS', '*rwlock_timeout*')) do redis.call('DEL', key) end return 'OK'", "0")
		}
		return w.keys("k"), []string{"60000", "128", id(readers)}
	}
}

var (
	called = regexp.MustCompile(`cmdstat_(\S+?):calls=(\d+),usec=(\d+)`)
	loops  = regexp.MustCompile(`(?m)^\s*(for|while|repeat)\b`)
)

// No script has Redis busy for long, whatever it is asked for. What it costs is counted, not timed: how many commands it runs. The log
// has the table of docs/testing-the-lock.md, with the least time of some runs.
func TestWorkOfScriptsIsBounded(t *testing.T) {
	s := redistest.Start(t)
	inbox := dial(t, s.Addr())
	defer inbox.Close()
	inbox.do("SUBSCRIBE", "relock_inbox:"+listening)
	w := &worker{conn: dial(t, s.Addr()), hashes: make(map[string]string)}
	defer w.Close()
	for _, g := range allThatGrows {
		calls, least := 0, time.Hour
		for range runs() {
			w.do("FLUSHALL")
			w.kind = g.kind
			keys, args := g.prepare(w, g.most)
			w.hash(g.script)
			w.do("CONFIG", "RESETSTAT")
			w.run(g.script, keys, args)
			calls = 0
			for _, of := range called.FindAllStringSubmatch(w.do("INFO", "commandstats").(string), -1) {
				n, err := strconv.Atoi(of[2])
				require.NoError(t, err)
				us, err := strconv.Atoi(of[3])
				require.NoError(t, err)
				switch of[1] {
				case "evalsha":
					least = min(least, time.Duration(us)*time.Microsecond)
				case "config|resetstat", "config":
				default:
					calls += n
				}
			}
		}
		t.Logf("| `%s` | %s | %s | %d | %d | %.2f |", g.script, g.kind, g.with, g.most, calls, float64(least.Microseconds())/1000)
		if calls > g.calls || calls < g.calls/2 {
			t.Errorf("%s of %s, %d %s: %d commands; %d are expected at most, and half as many at least", g.script, g.kind, g.most, g.with, calls, g.calls)
		}
	}
}

// runs is how often each is run: for the times more often.
func runs() int {
	if os.Getenv("RELOCK_LONG") != "" {
		return 20
	}
	return 1
}

// A script with a loop stands in the table of those whose work grows.
func TestEachScriptThatLoopsHasItsBound(t *testing.T) {
	require.NotEmpty(t, lua.AloneScripts)
	require.NotEmpty(t, lua.QuorumScripts)
	missing := func(script, kind string) bool {
		return !slices.ContainsFunc(allThatGrows, func(g grows) bool { return g.script == script && (g.kind == quorum) == (kind == quorum) })
	}
	for _, kind := range []string{"mutex", "read", "write", "semaphore", quorum} {
		scripts := slices.Concat(lua.AloneScripts, []string{"many acquire", "many release", "sweep", "gather"})
		if kind == quorum {
			scripts = append(slices.Clone(lua.QuorumScripts), "sweep")
		}
		for _, script := range scripts {
			if has := onlyOf[script]; missing(script, kind) && (has == "" || has == kind) && script != "move" { // which asks for a list of rights
				text, err := textOf(script, kind)
				require.NoError(t, err)
				assert.False(t, loops.MatchString(text), "%s of %s has a loop, and is not in the table", script, kind)
			}
		}
	}
}

// onlyOf are scripts that one kind has.
var onlyOf = map[string]string{"move": "mutex", "result": "mutex", "keep": "mutex", "forget": "mutex", "resize": "semaphore"}
