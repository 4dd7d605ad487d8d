-- move: let another field have the lock in place of the one that has it: a handle's, or that of the taker of a handle.
--
-- needs: rights kind token
-- A handle's field is <client uuid>:handle:<digest>, which is the form of no acquisition id.
--
-- KEYS[1]  lock hash        name
-- KEYS[2]  queue of waiters relock_queue:{name}
-- KEYS[3]  fencing counter  redisson_lock_token:{name}
-- KEYS[4]  unlock channel   redisson_lock__channel:{name}
-- ARGV[1]  field that has the lock
-- ARGV[2]  field that is to have it
-- ARGV[3]  its lease, milliseconds
-- ARGV[4]  how many fencing tokens to reserve; 0 for a handle, under which no one writes
-- ARGV[5]  PUBLISH or SPUBLISH
-- ARGV[6]  first token of the grant that is to move, '' for any: a late acquire may have given the first id another one
-- For a taker those of rights stand in their places; the seventh and eighth are unused. Left out at the end: ''.
--
-- Returns {1, first token, how many} when the second has the lock, or {0, why} when neither has it: free, or held, or used if
-- the lock was taken over from that handle and is held since. Sent again it finds the first gone: a taker's lease is lengthened
-- as by a poll, a handle's stays.
local from, to, lease, block, publish = ARGV[1], ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4]), ARGV[5]
if holds(to) then
  if block > 0 then
    lengthen(lease, to)
  end
  return { 1, standing(lease, block, to, '') }
end
if not holds(from) then
  return { 0, time_left() == -2 and 'free' or succeeded(from) and 'used' or 'held' }
end
if block > 0 and not string.find(from, '^[%x-]+:handle:[%w_-]+$') then
  return { 0, 'held' } -- the id of a holder is no handle: State and HeldError show it
end
local first, count = standing(lease, block, from, '')
if ARGV[6] ~= '' and first ~= ARGV[6] then
  return { 0, 'held' }
end
if block > 0 then
  first, count = reserve(block) -- before the hold moves: a full Redis, or a counter that is no number, refuses here
end
local left = time_left()
succeed(to, from, lease, first, count)
if left > lease then
  announce(publish) -- waiters rely on the lease that they were told: they ask again,
  redis.call(publish, KEYS[4], '1') -- and by this message all threads of a JVM do
end
return { 1, first, count }
