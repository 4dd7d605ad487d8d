-- semaphore: RedissonPermitExpirableSemaphore, as a kind of lock: the hooks by which all scripts handle it.
--
-- needs: counter lease token turn places permits permits_number permits_entry permits_told permits_held
-- KEYS[1]  free permits     name; decimal, may be negative
-- KEYS[2]  queue of waiters relock_permits:{name}
--
-- Returns nothing: it only defines the hooks.
-- Wire: RedissonPermitExpirableSemaphore.

local batch = 32
local succeed, succeeded

-- beside says that a turn leaves one permit to Redisson's waiters, and the others to relock's.
local beside = true

local function named(_)
  return ':semaphore'
end
local function own_line()
  return KEYS[2]
end
local next_line = own_line

local function clear()
  local permits = redis.call('ZCARD', held_key())
  redis.call('DEL', held_key())
  give_back(permits)
  return permits > 0
end

-- resized makes the semaphore's size that many permits, where it has none, or in any case if anew is set. It reports whether
-- it did. The counter falls below 0 where more are held.
local function resized(permits, anew)
  if redis.call('EXISTS', KEYS[1]) == 1 and (free_permits() and not anew) then -- which fails where this is no semaphore
    return false
  end
  local held = redis.call('ZCARD', held_key())
  set_number(decimal(permits - held), not anew, held)
  return true
end

-- batched runs behind a hand-over, after which the batch had room for so many more. Without room, permits may be free for others.
local function batched(publish, room)
  if room == 0 then
    announce(publish)
  end
end

-- crowded reports whether others wait.
local function crowded(line)
  return redis.call('EXISTS', line) == 1
end
local function last_ticket(line)
  return redis.call('ZREVRANGE', line, 0, 0, 'WITHSCORES')[2]
end

-- kept_out is for how many ms at least another waiter keeps the entry out, where no message can grant it a permit.
local function kept_out(line, member)
  local first, _, left = first_asking(line)
  return first and first ~= member and left or nil
end
