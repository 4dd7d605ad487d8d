-- permits: which permits of a semaphore are held and which are free: what the hooks of the kind share.
--
-- needs: counter turn permits_members
-- KEYS[1]  free permits     name; decimal, may be negative
-- KEYS[4]  unlock channel   redisson_sc:{name}; a message is how many permits are free
-- Beside it, in {name}:timeout, stands a ZSET: for each permit that is held a member, by when its lease ends, in ms. An entry of
-- k permits has <acquisition id>:1 to <acquisition id>:k, all with one score. Redisson's members have 16 bytes.
--
-- Returns nothing: it only defines functions.
-- Wire: RedissonPermitExpirableSemaphore. How many permits there are in all is the counter and what is held. Permits are reaped by
-- score and member, by Redisson too: of an entry's the first goes first. So if that is there, all are, and if it is not, the entry
-- is lost.

-- held_key is the key of the permits held. A renewal has two keys for each entry, and so does not have this one as its sixth.
local function held_key()
  return (string.find(KEYS[1], '{', 1, true) and KEYS[1] or '{' .. KEYS[1] .. '}') .. ':timeout'
end

local function milliseconds()
  return math.floor(clock() / 1000)
end

local function holds(id)
  return redis.call('ZSCORE', held_key(), id .. ':1') ~= false
end

-- free_permits is how many the counter says are free.
local function free_permits()
  local n = redis.call('GET', KEYS[1])
  if not n then
    error('relock: NOSIZE the semaphore has no size', 0)
  elseif not string.find(n, '^%-?%d+$') then
    error('relock: WRONGKIND what is held by that name is no semaphore', 0)
  end
  return tonumber(n)
end

-- give_back counts permits as free again. A counter that is absent stays so: it is made anew with what is not held by then.
local function give_back(permits)
  if permits > 0 and redis.call('EXISTS', KEYS[1]) == 1 then
    redis.call('INCRBY', KEYS[1], permits)
  end
end

-- remove ends the permits of id, and returns how many those were.
local function remove(id)
  return holds(id) and redis.call('ZREM', held_key(), unpack(members_of(held_key(), id))) or 0
end

-- announce tells how many permits are free, if any are, and returns how many heard. Where there is no counter all are to ask.
local function announce(publish)
  local n = tonumber(redis.call('GET', KEYS[1]) or 1) or 0
  return n > 0 and redis.call(publish, KEYS[4], decimal(n)) or 0
end

-- reap ends permits that are past their lease, of relock's whole entries, and reports whether there were any. Of very many it leaves
-- some to the next command. It tells all that wait, as Redisson does: some saw no lease that ends.
local function reap(publish)
  local key, permits = held_key(), 0
  for _, member in ipairs(redis.call('ZRANGEBYSCORE', key, '-inf', milliseconds(), 'LIMIT', 0, 100)) do
    local id = entry_of(member)
    permits = permits + (id and remove(id) or 0) + redis.call('ZREM', key, member)
    if permits > 250 then
      break
    end
  end
  give_back(permits)
  return permits > 0 and announce(publish) >= 0
end

-- fits reports whether that many permits are free, beside the one that a turn leaves to Redisson's waiters, and if they are not
-- whether there are fewer in all.
local function fits(permits, publish)
  permits = tonumber(permits)
  local n = free_permits()
  if n < permits and reap(publish) then
    n = free_permits()
  end
  if n < permits then
    return false, n + redis.call('ZCARD', held_key()) < permits
  end
  return n > permits or n == permits and not turn_left()
end
