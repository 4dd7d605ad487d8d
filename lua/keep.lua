-- keep: leave the result of a run for others, if the hold that it ran under still stands. Sent again it finds its own.
--
-- needs: hash
-- KEYS[1]  lock hash        name
-- KEYS[2]  result           relock_once:{name}; <acquisition id of its run>:<bytes>
-- ARGV[1]  acquisition id   <client uuid>:<n>
-- ARGV[2]  the bytes
-- ARGV[3]  how long they stay, milliseconds
--
-- Returns 1 when they stand, 0 when the acquisition no longer holds the lock, or -1 when forget came during the run.
local id, bytes, stays = ARGV[1], ARGV[2], ARGV[3]
local result = id .. ':'
if string.sub(redis.call('GET', KEYS[2]) or '', 1, #result) == result then
  return 1 -- the answer to the first copy was lost: the hold may be over by now
elseif not holds(id) then
  return 0
elseif noted('forgotten') then
  return -1
end
redis.call('SET', KEYS[2], result .. bytes, 'PX', stays)
return 1
