-- force: free the lock, whichever owner holds it, tell that owner, and hand it over.
--
-- needs: kind handover news queue
-- quorum: ballot
-- alone: noballot
-- KEYS[1]  lock hash        name
-- KEYS[2]  queue of waiters relock_queue:{name}
-- KEYS[3]  fencing counter  redisson_lock_token:{name}
-- KEYS[4]  unlock channel   redisson_lock__channel:{name}
-- ARGV[1]  inbox channel prefix, '' where grants cannot be sent
-- ARGV[2]  PUBLISH or SPUBLISH
-- ARGV[n]  from the third on: owners that a quorum was freed of. Only they lose this node, and their place in its queue.
--
-- Returns 1 when there was a lock to free, else 0. A node of a quorum returns the owner that it was freed of instead, else ''.
-- Wire: RedissonLock.forceUnlockAsync.
local ok, winner
local all = holders() -- fails where they are of another kind
local owner = barred and holder()
local free, left = #ARGV < 3, {}
for _, freed in ipairs({ unpack(ARGV, 3) }) do
  free = free or owner == freed
  for _, member in ipairs(redis.call('ZRANGE', next_line(), 0, -1)) do
    local id, shared = string.match(member, '^%d+:%d+:([^:]+:%d+):?(.*)$')
    if id and freed == (shared ~= '' and shared or id) then
      give_up(member)
      left[#left + 1] = id -- it asks again, if it still waits
    end
  end
end
tell(left, ARGV[1], ARGV[2], 0)
if not free then
  return ''
end
if ARGV[1] ~= '' then
  ok, winner = pcall(tell, all, ARGV[1], ARGV[2], 0)
  if barred and not ok then
    error(winner, 0) -- the waiters of a quorum hear their inboxes alone: they would sleep beside the free lock
  end
end
if not clear() then
  return barred and '' or 0
end
if ARGV[1] ~= '' then
  ok, winner = pcall(hand_over, ARGV[1], ARGV[2]) -- what fails from here on must not keep the waiters asleep
end
if beside or not (ok and winner) then -- parts may be left for Redisson's waiters
  announce(ARGV[2])
end
return barred and owner or 1
