-- refuse: refuse to speak for a lock where this Redis may have forgotten locks.
--
-- needs: guard
--
-- Returns QUARANTINED <born> <ms left> then, else goes on with the script that needs it: a node confirms no lock that it may
-- have forgotten.

if quarantined() then
  return refused()
end
