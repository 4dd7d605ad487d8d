package lua_test

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/relock-go/relock/internal/redistest"
	"github.com/relock-go/relock/lua"
	"github.com/stretchr/testify/require"
)

// TestGatherTwiceLostAndLate runs gather for all of some locks, or for one of them, of each kind, as TestReadWriteScriptsTwiceLostAndLate
// runs the scripts of one lock. After each command Redis has what the clients know of, and what a copy of a command left to its lease.
// RELOCK_LONG has each form meet each fault 10,000 times.
func TestGatherTwiceLostAndLate(t *testing.T) {
	wanted := 20
	if os.Getenv("RELOCK_LONG") != "" {
		wanted = 10_000
	}
	s := redistest.Start(t)
	hashes, forms := make(map[string]string), []string(nil)
	for _, kind := range []string{"mutex", "read", "write", "semaphore"} {
		of := lua.Scripts{Kind: kind, Retention: 10 * time.Minute}
		for name, put := range map[string]func(string) (string, error){"acquire": of.Gather, "release": of.Text} {
			text, err := put(name)
			require.NoError(t, err)
			hashes[kind+" "+name] = s.Do("SCRIPT", "LOAD", text)
		}
		forms = append(forms, kind+" all", kind+" one")
	}
	untilEachMeets(t, forms, wanted, func(f *fates, n int) {
		kind, _, _ := strings.Cut(f.rarest, " ")
		h := &several{fates: f, hashes: hashes, kind: kind, name: fmt.Sprint("g", n, "-")}
		h.run(s.Addr())
	})
}

// several is a history of some locks of a kind.
type several struct {
	*fates
	hashes     map[string]string
	kind, name string
	redis      *conn
	entries    []*part
}

// part is an entry of a gather, as its client knows it.
type part struct {
	lock, id string
	block    int
	state    int
	copied   bool // a command that asks for it ran, or will run, behind its client's back
}

const severalSize = 4 // permits of each semaphore

func (h *several) run(addr string) {
	defer h.tell()
	h.redis = dial(h.t, addr)
	defer h.redis.Close()
	if h.kind == "semaphore" {
		for lock := range 4 {
			h.redis.do("SET", h.lock(lock), strconv.Itoa(severalSize))
		}
	}
	for range 10 + h.rand.IntN(30) {
		h.step()
		h.check()
	}
	for _, e := range h.entries {
		h.ends(e)
	}
	for len(h.late) > 0 {
		h.arrive()
		h.check()
	}
}

func (h *several) lock(i int) string { return h.name + strconv.Itoa(i) }

func (h *several) keys(lock string) []string {
	tag := "{" + lock + "}"
	switch h.kind {
	case "mutex":
		return []string{lock, "relock_queue:" + tag, "redisson_lock_token:" + tag, "redisson_lock__channel:" + tag, "relock_listen:" + tag}
	case "semaphore":
		return (&permits{name: lock}).keys()
	}
	return (&history{name: lock}).keys()
}

// held is the key that has the holders of a lock.
func (h *several) held(lock string) string {
	if h.kind == "semaphore" {
		return "{" + lock + "}:timeout"
	}
	return lock
}

// step is one thing that a client does, or a late command.
func (h *several) step() {
	switch n := h.rand.IntN(12); {
	case n < 1 && len(h.late) > 0:
		h.arrive()
	case n < 2: // the client of a waiter is gone
		dead := "60000:1:00000000-0000-4000-8000-999999999999:" + fmt.Sprintf("%017d", h.rand.IntN(9)) + ":"
		h.redis.do("ZADD", h.keys(h.lock(h.rand.IntN(4)))[1], "1000", dead)
	case n < 6:
		for _, e := range h.entries {
			if e.state == holds {
				h.ends(e)
				break
			}
		}
	case n < 7 && h.kind == "read": // a writer has one, until its lease ends
		lock := h.lock(h.rand.IntN(4))
		if h.redis.do("EXISTS", lock) == int64(0) {
			h.redis.do("HSET", lock, "mode", "write", "writer:write", "1:1:1")
		} else if h.redis.do("HEXISTS", lock, "writer:write") == int64(1) {
			h.redis.do("DEL", lock)
		}
	case n < 8:
		for _, e := range h.entries { // the lease of what no client knows of
			if e.state == ended && e.copied && slices.Contains(h.holders(e.lock), e.id) {
				h.ends(e)
				break
			}
		}
	default:
		h.gather()
	}
}

