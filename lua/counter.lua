-- counter: the fencing counter, which rises although a Redis forgets it.
--
-- KEYS[3]  fencing counter  redisson_lock_token:{name}
--
-- Returns nothing: it only defines functions. The counter is a hybrid clock: no grant is below the server's time in
-- microseconds, so the time that has passed makes up for what was forgotten. It stays below 2^53 until 2255.

local instant

-- clock is the server's time in microseconds, one for the whole script.
local function clock()
  if not instant then
    local time = redis.call('TIME')
    instant = time[1] * 1000000 + time[2]
  end
  return instant
end

local function decimal(n)
  return string.format('%.0f', n)
end

-- counted is how far tokens were counted, and the counter. Where that is missing it is just below the clock: so it is below
-- every grant of ours that is still to come, and not below one that was made before it was forgotten.
local function counted()
  local n = redis.call('GET', KEYS[3])
  if not n then
    return clock() - 1, n
  end
  return tonumber(string.match(n, '^%-?%d+$') or redis.call('INCRBY', KEYS[3], 0)), n -- which says what is wrong with it
end
