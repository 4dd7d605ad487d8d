package world

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/relock-go/relock/internal/driver"
)

// What an instance of Redisson does with read-write locks: RedissonReadLock, RedissonWriteLock and their renewals.

// The scripts, as Redisson 4.7.0 sends them.
var (
	javaRead = javaScript("read lock", `
		local mode = redis.call('hget', KEYS[1], 'mode')
		if mode == false then
			redis.call('hset', KEYS[1], 'mode', 'read')
			redis.call('hset', KEYS[1], ARGV[2], 1)
			redis.call('set', KEYS[2] .. ':1', 1)
			redis.call('pexpire', KEYS[2] .. ':1', ARGV[1])
			redis.call('pexpire', KEYS[1], ARGV[1])
			return nil
		end
		if mode == 'read' or (mode == 'write' and redis.call('hexists', KEYS[1], ARGV[3]) == 1) then
			local ind = redis.call('hincrby', KEYS[1], ARGV[2], 1)
			local key = KEYS[2] .. ':' .. ind
			redis.call('set', key, 1)
			redis.call('pexpire', key, ARGV[1])
			local remainTime = redis.call('pttl', KEYS[1])
			redis.call('pexpire', KEYS[1], math.max(remainTime, ARGV[1]))
			return nil
		end
		return redis.call('pttl', KEYS[1])`)
	javaWrite = javaScript("write lock", `
		local mode = redis.call('hget', KEYS[1], 'mode')
		if mode == false then
			redis.call('hset', KEYS[1], 'mode', 'write')
			redis.call('hset', KEYS[1], ARGV[2], 1)
			redis.call('pexpire', KEYS[1], ARGV[1])
			return nil
		end
		if mode == 'write' and redis.call('hexists', KEYS[1], ARGV[2]) == 1 then
			redis.call('hincrby', KEYS[1], ARGV[2], 1)
			local currentExpire = redis.call('pttl', KEYS[1])
			redis.call('pexpire', KEYS[1], currentExpire + ARGV[1])
			return nil
		end
		return redis.call('pttl', KEYS[1])`)
	javaReadUnlock = javaScript("read unlock", `
		local val = redis.call('get', KEYS[5])
		if val ~= false then
			return tonumber(val)
		end
		local mode = redis.call('hget', KEYS[1], 'mode')
		if mode == false then
			redis.call(ARGV[3], KEYS[2], ARGV[1])
			redis.call('set', KEYS[5], 1, 'px', ARGV[4])
			return nil
		end
		if redis.call('hexists', KEYS[1], ARGV[2]) == 0 then
			return nil
		end
		local counter = redis.call('hincrby', KEYS[1], ARGV[2], -1)
		if counter == 0 then
			redis.call('hdel', KEYS[1], ARGV[2])
		end
		redis.call('del', KEYS[3] .. ':' .. (counter + 1))
		if redis.call('hlen', KEYS[1]) > 1 then
			local maxRemainTime = -3
			local keys = redis.call('hkeys', KEYS[1])
			for n, key in ipairs(keys) do
				counter = tonumber(redis.call('hget', KEYS[1], key))
				if type(counter) == 'number' then
					for i = counter, 1, -1 do
						local remainTime = redis.call('pttl', KEYS[4] .. ':' .. key .. ':rwlock_timeout:' .. i)
						maxRemainTime = math.max(remainTime, maxRemainTime)
					end
				end
			end
			if maxRemainTime > 0 then
				redis.call('pexpire', KEYS[1], maxRemainTime)
				redis.call('set', KEYS[5], 0, 'px', ARGV[4])
				return 0
			end
			if mode == 'write' then
				redis.call('set', KEYS[5], 0, 'px', ARGV[4])
				return 0
			end
		end
		redis.call('del', KEYS[1])
		redis.call(ARGV[3], KEYS[2], ARGV[1])
		redis.call('set', KEYS[5], 1, 'px', ARGV[4])
		return 1`)
	javaWriteUnlock = javaScript("write unlock", `
		local val = redis.call('get', KEYS[3])
		if val ~= false then
			return tonumber(val)
		end
		local mode = redis.call('hget', KEYS[1], 'mode')
		if mode == false then
			redis.call(ARGV[4], KEYS[2], ARGV[1])
			redis.call('set', KEYS[3], 1, 'px', ARGV[5])
			return nil
		end
		if mode == 'write' then
			if redis.call('hexists', KEYS[1], ARGV[3]) == 0 then
				return nil
			end
			local counter = redis.call('hincrby', KEYS[1], ARGV[3], -1)
			if counter > 0 then
				redis.call('pexpire', KEYS[1], ARGV[2])
				redis.call('set', KEYS[3], 0, 'px', ARGV[5])
				return 0
			end
			redis.call('hdel', KEYS[1], ARGV[3])
			if redis.call('hlen', KEYS[1]) == 1 then
				redis.call('del', KEYS[1])
				redis.call(ARGV[4], KEYS[2], ARGV[1])
			else
				redis.call('hset', KEYS[1], 'mode', 'read')
			end
			redis.call('set', KEYS[3], 1, 'px', ARGV[5])
			return 1
		end
		return nil`)
	javaRenewReads = javaScript("renew reads", `
		local result = {}
		local argIdx = 2
		for i = 1, #KEYS, 2 do
			local anyAlive = false
			local lockNamesCount = tonumber(ARGV[argIdx])
			argIdx = argIdx + 1
			for k = 1, lockNamesCount do
				local counter = redis.call('hget', KEYS[i], ARGV[argIdx])
				if counter ~= false then
					anyAlive = true
					for c = tonumber(counter), 1, -1 do -- Redisson leaves that to Lua, which the interpreter here does not do
						redis.call('pexpire', KEYS[i + 1] .. ':' .. ARGV[argIdx] .. ':rwlock_timeout:' .. c, ARGV[1])
					end
				end
				argIdx = argIdx + 1
			end
			if anyAlive then
				redis.call('pexpire', KEYS[i], ARGV[1])
				table.insert(result, 1)
			else
				table.insert(result, 0)
			end
		end
		return result`)
)

