-- noballot: a Redis that decides alone, where no ballots are kept; ballot is its counterpart in a quorum.
--
-- Returns nothing: it only defines that there is nothing to do.

-- record_grant would note under which number the lock was granted,
-- barred would report whether this Redis may grant nothing yet,
-- and both are nil: what grants asks for neither.
local record_grant, barred
