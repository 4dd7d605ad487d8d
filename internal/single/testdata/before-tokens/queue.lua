-- queue: wait for a lock that is not free; put before acquire and release.
--
-- KEYS[1]  lock hash        name
-- KEYS[2]  queue of waiters relock_queue:{name}
-- KEYS[3]  fencing counter  redisson_lock_token:{name}
--
-- Returns nothing: it only defines functions.

-- A lease is only ever lengthened: a late or a shorter command must not cut what a holder relies on.
local function keep(key, ms)
  if redis.call('PTTL', key) < tonumber(ms) then
    redis.call('PEXPIRE', key, ms)
  end
end

-- member_of is a waiter's entry in the queue: all that whoever hands over to it needs to know.
local function member_of(lease, block, id, owner)
  return lease .. ':' .. block .. ':' .. id .. (owner ~= '' and ':' .. owner or '')
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

-- waiting is the reply to one who does not hold the lock: {0, counter, ticket, holder's PTTL, holder}. Where nobody holds
-- it, left is how long it is left to others.
local function waiting(ticket, left)
  local ttl, holder = redis.call('PTTL', KEYS[1]), redis.call('HKEYS', KEYS[1])[1]
  return { 0, redis.call('GET', KEYS[3]) or '0', ticket, left or ttl, holder or '' }
end
