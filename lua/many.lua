-- many: run a script for many entries in one command; an acquire or a release is wrapped as the function one.
--
-- KEYS[n]  as many for each entry, as one takes them
-- ARGV[1]  how many entries
-- ARGV[n]  as many for each entry, as one takes them
--
-- Returns for each entry what one answers. What fails for one is its answer, and does not stop the others. The
-- function quick is what the kind has for the most frequent case, and answers nothing in others.
local keys, args, entries, answers = KEYS, ARGV, tonumber(ARGV[1]), {}
local deep, wide = #keys / entries, (#args - 1) / entries
for i = 0, entries - 1 do
  local k, a = i * deep, i * wide + 1
  local ok, answer = pcall(quick, keys, args, k, a, wide)
  if ok and not answer then
    KEYS, ARGV = { unpack(keys, k + 1, k + deep) }, { unpack(args, a + 1, a + wide) }
    ok, answer = pcall(one)
  end
  answers[i + 1] = (ok or type(answer) == 'table') and answer or redis.error_reply(answer)
end
return answers
