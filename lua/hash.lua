-- hash: a lock that is a hash with a field for each holder: hooks that kinds of lock share. A kind may define its own.
--
-- needs: counter token lease
-- KEYS[1]  lock hash        name; a field for each acquisition and each shared owner, with its hold count, and in
--          relock:first     <first token>:<how many>[:<shared owner>] of the grant in force
-- KEYS[3]  fencing counter  redisson_lock_token:{name}
--
-- Returns nothing: it only defines functions.

-- holds reports whether id is in.
local function holds(id)
  return redis.call('HEXISTS', KEYS[1], id) == 1
end

-- lengthen gives id, which is in, no less than a whole lease.
local function lengthen(lease, _)
  keep(KEYS[1], lease)
end

-- clear ends all that hold, and reports whether there were any.
local function clear()
  return redis.call('DEL', KEYS[1]) == 1
end

-- time_left is how long the lock is held at most, in ms, as PTTL tells it.
local function time_left()
  return redis.call('PTTL', KEYS[1])
end

-- holders are the fields of all that hold.
local function holders()
  return redis.call('HKEYS', KEYS[1])
end

-- granted returns first token, how many, and shared owner of the grant in force: nothing if Redisson took the lock, or an
-- older client granted it.
local function granted()
  return string.match(redis.call('HGET', KEYS[1], 'relock:first') or '', '^(%d+):(%d+):?(.*)$')
end

-- standing returns the tokens of the grant in force, for an entry that has a part in it. An older client did not write its
-- tokens down: they are the last that were counted. If the counter is forgotten too, new tokens are as good: they are above
-- all that the same owner was given before.
local function standing(_, block, _, _)
  local first, count = granted()
  if not first then
    first, count = decimal((tonumber(redis.call('GET', KEYS[3]) or 0) or 0) - block + 1), block
    if tonumber(first) < 1 then
      first, count = reserve(block)
      redis.call('HSET', KEYS[1], 'relock:first', first .. ':' .. count)
    end
  end
  return first, count
end

-- holder is the owner field of the lock, '' when there is none. The sharers of an owner, which may be thousands, are not read.
local function holder()
  local _, _, owner = granted()
  local fields = owner and owner ~= '' and { owner } or holders()
  for _, field in ipairs(fields) do
    if field == 'mode' then
      error('relock: WRONGKIND a read-write lock is held by that name', 0)
    elseif string.sub(field, 1, 7) ~= 'relock:' then
      return field
    end
  end
  return ''
end

-- last_ticket is the highest that stands in line; a new one is above it, whatever the clock says.
local function last_ticket(line)
  return redis.call('ZREVRANGE', line, 0, 0, 'WITHSCORES')[2]
end

-- crowded reports whether others wait that a holder from that line keeps out.
local function crowded(line)
  return redis.call('EXISTS', line) == 1
end

-- note, noted and unnote keep what a quorum remembers of the grant in force.
local function note(what, value)
  redis.call('HSET', KEYS[1], 'relock:' .. what, value)
end
local function noted(what)
  return redis.call('HGET', KEYS[1], 'relock:' .. what)
end
local function unnote(what)
  redis.call('HDEL', KEYS[1], 'relock:' .. what)
end
