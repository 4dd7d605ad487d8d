-- forget: take the result of a run away, and have the run under way leave none: it may have begun with older data.
--
-- needs: hash
-- KEYS[1]  lock hash        name; the note relock:forgotten ends with the hold
-- KEYS[2]  result           relock_once:{name}
--
-- Returns 1. Sent again it also takes what a later run has left. A hold of Redisson's is no run.
redis.call('DEL', KEYS[2]) -- first, so that a full Redis takes what follows
if granted() then
  note('forgotten', '1')
end
return 1
