-- mutex_acquire: what acquire does for an idle mutex without a shared owner, in one go: most acquires need no function.
--
-- needs: retention kept token
-- KEYS[1]  lock hash        name
-- KEYS[2]  queue of waiters relock_queue:{name}
-- KEYS[3]  fencing counter  redisson_lock_token:{name}
-- ARGV[1]  lease, milliseconds
-- ARGV[2]  block
-- ARGV[3]  acquisition id   <client uuid>:<n>
-- ARGV[4]  shared owner, '' or left out for none
-- ARGV[5]  ticket: '', '-' or left out where none is known
--
-- Returns acquire's answer, or goes on with acquire: idle, reserve and put say the same for all cases.
local said = {} -- of many entries those before it had the same, mostly: to write numbers takes long
-- each:
if (ARGV[4] or '') == '' and #(ARGV[5] or '') < 2 and redis.call('EXISTS', KEYS[1], KEYS[2]) == 0 then
  local had = redis.call('GET', KEYS[3])
  local count, still = tonumber(ARGV[2]), had and 'XX' or 'NX' -- what was asked for together may be no string
  if not said.now then
    local time = redis.call('TIME')
    said.now = time[1] * 1000000 + time[2]
  end
  local now = said.now
  local first = not had and now or not string.find(had, '%D') and math.max((tonumber(had) or 2 ^ 53) + 1, now)
  if first and first + count - 1 > now + LEAD then
    count = math.min(count, CUT)
  end
  if first and first + count - 1 < 2 ^ 53 then
    local last = first + count - 1
    if said.last ~= last or said.count ~= count then
      local number = string.format('%.0f', first)
      said.last, said.count, said.tokens, said.answer = last, count, number .. ':' .. count, { 1, number, count }
      said.counter = string.format('%.0f', last)
    end
    local span = math.floor(last / SPAN)
    local stands, put = had and math.floor(had / SPAN) == span
    if retention == 0 or had and not stands and redis.call('PTTL', KEYS[3]) == -1 then
      put = redis.call('SET', KEYS[3], said.counter, still)
    elseif stands then
      put = redis.call('SET', KEYS[3], said.counter, 'KEEPTTL')
    else
      if said.span ~= span then
        said.span, said.kept = span, string.format('%.0f', (span + 1) * SPAN / 1000 + retention)
      end
      put = redis.call('SET', KEYS[3], said.counter, 'PXAT', said.kept, still)
    end
    if put then
      redis.call('HSET', KEYS[1], ARGV[3], '1', 'relock:first', said.tokens)
      local kept = redis.pcall('PEXPIRE', KEYS[1], ARGV[1])
      if type(kept) == 'table' then
        redis.call('DEL', KEYS[1]) -- a lock that nothing ends would outlive its holder
        error(kept.err, 0)
      end
      return said.answer
    end
  end
end
