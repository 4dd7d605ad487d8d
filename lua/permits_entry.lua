-- permits_entry: taking permits, keeping them and giving them back: hooks of the kind semaphore.
--
-- needs: counter permits permits_members permits_number
-- KEYS[1]  free permits     name
-- KEYS[2]  queue of waiters relock_permits:{name}
--
-- Returns nothing: it only defines hooks. What is an entry's block elsewhere is how many permits it wants.

-- idle reports whether the entry may take its permits and has not done so, and no entry waits. It fails where there will never be
-- as many.
local function idle(lease, permits, id, _, _, publish)
  if holds(id) then
    return false
  end
  local n = free_permits()
  keep_number(lease)
  if n < tonumber(permits) and n + redis.call('ZCARD', held_key()) < tonumber(permits) then
    error('relock: TOOMANY the semaphore has fewer permits', 0)
  end
  return redis.call('EXISTS', KEYS[2]) == 0 and fits(permits, publish)
end
local function open(_, permits, _, _, _, _, publish)
  return fits(permits, publish)
end
local function share(_, _)
  return false
end

-- put writes the permits of the entry. What is left of an entry that was reaped in part is not taken twice.
local function put(lease, permits, id, _, _, _, _)
  local key, ends, members = held_key(), decimal(milliseconds() + lease), {}
  for i = 1, tonumber(permits) do
    members[2 * i - 1], members[2 * i] = ends, id .. ':' .. i
  end
  redis.call('DECRBY', KEYS[1], permits)
  local added = redis.pcall('ZADD', key, unpack(members))
  if added ~= tonumber(permits) then
    redis.call('INCRBY', KEYS[1], permits - (type(added) == 'number' and added or 0))
  end
  if type(added) == 'table' then
    error(added.err, 0)
  end
end

-- lengthen gives id, which is in, no less than a whole lease. A full Redis takes a ZADD after a write.
local function lengthen(lease, id)
  local key, ends, members = held_key(), milliseconds() + lease, {}
  redis.call('ZREM', key, '')
  local score = redis.call('ZSCORE', key, id .. ':1')
  if score and tonumber(score) < ends then
    for i, member in ipairs(members_of(key, id)) do
      members[2 * i - 1], members[2 * i] = decimal(ends), member
    end
    redis.call('ZADD', key, 'XX', unpack(members))
  end
  keep_number(lease)
end

-- standing is the number of the grant of an entry that is in: what the counter says now, which is above it and as good.
local function standing(_, permits, _, _)
  return decimal(counted()), permits
end

-- leave ends id, and returns whether it was in and whether permits are free since.
local function leave(id, _, _)
  local permits = remove(id)
  give_back(permits)
  return permits > 0, permits > 0
end

local function recounted(id, _, lease)
  if not holds(id) then
    return 0
  end
  lengthen(lease, id)
  return 1
end
local function prolong(id, count, lease)
  local ok, answer = pcall(recounted, id, count, lease)
  return ok and answer or type(answer) == 'string' and string.find(answer, 'WRONGTYPE') and 0 or -1
end
