-- read: the readers of a read-write lock, RedissonReadLock, as a kind of lock: the hooks by which all scripts handle it.
--
-- needs: counter token rw rw_alive rw_line rw_grant rw_polled places
-- KEYS[1]  lock hash          name
-- KEYS[2]  queue of writers   relock_writers:{name}
-- KEYS[6]  queue of readers   relock_readers:{name}:name
--
-- Returns nothing: it only defines the hooks.
-- Wire: RedissonReadLock, with a hold count of 1: the leases of one process share an acquisition, and nothing counts them here.
local function own_line()
  return KEYS[6]
end

-- untold would say how many were not told that the lock is wanted: what keeps readers out is one writer, or one that waits.
local untold

-- idle reports whether the entry may come in and is not in, and none waits. One that names an owner comes in by share only.
local function idle(_, _, id, owner, inbox, publish)
  if owner ~= '' or redis.call('EXISTS', KEYS[2], KEYS[6]) > 0 then
    return false
  end
  local is = mode()
  return not is
    or is == 'read' and redis.call('HEXISTS', KEYS[1], id) == 0 and not (inbox ~= '' and shut(publish))
end
local function holds(id)
  return redis.call('HEXISTS', KEYS[1], id) == 1
end
local function lengthen(lease, id)
  redis.call('PEXPIRE', KEYS[1], math.max(lease, redis.call('PTTL', KEYS[1])))
  redis.call('SET', pulse(id), 1, 'PX', math.max(lease, redis.call('PTTL', pulse(id)))) -- after a write: so a full Redis takes it
end

-- share lets id in as a reader beside owner, if that is the writer, with a token above the writer's. This is a downgrade: the
-- writer then unlocks, and id stays.
local function share(id, owner)
  if owner == '' or redis.call('HEXISTS', KEYS[1], owner .. ':write') == 0 then
    return false
  end
  reserve(1)
  return redis.call('HSET', KEYS[1], id, 1) == 1
end

-- standing is the token of a reader that is in: what the counter says now, since no writer came in since that reader did.
local function standing(_, _, _, _)
  return decimal(counted()), 1
end

-- time_left is how long the lock is held at most, in ms. Where readers hold it and a reader waits, Redisson's waiters may have
-- shut that out, for a second at most: then it is what is left of the second.
local function time_left()
  local shut_out = mode() == 'read' and ticket_of(KEYS[6])
  local left = shut_out and 1000 - math.floor((clock() - shut_out) / 1000) or 0
  return left > 0 and math.min(left, 1000) or redis.call('PTTL', KEYS[1])
end

-- leave ends id, and returns whether it was in and whether the lock is open since. A reader whose key is gone keeps no other
-- entry out.
local function leave(id, _, _)
  redis.call('DEL', pulse(id))
  if redis.call('HDEL', KEYS[1], id) == 0 then
    return false, false
  end
  if mode() == 'write' or redis.call('HLEN', KEYS[1]) > 1 and any_reader() then
    return true, false
  end
  redis.call('DEL', KEYS[1])
  return true, true
end
local function recounted(id, _, lease)
  if not holds(id) then
    return 0
  end
  lengthen(lease, id)
  return 1
end
local function prolong(id, _, lease)
  local ok, answer = pcall(recounted, id, '0', lease)
  return ok and answer or type(answer) == 'string' and string.find(answer, 'WRONGTYPE') and 0 or -1
end
