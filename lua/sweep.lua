-- sweep: end many acquisitions in one command; a release or an unvote is wrapped as the function one.
--
-- needs: together
-- KEYS[n]  as many for each acquisition, as one takes them
-- ARGV[1]  width: how many arguments one takes
-- ARGV[n]  width for each acquisition, as one takes them
--
-- Returns for each acquisition 1 when it was held, 0 when not, and -1 when it could not be ended. One that fails does not
-- stop the others. The kind's function survey may end several together. The others are ended one by one.
local keys, args, width = KEYS, ARGV, tonumber(ARGV[1])
local entries = (#args - 1) / width
local deep = #keys / entries
local surveyed, known = pcall(survey, keys, args, entries, deep, width)
local ended = surveyed and known or {}
for i = 1, entries do
  if not ended[i] then
    KEYS = { unpack(keys, (i - 1) * deep + 1, i * deep) }
    ARGV = { unpack(args, 2 + (i - 1) * width, 1 + i * width) }
    local ok, answer = pcall(one)
    ended[i] = ok and answer[1] or -1
  end
end
return ended
