-- release: end an acquisition, held or waiting, and hand the lock over. Sent again it changes nothing.
--
-- needs: kind handover queue turn
-- KEYS[1]  lock hash        name
-- KEYS[2]  queue of waiters relock_queue:{name}
-- KEYS[3]  fencing counter  redisson_lock_token:{name}
-- KEYS[4]  unlock channel   redisson_lock__channel:{name}
-- KEYS[5]  channel of turns relock_listen:{name}
-- ARGV[1]  acquisition id   <client uuid>:<n>
-- ARGV[2]  lease of this acquisition, milliseconds
-- ARGV[3]  block of this acquisition
-- ARGV[4]  shared owner, '' when the acquisition id is the owner
-- ARGV[5]  '0' not to leave the lock to Redisson's waiters where some listen
-- ARGV[6]  acquisition id to queue in its place, '' for none; none is queued where grants cannot be sent
-- ARGV[7]  its lease, milliseconds
-- ARGV[8]  its block
-- ARGV[9]  inbox channel prefix, '' where grants cannot be sent
-- ARGV[10] PUBLISH or SPUBLISH
-- Left out at the end: '', and what one Redis that is no Cluster has.
--
-- Returns {0} when the caller did not hold the lock, {1} when released, and with ARGV[6], if that could be queued,
-- {1, acquire's reply ...}.
-- Wire: RedissonLock.unlockInnerAsync, without its latch: ids are never reused, so a second run finds nothing.
local id, owner, inbox, publish = ARGV[1], ARGV[4] or '', ARGV[9] or 'relock_inbox:', ARGV[10] or 'PUBLISH'
local next_id = ARGV[6] ~= '' and inbox ~= '' and ARGV[6] -- without an inbox it could not be handed the lock
local held, waited, heard = holds(id)
if held then
  local _, free = leave(id, owner, true)
  if not free then
    return { 1 }
  end
  waited = next_id or inbox ~= '' and redis.pcall('EXISTS', next_line()) ~= 0
  if not waited then
    heard = announce(publish)
    if heard == 0 then
      return { 1 }
    end
  end
end
-- below: what a lock that no one waits for does not need
if not held then
  local member = member_of(ARGV[2], ARGV[3], id, owner)
  if inbox == '' and leave_place and leave_place(own_line(), member) then
    announce(publish) -- it may have kept others out
  end
  give_up(member)
  if batch > 1 and inbox ~= '' and (beside or not turn_left()) then
    pcall(hand_over, inbox, publish) -- one at the head may have kept out those behind it
  end
  return { 0 }
end

-- What fails now, say at a counter that is no number, must not keep the waiters asleep: they come, and are told. Of parts that
-- the first in line does not take only Redisson's are told: relock's others would ask in vain.
local turns = ARGV[5] ~= '0'
local me, ticket, winner, token, count, foreign, left
local ok = pcall(function()
  if next_id then
    me = member_of(ARGV[7], ARGV[8], next_id, '')
    ticket = join(me, '', ARGV[7])
  end
  if waited then
    foreign = turns and foreigners(publish)
    left = foreign and beside and (turn_left() or open_turn(publish)) -- before the hand-over, which leaves one part to it
    if not foreign or beside then
      winner, token, count = hand_over(inbox, publish, me)
    end
  end
end)
local news = foreign or not ok or not (beside and waited and (turns or not foreigners(publish)) or not beside and winner)
if news and (heard or announce(publish)) > 0 and ok and inbox ~= '' and turns then
  left = left or (foreign or foreigners(publish)) and open_turn(publish)
end
return not (ok and me) and { 1 } or winner == me and { 1, 1, token, count } or { 1, unpack(waiting_behind(ticket, left)) }
