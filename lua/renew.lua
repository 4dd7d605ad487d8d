-- renew: lengthen many leases, and repair hold counts that a late command left behind.
--
-- KEYS[n]  lock hash        name
-- ARGV[3n-2]  acquisition id   <client uuid>:<n>
-- ARGV[3n-1]  hold count, 0 to leave it as it is
-- ARGV[3n]    lease, milliseconds
--
-- Returns for each key 1, or 0 when the acquisition no longer holds the lock.
-- Wire: LockTask.renew. A lease is only ever lengthened.
local held = {}
for i, key in ipairs(KEYS) do
  local id, count, lease = ARGV[3 * i - 2], ARGV[3 * i - 1], ARGV[3 * i]
  local reply = redis.pcall('HGET', key, id)
  held[i] = 0
  if type(reply) == 'table' and not string.find(reply.err, 'WRONGTYPE') then
    return reply
  elseif type(reply) == 'string' then
    if count ~= '0' and reply ~= count then
      redis.call('HSET', key, id, count)
    end
    if redis.call('PTTL', key) < tonumber(lease) then
      redis.call('PEXPIRE', key, lease)
    end
    held[i] = 1
  end
end
return held
