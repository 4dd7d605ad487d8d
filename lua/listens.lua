-- listens: which clients listen.
--
-- Returns nothing: it only defines a function.

-- listens reports whether a client listens to its inbox. PUBLISH could not tell: it counts pattern subscribers too.
local function listens(client, inbox, publish)
  return tonumber(redis.call('PUBSUB', publish == 'SPUBLISH' and 'SHARDNUMSUB' or 'NUMSUB', inbox .. client)[2]) > 0
end
