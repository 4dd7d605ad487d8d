-- news: tell the clients of a lock's holders.
--
-- needs: kind
-- KEYS[1]  lock hash        name
--
-- Returns nothing: it only defines functions.

-- want ends the answer to an entry. If that was not granted the lock, the clients of the holders are told that the lock is
-- wanted, and the answer says how many heard, if any was told. Where only one may hold, a client is not told of its own
-- entries: it knows of them. It is told of one that shares an owner, since the client's own idle hold may be in its way.
-- Where several may hold it is always told: the holds of one client do not know of each other. Of many holders 128 are told,
-- drawn by chance: each question draws others, and Redis is not kept busy by all of them with each. The kind may have none told
-- for an entry that does not come next. Where the kind says how many were not told, the answer does too.
local function want(answer, inbox, publish, id, owner)
  if answer[1] ~= 0 or inbox == '' then
    return answer
  end
  local own, heard = batch == 1 and owner == '' and string.match(id, '^[^:]+')
  local some = batch == 1 and { answer[5] } or holders(128, id)
  for _, field in ipairs(some) do
    local client = string.match(field, '^([^:]+):%d+$')
    if client and client ~= own then
      local hears = redis.pcall(publish, inbox .. client, '0 2 ' .. field .. ' 0 ' .. KEYS[1])
      heard = (heard or 0) + (type(hears) == 'number' and hears or 0) -- if it cannot be told, the entry did not fail
    end
  end
  local more = untold and untold(id, #some, inbox, publish)
  answer[#answer + 1] = heard or more and 0
  answer[#answer + 1] = more
  return answer
end

-- tell sends the clients of a lock's holders news that is no grant: 0 that they hold it no more, 1 to look again. 2, that it
-- is wanted, is want's.
local function tell(fields, inbox, publish, news)
  for _, field in ipairs(fields) do
    local client = string.match(field, '^([^:]+):%d+$')
    if client then
      redis.call(publish, inbox .. client, '0 ' .. news .. ' ' .. field .. ' 0 ' .. KEYS[1])
    end
  end
end
