-- lease: how long a key is kept.
--
-- Returns nothing: it only defines functions.

-- keep lengthens what is left of a key. A lease is only ever lengthened: a late or a shorter command must not cut what
-- a holder relies on.
local function keep(key, ms)
  if redis.call('PTTL', key) < tonumber(ms) then
    redis.call('PEXPIRE', key, ms)
  end
end
