-- semaphore: RedissonPermitExpirableSemaphore, as a kind of lock: the hooks by which all scripts handle it.
--
-- needs: counter lease token turn places
-- KEYS[1]  free permits     name; decimal, may be negative
-- KEYS[2]  queue of waiters relock_permits:{name}
-- KEYS[4]  unlock channel   redisson_sc:{name}; a message is how many permits are free
-- KEYS[6]  permits held     {name}:timeout; a ZSET with a member for each permit, by when its lease ends, ms. An entry of k permits
--          has <acquisition id>:1 to <acquisition id>:k, all with one score. Redisson's have 16 bytes each.
-- ARGV of an entry: its block is how many permits it wants.
--
-- Returns nothing: it only defines the hooks.
-- Wire: RedissonPermitExpirableSemaphore. The size is the counter and what is held. Permits are reaped by score and member, at
-- Redisson too: of an entry's the first goes first. So if that is there, all are, and if it is not, the entry is lost.

local batch = 32
local untold
local succeed

-- beside says that a turn leaves one permit to Redisson's waiters, and the others to relock's.
local beside = true

local function named(_)
  return ':semaphore'
end
local function own_line()
  return KEYS[2]
end
local next_line = own_line

-- held_key is the key of the permits held. A renewal has two keys for each entry, and so does not have it as KEYS[6].
local function held_key()
  return (string.find(KEYS[1], '{', 1, true) and KEYS[1] or '{' .. KEYS[1] .. '}') .. ':timeout'
end

local function milliseconds()
  return math.floor(clock() / 1000)
end

local function holds(id)
  return redis.call('ZSCORE', held_key(), id .. ':1') ~= false
end

-- free_permits is how many the counter says are free.
local function free_permits()
  local n = redis.call('GET', KEYS[1])
  if not n then
    error('relock: NOSIZE the semaphore has no size', 0)
  elseif not string.find(n, '^%-?%d+$') then
    error('relock: WRONGKIND what is held by that name is no semaphore', 0)
  end
  return tonumber(n)
end

-- give_back counts permits as free again. A counter that is absent stays so: it is made anew with what is not held by then.
local function give_back(permits)
  if permits > 0 and redis.call('EXISTS', KEYS[1]) == 1 then
    redis.call('INCRBY', KEYS[1], permits)
  end
end

-- remove ends the permits of id, and returns how many those were.
local function remove(id)
  local key, n = held_key(), 0
  while redis.call('ZREM', key, id .. ':' .. n + 1) == 1 do
    n = n + 1
  end
  return n
end

-- entry_of is the acquisition id of a member, nothing for Redisson's.
local function entry_of(member)
  return #member > 16 and string.match(member, '^([^:]+:%d+):%d+$') or nil
end

-- reap ends permits that are past their lease, of relock's whole entries, and reports whether there were any.
local function reap()
  local key, permits = held_key(), 0
  for _, member in ipairs(redis.call('ZRANGEBYSCORE', key, '-inf', milliseconds(), 'LIMIT', 0, 100)) do
    local id = entry_of(member)
    permits = permits + (id and remove(id) or 0) + redis.call('ZREM', key, member)
  end
  give_back(permits)
  return permits > 0
end

-- fits reports whether that many permits are free, beside the one that a turn leaves to Redisson's waiters.
local function fits(permits)
  permits = tonumber(permits)
  local n = free_permits()
  if n < permits and reap() then
    n = free_permits()
  end
  return n > permits or n == permits and not turn_left()
end

-- idle reports whether the entry may take its permits and has not done so, and no entry waits. It fails where there will never be
-- as many.
local function idle(_, permits, id, _, _, _)
  if holds(id) then
    return false
  end
  local n = free_permits()
  if n < tonumber(permits) and n + redis.call('ZCARD', held_key()) < tonumber(permits) then
    error('relock: TOOMANY the semaphore has fewer permits', 0)
  end
  return redis.call('EXISTS', KEYS[2]) == 0 and fits(permits)
end
local function open(_, permits, _, _, _, _, _)
  return fits(permits)
end
local function share(_, _)
  return false
end

-- put writes the permits of the entry. What is left of an entry that was reaped in part is not taken twice.
local function put(lease, permits, id, _, _, _, _)
  local key, ends, members = held_key(), decimal(milliseconds() + lease), {}
  for i = 1, permits do
    members[2 * i - 1], members[2 * i] = ends, id .. ':' .. i
  end
  redis.call('DECRBY', KEYS[1], permits)
  local added = redis.pcall('ZADD', key, unpack(members))
  if added ~= tonumber(permits) then
    redis.call('INCRBY', KEYS[1], permits - (type(added) == 'number' and added or 0))
  end
  if type(added) == 'table' then
    error(added.err, 0)
  end
end

-- lengthen gives id, which is in, no less than a whole lease. A full Redis takes a ZADD after a write.
local function lengthen(lease, id)
  local key, ends, i = held_key(), milliseconds() + lease, 1
  redis.call('ZREM', key, '')
  local score = redis.call('ZSCORE', key, id .. ':1')
  while score do
    if tonumber(score) < ends then
      redis.call('ZADD', key, 'XX', decimal(ends), id .. ':' .. i)
    end
    i = i + 1
    score = redis.call('ZSCORE', key, id .. ':' .. i)
  end
