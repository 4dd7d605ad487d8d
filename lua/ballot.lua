-- ballot: what a node of a quorum keeps beside the lock; put before the scripts that grant there.
--
-- KEYS[1]  lock hash        name; its field relock:vote holds <grant number>:<ticket> of the owner
-- KEYS[2]  queue of waiters relock_queue:{name}
-- KEYS[3]  fencing counter  redisson_lock_token:{name}
-- KEYS[5]  incarnation that the counter was seeded in   relock_seed:{name}
--
-- Returns nothing: it only defines functions. The grant number of an ownership is its first fencing token.

-- mark notes under which number, and by which ticket, the lock was granted.
local function mark(first, ticket)
  redis.call('HSET', KEYS[1], 'relock:vote', first .. ':' .. string.format('%.0f', tonumber(ticket)))
end

-- unseeded: this Redis forgot, and has not yet been told again how far the others counted.
local function unseeded()
  return born ~= '0' and redis.call('GET', KEYS[5]) ~= born
end

-- mute keeps the lock from being granted here.
local function mute()
  return quarantined() or unseeded()
end

-- why_mute is the answer to a voter then: QUARANTINED <born> <ms left> or UNSEEDED <born> <counter>.
local function why_mute()
  return left and refused() or redis.error_reply('UNSEEDED ' .. born .. ' ' .. (redis.call('GET', KEYS[3]) or 0))
end

local now = string.format('%.0f', time[1] * 1000000 + time[2])

-- told is the answer to a voter: {1, grant number} or {0, counter}, then the lowest ticket of owner and queue, the
-- owner's PTTL, the owner, and the server's time in microseconds.
local function told(id)
  local first, ticket = string.match(redis.call('HGET', KEYS[1], 'relock:vote') or '', '^(%d+):(%d+)$')
  local low = redis.call('ZRANGE', KEYS[2], 0, 0, 'WITHSCORES')[2]
  low = math.min(tonumber(low or ticket or 0), tonumber(ticket or low or 0))
  local holder = ''
  for _, field in ipairs(redis.call('HKEYS', KEYS[1])) do
    holder = field ~= 'relock:vote' and field or holder
  end
  local mine = first and redis.call('HEXISTS', KEYS[1], id) == 1
  return {
    mine and 1 or 0, mine and first or redis.call('GET', KEYS[3]) or '0', string.format('%.0f', low),
    redis.call('PTTL', KEYS[1]), holder, now,
  }
end

-- raise sets the fencing counter to n unless it is there already.
local function raise(n)
  if tonumber(redis.call('GET', KEYS[3]) or 0) < tonumber(n) then
    redis.call('SET', KEYS[3], n)
  end
end
