-- permits_members: the members that an entry has among a semaphore's permits held, <acquisition id>:1 to <acquisition id>:k.
--
-- Returns nothing: it only defines functions.

-- entry_of is the acquisition id of a member, nothing for Redisson's.
local function entry_of(member)
  return #member > 16 and string.match(member, '^([^:]+:%d+):%d+$') or nil
end

-- members_of are the members of id, which is in, and up to as many again that are not there.
local function members_of(key, id)
  local all = { id .. ':1' }
  while redis.call('ZSCORE', key, id .. ':' .. #all + 1) do
    for i = #all + 1, 2 * #all do
      all[i] = id .. ':' .. i
    end
  end
  return all
end
