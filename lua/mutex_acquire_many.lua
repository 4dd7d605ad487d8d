-- mutex_acquire_many: ask once for many mutexes what mutex_acquire asks for one.
--
-- KEYS[1]  lock hash        name
-- KEYS[2]  queue of waiters relock_queue:{name}
-- KEYS[3]  fencing counter  redisson_lock_token:{name}
--
-- Returns nothing: it only defines survey, which returns that all are idle, and their counters. Where they are not, or may
-- not be asked for together, each is asked for by itself. A counter that MGET knows nothing of is not there, or no string:
-- then quick cannot write it, and leaves the entry to the script.
local function survey(keys, args, entries, deep, wide)
  local asked, counters, seen = {}, {}, {}
  for i = 1, entries do
    local k = (i - 1) * deep
    if seen[KEYS[3]] then
      return -- the second of them will find it counted further, or the lock taken
    end
    seen[KEYS[3]] = true
    asked[2 * i - 1], asked[2 * i], counters[i] = KEYS[1], KEYS[2], KEYS[3]
  end
  if redis.pcall('EXISTS', unpack(asked)) == 0 then
    local may = redis.acl_check_cmd
    return { idle = true, counters = may and may('MGET', unpack(counters)) and redis.call('MGET', unpack(counters)) or {} }
  end
end
