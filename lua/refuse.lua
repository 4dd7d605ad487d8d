-- refuse: refuse to speak for a lock where this Redis may have forgotten locks.
--
-- needs: guard
--
-- Returns QUARANTINED <born> <ms left> then, else goes on. Scripts that need it begin where it ends: what a node may have
-- forgotten it confirms to no one.

if quarantined() then
  return refused()
end
