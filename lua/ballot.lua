-- ballot: what a node of a quorum keeps beside the lock.
--
-- needs: counter guard kind number
-- KEYS[1]  lock hash        name; what is noted there as vote is <grant number>:<ticket> of the owner
-- KEYS[2]  queue of waiters relock_queue:{name}
-- KEYS[3]  fencing counter  redisson_lock_token:{name}
-- KEYS[5]  incarnation that the counter was seeded in   relock_seed:{name}
--
-- Returns nothing: it only defines functions. The grant number of an ownership is its first fencing token.

-- record_grant notes under which number, and by which ticket, the lock was granted.
local function record_grant(first, ticket)
  note('vote', first .. ':' .. decimal(tonumber(ticket)))
  seed_lasts(first)
end

-- barred reports whether this Redis may not grant the lock: it may have forgotten locks, or it forgot and has not yet been told
-- again how far the others counted.
local function barred()
  return quarantined() or born ~= '0' and redis.call('GET', KEYS[5]) ~= born
end

-- why_barred is the answer to a voter then: QUARANTINED <born> <ms left> or UNSEEDED <born> <counter>.
local function why_barred()
  return left and refused() or redis.error_reply('UNSEEDED ' .. born .. ' ' .. (redis.call('GET', KEYS[3]) or 0))
end

-- ballot is the answer to a voter: {1, grant number} or {0, counter}, then the lowest ticket of owner and queue, the
-- owner's PTTL, the owner, the server's time in microseconds, and how many tokens the grant has, 0 for a whole block.
local function ballot(id)
  local first, ticket = string.match(noted('vote') or '', '^(%d+):(%d+)$')
  local low = redis.call('ZRANGE', next_line(), 0, 0, 'WITHSCORES')[2]
  low = math.min(tonumber(low or ticket or 0), tonumber(ticket or low or 0))
  local mine = first and holds(id)
  local _, count, owner = granted()
  return {
    mine and 1 or 0, mine and number_of(id, owner or '', first) or decimal(counted()), decimal(low),
    time_left(), holder(), decimal(clock()), count or 0,
  }
end
