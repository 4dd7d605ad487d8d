-- recount: write the hold count of an acquisition, on re-entry and on an inner unlock. Sent again it changes nothing.
--
-- quorum: refuse
-- KEYS[1]  lock hash        name
-- ARGV[1]  acquisition id   <client uuid>:<n>
-- ARGV[2]  hold count
-- ARGV[3]  lease, milliseconds
--
-- Returns 1, or 0 when the acquisition no longer holds the lock. A higher count that a full Redis refuses is an error, but
-- the lease is lengthened all the same: who re-enters is turned away, who holds the lock keeps it.
-- Wire: the re-entrant branch of RedissonLock.tryLockInnerAsync; absolute, because a lost reply is sent again.
local id, count, lease = ARGV[1], ARGV[2], tonumber(ARGV[3])
local had = redis.call('HGET', KEYS[1], id)
if not had then
  return 0
end
local written = tonumber(count) <= (tonumber(had) or 0) or redis.pcall('HSET', KEYS[1], id, count)
redis.call('PEXPIRE', KEYS[1], math.max(lease, redis.call('PTTL', KEYS[1])))
if written == true and had ~= count then
  redis.pcall('HSET', KEYS[1], id, count) -- after a write: so a full Redis takes it
end
return type(written) == 'table' and written or 1
