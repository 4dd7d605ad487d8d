package lua_test

import (
	"cmp"
	"fmt"
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

// TestSemaphoreScriptsTwiceLostAndLate is TestReadWriteScriptsTwiceLostAndLate for a semaphore: its permits are counted after each
// command. Holders die, Redisson frees some of what they had, the number of permits changes, and is deleted. RELOCK_LONG has each
// script meet each fault 10,000 times.
func TestSemaphoreScriptsTwiceLostAndLate(t *testing.T) {
	wanted := 40
	if os.Getenv("RELOCK_LONG") != "" {
		wanted = 10_000
	}
	s := redistest.Start(t)
	from := lua.Scripts{Kind: "semaphore", Retention: 10 * time.Minute}
	hashes := make(map[string]string)
	for _, script := range permitScripts {
		text, err := from.Text(script)
		switch script {
		case "many acquire":
			text, err = from.Many("acquire")
		case "sweep":
			text, err = from.Sweep("release")
		}
		require.NoError(t, err)
		hashes[script] = s.Do("SCRIPT", "LOAD", text)
	}
	untilEachMeets(t, permitScripts, wanted, func(f *fates, n int) {
		h := &permits{fates: f, hashes: hashes, name: fmt.Sprint("s", n), size: 1 + f.rand.IntN(5)}
		h.run(s.Addr())
	})
}

var permitScripts = []string{"acquire", "many acquire", "release", "sweep", "renew", "recount", "force", "inspect", "refill", "resize"}

// wants is an acquisition of permits, as its client knows it.
type wants struct {
	id      string
	k       int
	ticket  string
	state   int
	copied  bool // a command that asks for it, or lengthens it, ran, or will run, behind its client's back
	asked   bool // a command that asks for it ran, and its answer was lost
	expired bool // its client died, or Redisson freed some of it
}

// stray reports whether an entry may stand that its client does not take for held. Its lease ends it.
func (e *wants) stray() bool {
	return e.state == waits && e.asked || e.state == ended && (e.copied || e.expired)
}

// permits is the history of one semaphore.
type permits struct {
	*fates
	hashes  map[string]string
	name    string
	inbox   string // prefix of the clients' inboxes, "" where no message can grant permits
	size    int    // of the semaphore, as Redis was told last, or is to be told
	redis   *conn
	inboxes *conn // of all clients
	entries []*wants
}

func (h *permits) keys() []string {
	tag := "{" + h.name + "}"
	return []string{
		h.name, "relock_permits:" + tag, "relock_permit_grants:" + tag, "redisson_sc:" + tag, "relock_sclisten:" + tag, tag + ":timeout",
	}
}

func (h *permits) held() string { return h.keys()[5] }

func (h *permits) run(addr string) {
	defer h.tell()
	h.redis, h.inboxes = dial(h.t, addr), dial(h.t, addr)
	defer h.redis.Close()
	defer h.inboxes.Close()
	h.redis.refused = true
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
	for len(h.late) > 0 {
		h.arrive()
		h.check()
	}
	for _, e := range h.entries {
		if e.state != ended {
			h.release(e, nil)
			h.check()
		}
	}
	for len(h.late) > 0 {
		h.arrive()
		h.check()
	}
	h.nothingLeft()
}

// step is one thing that a client does, or a late command.
func (h *permits) step() {
	of := func(state int) *wants {
		var found []*wants
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
	n := h.rand.IntN(26)
	often := h.rand.IntN(3) == 0
	if rare := strings.Fields(h.rarest)[0]; h.rand.IntN(2) == 0 {
		at := map[string]int{"renew": 13, "recount": 14, "refill": 15, "inspect": 16, "force": 17, "resize": 18}[rare]
		n, often = cmp.Or(at, n), often || at > 0
	}
	switch {
	case n < 2 && len(h.late) > 0:
		h.arrive()
	case n < 3:
		h.strayEnds()
	case n < 7 && waiter != nil:
		h.acquire(waiter, false)
	case n < 8 && waiter != nil:
		h.release(waiter, nil)
	case n < 12 && holder != nil:
		h.release(holder, nil)
	case n == 12 && holder != nil:
		h.release(holder, h.begin())
	case n == 13 && holder != nil:
		h.renew(holder)
	case n == 14 && holder != nil:
		h.recount(holder)
	case n == 15 && holder != nil:
		h.send("refill", []string{holder.id, "8", "PUBLISH"}, func() {}, func(any) {})
	case n == 16:
		h.inspect()
	case n == 17 && often:
		h.send("force", []string{h.inbox, "PUBLISH"}, func() {}, func(any) {})
		h.polls()
	case n == 18:
		h.resize(1+h.rand.IntN(6), "1")
	case n == 19 && holder != nil:
		h.dies(holder)
		if h.rand.IntN(2) == 0 {
			h.javaReaps()
		}
	case n == 20:
		h.javaReaps()
	case n == 21 && often:
		h.redis.do("DEL", h.name)
		h.trace = append(h.trace, "the number of free permits is deleted")
	default:
		h.acquire(h.begin(), h.rand.IntN(6) == 0)
	}
}

func (h *permits) begin() *wants {
	e := &wants{id: fmt.Sprintf("%s:%017d", clientOf(h.rand.IntN(3)), len(h.entries)), k: []int{1, 1, 1, 2, 3}[h.rand.IntN(5)]}
	h.entries = append(h.entries, e)
	return e
}

// send runs a command, and may have it meet a fault, as fates.meets says.
func (h *permits) send(script string, args []string, unheard func(), then func(any)) (answered bool) {
	keys := h.keys()
	if script == "renew" || script == "recount" {
		keys = []string{h.name, h.held()}
	}
	return h.meets(script, func() any {
		sized := h.redis.do("EXISTS", h.name) == int64(1)
		answer := h.eval(script, keys, args)
		switch {
		case script == "force" && answer == int64(1):
			h.lost()
		case script == "resize" && answer == int64(1):
			require.True(h.t, args[1] == "1" || !sized, "a number of permits was set that was known")
			h.size, _ = strconv.Atoi(args[0])
		}
		h.hear()
		return answer
	}, unheard, then)
}

func (h *permits) eval(script string, keys, args []string) any {
	answer := h.redis.do(append([]string{"EVALSHA", h.hashes[script], strconv.Itoa(len(keys))}, append(keys, args...)...)...)
	h.trace = append(h.trace, fmt.Sprint(script, " ", args, " -> ", answer))
	return answer
}

// refusal is the code of an error, "" for another answer.
func refusal(answer any) string {
	if err, is := answer.(error); is {
		return cmp.Or(wire.ReplyCode(err.Error()), err.Error())
	}
	return ""
}

// acquire asks for an entry, once where it does not wait. A client that is told that no number of permits is known sets one, and asks
// again; one that wants more permits than there are gives up.
func (h *permits) acquire(e *wants, once bool) {
	ticket := e.ticket
	if once {
		ticket = "-"
	}
	args, script := []string{forever, strconv.Itoa(e.k), e.id, "", ticket, "", h.inbox, "PUBLISH"}, "acquire"
	many := h.rand.IntN(3) == 0
	if many {
		args, script = append([]string{"1"}, args...), "many acquire"
	}
	again := false
	h.send(script, args, func() { e.copied, e.asked = true, true }, func(answer any) {
		parts, is := answer.([]any)
		if is && many {
			if first, packed := parts[0].(string); packed {
				token, count, _ := strings.Cut(first, ":")
				parts = []any{int64(1), token, count}
			} else {
				answer = parts[0]
				parts, is = answer.([]any)
			}
		}
		switch refused := refusal(answer); {
		case refused == "NOSIZE":
			again = true
		case refused == "TOOMANY":
			require.Less(h.t, h.size, e.k)
			once = true
		case refused != "" || !is:
			require.Fail(h.t, "refused", answer)
		case parts[0] == int64(1):
			h.grant(e)
		default:
			e.ticket = parts[2].(string) // of one that holds, by now, the grant's message came behind this answer
		}
	})
	if again && e.state == waits {
		h.resize(h.size, "")
		h.acquire(e, once)
	} else if once && e.state == waits {
		h.release(e, nil) // of a TryAcquire whose answer is lost nothing may stay
	}
}

func (h *permits) grant(e *wants) {
	if e.state != holds {
		require.Equal(h.t, waits, e.state)
		e.state = holds
	}
}

// resize sets how many permits there are, at once or only where that is not known.
func (h *permits) resize(n int, anew string) {
	for !h.send("resize", []string{strconv.Itoa(n), anew, "PUBLISH"}, func() {}, func(answer any) {
		require.Contains(h.t, []any{int64(0), int64(1)}, answer)
	}) {
	}
}

// release ends an entry by one of the two ways, and has another one queue in its place. What is not answered is sent again.
func (h *permits) release(e, next *wants) {
	args, script := []string{e.id, forever, strconv.Itoa(e.k), "", "", "", "", "", h.inbox, "PUBLISH"}, "release"
	if next != nil {
		args[5], args[6], args[7] = next.id, forever, strconv.Itoa(next.k)
	} else if h.rand.IntN(3) == 0 {
		args, script = append([]string{strconv.Itoa(len(args))}, args...), "sweep"
	}
	e.state = ended
	unheard := func() {
		if next != nil && h.redis.do("ZSCORE", h.held(), e.id+":1") != nil { // else it queues no entry
			next.copied, next.asked = true, true
		}
	}
	for !h.send(script, args, unheard, func(answer any) {
		if parts := answer.([]any); next != nil && next.state == waits && len(parts) > 2 {
			if parts[1] == int64(1) {
				h.grant(next)
			} else {
				next.ticket = parts[3].(string)
			}
		}
	}) {
	}
	h.served()
}

// served demands that the first in line does not wait beside permits that fit it, behind a command that freed some.
func (h *permits) served() {
	if h.inbox == "" {
		h.polls()
		return
	}
	line := h.redis.do("ZRANGE", h.keys()[1], "0", "0").([]any)
	free := h.redis.do("GET", h.name)
	if len(line) == 0 || free == nil {
		return
	}
	first := h.member(line[0].(string))
	require.Less(h.t, number(free), int64(first.k), "%s waits for %d permits, and %s are free", first.id, first.k, free)
}

// polls has all in line ask, as the message that permits are free has them, in order: the first gets them, unless one keeps its
// place that will not ask again, since a late command put it there.
func (h *permits) polls() {
	strays, first := 0, true
	var gaveUp []*wants
	for _, member := range h.redis.do("ZRANGE", h.keys()[1], "0", "-1").([]any) {
		e := h.member(member.(string))
		if e.state != waits {
			if h.redis.do("ZSCORE", h.keys()[1], member.(string)) != nil {
				strays++
			}
			continue
		}
		free := h.redis.do("GET", h.name)
		answer := h.eval("acquire", h.keys(), []string{forever, strconv.Itoa(e.k), e.id, "", e.ticket, "", h.inbox, "PUBLISH"})
		h.hear()
		parts, is := answer.([]any)
		if is && parts[0] == int64(1) {
			h.grant(e)
		}
		if e.state != waits {
			continue
		}
		if refusal(answer) == "TOOMANY" {
			strays, gaveUp = strays+1, append(gaveUp, e)
			continue
		}
		fits := free != nil && number(free) >= int64(e.k)
		require.False(h.t, is && first && fits && strays == 0, "%s waits for %d permits, and %s are free", e.id, e.k, free)
		if is {
			first = false
		}
	}
	for _, e := range gaveUp {
		if e.state == waits {
			h.release(e, nil)
		}
	}
}

// member is the entry that stands in line.
func (h *permits) member(member string) *wants {
	i := slices.IndexFunc(h.entries, func(e *wants) bool {
		return strings.Join([]string{forever, strconv.Itoa(e.k), e.id, ""}, ":") == member
	})
	require.GreaterOrEqual(h.t, i, 0, member)
	return h.entries[i]
}

func (h *permits) renew(e *wants) {
	for !h.send("renew", []string{e.id, "0", forever}, func() { e.copied = true }, func(answer any) {
		require.Equal(h.t, []any{int64(1)}, answer)
	}) {
	}
}

func (h *permits) recount(e *wants) {
	for !h.send("recount", []string{e.id, "1", forever}, func() { e.copied = true }, func(answer any) {
		require.Equal(h.t, int64(1), answer)
	}) {
	}
}

func (h *permits) inspect() {
	h.send("inspect", nil, func() {}, func(answer any) {
		parts := answer.([]any)[3].([]any)
		lasting := h.redis.do("ZCOUNT", h.held(), "("+strconv.FormatInt(time.Now().UnixMilli(), 10), "+inf")
		require.Equal(h.t, lasting, number(parts[3]), "permits that are held")
		if h.redis.do("EXISTS", h.name) == int64(1) {
			require.EqualValues(h.t, h.size, number(parts[1]))
		}
	})
}

// dies has the lease of a holder end, whose client is gone.
func (h *permits) dies(e *wants) {
	e.state, e.expired = ended, true
	h.expire(e)
}

// expire ends the lease of what stands of an entry.
func (h *permits) expire(e *wants) {
	h.trace = append(h.trace, "the lease of "+e.id+" ends")
	for i := range e.k {
		h.redis.do("ZADD", h.held(), "XX", "1000", fmt.Sprint(e.id, ":", i+1))
	}
}

// javaReaps has Redisson free the first permit whose lease is over, as an acquisition of one permit does.
func (h *permits) javaReaps() {
	over := h.redis.do("ZRANGEBYSCORE", h.held(), "-inf", "1000", "LIMIT", "0", "1").([]any)
	if len(over) > 0 && h.redis.do("EXISTS", h.name) == int64(1) {
		h.trace = append(h.trace, fmt.Sprint("Redisson frees ", over[0]))
		h.redis.do("ZREM", h.held(), over[0].(string))
		h.redis.do("INCRBY", h.name, "1")
		h.polls()
		at := strings.LastIndexByte(over[0].(string), ':')
		i := slices.IndexFunc(h.entries, func(e *wants) bool { return e.id == over[0].(string)[:at] })
		if e := h.entries[i]; h.rand.IntN(2) == 0 { // a copy of what asked for it, late
			e.copied = true
			h.eval("acquire", h.keys(), []string{forever, strconv.Itoa(e.k), e.id, "", "-", "", h.inbox, "PUBLISH"})
			h.hear()
		}
	}
}

// strayEnds has the lease of one end that no client knows of, if there is one.
func (h *permits) strayEnds() {
	for _, e := range h.entries {
		if e.stray() && h.redis.do("ZSCORE", h.held(), e.id+":1") != nil {
			h.expire(e)
			return
		}
	}
}

// lost ends all that hold.
func (h *permits) lost() {
	for _, e := range h.entries {
		if e.state == holds {
			e.state = ended
		}
	}
}

// hear has the clients take what they were sent. One that is granted what it has given up gives it back.
func (h *permits) hear() {
	var orphans []*wants
	for _, message := range h.inboxes.messages() {
		g, err := wire.ParseGrant(message)
		require.NoError(h.t, err)
		h.trace = append(h.trace, "    is sent "+message)
		if g.Tokens.First == 0 {
			continue
		}
		i := slices.IndexFunc(h.entries, func(e *wants) bool { return e.id == g.ID })
		if e := h.entries[i]; e.state != ended {
			h.grant(e)
		} else {
			orphans = append(orphans, e)
		}
	}
	for _, e := range orphans {
		h.eval("release", h.keys(), []string{e.id, forever, strconv.Itoa(e.k), "", "", "", "", "", h.inbox, "PUBLISH"})
	}
	if len(orphans) > 0 {
		h.hear()
	}
}

// check holds what stands against what the clients know.
func (h *permits) check() {
	stands := make(map[string]int)
	all := h.redis.do("ZRANGE", h.held(), "0", "-1").([]any)
	for _, member := range all {
		at := strings.LastIndexByte(member.(string), ':')
		stands[member.(string)[:at]]++
	}
	if free := h.redis.do("GET", h.name); free != nil {
		require.EqualValues(h.t, h.size, int(number(free))+len(all), "%s permits are free, and %d are held", free, len(all))
	}
	for _, e := range h.entries {
		n := stands[e.id]
		delete(stands, e.id)
		switch {
		case e.state == holds:
			require.Equal(h.t, e.k, n, "permits of %s", e.id)
		case n > 0:
			require.True(h.t, e.stray(), "%s stands", e.id)
			require.True(h.t, n == e.k || e.expired || n < e.k && h.redis.do("ZSCORE", h.held(), e.id+":1") == nil, "%d permits of %s", n, e.id)
		}
	}
	require.Empty(h.t, stands, "permits that are no entry's")
	for _, member := range h.redis.do("ZRANGE", h.keys()[1], "0", "-1").([]any) {
		e := h.member(member.(string))
		require.True(h.t, e.state == waits || e.stray(), "%s is in line", member)
	}
}

// nothingLeft demands that all is gone once the leases are over of what late commands brought: the line after four leases. Then all
// permits are there.
func (h *permits) nothingLeft() {
	lease, _ := strconv.Atoi(forever)
	for _, e := range h.entries {
		score := h.redis.do("ZSCORE", h.held(), e.id+":1")
		require.LessOrEqual(h.t, number(score), time.Now().UnixMilli()+int64(lease))
		h.expire(e)
	}
	if ends := number(h.redis.do("PTTL", h.keys()[1])); ends != -2 {
		require.Positive(h.t, ends, "the line has no end")
		require.LessOrEqual(h.t, ends, int64(4*lease))
		h.redis.do("DEL", h.keys()[1])
	}
	h.eval("resize", h.keys(), []string{strconv.Itoa(h.size), "", "PUBLISH"})
	all := clientOf(0) + ":00000000000009999"
	h.inbox = "relock_inbox:"
	answer := h.eval("acquire", h.keys(), []string{forever, strconv.Itoa(h.size), all, "", "-", "", h.inbox, "PUBLISH"}).([]any)
	require.Equal(h.t, int64(1), answer[0], "all permits are free")
	h.eval("release", h.keys(), []string{all, forever, strconv.Itoa(h.size), "", "", "", "", "", h.inbox, "PUBLISH"})
	left := h.redis.do("KEYS", "*"+h.name+"[}]*").([]any)
	for _, key := range left {
		if key == h.keys()[2] {
			continue // the number of grants
		}
		require.Regexp(h.t, "^relock_permits:.*:", key) // by which one that polls kept its place
		require.Positive(h.t, number(h.redis.do("PTTL", key.(string))))
	}
	require.EqualValues(h.t, h.size, number(h.redis.do("GET", h.name)))
	h.redis.do("DEL", h.name)
}
