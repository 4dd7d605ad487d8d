-- rw: the hash that RedissonReadWriteLock keeps, which any number of readers hold, or one writer: hooks of both kinds.
--
-- needs: lease rw_alive
-- KEYS[1]  lock hash        name; mode, which is read or write; for a reader <client uuid>:<n> with 1, and for a writer
--          <client uuid>:<n>:write with <hold count>:<first token>:<how many>. Redisson counts from a number in it down to 1:
--          so a token must not look like one. It takes any other field for a holder.
-- KEYS[4]  unlock channel   redisson_rwlock:{name}
--
-- Returns nothing: it only defines hooks.
-- Wire: RedissonReadLock, RedissonWriteLock.

-- mode is read or write, or nothing where the lock is free. A hash without it is a lock of another kind.
local function mode()
  local is = redis.call('HGET', KEYS[1], 'mode')
  if is and is ~= 'read' and is ~= 'write' or not is and redis.call('EXISTS', KEYS[1]) == 1 then
    error('relock: WRONGKIND what is held by that name is no read-write lock', 0)
  end
  return is or nil
end

-- holders are all that hold, or with most some of them where there are more: of a writer the field without :write, as its
-- client knows it.
local function holders(most)
  local some = {}
  for _, field in ipairs(most and fields(most) or redis.call('HKEYS', KEYS[1])) do
    if field ~= 'mode' then
      some[#some + 1] = string.gsub(field, ':write$', '')
    end
  end
  return some
end
local function holder()
  return holders(1)[1] or ''
end

-- succeed and succeeded would let another id have the lock; a hold of a read-write lock stays with its client.
local succeed, succeeded

-- beside would say that a turn of Redisson's waiters leaves the rest of the lock to relock's: it takes all.
local beside

-- resized would set how much there is of the lock.
local resized

-- wipe ends all that hold, and reports whether there were any.
local function wipe()
  for _, field in ipairs(redis.call('HKEYS', KEYS[1])) do
    redis.call('DEL', pulse(field))
  end
  return redis.call('DEL', KEYS[1]) == 1
end

-- enter makes id a reader beside the others. The key by which it lives is written first: if the user has no right to that
-- key, nothing has been written.
local function enter(lease, id)
  redis.call('SET', pulse(id), 1, 'PX', lease)
  redis.call('HSETNX', KEYS[1], 'mode', 'read')
  redis.call('HSET', KEYS[1], id, 1)
  keep(KEYS[1], lease)
end

-- announce tells all that listen that the lock may be open, and returns how many they are. A 1 wakes all threads of Redisson's
-- that sleep by then. A 0 wakes one of those that are about to sleep.
local function announce(publish)
  redis.call(publish, KEYS[4], '1')
  return redis.call(publish, KEYS[4], '0')
end
