-- many: run a script for many entries in one command; an acquire or a release is wrapped as the function one.
--
-- KEYS[n]  as many for each entry, as one takes them
-- ARGV[1]  how many entries
-- ARGV[n]  as many for each entry, as one takes them
--
-- Returns for each entry what one answers. What fails for one is its answer, and does not stop the others.
local keys, args, entries, answers = KEYS, ARGV, tonumber(ARGV[1]), {}
local deep, wide = #keys / entries, (#args - 1) / entries
for i = 0, entries - 1 do
  KEYS = { unpack(keys, i * deep + 1, (i + 1) * deep) }
  ARGV = { unpack(args, i * wide + 2, (i + 1) * wide + 1) }
  local ok, answer = pcall(one)
  answers[i + 1] = (ok or type(answer) == 'table') and answer or redis.error_reply(answer)
end
return answers
