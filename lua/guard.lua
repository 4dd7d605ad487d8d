-- guard: notice that this Redis may have forgotten locks.
--
-- needs: longest retention counter
-- Longest is the longest lease that any client may rely on, in ms, 0 for no guard.
-- The hash relock_incarnation holds {run, born, longest} of the process that wrote last. It stands for the whole Redis and
-- is not among the keys: a quorum's masters are no Cluster.
--
-- Returns nothing: it only defines what follows.

-- run_id is this server process's own, 'unknown' where it has none, as an embedded server. If the user may not ask for it,
-- that is an error: it might be any process.
local function run_id()
  local info = redis.pcall('INFO', 'server')
  if type(info) == 'table' and not string.find(info.err, 'not supported', 1, true) then
    error(info.err, 0)
  end
  local at = type(info) == 'string' and string.find(info, 'run_id:', 1, true)
  return at and string.match(info, '%x+', at + 7) or 'unknown'
end

-- incarnation returns for how many ms this process must grant nothing yet, nil when it may, and the time in ms when that was
-- noticed, '0' if it never forgot. A run id that is not the marker's says that the process was restarted, or is a promoted
-- replica; a missing marker says that everything was deleted. Clients may rely on locks of before for `longest`. Once the
-- clock has passed all that was counted before, it no longer matters that it forgot: docs/wire.md has the reason.
local function incarnation()
  if longest == 0 then
    return nil, '0'
  end
  local run = run_id()
  local mark = redis.call('HMGET', 'relock_incarnation', 'run', 'born', 'longest')
  local now = math.floor(clock() / 1000)
  local noticed = mark[1] == run and tonumber(mark[2]) or now
  -- Noticed later than now, it was noticed by a clock that was ahead and is set right since: it counts from here.
  local born = math.min(noticed, now)
  local wait = math.max(longest, tonumber(mark[3] or 0))
  if mark[1] ~= run or tonumber(mark[3]) < wait or born < noticed then
    redis.call('HSET', 'relock_incarnation', 'run', run, 'born', string.format('%.0f', born), 'longest', wait)
  end
  local left = born + wait - now
  local long_ago = retention > 0 and left + retention < 0
  return left > 0 and string.format('%.0f', left) or nil, long_ago and '0' or string.format('%.0f', born)
end

local left, born, known

-- quarantined returns left. To ask costs a third of a script's time, INFO most of it. So it is asked once in a script, and
-- only where something is at stake.
local function quarantined()
  if not known then
    left, born = incarnation()
    known = true
  end
  return left
end

-- refused is the answer of a node that may not speak for a lock.
local function refused()
  return redis.error_reply('QUARANTINED ' .. born .. ' ' .. left)
end
