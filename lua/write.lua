-- write: the writer of a read-write lock, RedissonWriteLock, as a kind of lock: the hooks by which all scripts handle it.
--
-- needs: lease token rw rw_alive rw_line rw_grant rw_polled places
-- KEYS[1]  lock hash          name
-- KEYS[2]  queue of writers   relock_writers:{name}
-- KEYS[6]  queue of readers   relock_readers:{name}:name
--
-- Returns nothing: it only defines the hooks.
-- Wire: RedissonWriteLock.
local function own_line()
  return KEYS[2]
end

-- idle reports whether the entry may take the lock and is not in it, and no entry waits.
local function idle(_, _, _, _, _, _)
  return redis.call('EXISTS', KEYS[1], KEYS[2], KEYS[6]) == 0
end

-- counts_of returns the hold count of id, and what stands behind it, where it is the writer.
local function counts_of(id)
  return string.match(redis.call('HGET', KEYS[1], id .. ':write') or '', '^(%d+)(.*)$')
end
local function holds(id)
  return redis.call('HEXISTS', KEYS[1], id .. ':write') == 1
end
local function lengthen(lease, _)
  keep(KEYS[1], lease)
end
local function share(_, _)
  return false
end
local function standing(_, block, id, _)
  local _, rest = counts_of(id)
  local first_token, count = string.match(rest or '', '^:(%d+):(%d+)$')
  if not first_token then
    return reserve(block)
  end
  return first_token, count
end

-- time_left is how long the lock is held at most, in ms. Readers hold it until the last of their own keys ends, which may be
-- before the hash does. Of more readers than 128 the keys are not looked at.
local function time_left()
  local left = redis.call('PTTL', KEYS[1])
  if mode() == 'read' and redis.call('HLEN', KEYS[1]) <= 129 then
    return math.min(left, math.max(0, readers_left()))
  end
  return left
end

-- untold is how many hold the lock beside those that were told that it is wanted, for the first writer in line: it asks again
-- soon, and others are told. For all others it is nothing: of thousands that wait, one at a time has Redis tell so many.
local function untold(id, told, inbox, publish)
  local more = redis.call('HLEN', KEYS[1]) - 1 - told
  local first = more > 0 and first_alive(KEYS[2], inbox, publish, string.match(id, '^[^:]+')) or ''
  return string.match(first, '^%d+:%d+:([^:]+:%d+)') == id and more or nil
end

-- leave ends id, and returns whether it was in and whether the lock is open since. A reader that is left in the hash is this
-- writer's own: it came in by a downgrade. From then on the lock ends with the reader's key, as after an unlock of Redisson's:
-- should the reader die, the lease of a writer that was extended by an hour would keep Redisson's writers out for so long.
local function leave(id, _, _)
  if redis.call('HDEL', KEYS[1], id .. ':write') == 0 then
    return false, false
  end
  local left = readers_left()
  if left > 0 then
    redis.call('HSET', KEYS[1], 'mode', 'read')
    redis.call('PEXPIRE', KEYS[1], left)
  else
    redis.call('DEL', KEYS[1])
  end
  let_readers()
  return true, true
end

-- recounted writes the hold count of id, unless that is 0, lengthens its lease, and returns recount's answer. A higher count
-- that a full Redis refuses is that error, but the lease is lengthened all the same.
local function recounted(id, count, lease)
  local counts, rest = counts_of(id)
  if not counts then
    return 0
  end
  local written = tonumber(count) <= tonumber(counts) or redis.pcall('HSET', KEYS[1], id .. ':write', count .. rest)
  redis.call('PEXPIRE', KEYS[1], math.max(lease, redis.call('PTTL', KEYS[1])))
  if written == true and count ~= '0' and count ~= counts then
    redis.call('HSET', KEYS[1], id .. ':write', count .. rest) -- after a write: so a full Redis takes it
  end
  return type(written) == 'table' and written or 1
end
local function prolong(id, count, lease)
  local ok, answer = pcall(recounted, id, count, lease)
  return type(answer) == 'number' and answer or type(answer) == 'string' and string.find(answer, 'WRONGTYPE') and 0 or -1
end
