-- permits_told: which holders of a semaphore's permits are told that others want some: hooks of the kind semaphore.
--
-- needs: counter permits permits_members
-- KEYS[1]  free permits     name
-- KEYS[2]  queue of waiters relock_permits:{name}
-- Beside it, in relock_permits:{name}:told, stands a note of the first waiter in line, while there are holders that it has not told.
--
-- Returns nothing: it only defines hooks.

-- first_id is the acquisition id of the first waiter, nothing where none waits.
local function first_id()
  local head = redis.call('ZRANGEBYSCORE', KEYS[2], 0, '+inf', 'LIMIT', 0, 1)[1]
  return head and string.match(head, '^%d+:%d+:([^:]+:%d+)')
end

-- unseen is how many permits are held beyond those at which the first waiter in line has looked.
local unseen
local function untold()
  return unseen
end

-- looked_at is at how many permits that waiter has looked, in the order in which their leases end. A note keeps its place: the end
-- of the last lease, and how many permits end then. A lease's end only moves back, so the waiter passes over none of those that held
-- when it began, unless others come to end in that very millisecond. Without the note, which may be refused, it begins anew.
local function looked_at(note, key, id)
  local noted = redis.pcall('GET', note)
  local by, ends, passed, alike = string.match(type(noted) == 'string' and noted or '', '^(%S+) (%S+) (%d+) (%d+)$')
  if by ~= id then
    return 0
  end
  local gone = math.max(0, alike - redis.call('ZCOUNT', key, ends, ends))
  return redis.call('ZCOUNT', key, '-inf', '(' .. ends) + math.max(0, passed - gone)
end
local function note_place(note, key, id, at, last)
  local ends = redis.call('ZSCORE', key, last)
  local passed, alike = at - redis.call('ZCOUNT', key, '-inf', '(' .. ends), redis.call('ZCOUNT', key, ends, ends)
  redis.pcall('SET', note, table.concat({ id, ends, passed, alike }, ' '), 'PX', 10000)
end

-- holders are relock's entries that hold. With most they are some of them, for an entry that wants permits: none, unless it is
-- the first in line. They were told for the first. Holders that came in since were told that others wait. Where there are more,
-- each question of the first goes on behind the one before, and that of an entry which does not wait begins anywhere. It reads
-- eight times at most: an entry may have 128 members, of which the first stands for it.
local function holders(most, id)
  local first = most and first_id()
  if first and first ~= id then
    return {}
  end
  free_permits()
  local key, note, entries, last = held_key(), KEYS[2] .. ':told', {}, nil
  local held, at = redis.call('ZCARD', key), 0
  local many = most and held > most
  if many then
    at = first and looked_at(note, key, id) or clock() % (held - most + 1)
  end
  for _ = 1, 8 do
    local members = redis.call('ZRANGE', key, at, at + (most or held) - #entries - 1)
    at, last = at + #members, members[#members] or last
    for _, member in ipairs(members) do
      if string.sub(member, -2) == ':1' then
        entries[#entries + 1] = entry_of(member)
      end
    end
    if at >= held or #entries == most then
      break
    end
  end
  unseen = many and first and at < held and held - at or nil
  if unseen then
    note_place(note, key, id, at, last)
  elseif many and first then
    redis.pcall('DEL', note)
  end
  return entries
end
