package lua_test

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/relock-go/relock/internal/redistest"
	"github.com/relock-go/relock/internal/wire"
	"github.com/relock-go/relock/lua"
	"github.com/stretchr/testify/require"
)

// TestReadWriteScriptsTwiceLostAndLate runs random histories of a read-write lock by its scripts. Each command may run
// twice, its answer may be lost, or a copy of it may come late, behind others and behind the end of what it is for. After each
// command Redis is held against what the clients know: nothing that a client was told is untrue, and nothing else stands but
// what such a fault leaves to its lease. RELOCK_LONG has each script meet each fault 10,000 times.
func TestReadWriteScriptsTwiceLostAndLate(t *testing.T) {
	wanted := 10
	if os.Getenv("RELOCK_LONG") != "" {
		wanted = 10_000
	}
	s := redistest.Start(t)
	hashes := loaded(t, s)
	untilEachMeets(t, scripts, wanted, func(f *fates, n int) {
		h := &history{fates: f, hashes: hashes, name: fmt.Sprint("k", n)}
		h.run(s.Addr())
	})
}

// scripts are those of both kinds, as a history counts them.
var scripts = []string{
	"read acquire", "read many acquire", "read release", "read sweep", "read renew", "read recount", "read force", "read inspect", "read refill",
	"write acquire", "write many acquire", "write release", "write sweep", "write renew", "write recount", "write force", "write inspect", "write refill",
}

// loaded has the server know the scripts, and returns their hashes.
func loaded(t *testing.T, s *redistest.Server) map[string]string {
	hashes := make(map[string]string)
	for _, script := range scripts {
		kind, name, _ := strings.Cut(script, " ")
		of := lua.Scripts{Kind: kind, Retention: 10 * time.Minute}
		text, err := of.Text(name)
		switch name {
		case "many acquire":
			text, err = of.Many("acquire")
		case "sweep":
			text, err = of.Sweep("release")
		}
		require.NoError(t, err)
		hashes[script] = s.Do("SCRIPT", "LOAD", text)
	}
	return hashes
}

const forever = "60000" // milliseconds: no lease ends by itself within a history

// entry is an acquisition, as its client knows it.
type entry struct {
	id, kind string
	client   int
	owner    string // the writer that it is to come in beside
	ticket   string
	state    int
	first    int64 // token
	count    int   // hold count
	counts   []int // that a late command may have written since
	copied   bool  // a command that asks for it ran, or will run, behind its back
	asked    bool  // a command that asks for it ran, and its answer was lost
}

const (
	waits = iota
	holds
	ended
)

func (e *entry) block() string {
	if e.kind == "write" && e.owner == "" {
		return "8"
	}
	return "1"
}

// history is one lock's.
type history struct {
	*fates
	hashes map[string]string
	name   string
	inbox  string // prefix of the clients' inboxes, "" where no message can grant the lock

	redis   *conn
	inboxes *conn // of all clients
	entries []*entry
	last    int64 // token that was given, of readers and writers
	written int64 // by a writer
}

func (h *history) run(addr string) {
	defer h.tell()
	h.redis = dial(h.t, addr)
	defer h.redis.Close()
	h.inboxes = dial(h.t, addr)
	defer h.inboxes.Close()
	if h.rand.IntN(3) > 0 {
		h.inbox = "relock_inbox:"
	}
	for client := range 3 {
		h.inboxes.do("SUBSCRIBE", "relock_inbox:"+clientOf(client))
	}
	for range 12 + h.rand.IntN(60) {
		h.step()
		h.check()
	}
	for _, e := range h.entries {
		if e.state != ended {
			h.release(e, "")
			h.check()
		}
	}
	late := len(h.late) > 0
	for len(h.late) > 0 {
		h.arrive()
		h.check()
	}
	h.nothingLeft(late)
}

func clientOf(i int) string { return fmt.Sprintf("00000000-0000-4000-8000-00000000000%d", i) }

