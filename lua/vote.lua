-- vote: acquire on one node of a quorum, poll there, or give back a grant to a lower ticket.
--
-- needs: rights counter kind ballot grant handover queue news token
-- KEYS[1]  lock hash        name
-- KEYS[2]  queue of waiters relock_queue:{name}
-- KEYS[3]  fencing counter  redisson_lock_token:{name}
-- KEYS[4]  unlock channel   redisson_lock__channel:{name}
-- KEYS[5]  seed             relock_seed:{name}
-- ARGV[1]  lease, milliseconds
-- ARGV[2]  block: how many fencing tokens to reserve
-- ARGV[3]  acquisition id   <client uuid>:<n>
-- ARGV[4]  ticket, microseconds, the same on all nodes
-- ARGV[5]  'wait', 'try' to leave without waiting, or 'nudge' to wait and make the owner look again
-- ARGV[6]  shared owner, '' when the acquisition id is the owner
-- ARGV[7]  grant number to yield, '' for none
-- Left out at the end: ''.
--
-- Returns ballot's answer, or why the node is mute as an error.
local lease, block, id, ticket, how, owner, yield = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6] or '', ARGV[7] or ''
local shut = barred()
if not shut and idle(lease, block, id, owner) then
  local first, count = take(lease, block, id, owner)
  record_grant(first, ticket)
  return { 1, first, ticket, lease, owner ~= '' and owner or id, decimal(clock()), count } -- as ballot would find it
end
-- below: what an idle lock does not need
local member = member_of(lease, block, id, owner)
if shut then
  if how ~= 'try' then
    join(member, ticket, lease)
  end
  return why_barred()
end
if holds(id) then
  lengthen(lease, id)
  -- A yield holds for the grant it names alone, and what stays is under a new number, be the yielder first again or the
  -- owner kept in by another sharer: so a copy of this command that comes late finds nothing to give back.
  local number, standing_ticket = string.match(noted('vote') or '', '^(%d+):(%d+)$')
  if yield == number and sole(owner) then
    clear()
    join(member, ticket, lease)
    hand_over('relock_inbox:', 'PUBLISH', member)
  elseif yield == number then
    record_grant((reserve(1)), standing_ticket)
  end
elseif share(id, owner) then
  give_up(member)
  lengthen(lease, id)
elseif open(lease, block, id, owner, own_line()) then
  if how ~= 'try' then
    join(member, ticket, lease)
  end
  if not hand_over('relock_inbox:', 'PUBLISH', how ~= 'try' and member) then
    record_grant((take(lease, block, id, owner)), ticket)
  end
elseif how ~= 'try' then
  join(member, ticket, lease)
  if how == 'nudge' then
    tell(holders(), 'relock_inbox:', 'PUBLISH', 1)
  end
end
return ballot(id)
