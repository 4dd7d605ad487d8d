package world

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/relock-go/relock/internal/driver"
)

// What an instance of Redisson does with semaphores: RedissonPermitExpirableSemaphore. Its permits have ids and ends that the instance
// makes up, by its own clock, and no watchdog.

func init() {
	Scenes = append(Scenes, Scene{"tongues", shapeTongues, func() Kind { return Permits{} }})
}

// shapeTongues has Redisson's semaphores beside relock's. In a third of the seeds the clocks of its instances are ahead. In a quarter
// processes are killed, and copies of what they asked for come when Redisson has freed some of what they had.
func shapeTongues(p *Plan, r *rand.Rand) {
	shapePermits(p, r)
	p.JVMs, p.Threads = 1+r.IntN(2), 1+r.IntN(3)
	if r.IntN(3) == 0 {
		p.Ahead = time.Duration(r.Int64N(int64(p.Lease)))
	}
	if r.IntN(4) == 0 {
		p.Rates.Twice = .2
		p.with(r, 8, "kill", kill)
	}
}

// The scripts, as Redisson 4.7.0 sends them.
var (
	javaAcquire = javaScript("acquire permits", `
		local expiredIds = redis.call('zrangebyscore', KEYS[2], 0, ARGV[3], 'limit', 0, ARGV[1])
		if #expiredIds > 0 then
			redis.call('zrem', KEYS[2], unpack(expiredIds))
			local value = redis.call('incrby', KEYS[1], #expiredIds)
			if tonumber(value) > 0 then
				redis.call(ARGV[5], KEYS[3], value)
			end
		end
		local value = redis.call('get', KEYS[1])
		if value ~= false and tonumber(value) >= tonumber(ARGV[1]) then
			redis.call('decrby', KEYS[1], ARGV[1])
			for i = 6, #ARGV, 1 do
				redis.call('zadd', KEYS[2], ARGV[2], ARGV[i])
			end
			local ttl = redis.call('pttl', KEYS[1])
			if ttl > 0 then
				redis.call('pexpire', KEYS[2], ttl)
			end
			return 'OK'
		end
		local v = redis.call('zrange', KEYS[2], 0, 0, 'WITHSCORES')
		if v[1] ~= nil and v[2] ~= ARGV[4] then
			return ':' .. tostring(v[2])
		end
		return nil`)
	javaRelease = javaScript("release permit", `
		local expire = redis.call('zscore', KEYS[3], ARGV[1])
		local removed = redis.call('zrem', KEYS[3], ARGV[1])
		if tonumber(removed) ~= 1 then
			return 0
		end
		local value = redis.call('incrby', KEYS[1], ARGV[2])
		redis.call(ARGV[4], KEYS[2], value)
		if tonumber(expire) <= tonumber(ARGV[3]) then
			return 0
		end
		return 1`)
)

// clock is the instance's, in ms.
func (v *jvm) clock() int64 { return time.Now().Add(v.w.plan.Ahead).UnixMilli() }

// permitIDs makes up the ids of permits.
func (v *jvm) permitIDs(k int) (ids []string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for range k {
		var id [16]byte
		for i := range 2 {
			for j, half := 0, v.ids.next(); j < 8; j++ {
				id[8*i+j] = byte(half >> (8 * j))
			}
		}
		ids = append(ids, string(id[:]))
	}
	return ids
}

// permits takes permits, does something, and gives them back, but now and then not at all: then their leases end.
func (t *thread) permits(v *jvm, r *rand.Rand) {
	name, k, lease := pick(r, t.w.plan.Names), pick(r, []int{1, 1, 1, 2, 3}), pick(r, t.w.plan.Leases)
	wait := time.Duration(1 + r.Int64N(int64(4*t.w.plan.Lease)))
	if r.IntN(5) == 0 {
		wait = 0
	}
	ids := t.takesPermits(v, r, name, k, lease, wait)
	if ids == nil {
		return
	}
	t.w.note(v.index, name, fmt.Sprintf("JAVA HAS %d permits", k), 0, nil)
	v.pause(t.w.hold(r))
	if r.IntN(8) == 0 {
		return
	}
	for _, id := range ids {
		keys := []string{name, v.channelOf(name), beside("", name) + ":timeout"}
		_, err := v.eval(javaRelease, 4, nil, keys, []string{id, "1", strconv.FormatInt(v.clock(), 10), "PUBLISH"})
		t.w.note(v.index, name, "java released", 0, err)
	}
}

