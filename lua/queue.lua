-- queue: what acquire, release and force share; put before each of them.
--
-- KEYS[1]  lock hash        name
-- KEYS[2]  queue of waiters relock_queue:{name}
-- KEYS[3]  fencing counter  redisson_lock_token:{name}
-- KEYS[4]  unlock channel   redisson_lock__channel:{name}
--
-- Returns nothing: it only defines functions.

-- A lease is only ever lengthened: a late or a shorter command must not cut what a holder relies on.
local function keep(key, ms)
  if redis.call('PTTL', key) < tonumber(ms) then
    redis.call('PEXPIRE', key, ms)
  end
end

-- take writes the free lock for an acquisition and returns its first fencing token. The counter goes first: a counter
-- that is no number must fail before anything is held.
local function take(lease, block, id, owner)
  local first = redis.call('INCRBY', KEYS[3], block) - block + 1
  if owner ~= '' then
    redis.call('HSET', KEYS[1], owner, 1)
  end
  redis.call('HSET', KEYS[1], id, 1)
  redis.call('PEXPIRE', KEYS[1], lease)
  return string.format('%.0f', first)
end

-- join stands member in the queue, behind everyone there unless it knows its ticket, and returns the ticket.
local function join(member, ticket, lease)
  local score = redis.call('ZSCORE', KEYS[2], member)
  if not score then
    score = tonumber(ticket)
    if not score then
      local now = redis.call('TIME')
      local last = redis.call('ZREVRANGE', KEYS[2], 0, 0, 'WITHSCORES')[2]
      score = math.max(now[1] * 1000000 + now[2], (tonumber(last) or 0) + 1)
    end
    redis.call('ZADD', KEYS[2], string.format('%.0f', score), member)
  end
  keep(KEYS[2], 4 * lease)
  return string.format('%.0f', score)
end

-- hand_over gives the free lock to the first waiter whose client still listens; me is granted by the caller's reply.
-- NUMSUB decides, because PUBLISH counts pattern subscribers too. Returns the member and its token, or nothing.
local function hand_over(inbox, publish, me)
  local numsub = publish == 'SPUBLISH' and 'SHARDNUMSUB' or 'NUMSUB'
  local member = redis.call('ZPOPMIN', KEYS[2])[1]
  while member do
    local lease, block, client, n, owner = string.match(member, '^(%d+):(%d+):([^:]+):(%d+):?(.*)$')
    if lease and (member == me or tonumber(redis.call('PUBSUB', numsub, inbox .. client)[2]) > 0) then
      local id = client .. ':' .. n
      local token = take(lease, block, id, owner)
      if member ~= me then
        redis.call(publish, inbox .. client, table.concat({ token, lease, id, #owner, owner .. KEYS[1] }, ' '))
      end
      if owner ~= '' then
        redis.call(publish, KEYS[4], '0') -- other waiters of this owner may enter now
      end
      return member, token
    end
    member = redis.call('ZPOPMIN', KEYS[2])[1]
  end
end

-- waiting is the reply to one who does not hold the lock: {0, counter, ticket, holder's PTTL, holder}.
local function waiting(ticket)
  return { 0, redis.call('GET', KEYS[3]) or '0', ticket, redis.call('PTTL', KEYS[1]), redis.call('HKEYS', KEYS[1])[1] or '' }
end
