-- introduce: write what a client says of itself, keep it, or take it away.
--
-- KEYS[1]  who the client is  relock_client:<client uuid>
-- ARGV[1]  how long it stays, milliseconds; 0 to take it away
-- ARGV[2]  first field; its value follows, then the others
--
-- Returns 1. The first PEXPIRE finds out, too, whether the user may expire the key: what was written could not be ended else.
local key, stay = KEYS[1], ARGV[1]
if stay == '0' then
  redis.call('DEL', key)
elseif redis.call('PEXPIRE', key, stay) == 0 then
  redis.call('HSET', key, unpack(ARGV, 2))
  redis.call('PEXPIRE', key, stay)
end
return 1
