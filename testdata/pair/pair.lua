-- pair: a lock that two may hold, or one twice, each for a lease of its own: a toy that shows all that a kind has to say.
--
-- needs: lease hash held
-- KEYS[1]  lock hash        name; a field for each acquisition, with its hold count, and in relock:<acquisition id> what it has:
--          <how much of the lock>:<first token>:<how many>
-- KEYS[2]  queue of waiters relock_pairs:{name}
-- KEYS[4]  unlock channel   relock_pair_free:{name}
-- KEYS[6]  leases           relock_pair:{name}:name; a ZSET of acquisition ids by when their leases end, ms
--
-- Returns nothing: it only defines the hooks.
local batch = 2
local untold, kept_out, keep_place, leave_place, beside, resized
local function named(_)
  return ':pair'
end
local function own_line()
  return KEYS[2]
end
local next_line = own_line

-- taken is how much of the lock is held. What is past its lease is ended first.
local function taken()
  local sum = 0
  for _, id in ipairs(redis.call('ZRANGEBYSCORE', KEYS[6], '-inf', decimal(clock() / 1000))) do
    redis.call('HDEL', KEYS[1], id, 'relock:' .. id)
    redis.call('ZREM', KEYS[6], id)
  end
  for _, id in ipairs(redis.call('ZRANGE', KEYS[6], 0, -1)) do
    sum = sum + string.match(redis.call('HGET', KEYS[1], 'relock:' .. id) or '0', '^%d+')
  end
  return sum
end
local function open(_, block, _, _, _)
  return taken() + block <= 2
end
local function idle(_, block, _, _)
  return redis.call('EXISTS', KEYS[2]) == 0 and taken() + block <= 2
end
local function share(_, _)
  return false
end

-- lengthen sets the hash's expiry first: after a write a full Redis takes a ZADD too.
local function lengthen(lease, id)
  redis.call('PEXPIRE', KEYS[1], math.max(lease, redis.call('PTTL', KEYS[1])))
  local ends = math.max(tonumber(redis.call('ZSCORE', KEYS[6], id) or 0), clock() / 1000 + lease)
  redis.call('ZADD', KEYS[6], decimal(ends), id)
  keep(KEYS[6], lease)
end
local function leave(id, _, _)
  local gone = redis.call('HDEL', KEYS[1], id, 'relock:' .. id) > 0
  redis.call('ZREM', KEYS[6], id)
  return gone, gone
end
local function put(lease, block, id, _, _, first, count)
  redis.call('HSET', KEYS[1], id, 1, 'relock:' .. id, block .. ':' .. first .. ':' .. count)
  local kept, why = pcall(lengthen, lease, id)
  if not kept then
    leave(id) -- what nothing ends would outlive its holder
    error(type(why) == 'table' and why.err or why, 0)
  end
end
local function standing(_, _, id, _)
  return string.match(redis.call('HGET', KEYS[1], 'relock:' .. id), ':(%d+):(%d+)')
end
local function recounted(id, count, lease)
  if redis.call('HEXISTS', KEYS[1], id) == 0 then
    return 0
  end
  lengthen(lease, id)
  if count ~= '0' then
    redis.call('HSET', KEYS[1], id, count)
  end
  return 1
end
local function prolong(id, count, lease)
  local ok, answer = pcall(recounted, id, count, lease)
  return ok and answer or -1
end
local function clear()
  return redis.call('DEL', KEYS[1], KEYS[6]) > 0
end
local function time_left()
  local ends = redis.call('ZRANGE', KEYS[6], 0, 0, 'WITHSCORES')[2]
  return ends and math.max(0, math.ceil(ends - clock() / 1000)) or -2
end
local function announce(publish)
  return redis.call(publish, KEYS[4], 'free')
end
local function batched(publish, room)
  if room == 0 then
    announce(publish) -- the lock may be open to those behind the batch
  end
end
local function rights_of_holders()
  return { { 'HSET', KEYS[1], '', '1' }, { 'HDEL', KEYS[1], '' }, { 'ZADD', KEYS[6], '1', '' }, { 'ZREM', KEYS[6], '' } }
end
