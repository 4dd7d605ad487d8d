-- mutex_acquire_many: what mutex_acquire does, for many mutexes.
--
-- needs: retention kept token
-- KEYS[1]  lock hash        name
-- KEYS[2]  queue of waiters relock_queue:{name}
-- KEYS[3]  fencing counter  redisson_lock_token:{name}
-- ARGV[1]  lease, milliseconds
-- ARGV[2]  block
-- ARGV[3]  acquisition id   <client uuid>:<n>
-- ARGV[4]  shared owner, '' or left out for none
-- ARGV[5]  ticket: '', '-' or left out where none is known
-- ARGV[9]  PUBLISH or SPUBLISH when the client asks for its rights, '' or left out else
-- Each of the many entries has these keys behind the first k, and these arguments, so many as wide, behind the first a.
--
-- Returns nothing: it only defines survey and quick.

-- survey finds out by one command whether all are idle, and by another reads their counters. It returns nothing where they
-- are not all idle, and no counters where the user may not read them together: then quick asks for each. A counter that MGET
-- knows nothing of is missing, or no string: then quick cannot write it, and leaves the entry to the script.
local function survey(keys, args, entries, deep, wide)
  local asked, counters, seen = {}, {}, {}
  for i = 1, entries do
    local k = (i - 1) * deep
    if seen[keys[k + 3]] then
      return -- the second of them will find it counted further, or the lock taken
    end
    seen[keys[k + 3]] = true
    asked[2 * i - 1], asked[2 * i], counters[i] = keys[k + 1], keys[k + 2], keys[k + 3]
  end
  if redis.pcall('EXISTS', unpack(asked)) == 0 then
    local may = redis.acl_check_cmd
    return { idle = true, counters = may and may('MGET', unpack(counters)) and redis.call('MGET', unpack(counters)) or {} }
  end
end

-- said is what was found for the entry before, and mostly holds for the next: to ask Redis, and to write numbers, takes long.
local said = {}

-- quick takes the lock for the entry i where it is idle, and returns first:how many tokens, else nothing: idle, reserve and
-- put say the same for all cases.
local function quick(keys, args, k, a, wide, known, i)
  local owner, ticket, asks = wide >= 4 and args[a + 4] or '', wide >= 5 and args[a + 5] or '', wide >= 9 and args[a + 9] or ''
  if asks ~= '' or owner ~= '' or #ticket > 1
    or not (known.idle or redis.call('EXISTS', keys[k + 1], keys[k + 2]) == 0) then
    return
  end
  local had = known.idle and known.counters[i]
  if had == nil then
    had = redis.call('GET', keys[k + 3])
  end
  if not said.now then
    local time = redis.call('TIME')
    said.now = time[1] * 1000000 + time[2]
  end
  local now, count = said.now, tonumber(args[a + 2])
  local first = not had and now or not string.find(had, '%D') and math.max((tonumber(had) or 2 ^ 53) + 1, now)
  if first and first + count - 1 > now + LEAD then
    count = math.min(count, CUT)
  end
  local last = first and first + count - 1
  if not first or last >= 2 ^ 53 then
    return
  end

  if said.last ~= last or said.count ~= count then
    said.last, said.count = last, count
    said.tokens, said.counter = string.format('%.0f:', first) .. count, string.format('%.0f', last)
  end
  local span = math.floor(last / SPAN)
  local stands, still, put = had and math.floor(had / SPAN) == span, had and 'XX' or 'NX' -- survey may take a hash for nothing
  if retention == 0 or had and not stands and redis.call('PTTL', keys[k + 3]) == -1 then
    put = redis.call('SET', keys[k + 3], said.counter, still)
  elseif stands then
    put = redis.call('SET', keys[k + 3], said.counter, 'KEEPTTL')
  else
    if said.span ~= span then
      said.span, said.kept = span, string.format('%.0f', (span + 1) * SPAN / 1000 + retention)
    end
    put = redis.call('SET', keys[k + 3], said.counter, 'PXAT', said.kept, still)
  end
  if not put then
    return
  end
  redis.call('HSET', keys[k + 1], args[a + 3], '1', 'relock:first', said.tokens)
  local kept = redis.pcall('PEXPIRE', keys[k + 1], args[a + 1])
  if type(kept) == 'table' then
    redis.call('DEL', keys[k + 1]) -- a lock that nothing ends would outlive its holder
    error(kept.err, 0)
  end
  return said.tokens
end
