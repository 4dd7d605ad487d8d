-- handover: give the free lock to its waiters.
--
-- needs: counter kind grant listens
-- quorum: ballot
-- alone: noballot
-- KEYS[1]  lock hash        name
-- KEYS[4]  unlock channel   redisson_lock__channel:{name}
--
-- Returns nothing: it only defines functions.

-- hand_over gives the free lock to the first waiters whose clients still listen: to one of them, or where several may hold
-- to as many as a batch has while the lock is open to them. A waiter whose client is gone leaves the queue without it.
-- me is the member of the caller's own entry, if that waits. The caller's reply grants it, and it needs no listener. All
-- others are told by a message to their client's inbox. A + before the lease there says that others wait behind the new
-- holder. A member that ends behind its id, without a colon, is an older client's, which must have its whole block.
-- Returns me if that was granted, else the last member that was, with its first token and how many; nothing for none.
local function hand_over(inbox, publish, me)
  if barred and (redis.call('EXISTS', next_line()) == 0 or barred()) then
    return nil
  end
  local winner, token, count
  local room = batch
  while room > 0 do
    local line = next_line()
    local member, ticket = pop(line, inbox, publish, me)
    if not member then
      break
    end
    local lease, block, client, n, colon, owner = string.match(member, '^(%d+):(%d+):([^:]+):(%d+)(:?)(.*)$')
    if lease and (member == me or listens(client, inbox, publish)) then
      local id = client .. ':' .. n
      local first, many = take(lease, block, id, owner, line, colon == '')
      if record_grant then
        record_grant(first, ticket)
      end
      if member ~= me then
        local more = (me and batch == 1 or crowded(line)) and '+' or ''
        local tokens = colon == ':' and owner == '' and first .. ':' .. many or first
        redis.call(publish, inbox .. client, table.concat({ tokens, more .. lease .. named(line), id, #owner, owner .. KEYS[1] }, ' '))
      end
      if owner ~= '' then
        -- Its other waiters may enter now. A number stands for the owner: a 0 would have the waiters of all others ask, too.
        redis.call(publish, KEYS[4], decimal(tonumber(string.sub(redis.sha1hex(owner), 1, 12), 16) + 2))
      end
      if not winner or winner ~= me then
        winner, token, count = member, first, many
      end
      room = math.max(0, room - (beside and math.ceil(block / 16) or 1)) -- many parts take long to write
    end
  end
  if batched then
    batched(publish, room)
  end
  return winner, token, count
end
