-- mutex_release_many: what release does for many mutexes that no one waits for.
--
-- KEYS[1]  lock hash        name
-- KEYS[2]  queue of waiters relock_queue:{name}
-- KEYS[4]  unlock channel   redisson_lock__channel:{name}
-- ARGV[1]  acquisition id   <client uuid>:<n>
-- ARGV[4]  shared owner, '' or left out for none
-- ARGV[6]  acquisition id to queue in its place, '' or left out for none
-- ARGV[10] PUBLISH or SPUBLISH, left out for PUBLISH
-- Each of the many entries has these keys behind the first k, and these arguments, so many as wide, behind the first a.
--
-- Returns nothing: it only defines survey and quick.

-- survey ends what no one waits for, and returns the answers to those entries. It asks and tells before it deletes. An entry
-- for which that fails, or that a waiter heard of, is left to release, which tells once more.
local function survey(keys, args, entries, deep, wide)
  local queues, free, answers = {}, {}, {}
  for i = 1, entries do
    local k = (i - 1) * deep
    queues[i] = keys[k + 2]
  end
  local none = redis.pcall('EXISTS', unpack(queues)) == 0
  for i = 1, entries do
    local k, a = (i - 1) * deep, (i - 1) * wide + 1
    local owner, next_id = wide >= 4 and args[a + 4] or '', wide >= 6 and args[a + 6] or ''
    local publish = wide >= 10 and args[a + 10] or 'PUBLISH'
    if owner == '' and next_id == '' and redis.pcall('HEXISTS', keys[k + 1], args[a + 1]) == 1
      and (none or redis.pcall('EXISTS', keys[k + 2]) == 0) and redis.pcall(publish, keys[k + 4], '0') == 0 then
      free[#free + 1], answers[i] = keys[k + 1], 1
    end
  end
  if #free > 0 then
    redis.call('DEL', unpack(free))
  end
  return answers
end

-- quick does nothing: an entry that survey did not end is no frequent case.
local function quick()
end
