-- counter: the fencing counter, which rises although a Redis forgets it.
--
-- needs: retention
-- That is how long a counter outlives its last grant, in ms, 0 for ever.
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

-- store writes what must not be forgotten before the retention is over, counted from the later of clock and last.
local function store(key, value, last)
  if retention == 0 then
    redis.call('SET', key, value)
  else
    redis.call('SET', key, value, 'PXAT', decimal(math.max(clock(), last) / 1000 + retention))
  end
end

-- counted is how far tokens were counted. Where that is unknown it is just below the clock: so it is below every grant of
-- ours that is still to come, and not below one that was made before it was forgotten.
local function counted()
  local n = redis.call('GET', KEYS[3])
  if not n then
    return clock() - 1
  end
  return tonumber(string.match(n, '^%-?%d+$') or redis.call('INCRBY', KEYS[3], 0)) -- which says what is wrong with it
end

-- raise sets the counter to n unless it is there already. Where it is unknown it becomes no less than counted told: else
-- a late command would set it below, and a waiter would believe in a grant that was made before it was forgotten.
local function raise(n)
  n = tonumber(n)
  local had = redis.call('GET', KEYS[3])
  if not had and n > 0 then
    n = math.max(n, clock() - 1)
  end
  if tonumber(had or 0) < n then
    store(KEYS[3], decimal(n), n)
  end
end
