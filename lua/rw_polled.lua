-- rw_polled: the order of a read-write lock among waiters that no message can grant it: a hook of the kinds read and write.
--
-- needs: rw rw_line places
-- KEYS[2]  queue of writers   relock_writers:{name}
-- KEYS[6]  queue of readers   relock_readers:{name}:name
--
-- Returns nothing: it only defines the hook.

-- kept_out is for how many ms at least another waiter keeps the entry out, which is or would be in line: nothing where none does.
-- A writer comes after the writers before it, and after the readers that are older or of the phase. A reader that is not of the
-- phase comes after the writers that wait, unless the lock is free and the reader is older.
local function kept_out(line, member)
  local mine = tonumber(redis.call('ZSCORE', line, member) or '') or math.huge
  local writer, ticket, left = first_asking(KEYS[2])
  if line == KEYS[6] then
    return writer and mine > phase() and (mode() or mine > ticket) and left or nil
  elseif writer and writer ~= member then
    return left
  end
  local reader, came, stays = first_asking(KEYS[6])
  return reader and (came < mine or came <= phase()) and stays or nil
end
