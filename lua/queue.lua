-- queue: wait for a lock that is not free.
--
-- needs: counter lease kind
--
-- Returns nothing: it only defines functions.

-- member_of is what stands in the queue for a waiter: all that a hand-over to it needs to know. A member that ends in a
-- colon, or in an owner whose block is one, says that its client can be granted fewer tokens than the block.
local function member_of(lease, block, id, owner)
  return lease .. ':' .. block .. ':' .. id .. ':' .. owner
end

-- join puts member into the queue of its kind, and returns its ticket. One that is there already keeps its place. Else it
-- stands where the ticket says, or without a ticket behind all others. Waiters ask again well within their leases: so a
-- queue that was not asked for during four of them has no waiter left, and ends by itself.
local function join(member, ticket, lease)
  local line = own_line()
  local score = redis.call('ZSCORE', line, member)
  if not score then
    score = tonumber(ticket)
    if not score then
      local last = last_ticket(line)
      score = math.max(clock(), (tonumber(last) or 0) + 1)
    end
    redis.call('ZADD', line, string.format('%.0f', score), member)
  end
  keep(line, 4 * lease)
  return string.format('%.0f', score)
end

-- give_up takes member out of its queue.
local function give_up(member)
  redis.call('ZREM', own_line(), member)
end

-- waiting is the reply to an entry that does not hold the lock: {0, counter, ticket, holder's PTTL, holder}. left stands in
-- for the PTTL of a free lock that is left to Redisson's waiters: for how long.
local function waiting(ticket, left)
  return { 0, decimal(counted()), ticket, left or time_left(), holder() }
end

-- waiting_behind is that reply behind an end that is done, and must be told: nothing if it fails. Then the entry asks by itself.
local function waiting_behind(ticket, left)
  local ok, answer = pcall(waiting, ticket, left)
  return ok and answer or {}
end