// step is one thing that a client does, or a late command.
func (h *history) step() {
	of := func(state int) *entry {
		var found []*entry
		for _, e := range h.entries {
			if e.state == state {
				found = append(found, e)
			}
		}
		if len(found) == 0 {
			return nil
		}
		return found[h.rand.IntN(len(found))]
	}
	waiter, holder := of(waits), of(holds)
	n := h.rand.IntN(20)
	if rare := strings.Fields(h.rarest)[1]; h.rand.IntN(3) == 0 {
		n = cmp.Or(map[string]int{"renew": 13, "recount": 14, "refill": 15, "inspect": 17, "force": 18}[rare], n)
	}
	switch {
	case n < 2 && len(h.late) > 0:
		h.arrive()
	case n < 3:
		h.strayEnds()
	case n < 7 && waiter != nil:
		h.acquire(waiter, false)
	case n < 8 && waiter != nil:
		h.release(waiter, "")
	case n < 12 && holder != nil:
		h.release(holder, "")
	case n == 12 && holder != nil && holder.kind == "write" && holder.owner == "":
		next := h.begin("write", holder.client, "")
		h.release(holder, next.id)
	case n == 13 && holder != nil:
		h.renew(holder)
	case n == 14 && holder != nil:
		h.recount(holder)
	case n == 15 && holder != nil:
		h.refill(holder)
	case n == 16 && holder != nil && holder.kind == "write":
		h.acquire(h.begin("read", holder.client, holder.id), true) // a downgrade
	case n == 17:
		h.inspect([]string{"read", "write"}[h.rand.IntN(2)])
	case n == 18 && h.rand.IntN(3) == 0:
		h.force([]string{"read", "write"}[h.rand.IntN(2)])
	default:
		kind := "read"
		if h.rand.IntN(3) == 0 {
			kind = "write"
		}
		h.acquire(h.begin(kind, h.rand.IntN(3), ""), h.rand.IntN(6) == 0)
	}
}

func (h *history) begin(kind string, client int, owner string) *entry {
	e := &entry{id: fmt.Sprintf("%s:%017d", clientOf(client), len(h.entries)), kind: kind, client: client, owner: owner, count: 1}
	h.entries = append(h.entries, e)
	return e
}

func (h *history) keys() []string {
	tag := "{" + h.name + "}"
	return []string{
		h.name, "relock_writers:" + tag, "redisson_lock_token:" + tag, "redisson_rwlock:" + tag, "relock_rwlisten:" + tag,
		"relock_readers:" + tag + ":" + h.name, "relock_phase:" + tag + ":" + h.name,
	}
}

// send runs a command, and may have it meet a fault. then is called with an answer that arrives; before each run that its
// client does not hear of, unheard is.
func (h *history) send(script string, args []string, unheard func(), then func(any)) (answered bool) {
	keys := h.keys()
	switch op := script[strings.LastIndex(script, " ")+1:]; {
	case op != "renew" && op != "recount":
	case strings.HasPrefix(script, "read"):
		keys = []string{h.name, h.pulse(&entry{id: args[0]})}
	default:
		keys = []string{h.name}
	}
	run := func() any {
		all := append([]string{"EVALSHA", h.hashes[script], strconv.Itoa(len(keys))}, append(keys, args...)...)
		answer := h.redis.do(all...)
		h.trace = append(h.trace, fmt.Sprint(script, " ", args, " -> ", answer))
		if strings.HasSuffix(script, " force") && answer == int64(1) {
			h.lost()
		}
		h.hear()
		return answer
	}
	return h.meets(script, run, unheard, then)
}

// acquire asks for an entry, once where it does not wait.
func (h *history) acquire(e *entry, once bool) {
	ticket := e.ticket
	if once {
		ticket = "-"
	}
	args, script := []string{forever, e.block(), e.id, e.owner, ticket, "", h.inbox, "PUBLISH"}, e.kind+" acquire"
	many := h.rand.IntN(3) == 0
	if many {
		args, script = append([]string{"1"}, args...), e.kind+" many acquire"
	}
	asks := func() { e.copied, e.asked = true, true }
	h.send(script, args, asks, func(answer any) {
		parts := answer.([]any)
		if many {
			if first, packed := parts[0].(string); packed {
				token, count, _ := strings.Cut(first, ":")
				parts = []any{int64(1), token, count}
			} else {
				parts = parts[0].([]any)
			}
		}
		if parts[0] == int64(1) {
			h.grant(e, number(parts[1]), number(parts[2]))
			return
		}
		e.ticket = parts[2].(string) // of one that holds, by now, the grant's message came behind this answer
	})
	if (once || e.owner != "") && e.state == waits {
		h.release(e, "") // of a TryLock whose answer is lost nothing may stay
	}
}

