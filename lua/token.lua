-- token: which fencing tokens a grant has; put behind counter and before what grants, enters or tells of a lock.
--
-- KEYS[1]  lock hash        name; its field relock:first holds <first token>:<how many>[:<shared owner>] of the grant
-- KEYS[3]  fencing counter  redisson_lock_token:{name}
--
-- Returns nothing: it only defines functions.

local LEAD = 500000 -- microseconds that a whole block may run ahead of the clock
local CUT = 32 -- tokens of a block that would run further ahead

-- reserve counts the next tokens, and returns the first and how many they are. The counter being ahead of a clock that was
-- set back refuses no grant: blocks are cut, and in time the clock comes up. A whole one is not cut: an older client, which
-- cannot be told, takes it for granted.
local function reserve(block, whole)
  local first = math.max(counted() + 1, clock())
  if not whole and first + block - 1 > clock() + LEAD then
    block = math.min(block, CUT)
  end
  local last = first + block - 1
  if last >= 2 ^ 53 then
    error('ERR the fencing counter is beyond 2^53', 0)
  end
  store(KEYS[3], decimal(last), last)
  return decimal(first), block
end

-- granted returns first token, how many, and shared owner of the grant in force; nothing where Redisson or an older client
-- gave it.
local function granted()
  return string.match(redis.call('HGET', KEYS[1], 'relock:first') or '', '^(%d+):(%d+):?(.*)$')
end

-- standing returns the tokens of the grant in force to one who has a part in it. An older client's are the last that were
-- counted. Where they are forgotten too, new ones are as good: they are above all that the same owner was given before.
local function standing(block)
  local first, count = granted()
  if not first then
    first, count = decimal((tonumber(redis.call('GET', KEYS[3]) or 0) or 0) - block + 1), block
    if tonumber(first) < 1 then
      first, count = reserve(block)
      redis.call('HSET', KEYS[1], 'relock:first', first .. ':' .. count)
    end
  end
  return first, count
end

-- holder is the owner field of the lock, '' when there is none. The sharers of an owner, who may be thousands, are not read.
local function holder()
  local _, _, owner = granted()
  local fields = owner and owner ~= '' and { owner } or redis.call('HKEYS', KEYS[1])
  for _, field in ipairs(fields) do
    if string.sub(field, 1, 7) ~= 'relock:' then
      return field
    end
  end
  return ''
end
