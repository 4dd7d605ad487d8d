package world

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/relock-go/relock/internal/driver"
)

// jvm is an instance of Redisson: what its RLock and RFencedLock send, and when, with its flaws. A
// command goes over a line of its own process, whose place is behind those of relock's.
type jvm struct {
	*process
	line  *line
	id    string        // <uuid> of its fields
	lease time.Duration // lockWatchdogTimeout
	over  chan struct{} // closed when it ends
	work  sync.WaitGroup
	sole  chan struct{} // one slot: subscriptions change one after the other

	mu      sync.Mutex // guards what follows
	entries map[string]*latchEntry
	renewed map[string]string   // lock to the field that the watchdog renews
	reads   map[string][]string // lock to its readers' fields, which it renews too
	ear     driver.Listener     // nil while it is connecting
	ids     dice                // of requests
}

// latchEntry is RedissonLockEntry: one subscription for all threads that wait for a lock.
type latchEntry struct {
	users   int
	sleep   int           // of them
	permits chan struct{} // a semaphore, which a message releases once
	heard   chan struct{} // closed when the subscription is confirmed
}

// The scripts, as Redisson's classes send them.
var (
	javaLock = javaScript("lock", `
		if redis.call('exists', KEYS[1]) == 0 or redis.call('hexists', KEYS[1], ARGV[2]) == 1 then
			redis.call('hincrby', KEYS[1], ARGV[2], 1)
			redis.call('pexpire', KEYS[1], ARGV[1])
			return nil
		end
		return redis.call('pttl', KEYS[1])`)
	javaFence = javaScript("fenced lock", `
		if redis.call('exists', KEYS[1]) == 0 or redis.call('hexists', KEYS[1], ARGV[2]) == 1 then
			redis.call('hincrby', KEYS[1], ARGV[2], 1)
			redis.call('pexpire', KEYS[1], ARGV[1])
			return {-1, redis.call('incr', KEYS[2])}
		end
		return {redis.call('pttl', KEYS[1]), -1}`)
	javaUnlock = javaScript("unlock", `
		local was = redis.call('get', KEYS[3])
		if was ~= false then
			return tonumber(was)
		end
		if redis.call('hexists', KEYS[1], ARGV[3]) == 0 then
			return nil
		end
		if redis.call('hincrby', KEYS[1], ARGV[3], -1) > 0 then
			redis.call('pexpire', KEYS[1], ARGV[2])
			redis.call('set', KEYS[3], 0, 'px', ARGV[5])
			return 0
		end
		redis.call('del', KEYS[1])
		redis.call(ARGV[4], KEYS[2], ARGV[1])
		redis.call('set', KEYS[3], 1, 'px', ARGV[5])
		return 1`)
	javaRenew = javaScript("renew", `
		local out = {}
		for i = 1, #KEYS do
			if redis.call('hexists', KEYS[i], ARGV[i + 1]) == 1 then
				redis.call('pexpire', KEYS[i], ARGV[1])
				table.insert(out, 1)
			else
				table.insert(out, 0)
			end
		end
		return out`)
)

func javaScript(name, text string) *driver.Script {
	s := driver.NewScript(text)
	scriptNames.Store(s.SHA, "java "+name)
	return s
}

// newJVM starts an instance. It is called under the world's mutex, or before anything runs.
func newJVM(w *World, index int) *jvm {
	ids := throw(w.plan.Seed, "jvm", strconv.Itoa(index), strconv.Itoa(len(w.javas)))
	v := &jvm{
		process: &process{w: w, index: index, asked: time.Now(), foreign: true}, lease: w.plan.Lease,
		over: make(chan struct{}), sole: make(chan struct{}, 1), entries: map[string]*latchEntry{}, renewed: map[string]string{}, reads: map[string][]string{},
		id: uuid.Must(uuid.NewRandomFromReader(&ids)).String(), ids: ids,
	}
	v.line = newLine(v.process, w.nodes[0])
	w.javas[v.id] = true
	w.label(v.id, index)
	v.work.Go(v.listen)
	v.work.Go(v.renew)
	return v
}

// end stops the instance, as far as it was not killed.
func (v *jvm) end() {
	close(v.over)
	v.work.Wait()
}

// pause waits, and reports whether the instance still runs.
func (v *jvm) pause(d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-v.over:
		return false
	}
}

