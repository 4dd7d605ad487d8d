-- places: which waiters still ask, of those that no message can grant the lock.
--
-- A waiter in line has a key beside it, the line's name and its id, for half of its lease after each of its questions. Waiters
-- ask each third of their leases: so one without the key has left or is dead.
--
-- Returns nothing: it only defines functions, some of which are hooks.

local function place_key(line, member)
  return line .. ':' .. (string.match(member, '^%d+:%d+:([^:]+:%d+)') or '')
end

-- keep_place keeps member's place in line until its next question. A full Redis keeps those that are there.
local function keep_place(line, member, lease)
  local key, ms = place_key(line, member), math.max(1, math.floor(lease / 2))
  if redis.call('PEXPIRE', key, ms) == 0 then
    redis.call('SET', key, 1, 'PX', ms)
  end
end

-- leave_place ends that, and reports whether member was in line.
local function leave_place(line, member)
  redis.call('DEL', place_key(line, member))
  return redis.call('ZREM', line, member) == 1
end

-- first_asking is the first waiter in line that still asks, its ticket, and for how many ms it keeps its place. It takes those
-- before it out of the line.
local function first_asking(line)
  while true do
    local head = redis.call('ZRANGEBYSCORE', line, 0, '+inf', 'WITHSCORES', 'LIMIT', 0, 1)
    local left = head[1] and redis.call('PTTL', place_key(line, head[1])) or 1
    if left > 0 then
      return head[1], tonumber(head[2]), left
    end
    redis.call('ZREM', line, head[1])
  end
end
