-- vote: acquire on one node of a quorum, poll there, or give back a grant to a lower ticket.
--
-- KEYS[1]  lock hash        name
-- KEYS[2]  queue of waiters relock_queue:{name}
-- KEYS[3]  fencing counter  redisson_lock_token:{name}
-- KEYS[4]  unlock channel   redisson_lock__channel:{name}
-- KEYS[5]  seed             relock_seed:{name}
-- ARGV[1]  lease, milliseconds
-- ARGV[2]  block: how many fencing tokens to reserve
-- ARGV[3]  acquisition id   <client uuid>:<n>
-- ARGV[4]  shared owner, '' when the acquisition id is the owner
-- ARGV[5]  ticket, microseconds, the same on all nodes
-- ARGV[6]  grant number to yield, '' for none
-- ARGV[7]  'wait', 'try' to leave without waiting, or 'nudge' to wait and make the owner look again
-- ARGV[8]  inbox channel prefix
--
-- Returns ballot's answer, or why the node is mute as an error.
local lease, block, id, owner, ticket, yield, how, inbox = unpack(ARGV)
local member = member_of(lease, block, id, owner)

if mute() then
  if how ~= 'try' then
    join(member, ticket, lease)
  end
  return why_mute()
end
if redis.call('EXISTS', KEYS[1], KEYS[2]) == 0 then
  local first, count = take(lease, block, id, owner)
  mark(first, ticket)
  return { 1, first, ticket, lease, owner ~= '' and owner or id, decimal(clock()), count } -- as told would find it
end
if redis.call('HEXISTS', KEYS[1], id) == 1 then
  keep(KEYS[1], lease)
  -- A yield holds for the grant it names alone. Who is still first is granted anew, under a new number: so a copy of
  -- this command that comes late finds nothing to give back.
  local number = string.match(redis.call('HGET', KEYS[1], 'relock:vote') or '', '^(%d+):')
  if yield == number and (owner == '' or redis.call('HGET', KEYS[1], owner) == '1') then
    redis.call('DEL', KEYS[1])
    join(member, ticket, lease)
    hand_over(inbox, 'PUBLISH', member)
  end
elseif owner ~= '' and redis.call('HEXISTS', KEYS[1], owner) == 1 then
  redis.call('HSET', KEYS[1], id, 1)
  redis.call('HINCRBY', KEYS[1], owner, 1)
  redis.call('ZREM', KEYS[2], member)
  keep(KEYS[1], lease)
elseif redis.call('EXISTS', KEYS[1]) == 0 then
  if how ~= 'try' then
    join(member, ticket, lease)
  end
  if not hand_over(inbox, 'PUBLISH', how ~= 'try' and member) then
    mark((take(lease, block, id, owner)), ticket)
  end
elseif how ~= 'try' then
  join(member, ticket, lease)
  if how == 'nudge' then
    tell(redis.call('HKEYS', KEYS[1]), inbox, 'PUBLISH', 1)
  end
end
return told(id)
