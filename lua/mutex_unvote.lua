-- mutex_unvote: what unvote does for a held mutex that no one waits for, in one go: most unvotes need no function.
--
-- KEYS[1]  lock hash        name
-- KEYS[2]  queue of waiters relock_queue:{name}
-- KEYS[3]  fencing counter  redisson_lock_token:{name}
-- KEYS[4]  unlock channel   redisson_lock__channel:{name}
-- ARGV[3]  acquisition id   <client uuid>:<n>
-- ARGV[4]  fencing counter that the quorum reached
-- ARGV[6]  shared owner, '' or left out for none
-- ARGV[7]  acquisition id to queue in its place, '' or left out for none
--
-- Returns {1}, or goes on with unvote: leave, raise and announce say the same for all cases. A counter that is behind is
-- left to raise: here every write can be done by a full Redis.
if (ARGV[6] or '') == '' and (ARGV[7] or '') == '' and redis.pcall('EXISTS', KEYS[2]) == 0 then
  local had = redis.pcall('GET', KEYS[3])
  if type(had) == 'string' and (tonumber(had) or 0) >= tonumber(ARGV[4]) and redis.call('HDEL', KEYS[1], ARGV[3]) == 1 then
    redis.call('DEL', KEYS[1])
    redis.call('PUBLISH', KEYS[4], '0')
    return { 1 }
  end
end
-- below: all other cases
