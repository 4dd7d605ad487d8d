-- rw_grant: coming in to a read-write lock and staying in: hooks of the kinds read and write.
--
-- needs: lease turn rw rw_alive rw_line
-- KEYS[1]  lock hash          name
-- KEYS[2]  queue of writers   relock_writers:{name}
-- KEYS[6]  queue of readers   relock_readers:{name}:name
-- KEYS[7]  phase              relock_phase:{name}:name
--
-- Returns nothing: it only defines hooks.

-- put writes the entry, which waited in line, as a reader or as the writer with its tokens.
local function put(lease, _, id, _, line, first_token, count)
  local field, ok, why = id .. ':write'
  if line == KEYS[6] then
    field = id
    ok, why = pcall(enter, lease, id)
  else
    redis.call('HSET', KEYS[1], 'mode', 'write', field, '1:' .. first_token .. ':' .. count)
    ok, why = pcall(keep, KEYS[1], lease)
  end
  if not ok then
    redis.pcall('HDEL', KEYS[1], field)
    if redis.pcall('HLEN', KEYS[1]) == 1 then
      redis.pcall('DEL', KEYS[1]) -- a lock that nothing ends would outlive its holder
    end
    redis.pcall('DEL', pulse(id))
    error(type(why) == 'table' and why.err or why, 0)
  end
end

-- clear ends all that hold, and reports whether there were any.
local function clear()
  if mode() == 'write' then
    let_readers()
  end
  return wipe()
end

-- batched runs behind a hand-over, after which the batch had room for so many more. Without room, more waiters may come in:
-- so all are told. When readers came in, Redisson's may too: so they are told, where any listen.
local function batched(publish, room)
  if room == 0 or room < batch and mode() == 'read' and foreigners(publish) then
    announce(publish)
  end
end

-- contents is all that is kept of the holders that live, and how many readers wait. Of readers that crashed it tells nothing,
-- and it leaves them: to inspect a lock takes no right to write.
local function contents()
  local all, live = redis.call('HGETALL', KEYS[1]), {}
  for i = 1, #all, 2 do
    if all[i] == 'mode' or string.find(all[i], ':write$') or reader_left(all[i], all[i + 1]) > 0 then
      live[#live + 1], live[#live + 2] = all[i], all[i + 1]
    end
  end
  live[#live + 1], live[#live + 2] = 'waiting', redis.call('ZCOUNT', KEYS[6], 0, '+inf')
  return live
end

-- rights_of_holders are the commands on the kind's keys without which a lock must not be held.
local function rights_of_holders()
  local key, alive = KEYS[1], pulse('')
  return {
    { 'HGET', key, '' }, { 'HSET', key, '', '1' }, { 'HSETNX', key, '', '1' }, { 'HDEL', key, '' }, { 'HKEYS', key },
    { 'HGETALL', key }, { 'HLEN', key }, { 'HRANDFIELD', key }, { 'HEXISTS', key, '' }, { 'PEXPIRE', key, '1' }, { 'PTTL', key },
    { 'DEL', key }, { 'SET', alive, '1' }, { 'DEL', alive }, { 'PTTL', alive }, { 'GET', KEYS[7] }, { 'SET', KEYS[7], '1' },
    { 'ZADD', KEYS[6], '0', '' }, { 'ZREM', KEYS[6], '' }, { 'ZRANGEBYSCORE', KEYS[6], '0', '0' },
    { 'ZREVRANGE', KEYS[6], '0', '0' }, { 'ZSCORE', KEYS[6], '' },
  }
end
