-- mutex_vote: what vote does for an idle mutex without a shared owner, in one go: most votes need no function.
--
-- needs: retention longest kept token
-- KEYS[1]  lock hash        name
-- KEYS[2]  queue of waiters relock_queue:{name}
-- KEYS[3]  fencing counter  redisson_lock_token:{name}
-- KEYS[5]  seed             relock_seed:{name}
-- ARGV[1]  lease, milliseconds
-- ARGV[2]  block
-- ARGV[3]  acquisition id   <client uuid>:<n>
-- ARGV[4]  ticket
-- ARGV[6]  shared owner, '' or left out for none
-- ARGV[7]  grant number to yield, '' or left out for none
-- ARGV[8]  token to begin at or above, '' or left out for none
--
-- Returns {1, first token, the server's time in microseconds, how many tokens}, or goes on with vote: barred, idle, reserve,
-- put and record_grant say the same for all cases. What is to be written to the marker, vote writes.
if (ARGV[6] or '') == '' and (ARGV[7] or '') == '' and redis.call('EXISTS', KEYS[1], KEYS[2]) == 0 then
  local time = redis.call('TIME')
  local now = time[1] * 1000000 + time[2]
  local born = '0'
  if longest > 0 then
    local info = redis.pcall('INFO', 'server')
    local at = type(info) == 'string' and string.find(info, 'run_id:', 1, true)
    local mark = at and redis.call('HMGET', 'relock_incarnation', 'run', 'born', 'longest')
    local wait = mark and tonumber(mark[3]) or 0
    local over = wait >= longest and mark[1] == string.match(info, '%x+', at + 7)
      and math.floor(now / 1000) - (tonumber(mark[2]) or now) - wait
    born = over and over >= 0 and (retention > 0 and over > retention and '0' or mark[2])
  end
  if born == '0' or born and redis.call('GET', KEYS[5]) == born then
    local had, count = redis.call('GET', KEYS[3]), tonumber(ARGV[2])
    local first = not had and now or not string.find(had, '%D') and math.max((tonumber(had) or 2 ^ 53) + 1, now)
    local floor = tonumber(ARGV[8] or '')
    if first and floor and floor <= now + LEAD then
      first = math.max(first, floor)
    end
    if first and first + count - 1 > now + LEAD then
      count = math.min(count, CUT)
    end
    if first and first + count - 1 < 2 ^ 53 then
      local last, number = first + count - 1, string.format('%.0f', first)
      local span = math.floor(last / SPAN)
      local stands = had and math.floor(had / SPAN) == span
      local kept = string.format('%.0f', (span + 1) * SPAN / 1000 + retention)
      if retention == 0 or had and not stands and redis.call('PTTL', KEYS[3]) == -1 then
        redis.call('SET', KEYS[3], string.format('%.0f', last))
      elseif stands then
        redis.call('SET', KEYS[3], string.format('%.0f', last), 'KEEPTTL')
      else
        redis.call('SET', KEYS[3], string.format('%.0f', last), 'PXAT', kept)
      end
      if retention > 0 and born ~= '0' then
        redis.call('SET', KEYS[5], born, 'PXAT', kept)
      end
      redis.call('HSET', KEYS[1], ARGV[3], '1', 'relock:first', number .. ':' .. count,
        'relock:vote', number .. ':' .. ARGV[4])
      local kept = redis.pcall('PEXPIRE', KEYS[1], ARGV[1])
      if type(kept) == 'table' then
        redis.call('DEL', KEYS[1]) -- a lock that nothing ends would outlive its holder
        error(kept.err, 0)
      end
      return { 1, number, now, count }
    end
  end
end
-- below: all other cases