// grant notes that a client was told of a grant.
func (h *history) grant(e *entry, first, count int64) {
	if e.state == holds {
		require.Equal(h.t, e.first, first, "%s was told of another token", e.id)
		return
	}
	require.Equal(h.t, waits, e.state)
	switch {
	case e.owner != "":
		require.GreaterOrEqual(h.t, first, h.written, "a reader beside its writer")
	case e.kind == "read":
		require.Greater(h.t, first, h.written, "a reader's token is above those of the writers before")
	default:
		require.Greater(h.t, first, h.last, "a writer's token is above all before")
		h.written = max(h.written, first+count-1)
	}
	h.last = max(h.last, first+count-1)
	e.state, e.first = holds, first
}

// release ends an entry by one of the two ways, and has another one queue in its place. What is not answered is sent again.
func (h *history) release(e *entry, next string) {
	queued := h.entries[len(h.entries)-1]
	args, script := []string{e.id, forever, e.block(), e.owner, "", next, "", "", h.inbox, "PUBLISH"}, e.kind+" release"
	if next != "" {
		args[6], args[7] = forever, queued.block()
	} else if h.rand.IntN(3) == 0 {
		args, script = append([]string{strconv.Itoa(len(args))}, args...), e.kind+" sweep"
	}
	e.state = ended
	unheard := func() {
		if next != "" && h.redis.do("HEXISTS", h.name, e.id+":write") == int64(1) { // else it queues no one
			queued.copied, queued.asked = true, true
		}
	}
	for !h.send(script, args, unheard, func(answer any) {
		if parts := answer.([]any); next != "" && len(parts) > 2 {
			if queued.state == waits && parts[1] == int64(1) {
				h.grant(queued, number(parts[2]), number(parts[3]))
			} else if queued.state == waits {
				queued.ticket = parts[3].(string)
			}
		}
	}) {
	}
	h.served()
}

// served demands that no client waits beside the free lock, behind a command that freed it.
func (h *history) served() {
	if h.redis.do("EXISTS", h.name) == int64(1) {
		return
	}
	if h.inbox == "" {
		h.polls()
		return
	}
	for _, e := range h.entries {
		require.False(h.t, e.state == waits && e.ticket != "" && !e.asked && h.queued(e), "%s waits beside the free lock", e.id)
	}
}

// polls has all that wait ask for the free lock, as the message that it is free has them: one of them takes it, unless one keeps
// its place that will not ask again, since a late command put it there.
func (h *history) polls() {
	waiting, strays := 0, 0
	for _, e := range h.entries {
		if !h.queued(e) {
			continue
		} else if e.state == ended {
			strays++
			continue
		}
		waiting++
		args := append([]string{"EVALSHA", h.hashes[e.kind+" acquire"], strconv.Itoa(len(h.keys()))}, h.keys()...)
		args = append(args, forever, e.block(), e.id, e.owner, e.ticket, "", h.inbox, "PUBLISH")
		answer := h.redis.do(args...).([]any)
		h.trace = append(h.trace, fmt.Sprint("polls ", e.id, " -> ", answer))
		if answer[0] == int64(1) {
			h.grant(e, number(answer[1]), number(answer[2]))
		}
	}
	require.True(h.t, waiting == 0 || strays > 0 || h.redis.do("EXISTS", h.name) == int64(1), "%d wait beside the free lock", waiting)
}

// queued reports whether an entry stands in its line.
func (h *history) queued(e *entry) bool {
	return h.redis.do("ZSCORE", h.lineOf(e), h.member(e)) != nil
}

// member is what stands for an entry in its line.
func (h *history) member(e *entry) string {
	return strings.Join([]string{forever, e.block(), e.id, e.owner}, ":")
}

func (h *history) lineOf(e *entry) string {
	if e.kind == "read" {
		return h.keys()[5]
	}
	return h.keys()[1]
}

