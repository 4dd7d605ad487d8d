-- resize: set how much there is of a lock that several may hold in parts, where that is kept beside its holders.
--
-- needs: kind
-- KEYS[1]  lock             name
-- KEYS[4]  unlock channel   redisson_sc:{name}
-- ARGV[1]  how much there is, held or free
-- ARGV[2]  '1' to change it, '' to set it only where it is not known
-- ARGV[3]  PUBLISH or SPUBLISH
--
-- Returns 1 when it was set, else 0. Sent again it sets the same. Those that wait are told to ask.
if not resized(tonumber(ARGV[1]), ARGV[2] == '1') then
  return 0
end
announce(ARGV[3])
return 1
