-- permits_held: the state of a semaphore, and the rights that its holders need: hooks of the kind semaphore.
--
-- needs: counter turn permits permits_members
-- KEYS[1]  free permits     name
-- KEYS[2]  queue of waiters relock_permits:{name}
--
-- Returns nothing: it only defines hooks.

-- ends_next is the permit whose lease ends next, and when.
local function ends_next()
  local next_one = redis.call('ZRANGEBYSCORE', held_key(), '(' .. decimal(milliseconds()), '+inf', 'WITHSCORES', 'LIMIT', 0, 1)
  return next_one[1], tonumber(next_one[2])
end

local function hex(bytes)
  return (string.gsub(bytes, '.', function(byte)
    return string.format('%02x', string.byte(byte))
  end))
end

-- holder is an owner that holds: of Redisson's the id of the permit, as Redisson spells it.
local function holder()
  local member = ends_next()
  return member and (entry_of(member) or hex(member)) or ''
end

-- time_left is how long until a permit is free at the latest, in ms: until a lease ends, or a turn that a free permit is left for.
local function time_left()
  local turn = turn_left()
  if turn and tonumber(redis.call('GET', KEYS[1]) or 0) > 0 then
    return turn
  end
  local member, ends = ends_next()
  return not member and -2 or ends > 2 ^ 49 and -1 or math.max(0, ends - milliseconds())
end

-- contents is how many permits there are, how many of them are held by leases that last, and one of the holders.
local function contents()
  local size, held = redis.call('GET', KEYS[1]), redis.call('ZCOUNT', held_key(), '(' .. decimal(milliseconds()), '+inf')
  return {
    'permits', decimal(size and free_permits() + redis.call('ZCARD', held_key()) or 0), 'held', decimal(held), 'holder', holder(),
  }
end

-- rights_of_holders are the commands on the kind's keys without which a permit must not be held.
local function rights_of_holders()
  local key, count = held_key(), KEYS[1]
  return {
    { 'GET', count }, { 'SET', count, '1' }, { 'INCRBY', count, '1' }, { 'DECRBY', count, '1' }, { 'EXISTS', count },
    { 'PTTL', count }, { 'PEXPIRE', count, '1' }, { 'PTTL', key }, { 'PEXPIRE', key, '1' },
    { 'ZADD', key, '1', '' }, { 'ZREM', key, '' }, { 'ZSCORE', key, '' }, { 'ZCARD', key }, { 'ZCOUNT', key, '0', '1' },
    { 'ZRANGE', key, '0', '0' }, { 'ZRANGEBYSCORE', key, '0', '0' }, { 'DEL', key },
    { 'ZRANGEBYSCORE', KEYS[2], '0', '0' }, { 'ZREVRANGE', KEYS[2], '0', '0' }, { 'ZSCORE', KEYS[2], '' },
  }
end