func (h *history) renew(e *entry) {
	count := e.count
	again := func() { e.counts = append(e.counts, count) }
	for !h.send(e.kind+" renew", []string{e.id, strconv.Itoa(count), forever}, again, func(answer any) {
		require.Equal(h.t, []any{int64(1)}, answer)
		e.counts = nil
	}) {
	}
}

// recount writes another hold count.
func (h *history) recount(e *entry) {
	if e.kind == "write" {
		e.counts = append(e.counts, e.count)
		e.count = 1 + h.rand.IntN(4)
	}
	count := e.count
	if !h.send(e.kind+" recount", []string{e.id, strconv.Itoa(count), forever}, func() { e.counts = append(e.counts, count) }, func(answer any) {
		require.Equal(h.t, int64(1), answer)
		e.counts = nil
	}) {
		h.renew(e)
	}
}

// refill reserves further tokens for a writer.
func (h *history) refill(e *entry) {
	h.send(e.kind+" refill", []string{e.id, "8", "PUBLISH"}, func() {}, func(answer any) {
		if parts := answer.([]any); len(parts) > 0 && e.kind == "write" {
			require.Greater(h.t, number(parts[0]), h.written)
			h.written = number(parts[0]) + number(parts[1]) - 1
			h.last = max(h.last, h.written)
		}
	})
}

func (h *history) inspect(kind string) {
	h.send(kind+" inspect", nil, func() {}, func(answer any) {
		parts := answer.([]any)
		var told []string
		for _, part := range parts[3].([]any) {
			told = append(told, fmt.Sprint(part))
		}
		fields := h.fields()
		for _, e := range h.entries {
			if e.kind == "read" && h.redis.do("EXISTS", h.pulse(e)) == int64(0) {
				delete(fields, e.id) // it died
			}
		}
		require.Len(h.t, told, 2*len(fields)+2)
		for i := 0; i+2 < len(told); i += 2 {
			require.Equal(h.t, fields[told[i]], told[i+1])
		}
		require.Equal(h.t, h.redis.do("ZCARD", h.keys()[5]), number(told[len(told)-1]), "readers that wait")
	})
}

// force frees the lock. Where it runs twice, or late, it ends those that came next.
func (h *history) force(kind string) {
	h.send(kind+" force", []string{h.inbox, "PUBLISH"}, func() {}, func(any) {})
}

// lost ends all that hold, and what stands that no client knows of.
func (h *history) lost() {
	for _, e := range h.entries {
		if e.state == holds {
			e.state = ended
		}
	}
}

// hear has the clients take what they were sent. One that is granted what it has given up gives it back.
func (h *history) hear() {
	var orphans []*entry
	for _, message := range h.inboxes.messages() {
		g, err := wire.ParseGrant(message)
		require.NoError(h.t, err)
		h.trace = append(h.trace, "    is sent "+message)
		if g.Tokens.First == 0 {
			continue
		}
		i := slices.IndexFunc(h.entries, func(e *entry) bool { return e.id == g.ID })
		if e := h.entries[i]; e.state != ended {
			h.grant(e, g.Tokens.First, int64(g.Tokens.Count))
		} else {
			orphans = append(orphans, e)
		}
	}
	for _, e := range orphans {
		h.trace = append(h.trace, "  gives back "+e.id)
		args := []string{e.id, forever, e.block(), "", "", "", "", "", h.inbox, "PUBLISH"}
		h.redis.do(append([]string{"EVALSHA", h.hashes[e.kind+" release"], "7"}, append(h.keys(), args...)...)...)
	}
	if len(orphans) > 0 {
		h.hear()
	}
}

// fields are what stands in the lock's hash.
func (h *history) fields() map[string]string {
	fields := make(map[string]string)
	all := h.redis.do("HGETALL", h.name).([]any)
	for i := 0; i < len(all); i += 2 {
		fields[all[i].(string)] = all[i+1].(string)
	}
	return fields
}

// stray reports whether an entry may stand that its client does not take for held: a command that asked for it ran without its
// client hearing of that, and its lease ends it. So says docs/safety.md of a copy that is late.
func (e *entry) stray() bool { return e.state == waits && e.asked || e.state == ended && e.copied }

