-- recount: write the hold count of an acquisition, on re-entry and on an inner unlock. Sent again it changes nothing.
--
-- KEYS[1]  lock hash        name
-- ARGV[1]  acquisition id   <client uuid>:<n>
-- ARGV[2]  hold count
-- ARGV[3]  lease, milliseconds
--
-- Returns 1, or 0 when the acquisition no longer holds the lock.
-- Wire: the re-entrant branch of RedissonLock.tryLockInnerAsync; absolute, because a lost reply is sent again.
if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 0 then
  return 0
end
redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])
if redis.call('PTTL', KEYS[1]) < tonumber(ARGV[3]) then
  redis.call('PEXPIRE', KEYS[1], ARGV[3])
end
return 1
