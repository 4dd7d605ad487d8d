-- turn: leave the free lock to Redisson's waiters, who cannot be handed it; put before acquire and release.
--
-- KEYS[2]  queue of waiters relock_queue:{name}; its member `turn` has minus the end of the turn, server microseconds
-- KEYS[4]  unlock channel   redisson_lock__channel:{name}
-- KEYS[5]  channel of turns relock_listen:{name}, which every relock client subscribes with KEYS[4]
--
-- Returns nothing: it only defines functions. A turn is named by its end.

local TURN = 10 -- milliseconds, as turnTime in turns.go

-- foreigners reports whether somebody listens for the unlock who is no relock client.
local function foreigners(publish)
  local subs = redis.call('PUBSUB', publish == 'SPUBLISH' and 'SHARDNUMSUB' or 'NUMSUB', KEYS[4], KEYS[5])
  return tonumber(subs[2]) > tonumber(subs[4])
end

-- open_turn keeps relock off the free lock, and returns for how many milliseconds.
local function open_turn(publish)
  local now = redis.call('TIME')
  local ends = string.format('%.0f', now[1] * 1000000 + now[2] + TURN * 1000)
  redis.pcall('ZADD', KEYS[2], '-' .. ends, 'turn') -- a full Redis gives no turn, and still lets go
  keep(KEYS[2], TURN)
  redis.call(publish, KEYS[5], ends)
  return TURN
end

-- turn_left is how many milliseconds the turn has left, nothing when there is none. over is a turn that was used.
local function turn_left(over)
  local score = redis.call('ZSCORE', KEYS[2], 'turn')
  if not score then
    return nil
  end
  local now = redis.call('TIME')
  local left = math.ceil((-score - now[1] * 1000000 - now[2]) / 1000)
  if left > 0 and left <= TURN and string.format('%.0f', -score) ~= over then
    return left
  end
  redis.call('ZREM', KEYS[2], 'turn')
end
