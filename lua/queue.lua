-- queue: wait for a lock that is not free.
--
-- needs: counter lease kind
--
-- Returns nothing: it only defines functions.

-- member_of is a waiter's entry in the queue: all that a hand-over to it needs to know. What ends in a colon, or in
-- an owner whose block is one, says that its client can be told of fewer tokens than the block.
local function member_of(lease, block, id, owner)
  return lease .. ':' .. block .. ':' .. id .. ':' .. owner
end

-- join stands member in the queue of its kind, behind everyone there unless it knows its ticket, and returns the ticket.
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

-- waiting is the reply to an entry that does not hold the lock: {0, counter, ticket, holder's PTTL, holder}. Where no entry holds
-- it, left is how long it is left to others.
local function waiting(ticket, left)
  return { 0, decimal(counted()), ticket, left or time_left(), holder() }
end
