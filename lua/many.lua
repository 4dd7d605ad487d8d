-- many: run a script for many entries in one command; an acquire or a release is wrapped as the function one.
--
-- needs: together
-- KEYS[n]  as many for each entry, as one takes them
-- ARGV[1]  how many entries
-- ARGV[n]  as many for each entry, as one takes them
--
-- Returns for each entry what one answers. {1} may be 1, and {1, first token, how many} may be 'first:how many', since Redis
-- takes half a microsecond for each table. An entry that fails has its error for an answer, and does not stop the others.
-- The kind has two functions for the most frequent case. survey sees all entries at once, and may answer some of them. quick
-- does one entry, or answers nothing. What neither answers is left to one, and so is all that survey was refused.
local keys, args, entries, answers = KEYS, ARGV, tonumber(ARGV[1]), {}
local deep, wide = #keys / entries, (#args - 1) / entries
local surveyed, known = pcall(survey, keys, args, entries, deep, wide)
known = surveyed and known or {}
for i = 1, entries do
  local k, a = (i - 1) * deep, (i - 1) * wide + 1
  local ok, answer = true, known[i]
  if not answer then
    ok, answer = pcall(quick, keys, args, k, a, wide, known, i)
  end
  if ok and not answer then
    KEYS, ARGV = { unpack(keys, k + 1, k + deep) }, { unpack(args, a + 1, a + wide) }
    ok, answer = pcall(one)
  end
  answers[i] = (ok or type(answer) == 'table') and answer or redis.error_reply(answer)
end
return answers
