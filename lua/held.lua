-- held: a hold of a lock that is a hash with a field for each holder: hooks for its renewal, its hold
-- count, its holders, its state and the rights that it takes.
--
-- needs: hash
-- KEYS[1]  lock hash        name; a field for each acquisition, with its hold count
--
-- Returns nothing: it only defines functions.

-- prolong lengthens the lease of id for a renewal, and writes its hold count if that is not count, unless count is 0. It
-- returns 1, or 0 where id is not in, or -1 where this lock alone failed.
local function prolong(id, count, lease)
  local key = KEYS[1]
  local had = redis.pcall('HGET', key, id)
  if not had then
    return 0
  elseif type(had) == 'table' then
    return string.find(had.err, 'WRONGTYPE') and 0 or -1 -- what is no hash is no lock of ours
  end
  local left = redis.pcall('PTTL', key)
  local kept = type(left) == 'number' and redis.pcall('PEXPIRE', key, math.max(lease, left))
  if count ~= '0' and had ~= count then
    redis.pcall('HSET', key, id, count) -- after a write: so a full Redis takes it
  end
  return type(kept) == 'number' and 1 or -1
end

-- recounted writes the hold count of id, lengthens its lease, and returns recount's answer. A higher count that a full Redis
-- refuses is that error, but the lease is lengthened all the same. A count of 0 is that of a hold which no caller has any more:
-- its lease becomes what is asked for, be that shorter.
local function recounted(id, count, lease)
  local had = redis.call('HGET', KEYS[1], id)
  if not had then
    return 0
  end
  local written = tonumber(count) <= (tonumber(had) or 0) or redis.pcall('HSET', KEYS[1], id, count)
  redis.call('PEXPIRE', KEYS[1], count == '0' and lease or math.max(lease, redis.call('PTTL', KEYS[1])))
  if written == true and had ~= count then
    redis.pcall('HSET', KEYS[1], id, count) -- after a write: so a full Redis takes it
  end
  return type(written) == 'table' and written or 1
end

-- of_this_kind returns a hash's fields, one in each step of the list, and fails if they are a read-write lock's. All are looked
-- at: Redis keeps no order in a hash that has a long field.
local function of_this_kind(list, step)
  for i = 1, #list, step do
    if list[i] == 'mode' then
      error('relock: WRONGKIND a read-write lock is held by that name', 0)
    end
  end
  return list
end

-- holders are the fields of all that hold.
local function holders()
  return of_this_kind(redis.call('HKEYS', KEYS[1]), 1)
end

-- holder is the owner field of the lock, '' when there is none. The sharers of an owner, which may be thousands, are not read.
local function holder()
  local _, _, owner = granted()
  if owner and owner ~= '' then
    return owner
  end
  for _, field in ipairs(holders()) do
    if string.sub(field, 1, 7) ~= 'relock:' then
      return field
    end
  end
  return ''
end

-- contents is all that is kept of the holders.
local function contents()
  return of_this_kind(redis.call('HGETALL', KEYS[1]), 2)
end

-- rights_of_holders are the commands on the kind's keys without which a lock must not be held.
local function rights_of_holders()
  return {
    { 'HGET', KEYS[1], '' }, { 'HEXISTS', KEYS[1], '' }, { 'HSET', KEYS[1], '', '1' }, { 'HDEL', KEYS[1], '' }, { 'HINCRBY', KEYS[1], '', '1' },
    { 'PEXPIRE', KEYS[1], '1' }, { 'PTTL', KEYS[1] }, { 'DEL', KEYS[1] },
  }
end
