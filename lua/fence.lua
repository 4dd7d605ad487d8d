-- fence: raise the fencing counter of one node of a quorum to what the quorum reached, or ask how far it is.
--
-- needs: retention guard counter kept kind
-- KEYS[1]  lock hash        name
-- KEYS[3]  fencing counter  redisson_lock_token:{name}
-- KEYS[5]  seed             relock_seed:{name}
-- ARGV[1]  'hold' while the acquisition ARGV[2] holds here, 'seed' while ARGV[2] is this Redis's incarnation
-- ARGV[2]  acquisition id, or incarnation
-- ARGV[3]  counter, '0' to ask for it
--
-- Returns 1, or the counter that was asked for, or 0 when that is not so any more: then the counter stays.
if quarantined() then
  return refused()
end
if ARGV[1] == 'seed' then
  if born ~= ARGV[2] then
    return 0
  end
  if retention == 0 then
    redis.call('SET', KEYS[5], born)
  else
    redis.call('SET', KEYS[5], born, 'PXAT', deadline(tonumber(ARGV[3])))
  end
elseif not holds(ARGV[2]) then
  return 0
end
if ARGV[3] == '0' then
  return counted()
end
raise(ARGV[3])
return 1