// takesPermits is tryAcquire: try, subscribe, try, and sleep until a message or until the next lease ends by the instance's clock.
func (t *thread) takesPermits(v *jvm, r *rand.Rand, name string, k int, lease, wait time.Duration) []string {
	if !t.w.plays(name) {
		return nil
	}
	began := time.Now()
	ids, _, err := v.takePermits(name, k, lease)
	if err != nil || ids != nil || wait == 0 {
		return ids
	}
	e := v.subscribe(name)
	if e == nil {
		return nil
	}
	defer v.leave(name, e)
	done := t.w.judge.threadWaits(name, "")
	defer done()
	for {
		ids, next, err := v.takePermits(name, k, lease)
		left := wait - time.Since(began)
		if err != nil || ids != nil || left <= 0 {
			return ids
		}
		if next >= 0 {
			left = min(left, next)
		}
		if !v.sleep(e, left, time.Duration(r.Int64N(int64(t.w.plan.wakes())))) {
			return nil
		}
	}
}

// takePermits asks once. It returns the ids of the permits, or for how long the next lease lasts, -1 for none.
func (v *jvm) takePermits(name string, k int, lease time.Duration) (ids []string, next time.Duration, err error) {
	now := v.clock()
	ids = v.permitIDs(k)
	args := []string{strconv.Itoa(k), strconv.FormatInt(now+lease.Milliseconds(), 10), strconv.FormatInt(now, 10), "922337203685477", "PUBLISH"}
	keys := []string{name, beside("", name) + ":timeout", v.channelOf(name)}
	then := func(a driver.Value) {
		if text, _ := a.Text(); a.Err() == nil && text == "OK" {
			v.w.javaTookPermits(v, name)
		}
	}
	answer, err := v.eval(javaAcquire, 0, then, keys, append(args, ids...))
	text, _ := answer.Text()
	ends, told := strings.CutPrefix(text, ":")
	switch {
	case err != nil:
		return nil, 0, err
	case text == "OK":
		return ids, 0, nil
	case !told:
		return nil, -1, nil
	}
	at, _ := strconv.ParseFloat(ends, 64)
	return nil, max(0, time.Duration(int64(at)-v.clock())*time.Millisecond), nil
}

// javaTookPermits is told, under the world's mutex, that a server gave a thread of Redisson's permits: then callers of relock's
// believe in no more than there are beside them.
func (w *World) javaTookPermits(v *jvm, name string) {
	w.judge.taken(name, "", 0, 0)
	n := w.nodes[0]
	w.permits.javas[name] = w.number()
	size, java := w.sizeAt(name, unsized), w.javaPermits(n, name)
	if w.permits.free != "" { // else the instance has made a number of its own
		go w.judge.crowdedByJava(v, name, java, size)
	}
}

// javaPermits is how many permits Redisson has, whose leases last by the node's clock. It is called under the world's mutex.
func (w *World) javaPermits(n *node, name string) (held int) {
	now := float64(n.server.Clock().Micro()) / 1000
	for _, permit := range n.server.Line(w.form.leasesOf(name), nil) {
		if len(permit.Member) == 16 && permit.Ticket > now {
			held++
		}
	}
	return held
}

func (j *judge) crowdedByJava(v *jvm, name string, java, size int) {
	j.mu.Lock()
	r := j.of(name)
	held, excused := slices.Clone(r.held), max(r.horizon, r.alien)
	j.mu.Unlock()
	taken, holds := java, []string(nil)
	for _, h := range held {
		if h.Token > excused && !slices.Contains(holds, h.id) && !j.w.wasRobbed(h.id) && h.live() {
			taken, holds = taken+h.amount, append(holds, h.id)
		}
	}
	if taken > size {
		j.w.fail(name, "too many holders: Redisson in p%d is given permits, of which its instances have %d, and relock's callers %d, of %d",
			v.index, java, taken-java, size)
	}
}

// robs notes the acquisitions that a command of Redisson's has freed permits of before their leases were over: their holders hear of that
// with their next renewals. It is called under the world's mutex.
func (w *World) robs(n *node, c *command) {
	if !w.form.Permits || !strings.HasPrefix(c.op, "java ") {
		return
	}
	has := map[string]bool{}
	for _, permit := range n.server.Line(w.form.leasesOf(c.lock), nil) {
		has[permit.Member] = true
	}
	now := float64(n.server.Clock().Micro()) / 1000
	for _, permit := range w.permits.held {
		if id := entryOf(permit.Member); id != "" && !has[permit.Member] && permit.Ticket > now {
			w.permits.robbed[id] = true
		}
	}
}

// wasRobbed reports whether Redisson freed permits of an acquisition before their time.
func (w *World) wasRobbed(id string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.permits.robbed[id]
}
