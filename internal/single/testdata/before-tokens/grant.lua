-- grant: give the free lock to somebody; put before acquire, release and force.
--
-- KEYS[1]  lock hash        name
-- KEYS[2]  queue of waiters relock_queue:{name}
-- KEYS[3]  fencing counter  redisson_lock_token:{name}
-- KEYS[4]  unlock channel   redisson_lock__channel:{name}
--
-- Returns nothing: it only defines functions.

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

-- hand_over gives the free lock to the first waiter whose client still listens; me is granted by the caller's reply.
-- NUMSUB decides, because PUBLISH counts pattern subscribers too. Returns the member and its token, or nothing.
-- mark and mute are a quorum's (ballot), nil elsewhere.
local function hand_over(inbox, publish, me)
  if mute and (redis.call('EXISTS', KEYS[2]) == 0 or mute()) then
    return nil
  end
  local numsub = publish == 'SPUBLISH' and 'SHARDNUMSUB' or 'NUMSUB'
  local member, ticket = unpack(redis.call('ZPOPMIN', KEYS[2]))
  while member do
    local lease, block, client, n, owner = string.match(member, '^(%d+):(%d+):([^:]+):(%d+):?(.*)$')
    if lease and (member == me or tonumber(redis.call('PUBSUB', numsub, inbox .. client)[2]) > 0) then
      local id = client .. ':' .. n
      local token = take(lease, block, id, owner)
      if mark then
        mark(token, ticket)
      end
      if member ~= me then
        redis.call(publish, inbox .. client, table.concat({ token, lease, id, #owner, owner .. KEYS[1] }, ' '))
      end
      if owner ~= '' then
        redis.call(publish, KEYS[4], '0') -- other waiters of this owner may enter now
      end
      return member, token
    end
    member, ticket = unpack(redis.call('ZPOPMIN', KEYS[2]))
  end
end

-- tell sends the clients of a lock's holders news that is no grant: 0 deposed, 1 look again.
local function tell(holders, inbox, publish, news)
  for _, field in ipairs(holders) do
    local client = string.match(field, '^([^:]+):%d+$')
    if client then
      redis.call(publish, inbox .. client, '0 ' .. news .. ' ' .. field .. ' 0 ' .. KEYS[1])
    end
  end
end
