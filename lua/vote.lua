-- vote: acquire on one node of a quorum, poll there, or give back a grant to a lower ticket.
--
-- needs: rights counter token kind ballot number grant handover queue news
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
-- ARGV[7]  grant number to yield, '' for none; after a yield 'apart' to stay out of the owner's hold, 'again' to enter it
-- ARGV[8]  token to begin at or above, '' for none
-- Left out at the end: ''.
--
-- Returns ballot's answer, and how many heard that the lock is wanted; or why the node is mute as an error.
local lease, block, id, ticket, how, owner, yield = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6] or '', ARGV[7] or ''
least = tonumber(ARGV[8] or '') or 0
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
-- Give back the grant of that number. An entry that is in again after a yield has a new number, so a late copy of this command
-- gives nothing back. The owner's other sharers stay in.
local first = yield ~= '' and string.match(noted('vote') or '', '^(%d+)')
if first and yield == number_of(id, owner, first) and leave(id, owner) then
  forget_number(id)
end
if holds(id) then
  lengthen(lease, id)
elseif (yield == '' or yield == 'again') and share(id, owner) then
  if yield == 'again' then
    record_again(id)
  end
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
return want(ballot(id), 'relock_inbox:', 'PUBLISH', id, owner)
