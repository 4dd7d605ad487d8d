-- acquire: take the free lock, enter the hold of a shared owner, or wait in the queue. Sent again it is the poll.
--
-- KEYS[1]  lock hash        name
-- KEYS[2]  queue of waiters relock_queue:{name}
-- KEYS[3]  fencing counter  redisson_lock_token:{name}
-- KEYS[4]  unlock channel   redisson_lock__channel:{name}
-- ARGV[1]  lease, milliseconds
-- ARGV[2]  block: how many fencing tokens to reserve
-- ARGV[3]  acquisition id   <client uuid>:<n>
-- ARGV[4]  shared owner, '' when the acquisition id is the owner
-- ARGV[5]  ticket: '' for a new one, microseconds when known, '-' to leave without waiting
-- ARGV[6]  inbox channel prefix, '' where grants cannot be sent
-- ARGV[7]  PUBLISH or SPUBLISH
-- ARGV[8]  turn of Redisson's waiters that is known to be over, '' for none
--
-- Returns {1, first token} when held by the caller, else {0, counter, ticket, holder's PTTL in ms, holder}; without a
-- holder, what is left of the turn that the lock is left free for.
-- Wire: RedissonLock.tryLockInnerAsync, RedissonFencedLock; ids are never reused, so HSET 1 stands for its HINCRBY.
local lease, block, id, owner, ticket, inbox = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6]

if redis.call('EXISTS', KEYS[1], KEYS[2]) == 0 then
  return { 1, take(lease, block, id, owner) }
end
local member = member_of(lease, block, id, owner)
local mine = redis.call('HEXISTS', KEYS[1], id) == 1
if mine or (owner ~= '' and redis.call('HEXISTS', KEYS[1], owner) == 1) then
  if not mine then
    redis.call('HSET', KEYS[1], id, 1)
    redis.call('HINCRBY', KEYS[1], owner, 1)
    redis.call('ZREM', KEYS[2], member)
  end
  keep(KEYS[1], lease)
  return { 1, string.format('%.0f', (redis.call('GET', KEYS[3]) or 0) - block + 1) }
end

local queued = ''
if redis.call('EXISTS', KEYS[1]) == 0 then
  if inbox == '' then
    return { 1, take(lease, block, id, owner) }
  end
  -- Whoever finds the lock free with a queue serves the queue: expiry and Redisson's unlock leave it so.
  local me
  if ticket ~= '-' then
    queued, me = join(member, ticket, lease), member
  end
  local left = turn_left(ARGV[8])
  if left then
    return waiting(queued, left)
  end
  local granted, token = hand_over(inbox, ARGV[7], me)
  if granted == me then
    return { 1, token or take(lease, block, id, owner) }
  end
elseif ticket ~= '-' and inbox ~= '' then
  queued = join(member, ticket, lease)
end
return waiting(queued)
