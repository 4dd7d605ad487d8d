-- mutex_release_many: what release does for many mutexes that no one waits for.
--
-- KEYS[1]  lock hash        name
-- KEYS[2]  queue of waiters relock_queue:{name}
-- KEYS[4]  unlock channel   redisson_lock__channel:{name}
-- ARGV[1]  acquisition id   <client uuid>:<n>
-- ARGV[4]  shared owner, '' or left out for none
-- ARGV[6]  acquisition id to queue in its place, '' or left out for none
-- ARGV[10] PUBLISH or SPUBLISH, left out for PUBLISH
--
-- Returns nothing: it only defines survey, which returns the answers of those that it ended. It asks and tells before it
-- deletes: what fails or is heard by a waiter is left to release, which tells once more.
local function survey(keys, args, entries, deep, wide)
  local queues, free, answers = {}, {}, {}
  for i = 1, entries do
    local k = (i - 1) * deep
    queues[i] = KEYS[2]
  end
  local none = redis.pcall('EXISTS', unpack(queues)) == 0
  for i = 1, entries do
    local k, a = (i - 1) * deep, (i - 1) * wide + 1
    if (ARGV[4] or '') == '' and (ARGV[6] or '') == '' and redis.pcall('HEXISTS', KEYS[1], ARGV[1]) == 1
      and (none or redis.pcall('EXISTS', KEYS[2]) == 0) and redis.pcall(ARGV[10] or 'PUBLISH', KEYS[4], '0') == 0 then
      free[#free + 1], answers[i] = KEYS[1], 1
    end
  end
  if #free > 0 then
    redis.call('DEL', unpack(free))
  end
  return answers
end
