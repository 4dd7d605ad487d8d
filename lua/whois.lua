-- whois: read what a client says of itself. Its key has a slot of its own, so no script of a lock's can do that.
--
-- KEYS[1]  card of the client  relock_client:<client uuid>
--
-- Returns {field, value, field, value ...}, empty where the client says nothing, or is gone.
local key = KEYS[1]

return redis.call('HGETALL', key)