end

-- standing is the number of the grant of an entry that is in: what the counter says now, as no one asks for the very number.
local function standing(_, permits, _, _)
  return decimal(counted()), permits
end

-- leave ends id, and returns whether it was in and whether permits are free since.
local function leave(id, _, _)
  local permits = remove(id)
  give_back(permits)
  return permits > 0, permits > 0
end

local function clear()
  local permits = redis.call('ZCARD', held_key())
  redis.call('DEL', held_key())
  give_back(permits)
  return permits > 0
end

local function recounted(id, _, lease)
  if not holds(id) then
    return 0
  end
  lengthen(lease, id)
  return 1
end
local function prolong(id, count, lease)
  local ok, answer = pcall(recounted, id, count, lease)
  return ok and answer or type(answer) == 'string' and string.find(answer, 'WRONGTYPE') and 0 or -1
end

-- resized makes the semaphore's size that many permits, where it has none, or in any case if anew is set. It reports whether
-- it did. The counter falls below 0 where more are held.
local function resized(permits, anew)
  if redis.call('EXISTS', KEYS[1]) == 1 and (free_permits() and not anew) then -- which fails where this is no semaphore
    return false
  end
  redis.call('SET', KEYS[1], permits - redis.call('ZCARD', held_key()))
  return true
end

-- announce tells how many permits are free, if any are, and returns how many heard. Where there is no counter all are to ask.
local function announce(publish)
  local n = tonumber(redis.call('GET', KEYS[1]) or 1) or 0
  return n > 0 and redis.call(publish, KEYS[4], decimal(n)) or 0
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

-- first_id is the acquisition id of the first waiter, nothing where none waits.
local function first_id()
  local head = redis.call('ZRANGEBYSCORE', KEYS[2], 0, '+inf', 'LIMIT', 0, 1)[1]
  return head and string.match(head, '^%d+:%d+:([^:]+:%d+)')
end

-- holders are relock's entries that hold. With most they are some of them, for an entry that wants permits: none, unless it is
-- the first in line. They were told for the first, and who came in since was told that others wait.
local function holders(most, id)
  local first = most and first_id()
  if first and first ~= id then
    return {}
  end
  free_permits()
  local entries, members = {}, most and redis.call('ZRANDMEMBER', held_key(), most) or redis.call('ZRANGE', held_key(), 0, -1)
  for _, member in ipairs(members) do
    if string.sub(member, -2) == ':1' then
      entries[#entries + 1] = entry_of(member)
    end
  end
  return entries
end

-- ends_next is the permit whose lease ends next, and when.
local function ends_next()
  local next_one = redis.call('ZRANGEBYSCORE', held_key(), '(' .. decimal(milliseconds()), '+inf', 'WITHSCORES', 'LIMIT', 0, 1)
  return next_one[1], tonumber(next_one[2])
end

local function hex(bytes)
  return (string.gsub(bytes, '.', function(byte)
    return string.format('%02x', string.byte(byte))
  end))
end

-- holder is an owner that holds: of Redisson's the id of the permit, as Redisson spells it.
local function holder()
  local member = ends_next()
  return member and (entry_of(member) or hex(member)) or ''
end

-- time_left is how long until a permit is free at the latest, in ms: until a lease ends, or a turn that a free permit is left for.
local function time_left()
  local turn = turn_left()
  if turn and tonumber(redis.call('GET', KEYS[1]) or 0) > 0 then
    return turn
  end
  local member, ends = ends_next()
  return not member and -2 or ends > 2 ^ 49 and -1 or math.max(0, ends - milliseconds())
end

-- contents is how many permits there are, how many of them are held by leases that last, and one of the holders.
local function contents()
  local size, held = redis.call('GET', KEYS[1]), redis.call('ZCOUNT', held_key(), '(' .. decimal(milliseconds()), '+inf')
  return {
    'permits', decimal(size and free_permits() + redis.call('ZCARD', held_key()) or 0), 'held', decimal(held), 'holder', holder(),
  }
end

-- kept_out is for how many ms at least another waiter keeps the entry out, where no message can grant it a permit.
local function kept_out(line, member)
  local first, _, left = first_asking(line)
  return first and first ~= member and left or nil
end

-- rights_of_holders are the commands on the kind's keys without which a permit must not be held.
local function rights_of_holders()
  local key, count = held_key(), KEYS[1]
  return {
    { 'GET', count }, { 'SET', count, '1' }, { 'INCRBY', count, '1' }, { 'DECRBY', count, '1' }, { 'EXISTS', count },
    { 'ZADD', key, '1', '' }, { 'ZREM', key, '' }, { 'ZSCORE', key, '' }, { 'ZCARD', key }, { 'ZCOUNT', key, '0', '1' },
    { 'ZRANGE', key, '0', '0' }, { 'ZRANGEBYSCORE', key, '0', '0' }, { 'ZRANDMEMBER', key }, { 'DEL', key },
    { 'ZRANGEBYSCORE', KEYS[2], '0', '0' }, { 'ZREVRANGE', KEYS[2], '0', '0' }, { 'ZSCORE', KEYS[2], '' },
  }
end