// channelOf is the channel by which Redisson tells of a lock's end.
func (v *jvm) channelOf(name string) string {
	if v.w.form.RW {
		return "redisson_rwlock:{" + name + "}"
	}
	if v.w.form.Permits {
		return beside(v.w.form.Channel.Unlock, name)
	}
	return "redisson_lock__channel:{" + name + "}"
}

// writes is a thread's field as a writer.
func writes(field string) string { return field + ":write" }

// takes tries to take a lock as it is wanted, and returns how long the lock stands otherwise.
func (v *jvm) takes(o want) (got bool, ttl time.Duration, err error) {
	s, keys, args := javaRead, []string{o.name, timeoutOf(o)}, []string{millis(o.lease), o.field, writes(o.field)}
	switch o.side {
	case "":
		return v.take(o.name, o.field, o.lease, o.fenced)
	case "write":
		s, keys, args = javaWrite, keys[:1], []string{millis(o.lease), writes(o.field)}
	}
	then := func(a driver.Value) {
		if a.IsNil() && a.Err() == nil {
			v.w.javaCame(v, o)
		}
	}
	answer, err := v.eval(s, 0, then, keys, args)
	if err != nil {
		return false, 0, err
	}
	left, _ := answer.Int64()
	return answer.IsNil(), time.Duration(left) * time.Millisecond, nil
}

// timeoutOf begins the keys by which a reader lives.
func timeoutOf(o want) string { return beside("", o.name) + ":" + o.field + ":rwlock_timeout" }

