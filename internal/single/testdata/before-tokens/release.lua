-- release: end an acquisition, held or waiting, and hand the lock over. Sent again it changes nothing.
--
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
-- ARGV[8]  acquisition id to queue in its place, '' for none
-- ARGV[9]  its lease, milliseconds
-- ARGV[10] its block
--
-- Returns {0} when the caller did not hold the lock, {1} when released, and with ARGV[8], if that could be queued,
-- {1, acquire's reply ...}.
-- Wire: RedissonLock.unlockInnerAsync, without its latch: ids are never reused, so a second run finds nothing.
local id, owner, inbox, publish, next_id = ARGV[1], ARGV[2], ARGV[4], ARGV[5], ARGV[8]
if redis.call('HEXISTS', KEYS[1], id) == 0 then
  redis.call('ZREM', KEYS[2], member_of(ARGV[3], ARGV[6], id, owner))
  return { 0 }
end
if owner ~= '' then
  redis.call('HDEL', KEYS[1], id)
  if redis.call('HINCRBY', KEYS[1], owner, -1) > 0 then
    return { 1 }
  end
end
redis.call('DEL', KEYS[1]) -- first, so that a full Redis still lets go

-- What fails now, say at a counter that is no number, must not keep the waiters asleep: they come, and are told.
local me, ticket, granted, token, foreign
local ok = pcall(function()
  if next_id ~= '' then
    me = member_of(ARGV[9], ARGV[10], next_id, '')
    ticket = join(me, '', ARGV[9])
  end
  if inbox ~= '' and redis.call('EXISTS', KEYS[2]) == 1 then
    foreign = ARGV[7] == '1' and foreigners(publish)
    if not foreign then
      granted, token = hand_over(inbox, publish, me)
    end
  end
end)
local left
if not granted and redis.call(publish, KEYS[4], '0') > 0 and ok and inbox ~= '' and ARGV[7] == '1' then
  left = (foreign or foreigners(publish)) and open_turn(publish)
end
if not ok or not me then
  return { 1 }
end
return granted == me and { 1, 1, token } or { 1, unpack(waiting(ticket, left)) }
