-- unvote: end an acquisition on one node of a quorum, held or waiting, and hand over. Sent again it changes nothing.
--
-- needs: kept token kind ballot number handover queue
-- KEYS[1]  lock hash        name
-- KEYS[2]  queue of waiters relock_queue:{name}
-- KEYS[3]  fencing counter  redisson_lock_token:{name}
-- KEYS[4]  unlock channel   redisson_lock__channel:{name}
-- KEYS[5]  seed             relock_seed:{name}
-- ARGV[1]  lease, milliseconds
-- ARGV[2]  block
-- ARGV[3]  acquisition id   <client uuid>:<n>
-- ARGV[4]  fencing counter that the quorum reached, so that the nodes count alike again
-- ARGV[5]  token that the grant to a waiter should begin at or above, '' for none
-- ARGV[6]  shared owner, '' when the acquisition id is the owner
-- ARGV[7]  acquisition id to queue in its place, '' for none
-- ARGV[8]  its lease, milliseconds
-- ARGV[9]  its block
-- ARGV[10] its ticket
-- Left out at the end: ''.
--
-- Returns {1 or 0: the caller held it here}, and with ARGV[7] ballot's answer for that, or why the node is mute.
local lease, block, id, reached, owner, next_id = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[6] or '', ARGV[7] or ''
least = tonumber(ARGV[5] or '') or 0

local held, free = leave(id, owner)
if held and free and next_id == '' and redis.pcall('EXISTS', next_line()) == 0 then
  pcall(raise, reached)
  announce('PUBLISH')
  return { 1 }
end
-- below: what a lock that no one waits for does not need
if held and not free then
  forget_number(id)
elseif not held then
  give_up(member_of(lease, block, id, owner))
  -- Free already where this Redis was restarted or the lease ran out: then no other client serves the queue.
  free = open(lease, block, id, owner, own_line())
end

-- What fails now must not keep the lock, nor the waiters asleep: they come, and are told.
local me, winner = next_id ~= '' and member_of(ARGV[8], ARGV[9], next_id, '')
local ok, failure = pcall(function()
  if me then
    join(me, ARGV[10], ARGV[8])
  end
  raise(reached)
  winner = free and hand_over('relock_inbox:', 'PUBLISH', me)
end)
if held and free and not winner then
  announce('PUBLISH')
end
local answer = {}
if ok and me then
  ok, failure = pcall(function()
    answer = barred() and { why_barred() } or ballot(next_id)
  end)
end
if not ok and me then
  answer = { type(failure) == 'table' and failure or redis.error_reply(failure) }
end
return { held and 1 or 0, unpack(answer) }
