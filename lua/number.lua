-- number: under which number an entry has a lock on a node of a quorum, and how long the node's seed lasts.
--
-- needs: retention kept guard kind token
-- KEYS[1]  lock hash        name; what is noted there as again:<acquisition id> is the number of a sharer
-- KEYS[5]  incarnation that the counter was seeded in   relock_seed:{name}
--
-- Returns nothing: it only defines functions.

-- seed_lasts keeps the seed for as long as the counter, which counted so far.
local function seed_lasts(number)
  if retention > 0 and born and born ~= '0' then
    redis.call('SET', KEYS[5], born, 'PXAT', deadline(tonumber(number)))
  end
end

-- number_of is the grant number of id, which is in. It is first, that of the grant. But a sharer that gave the lock back and
-- is in again has a number of its own. A late copy of the command that gave it back names the old number, and does nothing.
local function number_of(id, owner, first)
  return owner ~= '' and noted('again:' .. id) or first
end

-- record_again gives id, which is in again, a number of its own.
local function record_again(id)
  local number = reserve(1)
  note('again:' .. id, number)
  seed_lasts(number)
end

-- forget_number ends what is noted of a sharer that left others in.
local function forget_number(id)
  unnote('again:' .. id)
end
