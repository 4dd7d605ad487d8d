-- rw_line: which waiter of a read-write lock comes next: hooks of the kinds read and write. Phase-fair: docs/design.md has the order.
--
-- needs: counter rw rw_alive turn listens
-- KEYS[1]  lock hash          name
-- KEYS[2]  queue of writers   relock_writers:{name}
-- KEYS[6]  queue of readers   relock_readers:{name}:name
-- KEYS[7]  phase              relock_phase:{name}:name; the highest ticket of the readers that come before the next writer
--
-- Returns nothing: it only defines hooks.
local batch = 32

-- named follows the lease in the message of a grant from that line: the kind of lock.
local function named(line)
  return line == KEYS[6] and ':read' or ':write'
end

-- first_alive is the first waiter in line whose client still listens, and its ticket. It takes those before it out of the
-- line. own is the client that asks: it lives, though its inbox may not be subscribed yet.
local function first_alive(line, inbox, publish, own)
  while true do
    local head = redis.call('ZRANGEBYSCORE', line, 0, '+inf', 'WITHSCORES', 'LIMIT', 0, 1)
    local client = string.match(head[1] or '', '^%d+:%d+:([^:]+):')
    if not head[1] or client and (client == own or listens(client, inbox, publish)) then
      return head[1], tonumber(head[2])
    end
    redis.call('ZREM', line, head[1])
  end
end

-- phase is the highest ticket of the readers that come before the next writer.
local function phase()
  return tonumber(redis.call('GET', KEYS[7]) or 0) or 0
end

-- last_ticket is the highest of both lines and the phase: a clock that is set back must not put a new reader before a writer.
local function last_ticket(_)
  local last = phase()
  for _, line in ipairs({ KEYS[2], KEYS[6] }) do
    last = math.max(last, tonumber(redis.call('ZREVRANGE', line, 0, 0, 'WITHSCORES')[2]) or 0)
  end
  return last
end

-- let_readers begins a phase: the readers that wait now come before the next writer. Only what ends a write may call it. Where a
-- full Redis refuses that, age decides.
local function let_readers()
  local last = redis.pcall('ZREVRANGE', KEYS[6], 0, 0, 'WITHSCORES')[2]
  if last then
    redis.pcall('SET', KEYS[7], decimal(math.max(clock(), last)), 'PX', math.max(1, redis.call('PTTL', KEYS[6])))
  end
end

-- ticket_of is the ticket of the first waiter in line, nothing where none waits.
local function ticket_of(line)
  return tonumber(redis.call('ZRANGEBYSCORE', line, 0, '+inf', 'WITHSCORES', 'LIMIT', 0, 1)[2])
end

-- next_line is the line to serve next. It is the readers' where their first is older than the first writer or of the phase,
-- and while readers hold the lock, if any reader waits. Else it is the writers'.
local function next_line()
  local reader, writer = ticket_of(KEYS[6]), ticket_of(KEYS[2])
  return reader and (not writer or reader < writer or reader <= phase() or mode() == 'read') and KEYS[6] or KEYS[2]
end

-- crowded reports whether others wait that a holder from that line keeps out.
local function crowded(line)
  return ticket_of(KEYS[2]) or line == KEYS[2] and ticket_of(KEYS[6])
end

-- shut reports whether Redisson's waiters keep new readers out of a lock that is read: for a second after the first reader in
-- line came. Without it, overlapping readers would keep Redisson's writers out. Without an end, Redisson's would keep ours out.
local function shut(publish)
  if foreigners(publish) then
    return clock() - (ticket_of(KEYS[6]) or clock()) < 1000000
  end
end

-- open reports whether the entry, which is or would be in line and is not in yet, may come in now. Before a writer comes in, it ends
-- what is left of readers that have all died. One that names an owner comes in by share only: a downgrade must not come after its
-- writer. A reader comes in beside readers if it is of the phase, or if no writer waits. Without an inbox kept_out has said so
-- already.
local function open(lease, block, id, owner, line, inbox, publish)
  local is = mode()
  if owner ~= '' then
    return false
  end
  if line == KEYS[2] or not is then
    return not is or is == 'read' and not any_reader() and wipe()
  elseif is == 'write' then
    return false
  end
  local ticket = redis.call('ZSCORE', line, table.concat({ lease, block, id, owner }, ':'))
  return ticket and tonumber(ticket) <= phase()
    or inbox == '' or not first_alive(KEYS[2], inbox, publish, string.match(id, '^[^:]+')) and not shut(publish)
end
