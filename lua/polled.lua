-- polled: take a lock where no message can grant it: a Cluster's scripts cannot tell which clients listen to a plain channel.
--
-- needs: grant queue kind
--
-- Returns nothing: it only defines functions.

-- polled answers an entry that is not in. It comes in by its own questions alone. Where the kind keeps an order among those that
-- poll, the entry stands in its line as long as it asks, and others may keep it out: the answer says for how long at least.
local function polled(lease, block, id, owner, ticket, member, publish)
  local line, queued, left = own_line(), '', nil
  if kept_out then
    if ticket ~= '-' then
      queued = join(member, ticket, lease)
      keep_place(line, member, lease)
    end
    left = kept_out(line, member)
  end
  if not left and open(lease, block, id, owner, line, '', publish) then
    if queued ~= '' then
      leave_place(line, member)
    end
    return { 1, take(lease, block, id, owner) }
  end
  return waiting(queued, queued ~= '' and left or nil)
end