// gives ends a hold of a thread, and reports whether there was one.
func (v *jvm) gives(o want) (held bool, err error) {
	if o.side == "" {
		return v.unlock(o.name, o.field, o.lease)
	}
	latch := v.latch(o.name)
	s, keys := javaReadUnlock, []string{o.name, v.channelOf(o.name), timeoutOf(o), beside("", o.name), latch}
	args := []string{"0", o.field, "PUBLISH", millis(6 * v.timeout())}
	if o.side == "write" {
		s, keys = javaWriteUnlock, []string{o.name, v.channelOf(o.name), latch}
		args = []string{"1", millis(o.lease), writes(o.field), "PUBLISH", millis(6 * v.timeout())}
	}
	answer, err := v.eval(s, 4, nil, keys, args)
	if err != nil {
		return false, err
	}
	v.drops(latch)
	return !answer.IsNil(), nil
}

// watches has the watchdog renew what a thread has, and watchesNot no longer.
func (v *jvm) watches(o want) {
	switch o.side {
	case "":
		v.renews(o.name, o.field)
	case "write":
		v.renews(o.name, writes(o.field))
	case "read":
		v.mu.Lock()
		defer v.mu.Unlock()
		v.reads[o.name] = append(v.reads[o.name], o.field)
	}
}

func (v *jvm) watchesNot(o want) {
	if o.side != "read" {
		v.renews(o.name, "")
		return
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if i := slices.Index(v.reads[o.name], o.field); i >= 0 {
		v.reads[o.name] = slices.Delete(v.reads[o.name], i, i+1)
	}
}

// renewReads is the watchdog's turn for readers. A lock that none of them holds is forgotten.
func (v *jvm) renewReads() {
	var keys, names []string
	args := []string{millis(v.lease)}
	v.mu.Lock()
	for _, name := range v.w.plan.Names {
		fields := slices.Compact(slices.Sorted(slices.Values(v.reads[name])))
		if len(fields) == 0 {
			continue
		}
		names, keys = append(names, name), append(keys, name, beside("", name))
		args = append(append(args, strconv.Itoa(len(fields))), fields...)
	}
	v.mu.Unlock()
	if len(keys) == 0 {
		return
	}
	answer, err := v.eval(javaRenewReads, 0, nil, keys, args)
	if err != nil {
		return
	}
	parts, _ := answer.Values()
	for i, part := range parts {
		if still, _ := part.Int64(); still == 0 {
			v.mu.Lock()
			delete(v.reads, names[i])
			v.mu.Unlock()
		}
	}
}

// javaCame is told, under the world's mutex, that a server let a thread of Redisson's into a read-write lock, perhaps once more:
// no lease of relock's is live then, but for readers' beside a reader.
func (w *World) javaCame(v *jvm, o want) {
	w.judge.taken(o.name, o.side, 0, 0)
	if o.side == "write" {
		delete(w.shut, o.name)
		delete(w.phases, o.name) // which lasts no longer than its readers' places, and Redisson's writers may
	}
	go w.judge.cameBeside(v, o)
}

func (j *judge) cameBeside(v *jvm, o want) {
	j.mu.Lock()
	r := j.of(o.name)
	held, excused := slices.Clone(r.held), max(r.horizon, r.alien)
	j.mu.Unlock()
	for _, h := range held {
		if (o.side == "write" || h.amount >= allOf) && h.Token > excused && h.live() {
			j.w.fail(o.name, "two holders: p%d has had token %d since %v, and Redisson in p%d may %s", h.proc.index, h.Token, h.at,
				v.index, o.side)
		}
	}
}

// javaKeepsOut is the field of a thread of Redisson's that a server keeps a read-write lock for, "" for none: a writer's, and where
// it is to be a writer's alone a reader's that lives.
func (w *World) javaKeepsOut(name string, reads bool) (field string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := w.nodes[0]
	n.server.Fields(name, func(f string) {
		client, _, _ := strings.Cut(f, ":")
		switch {
		case !w.javas[client]:
		case strings.HasSuffix(f, ":write"):
			field = f
		case !reads && livesRW(n, name, f):
			field = f
		}
	})
	return field
}
