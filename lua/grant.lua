-- grant: give the free lock to an entry.
--
-- needs: token kind listens
--
-- Returns nothing: it only defines functions.

-- take gives the open lock to an entry, and returns its first fencing token and how many there are. line is the queue in
-- which it waited; without it the entry did not wait. The counter is written first: if that is no number, this must fail
-- before anything is held.
local function take(lease, block, id, owner, line, whole)
  local first, count = reserve(tonumber(block), whole)
  put(lease, block, id, owner, line or own_line(), first, count)
  return first, count
end

-- pop takes the next waiter out of line, and returns its member and its ticket. An exclusive lock that is handed over is
-- free, so that nothing is asked before. Where several may hold, the first waiter stays in line until the lock is open to
-- it, and all behind it stay too. Its client must still listen, unless it is me: a waiter that died would keep out those that
-- want less. So would one that wants more than there is: it is told so when it asks again. What has a score below 0 is no
-- waiter.
local function pop(line, inbox, publish, me)
  if batch == 1 then
    return unpack(redis.call('ZPOPMIN', line))
  end
  while true do
    local head = redis.call('ZRANGEBYSCORE', line, 0, '+inf', 'WITHSCORES', 'LIMIT', 0, 1)
    local lease, block, id, owner = string.match(head[1] or '', '^(%d+):(%d+):([^:]+:%d+):?(.*)$')
    local may, never = true, false
    if lease then
      may, never = open(lease, block, id, owner, line, inbox, publish)
    end
    local gone = may or never or head[1] ~= me and not listens(string.match(id, '^[^:]+'), inbox, publish)
    if not (head[1] and gone) then
      return nil
    end
    redis.call('ZREM', line, head[1])
    if may then
      return head[1], head[2]
    end
  end
end
