-- permits_number: how long Redis keeps the number of a semaphore's permits.
--
-- needs: retention counter kept permits
-- KEYS[1]  free permits     name; expires if a client told it, and stays if SetPermits or Redisson set it
-- Beside it, in {name}:timeout, stand the permits that are held.
--
-- Returns nothing: it only defines functions.

local FOREVER = 562949953421312 -- ms: 2^49

-- keep_number has a number that expires last for the lease of the holder or waiter that uses it, and the retention behind that. A
-- lease is lengthened, and a waiter asks again, before it ends: so the number outlasts them. It is lengthened by a span more, and
-- so not at each use.
-- Redisson lengthens nothing: its acquire has the permits held expire with the number, relock's with them. So if those expire,
-- Redisson's clients use the semaphore too, and both stay.
local function keep_number(lease)
  local left = redis.call('PTTL', KEYS[1])
  if left < 0 or left > FOREVER / 2 or retention > 0 and left >= lease + retention then
    return
  end
  local shared = redis.call('PTTL', held_key()) >= 0
  redis.call('PEXPIRE', KEYS[1], decimal((shared or retention == 0) and FOREVER or lease + retention + SPAN / 1000))
  if shared then
    redis.call('PEXPIRE', held_key(), decimal(FOREVER))
  end
end

-- set_number writes how many permits are free. A number that a client told expires. One that is told while permits are held was
-- lost, and stays: Redisson's holders would not lengthen it. Nor do the permits held expire with a number that stays.
local function set_number(free, told, held)
  if told and held == 0 and retention > 0 then
    redis.call('SET', KEYS[1], free, 'PX', decimal(retention))
  else
    redis.call('SET', KEYS[1], free)
    redis.call('PEXPIRE', held_key(), decimal(FOREVER))
  end
end
