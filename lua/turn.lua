-- turn: leave the free lock to Redisson's waiters, which cannot be handed it.
--
-- needs: counter lease
-- KEYS[2]  queue of waiters relock_queue:{name}; its member `turn` has minus the end of the turn, server microseconds
-- KEYS[4]  unlock channel   redisson_lock__channel:{name}
-- KEYS[5]  channel of turns relock_listen:{name}, which every relock client subscribes with KEYS[4]
--
-- Returns nothing: it only defines functions. A turn is named by its end.

local TURN = 10 -- milliseconds, as turnTime in turns.go

-- foreigners reports whether a client listens for the unlock that is not relock's.
local function foreigners(publish)
  local subs = redis.call('PUBSUB', publish == 'SPUBLISH' and 'SHARDNUMSUB' or 'NUMSUB', KEYS[4], KEYS[5])
  return tonumber(subs[2]) > tonumber(subs[4])
end

-- open_turn keeps relock off the free lock, and returns for how many milliseconds: nothing where the queue may not expire, which
-- would then stay for ever.
local function open_turn(publish)
  local ends = decimal(clock() + TURN * 1000)
  redis.pcall('ZADD', KEYS[2], '-' .. ends, 'turn') -- a full Redis gives no turn, and still lets go
  if not pcall(keep, KEYS[2], TURN) then
    redis.pcall('ZREM', KEYS[2], 'turn')
    return nil
  end
  redis.call(publish, KEYS[5], ends)
  return TURN
end

-- turn_left is how many milliseconds the turn has left, nothing when there is none. over is a turn that was used.
local function turn_left(over)
  local score = redis.call('ZSCORE', KEYS[2], 'turn')
  if not score then
    return nil
  end
  local left = math.ceil((-score - clock()) / 1000)
  if left > 0 and left <= TURN and decimal(-score) ~= over then
    return left
  end
  redis.call('ZREM', KEYS[2], 'turn')
end
