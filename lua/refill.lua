-- refill: reserve the next fencing tokens for the holder of the lock, as long as no one waits for it.
--
-- needs: kind token turn
-- quorum: refuse
-- KEYS[1]  lock hash        name
-- KEYS[2]  queue of waiters relock_queue:{name}
-- KEYS[3]  fencing counter  redisson_lock_token:{name}
-- KEYS[4]  unlock channel   redisson_lock__channel:{name}
-- KEYS[5]  channel of turns relock_listen:{name}
-- ARGV[1]  acquisition id   <client uuid>:<n>
-- ARGV[2]  block: how many tokens
-- ARGV[3]  PUBLISH or SPUBLISH, by which the lock's messages travel
--
-- Returns {first token, how many}, or {} where the lock is held by another or wanted by one. Sent again it reserves more.
if not holds(ARGV[1]) or redis.call('EXISTS', next_line()) == 1 or foreigners(ARGV[3]) then
  return {}
end
return { reserve(tonumber(ARGV[2])) }
