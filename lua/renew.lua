-- renew: lengthen many leases, and repair hold counts that a late command left behind.
--
-- needs: kind
-- quorum: refuse
-- KEYS[n]  for each entry its lock, and further keys of the kind's that are there as long as the entry holds it: while its slot
--          is on the move, a Cluster refuses a command for a key that is not there
-- ARGV[3n-2]  acquisition id   <client uuid>:<n>
-- ARGV[3n-1]  hold count, 0 to leave it as it is
-- ARGV[3n]    lease, milliseconds
--
-- Returns for each entry 1, 0 when it no longer holds the lock, or -1 when this one alone failed.
-- Wire: LockTask.renew. A lease is only ever lengthened.
local keys, held = KEYS, {}
local deep = 3 * #keys / #ARGV
for i = 1, #ARGV / 3 do
  for place = 1, deep do
    keys[place] = keys[(i - 1) * deep + place] -- in place: those in front have had their turn
  end
  held[i] = prolong(ARGV[3 * i - 2], ARGV[3 * i - 1], ARGV[3 * i])
end
return held
