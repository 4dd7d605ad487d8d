-- acquire: take the free lock, enter the hold of a shared owner, or wait in the queue. Sent again it is the poll.
--
-- needs: rights kind grant handover queue turn news polled
-- KEYS[1]  lock hash        name
-- KEYS[2]  queue of waiters relock_queue:{name}
-- KEYS[3]  fencing counter  redisson_lock_token:{name}
-- KEYS[4]  unlock channel   redisson_lock__channel:{name}
-- ARGV[1]  lease, milliseconds
-- ARGV[2]  block: how many fencing tokens to reserve
-- ARGV[3]  acquisition id   <client uuid>:<n>
-- ARGV[4]  shared owner, '' when the acquisition id is the owner
-- ARGV[5]  ticket: '' for a new one, microseconds when known, '-' to leave without waiting
-- ARGV[6]  turn of Redisson's waiters that is known to be over, '' for none
-- ARGV[7]  inbox channel prefix, '' where grants cannot be sent
-- ARGV[8]  PUBLISH or SPUBLISH
-- Behind them stand those of rights. Left out at the end: '', and what one Redis that is no Cluster has.
--
-- Returns {1, first token, how many} when held by the caller, else {0, counter, ticket, holder's PTTL in ms, or what is left of
-- the turn that a free lock is left for, holder, how many heard that it is wanted, how many holders were not told}.
-- Wire: RedissonLock.tryLockInnerAsync, RedissonFencedLock.
local lease, block, id, owner, ticket = ARGV[1], ARGV[2], ARGV[3], ARGV[4] or '', ARGV[5] or ''
local inbox, publish = ARGV[7] or 'relock_inbox:', ARGV[8] or 'PUBLISH'
if idle(lease, block, id, owner, inbox, publish) then
  return { 1, take(lease, block, id, owner) }
end
local member = member_of(lease, block, id, owner)
local mine = holds(id)
if mine or share(id, owner) then
  if not mine then
    give_up(member)
  end
  lengthen(lease, id)
  return { 1, standing(lease, block, id, owner) }
end

local _ = beside and turn_left(ARGV[6]) -- which ends a turn that was used, before open leaves a part of the lock to it
local queued = ''
if inbox == '' then
  return polled(lease, block, id, owner, ticket, member, publish)
elseif open(lease, block, id, owner, own_line(), inbox, publish) then
  -- A command that finds the lock free with a queue serves the queue: expiry and Redisson's unlock leave it so.
  local me -- nothing for a TryLock, which is in no queue: it takes what none of those that wait took
  if ticket ~= '-' then
    queued, me = join(member, ticket, lease), member
  end
  local left = not beside and turn_left(ARGV[6])
  if left then
    return waiting(queued, left)
  end
  local winner, token, count = hand_over(inbox, publish, me)
  if me and winner == me then
    return { 1, token, count }
  end
  if not me and (batch == 1 and not winner or batch > 1 and idle(lease, block, id, owner, inbox, publish)) then
    return { 1, take(lease, block, id, owner) }
  end
elseif ticket ~= '-' then
  queued = join(member, ticket, lease)
end
return want(waiting(queued), inbox, publish, id, owner)
