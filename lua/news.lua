-- news: tell the clients of a lock's holders.
--
-- needs: kind
-- KEYS[1]  lock hash        name
--
-- Returns nothing: it only defines functions.

-- want makes an answer to an entry that is not granted the lock tell the holder's client that the lock is wanted, or all
-- holders' clients where several may hold, and how many heard. Where one holds, a client hears nothing of its own entries: only
-- that one of them shares an owner, for which its idle hold is in the way. Where several may, its holds do not know each other.
local function want(answer, inbox, publish, id, owner)
  if answer[1] ~= 0 or inbox == '' then
    return answer
  end
  local own, heard = batch == 1 and owner == '' and string.match(id, '^[^:]+')
  for _, field in ipairs(batch == 1 and { answer[5] } or holders()) do
    local client = string.match(field, '^([^:]+):%d+$')
    if client and client ~= own then
      local hears = redis.pcall(publish, inbox .. client, '0 2 ' .. field .. ' 0 ' .. KEYS[1])
      heard = (heard or 0) + (type(hears) == 'number' and hears or 0) -- what cannot be told is no failure of who asks
    end
  end
  answer[#answer + 1] = heard
  return answer
end

-- tell sends the clients of a lock's holders news that is no grant: 0 deposed, 1 look again; 2, wanted, is want's.
local function tell(fields, inbox, publish, news)
  for _, field in ipairs(fields) do
    local client = string.match(field, '^([^:]+):%d+$')
    if client then
      redis.call(publish, inbox .. client, '0 ' .. news .. ' ' .. field .. ' 0 ' .. KEYS[1])
    end
  end
end