func (h *several) gather() {
	how := []string{"all", "one"}[h.rand.IntN(2)]
	var asks []*part
	for _, lock := range h.rand.Perm(4)[:1+h.rand.IntN(4)] {
		block := 1
		if h.kind == "semaphore" {
			block = 1 + h.rand.IntN(severalSize)
		} else if h.kind != "read" {
			block = 8
		}
		asks = append(asks, &part{lock: h.lock(lock), id: fmt.Sprintf("%s:%017d", clientOf(0), len(h.entries)+len(asks)), block: block})
	}
	h.entries = append(h.entries, asks...)
	unheard := func() {
		for _, e := range asks {
			e.copied = true
		}
	}
	answered := h.meets(h.kind+" "+how, func() any { return h.ask(asks, how) }, unheard, func(answer any) {
		got := 0
		for _, one := range answer.([]any) {
			if parts, is := one.([]any); is && parts[0] == int64(1) {
				got++
			}
		}
		for i, one := range answer.([]any) {
			parts, is := one.([]any)
			switch granted := is && parts[0] == int64(1); {
			case granted && (how == "one" || got == len(asks)):
				asks[i].state = holds
			case granted:
				h.ends(asks[i]) // the client gives back what is not all
			default:
				asks[i].state = ended
			}
		}
	})
	if !answered {
		for _, e := range asks {
			h.ends(e)
		}
	}
}

// ask runs gather, and holds what it did against how the locks stood.
func (h *several) ask(asks []*part, how string) any {
	args, keys := []string{strconv.Itoa(len(asks)), how}, []string(nil)
	had, open, doubtful := make([]bool, len(asks)), make([]bool, len(asks)), make([]bool, len(asks))
	for i, e := range asks {
		args = append(args, forever, strconv.Itoa(e.block), e.id, "", "-", "", "relock_inbox:", "PUBLISH")
		keys = append(keys, h.keys(e.lock)...)
		had[i] = slices.Contains(h.holders(e.lock), e.id)
		open[i] = had[i] || h.open(e)
		doubtful[i] = had[i] || h.redis.do("EXISTS", h.keys(e.lock)[1]) == int64(1)
	}
	all := append([]string{"EVALSHA", h.hashes[h.kind+" acquire"], strconv.Itoa(len(keys))}, append(keys, args...)...)
	answer := h.redis.do(all...).([]any)
	h.trace = append(h.trace, fmt.Sprint(how, " ", args, " -> ", answer))
	require.Len(h.t, answer, len(asks))
	first := slices.Index(open, true)
	for i, e := range asks {
		stands := slices.Contains(h.holders(e.lock), e.id)
		parts, asked := answer[i].([]any)
		granted := asked && parts[0] == int64(1)
		require.True(h.t, stands == granted || had[i] && !asked, "entry %d stands: %v, and its answer is %v", i, stands, answer[i])
		switch {
		case how == "one":
			require.Equal(h.t, i == first, granted, "entry %d of which %d is the first that is free", i, first)
		case !slices.Contains(open, false):
			require.True(h.t, granted, "entry %d was not taken, and all are free", i)
		case stands && !had[i]:
			require.True(h.t, doubtful[i], "entry %d was taken, and not all are free", i)
		}
	}
	return answer
}

// open reports whether an entry may take its lock, but for waiters, which are all gone.
func (h *several) open(e *part) bool {
	switch h.kind {
	case "semaphore":
		return number(h.redis.do("GET", e.lock)) >= int64(e.block)
	case "read":
		return h.redis.do("HEXISTS", e.lock, "writer:write") == int64(0)
	}
	return h.redis.do("EXISTS", e.lock) == int64(0)
}

// holders are the entries that have a lock.
func (h *several) holders(lock string) (ids []string) {
	list := "HKEYS"
	args := []string{h.held(lock)}
	if h.kind == "semaphore" {
		list, args = "ZRANGE", append(args, "0", "-1")
	}
	for _, field := range h.redis.do(append([]string{list}, args...)...).([]any) {
		id := strings.TrimSuffix(field.(string), ":write")
		if h.kind == "semaphore" {
			id = id[:strings.LastIndexByte(id, ':')]
		}
		if strings.HasPrefix(id, clientOf(0)) {
			ids = append(ids, id)
		}
	}
	return ids
}

// ends ends an entry: its client gives it back.
func (h *several) ends(e *part) {
	e.state = ended
	keys := h.keys(e.lock)
	args := []string{e.id, forever, strconv.Itoa(e.block), "", "", "", "", "", "relock_inbox:", "PUBLISH"}
	answer := h.redis.do(append([]string{"EVALSHA", h.hashes[h.kind+" release"], strconv.Itoa(len(keys))}, append(keys, args...)...)...)
	h.trace = append(h.trace, fmt.Sprint("release ", e.lock, " ", e.id, " -> ", answer))
}

// check holds what stands against what the client knows.
func (h *several) check() {
	for lock := range 4 {
		name := h.lock(lock)
		standing := h.holders(name)
		for _, e := range h.entries {
			if e.lock != name {
				continue
			}
			stands := slices.Contains(standing, e.id)
			require.True(h.t, stands || e.state != holds, "%s of %s does not stand", e.id, name)
			require.True(h.t, !stands || e.state == holds || e.copied, "%s of %s stands", e.id, name)
		}
		if h.kind == "semaphore" {
			require.EqualValues(h.t, severalSize, int(number(h.redis.do("GET", name)))+len(standing), "permits of %s", name)
		}
	}
}
