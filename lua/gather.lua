-- gather: take several free locks of a kind, or the first that is free, in one command; an acquire is wrapped as the function one.
--
-- needs: kind
-- KEYS[n]  as many for each entry, as one takes them
-- ARGV[1]  how many entries
-- ARGV[2]  'all', or 'one' for the first that is free
-- ARGV[n]  as many for each entry, as one takes them; none of them waits, and none has a shared owner
--
-- Returns for each entry what one answers, the error of one that fails, and 0 where it was not asked. If all are wanted, those
-- that are not idle are asked first: so nothing is taken beside a lock that is not free. None is asked behind one that is
-- refused or fails. If one is wanted, none is asked behind the first that is granted.
local keys, args, entries, whole = KEYS, ARGV, tonumber(ARGV[1]), ARGV[2] == 'all'
local deep, wide, answers, doubtful, free = #keys / entries, (#args - 2) / entries, {}, {}, {}

-- turn_to makes KEYS and ARGV those of the entry i.
local function turn_to(i)
  KEYS = { unpack(keys, (i - 1) * deep + 1, i * deep) }
  ARGV = { unpack(args, (i - 1) * wide + 3, i * wide + 2) }
end
for i = 1, entries do
  turn_to(i)
  local known, idle_now = true, true
  if whole then -- what fails here is asked for first: its error is its answer then
    known, idle_now = pcall(idle, ARGV[1], ARGV[2], ARGV[3], '', ARGV[7] or 'relock_inbox:', ARGV[8] or 'PUBLISH')
  end
  table.insert(known and idle_now and free or doubtful, i)
  answers[i] = 0
end

for _, list in ipairs({ doubtful, free }) do
  for _, i in ipairs(list) do
    turn_to(i)
    local ok, answer = pcall(one)
    answers[i] = (ok or type(answer) == 'table') and answer or redis.error_reply(answer)
    if (ok and answer[1] == 1) ~= whole then
      return answers
    end
  end
end
return answers