func (v *jvm) timeout() time.Duration { return v.w.plan.Timeout() }

// eval sends a script, and once more where its answer does not come, as often as told.
func (v *jvm) eval(s *driver.Script, retries int, then func(driver.Value), keys, args []string) (driver.Value, error) {
	for {
		answer, err := v.evalOnce(s, then, keys, args)
		if err == nil || retries == 0 || !v.pause(v.timeout()/2) {
			return answer, err
		}
		retries--
	}
}

func (v *jvm) evalOnce(s *driver.Script, then func(driver.Value), keys, args []string) (driver.Value, error) {
	ctx, cancel := context.WithTimeout(context.Background(), v.timeout())
	defer cancel()
	send := func() (driver.Value, error) {
		c := &command{op: nameOf(s), lock: keys[0], args: scriptCall("EVALSHA", s.SHA, keys, args), then: then}
		return v.line.send(ctx, c)
	}
	answer, err := send()
	if err == nil && answer.Err() != nil && strings.HasPrefix(answer.Err().Error(), "NOSCRIPT") {
		load := &command{op: "script load", lock: keys[0], args: []string{"SCRIPT", "LOAD", s.Text}}
		if _, err = v.line.send(ctx, load); err == nil {
			answer, err = send()
		}
	}
	if err == nil {
		err = answer.Err()
	}
	return answer, err
}

// take tries to take a lock for a thread, and returns how long the lock stands otherwise, -1 for
// ever.
func (v *jvm) take(name, field string, lease time.Duration, fenced bool) (got bool, ttl time.Duration, err error) {
	s, keys, token := javaLock, []string{name}, int64(0)
	if fenced {
		s, keys = javaFence, []string{name, beside("redisson_lock_token:", name)}
	}
	read := func(a driver.Value) (mine bool, left int64) {
		if !fenced {
			left, _ = a.Int64()
			return a.IsNil(), left
		}
		parts, _ := a.Values()
		if len(parts) < 2 {
			return false, 0
		}
		left, _ = parts[0].Int64()
		token, _ = parts[1].Int64()
		return token > 0, left
	}
	then := func(a driver.Value) {
		if mine, _ := read(a); mine && a.Err() == nil {
			v.w.javaTook(v, name, field, token)
		}
	}
	answer, err := v.eval(s, 0, then, keys, []string{millis(lease), field})
	if err != nil {
		return false, 0, err
	}
	got, left := read(answer)
	return got, time.Duration(left) * time.Millisecond, nil
}

// unlock ends a hold of a thread, and reports whether there was one.
func (v *jvm) unlock(name, field string, lease time.Duration) (held bool, err error) {
	latch := v.latch(name)
	args := []string{"0", millis(lease), field, "PUBLISH", millis(6 * v.timeout())}
	answer, err := v.eval(javaUnlock, 4, nil, []string{name, v.channelOf(name), latch}, args)
	if err != nil {
		return false, err
	}
	v.drops(latch)
	return !answer.IsNil(), nil
}

// latch is the key by which an unlock that runs twice knows of the first.
func (v *jvm) latch(name string) string {
	v.mu.Lock()
	defer v.mu.Unlock()
	return "redisson_unlock_latch:{" + name + "}:" + fmt.Sprintf("%016x%016x", v.ids.next(), v.ids.next())
}

// drops deletes it, in the background.
func (v *jvm) drops(latch string) {
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), v.timeout())
		defer cancel()
		_, _ = v.line.Do(ctx, []string{"DEL", latch})
	}()
}

// sleeps counts those that sleep until a message wakes them.
func (v *jvm) sleeps(e *latchEntry, n int) {
	v.mu.Lock()
	defer v.mu.Unlock()
	e.sleep += n
}

func millis(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }

// renews has the watchdog renew a field of a lock, or no longer for "".
func (v *jvm) renews(name, field string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if field == "" {
		delete(v.renewed, name)
		return
	}
	v.renewed[name] = field
}

// renew is the watchdog. Where its command fails it tries again at its next turn; a lock that is
// not held is forgotten.
func (v *jvm) renew() {
	for v.pause(v.lease / 3) {
		keys, args := v.due()
		v.renewReads()
		if len(keys) == 0 {
			continue
		}
		answer, err := v.eval(javaRenew, 0, nil, keys, args)
		if err != nil {
			continue
		}
		parts, _ := answer.Values()
		for i, part := range parts {
			if still, _ := part.Int64(); still == 0 {
				v.forget(keys[i], args[i+1])
			}
		}
	}
}

