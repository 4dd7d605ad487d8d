-- result: read the result of a run under a lock.
--
-- KEYS[1]  result           relock_once:{name}; <acquisition id of its run>:<bytes>
--
-- Returns the result, nil when there is none. Redis lets no user run this that may not write the key: so the right to leave a
-- result is missed before a run.
local key = KEYS[1]

return redis.call('GET', key)
