-- mutex: RedissonLock's exclusive lock, as a kind of lock: the hooks by which all scripts handle it.
--
-- needs: hash held
-- KEYS[1]  lock hash        name
-- KEYS[2]  queue of waiters relock_queue:{name}
-- KEYS[4]  unlock channel   redisson_lock__channel:{name}
--
-- Returns nothing: it only defines the hooks.
-- Wire: RedissonLock, RedissonFencedLock; ids are never reused, so HSET 1 stands for HINCRBY.

-- batch is how many waiters one hand-over may grant. If it is more than one, the script asks open before each, and calls
-- batched behind them all. untold would say how many holders were not told that the lock is wanted, and beside that a turn of
-- Redisson's waiters leaves the rest of the lock to relock's. resized would set how much there is of the lock. The others would keep
-- an order among waiters that no message can grant it.
local batch = 1
local batched, untold, kept_out, keep_place, leave_place, beside, resized

-- named is what follows the lease in the message of a grant to line: a colon and the kind's name, so that a grant which comes
-- too late is given back as one of its kind. The mutex's has none, as older clients know it.
local function named(_)
  return ''
end

-- own_line is the queue in which the caller waits, next_line the one that is served next.
local function own_line()
  return KEYS[2]
end
local next_line = own_line

-- idle reports whether the entry may take the lock and is not in it, and no entry waits.
local function idle(_, _, _, _, _, _)
  return redis.call('EXISTS', KEYS[1], KEYS[2]) == 0
end

-- open reports whether the entry, which is or would be in line, may take the lock now. It is not in yet.
local function open(_, _, _, _, _, _, _)
  return redis.call('EXISTS', KEYS[1]) == 0
end

-- share lets id into the hold of its shared owner, and reports whether there is one.
local function share(id, owner)
  if owner == '' or redis.call('HEXISTS', KEYS[1], owner) == 0 then
    return false
  end
  redis.call('HSET', KEYS[1], id, 1)
  redis.call('HINCRBY', KEYS[1], owner, 1)
  return true
end

-- put writes the entry, which waited in line, as the holder with its tokens. The owner's field stands first, where older
-- clients look.
local function put(lease, _, id, owner, _, first, count)
  if owner ~= '' then
    redis.call('HSET', KEYS[1], owner, 1)
  end
  redis.call('HSET', KEYS[1], id, 1, 'relock:first', first .. ':' .. count .. (owner ~= '' and ':' .. owner or ''))
  local kept = redis.pcall('PEXPIRE', KEYS[1], lease)
  if type(kept) == 'table' then
    redis.call('DEL', KEYS[1]) -- a lock that nothing ends would outlive its holder
    error(kept.err, 0)
  end
end

-- succeed puts id in the place of from, which is in and has no shared owner. The lease comes first, and some field is always
-- there: so a lock keeps an end, whichever command is refused, and a full Redis takes what follows. At last id stands first,
-- where older clients look. succeeded reports whether the hold in force came in the place of from.
local function succeed(id, from, lease, first, count)
  redis.call('PEXPIRE', KEYS[1], lease)
  redis.call('HSET', KEYS[1], id, 1)
  redis.call('HDEL', KEYS[1], from, 'relock:first')
  redis.call('HSET', KEYS[1], 'relock:first', first .. ':' .. count, 'relock:from', from)
end
local function succeeded(from)
  return redis.call('HGET', KEYS[1], 'relock:from') == from
end

-- leave ends id, and returns whether it was in and whether the lock is open since. It writes before it asks: so a full
-- Redis still lets go. known says that id is in.
local function leave(id, owner, known)
  local gone = known and owner == '' or redis.call('HDEL', KEYS[1], id) == 1
  if not (gone or known) then
    return false, false
  end
  local open_now = owner == '' or redis.call('HINCRBY', KEYS[1], owner, -1) <= 0
  if open_now then
    clear()
  end
  return true, open_now
end

-- announce tells all that listen that the lock may be open, and returns how many they are.
local function announce(publish)
  return redis.call(publish, KEYS[4], '0')
end
