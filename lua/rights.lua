-- rights: refuse a lock whose holder would lack a right later. Redis 7 and newer can tell.
--
-- needs: kind
-- KEYS[1]  lock hash        name
-- KEYS[2]  queue of waiters relock_queue:{name}
-- KEYS[3]  fencing counter  redisson_lock_token:{name}
-- KEYS[4]  unlock channel   redisson_lock__channel:{name}
-- KEYS[5]  further key, which stands here where the script that asks takes it; else release alone does, ARGV[10] that is
-- ARGV[9]  PUBLISH or SPUBLISH when the client asks, which it does seldom; else '' or left out
-- ARGV[10] channel of turns relock_listen:{name}
-- ARGV[11] inbox of the client, '' where grants cannot be sent
--
-- Returns NOPERM and what is missing, else goes on.
local publish, listen, own = ARGV[9], ARGV[10], ARGV[11]
if publish and publish ~= '' and redis.acl_check_cmd then
  local may = redis.acl_check_cmd
  local keyed = rights_of_holders()
  for _, command in ipairs({
    { 'EXISTS', KEYS[1] }, { 'GET', KEYS[3] }, { 'SET', KEYS[3], '0' }, { 'ZADD', KEYS[2], '0', '' }, { 'ZREM', KEYS[2], '' },
    { 'ZPOPMIN', KEYS[2] }, { 'PEXPIRE', KEYS[2], '1' }, { 'EXISTS', KEYS[5] or listen },
  }) do
    keyed[#keyed + 1] = command
  end
  for _, command in ipairs(keyed) do
    local name, key = command[1], command[2]
    if not may(unpack(command)) then
      if may('EXISTS', KEYS[1]) and not may('EXISTS', key) then -- Redis itself has seen to the first key
        return redis.error_reply('NOPERM no permissions to access the key ' .. key)
      end
      return redis.error_reply("NOPERM no permissions to run the '" .. string.lower(name) .. "' command on " .. key)
    end
  end
  if not may('EVAL', '', '0') then -- by which a script comes that Redis does not know yet
    return redis.error_reply("NOPERM no permissions to run the 'eval' command")
  end
  local numsub = publish == 'SPUBLISH' and 'SHARDNUMSUB' or 'NUMSUB'
  if own and own ~= '' and not may('PUBSUB', numsub, own) then
    return redis.error_reply("NOPERM no permissions to run the 'pubsub|" .. string.lower(numsub) .. "' command")
  end
  for _, channel in ipairs({ KEYS[4], listen, own ~= '' and own or nil }) do
    if not may(publish, channel, '0') then
      return redis.error_reply('NOPERM no permissions to ' .. string.lower(publish) .. ' on the channel ' .. channel)
    end
  end
end
