-- news: tell the clients of a lock's holders.
--
-- KEYS[1]  lock hash        name
--
-- Returns nothing: it only defines functions.

-- want makes an answer to an entry that is not granted the lock tell its holder's client that the lock is wanted, and how
-- many heard. A client hears nothing of its own entries: only that one of them shares an owner, for which its idle hold is
-- in the way.
local function want(answer, inbox, publish, id, owner)
  local client = answer[1] == 0 and inbox ~= '' and string.match(answer[5], '^([^:]+):%d+$')
  if client and (owner ~= '' or client ~= string.match(id, '^[^:]+')) then
    local heard = redis.pcall(publish, inbox .. client, '0 2 ' .. answer[5] .. ' 0 ' .. KEYS[1])
    answer[#answer + 1] = type(heard) == 'number' and heard or 0 -- what cannot be told is no failure of who asks
  end
  return answer
end

-- tell sends the clients of a lock's holders news that is no grant: 0 deposed, 1 look again; 2, wanted, is want's.
local function tell(holders, inbox, publish, news)
  for _, field in ipairs(holders) do
    local client = string.match(field, '^([^:]+):%d+$')
    if client then
      redis.call(publish, inbox .. client, '0 ' .. news .. ' ' .. field .. ' 0 ' .. KEYS[1])
    end
  end
end
