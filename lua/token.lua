-- token: which fencing tokens a grant has.
--
-- needs: counter kept
-- KEYS[3]  fencing counter  redisson_lock_token:{name}
--
-- Returns nothing: it only defines functions.

local LEAD = 500000 -- microseconds that a whole block may run ahead of the clock, and what is proposed
local CUT = 32 -- tokens of a block that would run further ahead
local least = 0 -- where a voter proposes to begin: nodes whose clocks differ a little grant the same tokens so

-- reserve counts the next tokens, and returns the first and how many they are. The counter being ahead of a clock that was
-- set back refuses no grant: blocks are cut, and in time the clock comes up. A whole one is not cut: an older client, which
-- cannot be told, takes it for granted.
local function reserve(block, whole)
  local before, had = counted()
  local first = math.max(before + 1, clock(), least <= clock() + LEAD and least or 0)
  if not whole and first + block - 1 > clock() + LEAD then
    block = math.min(block, CUT)
  end
  local last = first + block - 1
  if last >= 2 ^ 53 then
    error('ERR the fencing counter is beyond 2^53', 0)
  end
  store(last, had)
  return decimal(first), block
end
