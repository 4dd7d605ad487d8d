-- inspect: all that Redis knows of a lock, at one instant.
--
-- needs: kind
-- KEYS[1]  lock hash        name
-- KEYS[2]  queue of waiters relock_queue:{name}
-- KEYS[3]  fencing counter  redisson_lock_token:{name}
--
-- Returns {PTTL in ms, waiters, fencing counter, what the kind keeps of its holders}, the last as the kind's Read in Go
-- takes it. A score below 0 is no waiter's.
return { time_left(), redis.call('ZCOUNT', own_line(), 0, '+inf'), redis.call('GET', KEYS[3]) or '0', contents() }
