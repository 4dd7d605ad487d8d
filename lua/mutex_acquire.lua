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
if (ARGV[4] or '') == '' and #(ARGV[5] or '') < 2 and redis.call('EXISTS', KEYS[1], KEYS[2]) == 0 then
  local had, time = redis.call('GET', KEYS[3]), redis.call('TIME')
  local count, now = tonumber(ARGV[2]), time[1] * 1000000 + time[2]
  local first = not had and now or not string.find(had, '%D') and math.max((tonumber(had) or 2 ^ 53) + 1, now)
  if first and first + count - 1 > now + LEAD then
    count = math.min(count, CUT)
  end
  if first and first + count - 1 < 2 ^ 53 then
    local last, number = string.format('%.0f', first + count - 1), string.format('%.0f', first)
    local span = math.floor((first + count - 1) / SPAN)
    local stands, still = had and math.floor(had / SPAN) == span, had and 'XX' or 'NX'
    if retention == 0 or had and not stands and redis.call('PTTL', KEYS[3]) == -1 then
      redis.call('SET', KEYS[3], last, still)
    elseif stands then
      redis.call('SET', KEYS[3], last, 'KEEPTTL')
    else
      redis.call('SET', KEYS[3], last, 'PXAT', string.format('%.0f', (span + 1) * SPAN / 1000 + retention), still)
    end
    redis.call('HSET', KEYS[1], ARGV[3], '1', 'relock:first', number .. ':' .. count)
    local kept = redis.pcall('PEXPIRE', KEYS[1], ARGV[1])
    if type(kept) == 'table' then
      redis.call('DEL', KEYS[1]) -- a lock that nothing ends would outlive its holder
      error(kept.err, 0)
    end
    return { 1, number, count }
  end
end
-- below: all other cases
