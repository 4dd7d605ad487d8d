-- ballot: what a node of a quorum keeps beside the lock; put before the scripts that grant there.
--
-- KEYS[1]  lock hash        name; its field relock:vote holds <grant number>:<ticket> of the owner
-- KEYS[2]  queue of waiters relock_queue:{name}
-- KEYS[3]  fencing counter  redisson_lock_token:{name}
-- KEYS[5]  incarnation that the counter was seeded in   relock_seed:{name}
--
-- Returns nothing: it only defines functions. The grant number of an ownership is its first fencing token.

-- mark notes under which number, and by which ticket, the lock was granted. The seed lasts as long as the counter.
local function mark(first, ticket)
  redis.call('HSET', KEYS[1], 'relock:vote', first .. ':' .. decimal(tonumber(ticket)))
  if retention > 0 and born and born ~= '0' then
    store(KEYS[5], born, tonumber(first))
  end
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

-- told is the answer to a voter: {1, grant number} or {0, counter}, then the lowest ticket of owner and queue, the
-- owner's PTTL, the owner, the server's time in microseconds, and how many tokens the grant has, 0 for a whole block.
local function told(id)
  local first, ticket = string.match(redis.call('HGET', KEYS[1], 'relock:vote') or '', '^(%d+):(%d+)$')
  local low = redis.call('ZRANGE', KEYS[2], 0, 0, 'WITHSCORES')[2]
  low = math.min(tonumber(low or ticket or 0), tonumber(ticket or low or 0))
  local mine = first and redis.call('HEXISTS', KEYS[1], id) == 1
  local _, count = granted()
  return {
    mine and 1 or 0, mine and first or decimal(counted()), decimal(low),
    redis.call('PTTL', KEYS[1]), holder(), decimal(clock()), count or 0,
  }
end
