-- grant: give the free lock to an entry.
--
-- needs: token kind
--
-- Returns nothing: it only defines functions.

-- take writes the open lock for an acquisition that waited in line, its kind's own where it did not wait. It returns the
-- first fencing token and how many there are. The counter goes first: one that is no number must fail before anything is
-- held.
local function take(lease, block, id, owner, line, whole)
  local first, count = reserve(tonumber(block), whole)
  put(lease, block, id, owner, line or own_line(), first, count)
  return first, count
end

-- pop takes the next waiter out of line. An exclusive lock that is handed over is free, so nothing is asked before. Else the
-- head stays, and all behind it, until the lock is open to it. What stands below 0 is no waiter.
local function pop(line, inbox, publish)
  if batch == 1 then
    return unpack(redis.call('ZPOPMIN', line))
  end
  local head = redis.call('ZRANGEBYSCORE', line, 0, '+inf', 'WITHSCORES', 'LIMIT', 0, 1)
  local lease, block, id, owner = string.match(head[1] or '', '^(%d+):(%d+):([^:]+:%d+):?(.*)$')
  if not head[1] or lease and not open(lease, block, id, owner, line, inbox, publish) then
    return nil
  end
  redis.call('ZREM', line, head[1])
  return head[1], head[2]
end
