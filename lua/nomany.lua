-- nomany: a kind that has nothing for many entries at once: sweep and many do each by itself.
--
-- Returns nothing: it only defines that there is nothing to do.

-- survey would ask for all entries at once, and return the answers that it has,
local function survey()
end

-- quick would do one entry, and return its answer.
local function quick()
end