// check holds what stands against what the clients know.
func (h *history) check() {
	fields := h.fields()
	mode, stood := fields["mode"], maps.Clone(fields)
	delete(fields, "mode")
	writers := 0
	for _, e := range h.entries {
		field := e.id
		if e.kind == "write" {
			field += ":write"
		}
		value, stands := fields[field]
		delete(fields, field)
		switch {
		case e.state == holds:
			require.True(h.t, stands, "%s of %s does not stand", field, h.name)
		case stands:
			require.True(h.t, e.stray(), "%s of %s stands", field, h.name)
		}
		if !stands {
			continue
		}
		if e.kind == "read" {
			require.Equal(h.t, "1", value)
			continue
		}
		writers++
		require.Equal(h.t, "write", mode)
		if e.state == holds {
			count, rest, _ := strings.Cut(value, ":")
			wrote, _ := strconv.Atoi(count)
			require.True(h.t, wrote == e.count || slices.Contains(e.counts, wrote), "%s is counted %d times, not %d", e.id, wrote, e.count)
			require.True(h.t, strings.HasPrefix(rest, fmt.Sprint(e.first, ":")), "%s has the tokens %s", e.id, rest)
		}
		for _, other := range h.entries {
			if _, beside := stood[other.id]; beside && other.kind == "read" {
				require.Equal(h.t, e.id, other.owner, "a reader is beside a writer that is not its own")
			}
		}
	}
	require.Empty(h.t, fields, "fields that are no entry's")
	require.LessOrEqual(h.t, writers, 1)
	for _, line := range []string{h.keys()[1], h.keys()[5]} {
		for _, member := range h.redis.do("ZRANGE", line, "0", "-1").([]any) {
			i := slices.IndexFunc(h.entries, func(e *entry) bool { return h.member(e) == member })
			require.True(h.t, h.entries[i].state == waits || h.entries[i].stray(), "%s is in line", member)
		}
	}
}

// strayEnds has the lease of one end that no client knows of, if there is one.
func (h *history) strayEnds() {
	for _, e := range h.entries {
		if !e.stray() {
			continue
		}
		switch {
		case e.kind == "write" && h.redis.do("HEXISTS", h.name, e.id+":write") == int64(1):
			h.trace = append(h.trace, "the lease of "+e.id+" ends")
			h.redis.do("DEL", h.name)
			for _, beside := range h.entries { // its own, by a downgrade, has the same lease
				if beside.owner == e.id && beside.state == holds {
					beside.state = ended
				}
			}
		case e.kind == "read" && h.redis.do("DEL", h.pulse(e)) == int64(1):
			h.trace = append(h.trace, "the lease of "+e.id+" ends")
		default:
			continue
		}
		return
	}
}

func (h *history) pulse(e *entry) string { return "{" + h.name + "}:" + e.id + ":rwlock_timeout:1" }

// nothingLeft demands that all is gone, and of what late commands brought that it ends by itself: a queue after four leases.
func (h *history) nothingLeft(late bool) {
	lease, _ := strconv.Atoi(forever)
	left := h.redis.do("KEYS", "*"+h.name+"[}]*").([]any)
	left = append(left, h.redis.do("KEYS", h.name).([]any)...)
	for _, key := range left {
		ends := number(h.redis.do("PTTL", key.(string)))
		switch key {
		case h.keys()[2]:
			continue // the counter
		case h.keys()[1], h.keys()[5], h.keys()[6]:
			require.LessOrEqual(h.t, ends, int64(4*lease), key)
			require.True(h.t, key == h.keys()[6] || late || h.copies(), "%s is left", key)
		default:
			require.LessOrEqual(h.t, ends, int64(lease), key)
			require.True(h.t, late || h.copies(), "%s is left", key)
		}
		require.Positive(h.t, ends, "%s has no end", key)
		h.redis.do("DEL", key.(string))
	}
}

// copies reports whether a command that asks ran without its client hearing of it.
func (h *history) copies() bool {
	return slices.ContainsFunc(h.entries, func(e *entry) bool { return e.copied })
}
