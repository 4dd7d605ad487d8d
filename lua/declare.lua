-- declare: take this Redis for new, if it still is the process that was found to be: no lock was forgotten here.
--
-- needs: guard
-- ARGV[1]  run id that the process told when no marker was found
-- ARGV[2]  longest lease that any client may rely on, in ms
--
-- Returns 1, or 0 when there is a marker by now or it is another process: then the guard decides.
if redis.call('EXISTS', 'relock_incarnation') == 1 or run_id() ~= ARGV[1] then
  return 0
end
redis.call('HSET', 'relock_incarnation', 'run', ARGV[1], 'born', '0', 'longest', ARGV[2])
return 1
