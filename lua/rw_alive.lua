-- rw_alive: which readers of a read-write lock live. Each has a key of its own beside its field, as Redisson keeps them.
--
-- KEYS[1]  lock hash        name; see rw
--
-- Returns nothing: it only defines functions.
-- Wire: RedissonReadLock.

-- pulse is the key by which a reader lives: Redisson ends a lock of which all such keys are gone.
local function pulse(reader, n)
  local tag = string.find(KEYS[1], '{', 1, true) and KEYS[1] or '{' .. KEYS[1] .. '}'
  return tag .. ':' .. reader .. ':rwlock_timeout:' .. (n or 1)
end

-- fields are those of the lock's hash. Where there are more than most, and one more, they are as many, drawn by chance.
local function fields(most)
  if redis.call('HLEN', KEYS[1]) > most + 1 then
    return redis.call('HRANDFIELD', KEYS[1], most + 1)
  end
  return redis.call('HKEYS', KEYS[1])
end

-- reader_left is for how many ms a reader holds the lock at most, -2 where it is dead. A thread of Redisson's that entered more
-- than once has a key for each time.
local function reader_left(reader, times)
  local left = -2
  for n = 1, math.min(tonumber(times) or 0, 1000) do
    left = math.max(left, redis.call('PTTL', pulse(reader, n)))
  end
  return left
end

-- readers_left is for how many ms readers hold the lock at most, -2 where none lives.
local function readers_left()
  local most, all = -2, redis.call('HGETALL', KEYS[1])
  for i = 1, #all, 2 do
    most = math.max(most, reader_left(all[i], all[i + 1]))
  end
  return most
end

-- lives reports whether a reader lives. A dead one of relock's is taken out of the hash: in a lock that is always read those of
-- processes that crashed would gather.
local function lives(reader, times)
  local left = reader_left(reader, times)
  if left == -2 and string.find(reader, ':%d%d%d%d%d%d%d%d%d%d%d%d%d%d%d%d%d+$') then
    redis.call('HDEL', KEYS[1], reader)
  end
  return left > 0
end

-- any_reader reports whether one lives. A few are looked at first, drawn by chance, so that a reader which leaves thousands of
-- others behind does not look at all of them.
local function any_reader()
  for _, field in ipairs(fields(8)) do
    if lives(field, 1) then
      return true
    end
  end
  local all = redis.call('HGETALL', KEYS[1])
  for i = 1, #all, 2 do
    if lives(all[i], all[i + 1]) then
      return true
    end
  end
  return false
end
