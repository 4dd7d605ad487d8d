-- gather: take several free locks of a kind, or the first that is free, in one command; an acquire is wrapped as the function one.
--
-- needs: kind
-- KEYS[n]  as many for each entry, as one takes them
-- ARGV[1]  how many entries
-- ARGV[2]  'all', or 'one' for the first that is free
-- ARGV[n]  as many for each entry, as one takes them; none of them waits, and none has a shared owner
--
-- Returns for each entry what one answers, and 0 where it was not asked. If all are wanted and one is not free, only the first
-- such one is asked, and refused. If one is wanted, those behind the first that is granted are not asked. An entry that fails
-- has its error for an answer, and no further one is asked.
local keys, args, entries, whole = KEYS, ARGV, tonumber(ARGV[1]), ARGV[2] == 'all'
local deep, wide, answers, first, last = #keys / entries, (#args - 2) / entries, {}, 1, entries

-- turn_to makes KEYS and ARGV those of the entry i.
local function turn_to(i)
  KEYS = { unpack(keys, (i - 1) * deep + 1, i * deep) }
  ARGV = { unpack(args, (i - 1) * wide + 3, i * wide + 2) }
  answers[i] = 0
end
for i = entries, 1, -1 do
  turn_to(i)
  if whole and not idle(ARGV[1], ARGV[2], ARGV[3], '', ARGV[7] or 'relock_inbox:', ARGV[8] or 'PUBLISH') then
    first, last = i, i
  end
end

for i = first, last do
  turn_to(i)
  local ok, answer = pcall(one)
  answers[i] = (ok or type(answer) == 'table') and answer or redis.error_reply(answer)
  if not ok or answer.err or (answer[1] == 1) ~= whole then
    break
  end
end
return answers
