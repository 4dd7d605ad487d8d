-- inspect: all that Redis knows of a lock, at one instant.
--
-- KEYS[1]  lock hash        name
-- KEYS[2]  queue of waiters relock_queue:{name}
-- KEYS[3]  fencing counter  redisson_lock_token:{name}
--
-- Returns {PTTL in ms, waiters, fencing counter, {field, value, field, value ...}}. A score below 0 is no waiter's.
return {
  redis.call('PTTL', KEYS[1]),
  redis.call('ZCOUNT', KEYS[2], 0, '+inf'),
  redis.call('GET', KEYS[3]) or '0',
  redis.call('HGETALL', KEYS[1]),
}
