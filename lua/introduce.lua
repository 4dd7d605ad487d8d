-- introduce: write what a client says of itself, keep it, or take it away.
--
-- KEYS[1]  card of the client  relock_client:<client uuid>
-- ARGV[1]  how long it stays, milliseconds; 0 to take it away
-- ARGV[2]  first field; its value follows, then the others
--
-- Returns 1. The first PEXPIRE also fails if the user may not expire the key: before anything is written that would then stay.
local key, stay = KEYS[1], ARGV[1]
if stay == '0' then
  redis.call('DEL', key)
elseif redis.call('PEXPIRE', key, stay) == 0 then
  redis.call('HSET', key, unpack(ARGV, 2))
  redis.call('PEXPIRE', key, stay)
end
return 1
