-- release: end an acquisition, held or waiting, and hand the lock over. Sent again it changes nothing.
--
-- needs: kind handover queue turn
-- KEYS[1]  lock hash        name
-- KEYS[2]  queue of waiters relock_queue:{name}
-- KEYS[3]  fencing counter  redisson_lock_token:{name}
-- KEYS[4]  unlock channel   redisson_lock__channel:{name}
-- KEYS[5]  channel of turns relock_listen:{name}
-- ARGV[1]  acquisition id   <client uuid>:<n>
-- ARGV[2]  shared owner, '' when the acquisition id is the owner
-- ARGV[3]  lease of this acquisition, milliseconds
-- ARGV[4]  inbox channel prefix, '' where grants cannot be sent
-- ARGV[5]  PUBLISH or SPUBLISH
-- ARGV[6]  block of this acquisition
-- ARGV[7]  '1' to leave the lock to Redisson's waiters where some listen
-- ARGV[8]  acquisition id to queue in its place, '' for none; nobody is queued where grants cannot be sent
-- ARGV[9]  its lease, milliseconds
-- ARGV[10] its block
--
-- Returns {0} when the caller did not hold the lock, {1} when released, and with ARGV[8], if that could be queued,
-- {1, acquire's reply ...}.
-- Wire: RedissonLock.unlockInnerAsync, without its latch: ids are never reused, so a second run finds nothing.
local id, owner, inbox, publish, next_id = ARGV[1], ARGV[2], ARGV[4], ARGV[5], ARGV[8]
if not holds(id) then
  give_up(member_of(ARGV[3], ARGV[6], id, owner))
  if batch > 1 and inbox ~= '' then
    pcall(hand_over, inbox, publish) -- one at the head may have kept out those behind it
  end
  return { 0 }
end
local _, free = leave(id, owner, true)
if not free then
  return { 1 }
end

-- What fails now, say at a counter that is no number, must not keep the waiters asleep: they come, and are told.
local me, ticket, winner, token, count, foreign
local ok = pcall(function()
  if next_id ~= '' and inbox ~= '' then -- a queue is for those who can be handed the lock
    me = member_of(ARGV[9], ARGV[10], next_id, '')
    ticket = join(me, '', ARGV[9])
  end
  if inbox ~= '' and redis.call('EXISTS', next_line()) == 1 then
    foreign = ARGV[7] == '1' and foreigners(publish)
    if not foreign then
      winner, token, count = hand_over(inbox, publish, me)
    end
  end
end)
local left
if not winner and announce(publish) > 0 and ok and inbox ~= '' and ARGV[7] == '1' then
  left = (foreign or foreigners(publish)) and open_turn(publish)
end
if not ok or not me then
  return { 1 }
end
return winner == me and { 1, 1, token, count } or { 1, unpack(waiting(ticket, left)) }
