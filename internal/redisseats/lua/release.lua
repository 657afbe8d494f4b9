#!lua flags=allow-oom
-- Frees held seats of their owner: all, or those listed.
--
-- KEYS  1 seats, 2 owners, 3 orders, 4 users, 5 meta, 6 deadlines, 7 changes
-- ARGV  1 show, 2 owner (ORDER.n), 3 end of the view's lifetime (ms since 1970),
--       4 whether seats are listed (1, or 0 for all the owner has), 5… seat ids, ascending
-- Reply {done, how many were freed, freed id…, refused id…} · {ended} · {not ready} · {foreign} · {later}
-- Edges 1→0, of the owner
local seats, owners, orders, users, meta = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local deadlines, changes = KEYS[6], KEYS[7]
local show, owner, ends, listed, first = ARGV[1], ARGV[2], tonumber(ARGV[3]), ARGV[4], 5

local v, reply = open(seats, owners, orders, users, meta, ends)
if not v then return reply end
if not v.fits then return {'not ready'} end
return free(v, {seats, owners, orders, users, meta, deadlines, changes}, show, owner, 'release', '1', listed, first)
