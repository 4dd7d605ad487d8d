-- grant: give the free lock to somebody; put before acquire, release and force.
--
-- KEYS[1]  lock hash        name
-- KEYS[2]  queue of waiters relock_queue:{name}
-- KEYS[4]  unlock channel   redisson_lock__channel:{name}
--
-- Returns nothing: it only defines functions.

-- take writes the free lock for an acquisition, and returns its first fencing token and how many it has. The counter goes
-- first: one that is no number must fail before anything is held. The owner's field stands first, where older clients look.
local function take(lease, block, id, owner, whole)
  local first, count = reserve(tonumber(block), whole)
  if owner ~= '' then
    redis.call('HSET', KEYS[1], owner, 1)
  end
  redis.call('HSET', KEYS[1], id, 1, 'relock:first', first .. ':' .. count .. (owner ~= '' and ':' .. owner or ''))
  local kept = redis.pcall('PEXPIRE', KEYS[1], lease)
  if type(kept) == 'table' then
    redis.call('DEL', KEYS[1]) -- a lock that nothing ends would outlive its holder
    error(kept.err, 0)
  end
  return first, count
end

-- hand_over gives the free lock to the first waiter whose client still listens; me is granted by the caller's reply.
-- NUMSUB decides, because PUBLISH counts pattern subscribers too. Returns the member, its token and how many, or nothing.
-- mark and mute are a quorum's (ballot), nil elsewhere. A member that ends behind its id is an older client's.
local function hand_over(inbox, publish, me)
  if mute and (redis.call('EXISTS', KEYS[2]) == 0 or mute()) then
    return nil
  end
  local numsub = publish == 'SPUBLISH' and 'SHARDNUMSUB' or 'NUMSUB'
  local member, ticket = unpack(redis.call('ZPOPMIN', KEYS[2]))
  while member do
    local lease, block, client, n, colon, owner = string.match(member, '^(%d+):(%d+):([^:]+):(%d+)(:?)(.*)$')
    if lease and (member == me or tonumber(redis.call('PUBSUB', numsub, inbox .. client)[2]) > 0) then
      local id = client .. ':' .. n
      local token, count = take(lease, block, id, owner, colon == '')
      if mark then
        mark(token, ticket)
      end
      if member ~= me then
        local tokens = colon == ':' and owner == '' and token .. ':' .. count or token
        redis.call(publish, inbox .. client, table.concat({ tokens, lease, id, #owner, owner .. KEYS[1] }, ' '))
      end
      if owner ~= '' then
        redis.call(publish, KEYS[4], '0') -- other waiters of this owner may enter now
      end
      return member, token, count
    end
    member, ticket = unpack(redis.call('ZPOPMIN', KEYS[2]))
  end
end
