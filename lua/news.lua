-- news: tell the clients of a lock's holders.
--
-- KEYS[1]  lock hash        name
--
-- Returns nothing: it only defines functions.

-- tell sends the clients of a lock's holders news that is no grant: 0 deposed, 1 look again.
local function tell(holders, inbox, publish, news)
  for _, field in ipairs(holders) do
    local client = string.match(field, '^([^:]+):%d+$')
    if client then
      redis.call(publish, inbox .. client, '0 ' .. news .. ' ' .. field .. ' 0 ' .. KEYS[1])
    end
  end
end
