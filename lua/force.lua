-- force: free the lock, whichever owner holds it, tell that owner, and hand it over.
--
-- needs: kind handover news
-- quorum: ballot
-- alone: noballot
-- KEYS[1]  lock hash        name
-- KEYS[2]  queue of waiters relock_queue:{name}
-- KEYS[3]  fencing counter  redisson_lock_token:{name}
-- KEYS[4]  unlock channel   redisson_lock__channel:{name}
-- ARGV[1]  inbox channel prefix, '' where grants cannot be sent
-- ARGV[2]  PUBLISH or SPUBLISH
--
-- Returns 1 when there was a lock to free, else 0.
-- Wire: RedissonLock.forceUnlockAsync.
local ok, winner
local all = holders() -- fails where they are of another kind
if ARGV[1] ~= '' then
  ok, winner = pcall(tell, all, ARGV[1], ARGV[2], 0)
  if barred and not ok then
    error(winner, 0) -- the waiters of a quorum hear their inboxes alone: they would sleep beside the free lock
  end
end
if not clear() then
  return 0
end
if ARGV[1] ~= '' then
  ok, winner = pcall(hand_over, ARGV[1], ARGV[2]) -- what fails from here on must not keep the waiters asleep
end
if not (ok and winner) then
  announce(ARGV[2])
end
return 1
