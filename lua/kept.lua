-- kept: how long the fencing counter is kept, and writing it.
--
-- needs: retention counter
-- That is how long a counter outlives its last grant, in ms, 0 for ever.
--
-- KEYS[3]  fencing counter  redisson_lock_token:{name}
--
-- Returns nothing: it only defines functions.

local SPAN = math.min(retention * 250, 2 ^ 24) -- in microseconds: a quarter of the retention, at most 17 seconds

-- deadline is the time, in ms, from which a counter that is at n may be forgotten: the retention after the end of a span, of
-- that in which n lies, or the clock if that is later.
local function deadline(n)
  return decimal((math.floor(math.max(clock(), n) / SPAN) + 1) * SPAN / 1000 + retention)
end

-- store raises the counter from had, false where it is missing, to n. One without an expiry keeps none: Redisson made it,
-- which begins at 1 where it is gone, or an operator wants it to stay. To ask whether it has one takes a command, so that is
-- done once in a span: within one the expiry stands already.
local function store(n, had)
  local stands = had and math.floor(had / SPAN) == math.floor(n / SPAN)
  if retention == 0 or had and not stands and redis.call('PTTL', KEYS[3]) == -1 then
    redis.call('SET', KEYS[3], decimal(n))
  elseif stands then
    redis.call('SET', KEYS[3], decimal(n), 'KEEPTTL')
  else
    redis.call('SET', KEYS[3], decimal(n), 'PXAT', deadline(n))
  end
end

-- raise sets the counter to n unless it is that far already. A counter that was forgotten becomes no less than counted told
-- for it. Else a late command would set it below that, and a waiter would believe in a grant of before it was forgotten.
local function raise(n)
  n = tonumber(n)
  local had = redis.call('GET', KEYS[3])
  if not had and n > 0 then
    n = math.max(n, clock() - 1)
  end
  if tonumber(had or 0) < n then
    store(n, had)
  end
end
