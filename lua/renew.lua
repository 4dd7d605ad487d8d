-- renew: lengthen many leases, and repair hold counts that a late command left behind.
--
-- quorum: refuse
-- KEYS[n]  lock hash        name
-- ARGV[3n-2]  acquisition id   <client uuid>:<n>
-- ARGV[3n-1]  hold count, 0 to leave it as it is
-- ARGV[3n]    lease, milliseconds
--
-- Returns for each key 1, 0 when the acquisition no longer holds the lock, or -1 when this key alone failed.
-- Wire: LockTask.renew. A lease is only ever lengthened.
local function lengthen(key, lease)
  redis.call('PEXPIRE', key, math.max(lease, redis.call('PTTL', key)))
end

local held = {}
for i, key in ipairs(KEYS) do
  local id, count, lease = ARGV[3 * i - 2], ARGV[3 * i - 1], ARGV[3 * i]
  local had = redis.pcall('HGET', key, id)
  if type(had) == 'table' then
    held[i] = string.find(had.err, 'WRONGTYPE') and 0 or -1 -- what is no hash is no lock of ours
  elseif not had then
    held[i] = 0
  else
    held[i] = pcall(lengthen, key, tonumber(lease)) and 1 or -1
    if count ~= '0' and had ~= count then
      redis.pcall('HSET', key, id, count) -- after a write: so a full Redis takes it
    end
  end
end
return held