func (v *jvm) due() (keys, args []string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	args = []string{millis(v.lease)}
	for _, name := range v.w.plan.Names {
		if field := v.renewed[name]; field != "" {
			keys, args = append(keys, name), append(args, field)
		}
	}
	return keys, args
}

func (v *jvm) forget(name, field string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.renewed[name] == field {
		delete(v.renewed, name)
	}
}

// listen keeps the connection for subscriptions. After a loss it subscribes again, and wakes
// nobody.
func (v *jvm) listen() {
	for v.pause(v.timeout() / 10) {
		ctx, cancel := context.WithTimeout(context.Background(), v.timeout())
		ear, err := v.line.Listen(ctx, v)
		if err == nil {
			err = v.resume(ctx, ear)
		}
		cancel()
		if err != nil {
			continue
		}
		select {
		case <-ear.Dropped():
			v.mu.Lock()
			v.ear = nil
			v.mu.Unlock()
		case <-v.over:
			ear.Close()
			return
		}
	}
}

// resume subscribes what is waited for.
func (v *jvm) resume(ctx context.Context, ear driver.Listener) error {
	v.mu.Lock()
	v.ear = ear
	var channels []string
	for _, name := range v.w.plan.Names {
		if v.entries[name] != nil {
			channels = append(channels, v.channelOf(name))
		}
	}
	v.mu.Unlock()
	if len(channels) == 0 {
		return nil
	}
	err := ear.Subscribe(ctx, channels...)
	if err != nil {
		v.mu.Lock()
		v.ear = nil
		v.mu.Unlock()
		ear.Close()
	}
	return err
}

// Subscribed is told of what the server has confirmed.
func (v *jvm) Subscribed(channel string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	e := v.entries[lockOf(channel, "")]
	if e == nil {
		return
	}
	select {
	case <-e.heard:
	default:
		close(e.heard)
	}
}

// Impaired is told nothing here.
func (v *jvm) Impaired(error) {}

// Message releases one permit for an unlock.
func (v *jvm) Message(channel, message string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	e := v.entries[lockOf(channel, "")]
	if e == nil {
		return
	}
	wakes := 0
	switch n, err := strconv.Atoi(message); {
	case v.w.form.Permits: // as many as are free
		if err == nil && n > 0 {
			wakes = min(n, e.users)
		}
	case message == "0":
		wakes = 1
	case message == "1": // of a read-write lock: all that sleep
		wakes = e.sleep
	}
	for range wakes {
		select {
		case e.permits <- struct{}{}:
		default:
		}
	}
}

// subscribe joins the subscription of a lock, and returns nil where that is not confirmed in time.
func (v *jvm) subscribe(name string) *latchEntry {
	ctx, cancel := context.WithTimeout(context.Background(), 4*v.timeout())
	defer cancel()
	e := v.join(ctx, name)
	select {
	case <-e.heard:
		return e
	case <-ctx.Done():
	case <-v.over:
	}
	v.leave(name, e)
	return nil
}

// join subscribes for the first user of a lock's entry.
func (v *jvm) join(ctx context.Context, name string) *latchEntry {
	v.sole <- struct{}{}
	defer func() { <-v.sole }()
	v.mu.Lock()
	e, ear := v.entries[name], v.ear
	if e == nil {
		e = &latchEntry{permits: make(chan struct{}, 1024), heard: make(chan struct{})}
		v.entries[name] = e
	} else {
		ear = nil // somebody else has asked
	}
	e.users++
	v.mu.Unlock()
	if ear != nil {
		_ = ear.Subscribe(ctx, v.channelOf(name))
	}
	return e
}

// leave ends the subscription with its last user.
func (v *jvm) leave(name string, e *latchEntry) {
	v.sole <- struct{}{}
	defer func() { <-v.sole }()
	v.mu.Lock()
	ear := v.ear
	if e.users--; e.users > 0 {
		ear = nil
	} else {
		delete(v.entries, name)
	}
	v.mu.Unlock()
	if ear != nil {
		ctx, cancel := context.WithTimeout(context.Background(), v.timeout())
		defer cancel()
		_ = ear.Unsubscribe(ctx, v.channelOf(name))
	}
}
